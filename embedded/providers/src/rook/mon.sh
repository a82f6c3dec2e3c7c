# Starts a monitor. Its address is that of its Service, which stays; it listens on that of its pod, which does not.
set -eu
mkdir -p /run/ceph
data=/data/ceph-$DAEMON
if [ ! -e "$data/made" ]; then
    # A first start that did not end, or a disk that was lost: with the addresses of all, it takes part in a quorum that
    # there is, or forms the first one.
    rm -rf "$data"
    mkdir -p "$data"
    set --
    while IFS='=' read -r name addresses; do
        set -- "$@" --addv "$name" "$addresses"
    done </etc/ceph/members
    monmaptool --create --clobber --fsid "$FSID" "$@" /tmp/monmap >/dev/null
    ceph-mon -i "$DAEMON" --mkfs --monmap /tmp/monmap --keyring /etc/ceph/keyring --mon-data "$data"
    touch "$data/made"
fi
exec ceph-mon -f -i "$DAEMON" --mon-data "$data" --keyring /etc/ceph/keyring \
    --public-addr "$SERVICE_ADDRESS" --public-bind-addr "$POD_IP"
