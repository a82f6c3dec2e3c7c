# Makes a guest of a kernel and a busybox: it brings its network up by DHCP, says so on the console, and stays.
set -eu
kernel=$(ls /lib/modules)
root=/run/initramfs
mkdir -p $root/bin $root/dev $root/modules $root/proc $root/sys /guest
cp /bin/busybox $root/bin/busybox

# What a guest needs of the machine that QEMU emulates: network, disk, and entropy for DHCP's first packet.
modules="virtio virtio_ring virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci failover net_failover virtio_net virtio_blk"
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
echo "GUEST-UP $(uname -r) $(cat /proc/uptime)"
for link in /sys/class/net/eth*; do
    [ -e "$link" ] || continue
    ip link set "${link##*/}" up
    udhcpc -i "${link##*/}" -n -q -t 5 -T 2 -s /udhcpc.sh || echo "GUEST-NO-LEASE ${link##*/}"
done
echo "GUEST-READY $(cat /proc/uptime)"
exec sh -c 'while :; do sh </dev/console >/dev/console 2>&1; sleep 1; done'
INIT
sed -i "s/@modules@/$modules/" $root/init

cat >$root/udhcpc.sh <<'LEASE'
#!/bin/busybox sh
[ "$1" = bound ] || exit 0
ip addr add "$ip/${mask:-24}" dev "$interface"
for gateway in $router; do
    ip route add default via "$gateway" dev "$interface"
done
echo "GUEST-LEASE $interface $ip"
LEASE
chmod 755 $root/init $root/udhcpc.sh

# The same files are the same archive: no times, no inode numbers, one order.
cd $root
find . -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
find . | LC_ALL=C sort | cpio --quiet --reproducible --owner=0:0 -o -H newc | gzip -n -9 >/guest/initramfs.gz
cp "/boot/vmlinuz-$kernel" /guest/vmlinuz
echo "$kernel" >/guest/version
chmod 644 /guest/*
