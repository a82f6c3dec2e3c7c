# Starts the database of a node's Open vSwitch, which outlives the pod.
set -eu
data=/etc/openvswitch/conf.db
schema=/usr/share/openvswitch/vswitch.ovsschema
if [ ! -s "$data" ]; then
    rm -f "$data.new"
    ovsdb-tool create "$data.new" "$schema"
    mv "$data.new" "$data"
elif [ "$(ovsdb-tool needs-conversion "$data" "$schema")" = yes ]; then
    cp "$data" "$data.before-upgrade"
    ovsdb-tool convert "$data" "$schema"
fi
exec ovsdb-server -vconsole:info -vfile:off -vsyslog:off --remote=punix:/run/openvswitch/db.sock \
    --unixctl=/run/openvswitch/ovsdb-server.ctl --pidfile=/run/openvswitch/ovsdb-server.pid "$data"
