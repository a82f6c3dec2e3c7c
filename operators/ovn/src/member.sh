# Starts a member of a Raft cluster once it has data, which control.py makes on the operator's order.
set -eu
data=/var/lib/ovn/$DATABASE.db
while [ ! -s "$data" ] || [ -e "$data.left" ]; do
    sleep 0.2
done
case $POD_IP in
*:*) any='[::]' ;;
*) any=0.0.0.0 ;;
esac
case $RAFT_ADDRESS in
ssl:*) set -- --remote="pssl:$PORT:$any" --private-key=/etc/ovn-tls/tls.key --certificate=/etc/ovn-tls/tls.crt \
    --ca-cert=/etc/ovn-tls/ca.crt ;;
*) set -- --remote="ptcp:$PORT:$any" ;;
esac
exec ovsdb-server -vconsole:info -vfile:off -vsyslog:off --remote=punix:/run/ovn/db.sock --unixctl=/run/ovn/db.ctl "$@" "$data"
