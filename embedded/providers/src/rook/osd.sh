# Starts an OSD on a sparse file that is as large as its claim.
set -eu
mkdir -p /run/ceph
data=/data/ceph-$DAEMON
if [ ! -e "$data/made" ]; then
    rm -rf "$data"
    mkdir -p "$data"
    truncate -s "$DISK_BYTES" "$data/block"
    ceph-osd -i "$DAEMON" --mkfs --no-mon-config --osd-uuid "$OSD_UUID" --osd-data "$data" --keyring /etc/ceph/keyring
    touch "$data/made"
fi
exec ceph-osd -f -i "$DAEMON" --osd-data "$data" --keyring /etc/ceph/keyring \
    --public-addr "$POD_IP" --cluster-addr "$POD_IP" --crush-location "root=default host=$CRUSH_HOST"
