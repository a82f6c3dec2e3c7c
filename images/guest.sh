# Makes a guest of a kernel and a busybox: as a kernel with an initramfs, and as a disk that a BIOS boots. Its console tells
# what happens to it, a line each, so that a test of a cloud need not log in:
#
#   GUEST-UP KERNEL UPTIME           the kernel has started
#   GUEST-DISK NAME BYTES            a disk is there, has been attached, or has another size now
#   GUEST-DISK-GONE NAME             a disk was detached
#   GUEST-LEASE LINK ADDRESS MTU     a link has its address by DHCP; GUEST-NO-LEASE LINK while it does not get one
#   GUEST-READY UPTIME               every link that was there at the start has an address or has waited for one
#   GUEST-METADATA ID UUID HOSTNAME  what the metadata service says of this server; GUEST-NO-METADATA after 20 s without
#   GUEST-ALIVE UPTIME               every 10 s
#   GUEST-POWER-OFF UPTIME           the power button was pressed
#
# Over HTTP it answers `/` with its instance id, `/uuid` and `/hostname`; each is `unknown` until it has its metadata.
set -eu
kernel=$(ls /lib/modules)
root=/run/initramfs
mkdir -p $root/bin $root/dev $root/etc/acpi/PWRF $root/lib $root/modules $root/proc $root/run/disks $root/run/links \
    $root/sys $root/var/log $root/var/run $root/www /guest
cp /bin/busybox $root/bin/busybox

# What a guest needs of the machine that QEMU emulates: network, disk, power button. Some kernels have these built in.
modules="virtio virtio_ring virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci failover net_failover virtio_net virtio_blk \
    evdev button"
for module in $modules; do
    file=$(find "/lib/modules/$kernel" -name "$module.ko*" | head -1)
    case $file in
        *.xz) python3 -c 'import lzma, shutil, sys; shutil.copyfileobj(lzma.open(sys.argv[1]), open(sys.argv[2], "wb"))' \
            "$file" "$root/modules/$module.ko" ;;
        ?*) cp "$file" "$root/modules/$module.ko" ;;
    esac
done

cat >$root/init <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
for module in @modules@; do
    [ ! -e /modules/$module.ko ] || insmod /modules/$module.ko
done
# Later messages of the kernel, unless they are errors, would end up within the lines below.
dmesg -n 4
echo "GUEST-UP $(uname -r) $(cat /proc/uptime)"
for page in index.html uuid hostname; do
    echo unknown >/www/$page
done
httpd -h /www -p 80
acpid -c /etc/acpi
ip link set lo up
/lib/links
echo "GUEST-READY $(cat /proc/uptime)"
/lib/metadata &
/lib/watch &
# A shell for those who press Enter. Its prompt would be in front of the lines above otherwise.
exec sh -c 'while :; do read -r line </dev/console && sh </dev/console >/dev/console 2>&1; sleep 1; done'
INIT
sed -i "s/@modules@/$modules/" $root/init

# Asks for an address on each link that is new. udhcpc returns with the first lease or after 20 s, and goes on in the
# background in either case: it renews the lease, or asks on.
cat >$root/lib/links <<'LINKS'
#!/bin/busybox sh
for link in /sys/class/net/eth*; do
    name=${link##*/}
    [ -e "$link" ] && [ ! -e "/run/links/$name" ] || continue
    : >"/run/links/$name"
    ip link set "$name" up
    udhcpc -i "$name" -p "/run/links/$name" -b -t 10 -T 2 -A 5 -O mtu -O staticroutes -s /lib/lease
done
for known in /run/links/*; do
    [ -e "$known" ] && [ ! -e "/sys/class/net/${known##*/}" ] || continue
    kill "$(cat "$known")"
    rm -f "$known"
done
LINKS

# What udhcpc runs. Routes of option 121 replace the gateway of option 3 (RFC 3442): that is how Neutron's DHCP announces
# the metadata service to networks without a router. A gateway of 0.0.0.0 is the link itself.
cat >$root/lib/lease <<'LEASE'
#!/bin/busybox sh
exec >/dev/console 2>&1
event=$1
case $event in
    deconfig) ip addr flush dev "$interface"; exit 0 ;;
    leasefail) echo "GUEST-NO-LEASE $interface"; exit 0 ;;
    bound | renew) ;;
    *) exit 0 ;;
