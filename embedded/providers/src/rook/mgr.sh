# Starts a manager, which keeps nothing.
set -eu
mkdir -p /run/ceph /tmp/mgr
exec ceph-mgr -f -i "$DAEMON" --mgr-data /tmp/mgr --keyring /etc/ceph/keyring --public-addr "$POD_IP"