esac
route() {
    case $2 in
        0.0.0.0) ip route replace "$1" dev "$interface" metric "$metric" ;;
        *) ip route replace "$1" via "$2" dev "$interface" metric "$metric" ;;
    esac
}
# The link that came first is the way out.
metric=$(cat "/sys/class/net/$interface/ifindex")
[ -z "$mtu" ] || ip link set dev "$interface" mtu "$mtu"
ip addr replace "$ip/${mask:-24}" dev "$interface"
if [ -n "$staticroutes" ]; then
    set -- $staticroutes
    while [ $# -ge 2 ]; do
        route "$1" "$2"
        shift 2
    done
else
    for gateway in $router; do
        route default "$gateway"
        break
    done
fi
[ "$event" = renew ] || echo "GUEST-LEASE $interface $ip $(cat "/sys/class/net/$interface/mtu")"
LEASE

# Asks the metadata service who this server is, until it has been told. An answer may take seconds when the cloud is busy.
cat >$root/lib/metadata <<'METADATA'
#!/bin/busybox sh
server=http://169.254.169.254
get() {
    wget -q -T 10 -O - "$server/$1" 2>/dev/null
}
field() {
    echo "$document" | grep -o "\"$1\": *\"[^\"]*\"" | head -n 1 | cut -d '"' -f 4
}
seconds() {
    cut -d . -f 1 /proc/uptime
}
deadline=$(($(seconds) + 20))
pause=1
until instance=$(get latest/meta-data/instance-id) && document=$(get openstack/latest/meta_data.json); do
    if [ $pause = 1 ] && [ "$(seconds)" -ge $deadline ]; then
        echo GUEST-NO-METADATA
        pause=10
    fi
    sleep $pause
done
echo "$instance" >/www/index.html
field uuid >/www/uuid
field hostname >/www/hostname
echo "GUEST-METADATA $instance $(field uuid) $(field hostname)"
METADATA

# Tells which disks come and go, takes links that are attached, and says that the guest is alive.
cat >$root/lib/watch <<'WATCH'
#!/bin/busybox sh
next=0
while :; do
    for disk in /sys/block/vd* /sys/block/sd*; do
        # It may go at any moment.
        { read -r sectors <"$disk/size"; } 2>/dev/null || continue
        name=${disk##*/} bytes=$((sectors * 512))
        [ "$(cat "/run/disks/$name" 2>/dev/null)" != $bytes ] || continue
        echo $bytes >"/run/disks/$name"
        echo "GUEST-DISK $name $bytes"
    done
    for known in /run/disks/*; do
        name=${known##*/}
        [ -e "$known" ] && [ ! -e "/sys/block/$name" ] || continue
        rm "$known"
        echo "GUEST-DISK-GONE $name"
    done
    /lib/links &
    read -r uptime idle </proc/uptime
    if [ "${uptime%.*}" -ge $next ]; then
        echo "GUEST-ALIVE $uptime"
        next=$((${uptime%.*} + 10))
    fi
    sleep 1
done
WATCH

# What acpid runs for the power button.
cat >$root/etc/acpi/PWRF/00000080 <<'POWER'
#!/bin/busybox sh
echo "GUEST-POWER-OFF $(cut -d ' ' -f 1 /proc/uptime)" >/dev/console
sync
poweroff -f
POWER
chmod 755 $root/init $root/lib/* $root/etc/acpi/PWRF/*

# The same files are the same archive: no times, no inode numbers, one order.
cd $root
find . -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
find . | LC_ALL=C sort | cpio --quiet --reproducible --owner=0:0 -o -H newc | gzip -n -9 >/guest/initramfs.gz
cp "/boot/vmlinuz-$kernel" /guest/vmlinuz
echo "$kernel" >/guest/version

# A disk with one partition, from which syslinux starts the same kernel. Everything is written into a file, since a build has
# no loop devices; all numbers and times are fixed. A table of partitions, although a disk without one boots too: those who
# look at what is uploaded (Glance, Nova) take a boot sector without one for a broken table.
disk=/run/disk.raw
first=2048
sectors=65536
cat >/run/syslinux.cfg <<'CONFIG'
SERIAL 0 115200
DEFAULT guest
PROMPT 0
LABEL guest
    LINUX /vmlinuz
    INITRD /initramfs.gz
    APPEND console=tty0 console=ttyS0,115200n8 panic=10
CONFIG
touch -d "@$SOURCE_DATE_EPOCH" /run/syslinux.cfg /guest/vmlinuz /guest/initramfs.gz
truncate -s $((sectors * 512)) $disk
python3 - $disk $first $sectors <<'PARTITION'
import struct
import sys

disk, first, sectors = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
# Active, FAT16 by LBA; the addresses by cylinder, head and sector are those that mean "see LBA".
entry = struct.pack("<B3sB3sII", 0x80, b"\xfe\xff\xff", 0x0E, b"\xfe\xff\xff", first, sectors - first)
with open("/usr/lib/syslinux/mbr/mbr.bin", "rb") as code, open(disk, "r+b") as file:
    file.write(code.read().ljust(440, b"\0")[:440] + b"c5c3\0\0" + entry + bytes(48) + b"\x55\xaa")
PARTITION
mkfs.vfat --invariant -F 16 -i c5c30001 -n GUEST -h $first --offset=$first $disk $(((sectors - first) / 2))
export MTOOLS_SKIP_CHECK=1 TZ=UTC
syslinux --install --offset $((first * 512)) $disk
mcopy -m -i $disk@@$((first * 512)) /run/syslinux.cfg /guest/vmlinuz /guest/initramfs.gz ::/
qemu-img convert -f raw -O qcow2 $disk /guest/disk.qcow2
chmod 644 /guest/*
