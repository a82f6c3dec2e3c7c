# Starts the switch of a node: on the kernel's datapath if the kernel has one, or else in userspace.
set -eu
vsctl() {
    ovs-vsctl -t 10 --no-wait "$@"
}
until vsctl init; do
    sleep 0.2
done
# The question loads the module, where it can be loaded.
if ovs-dpctl dump-dps >/dev/null 2>&1; then
    vsctl set Open_vSwitch . external_ids:ovn-bridge-datapath-type=system
    if vsctl br-exists br-int; then
        # The kernel goes on with the flows that it has until ovn-controller has written all of them again.
        vsctl set Open_vSwitch . other_config:flow-restore-wait=true
        (
            tries=0
            while [ $tries -lt 60 ] && ! ovs-ofctl dump-aggregate br-int 2>/dev/null | grep -q 'flow_count=[1-9]'; do
                tries=$((tries + 1))
                sleep 0.5
            done
            sleep 2
            vsctl remove Open_vSwitch . other_config flow-restore-wait
        ) &
    else
        vsctl remove Open_vSwitch . other_config flow-restore-wait
    fi
    set --
else
    # Packets from veth links come without a finished checksum; only in this mode it is finished here.
    vsctl set Open_vSwitch . external_ids:ovn-bridge-datapath-type=netdev other_config:userspace-tso-enable=true
    set -- --disable-system
fi
# Debian has it beside the folder of programs, behind a link that a read-only root may lack.
for program in /usr/lib/openvswitch-switch/ovs-vswitchd /usr/sbin/ovs-vswitchd; do
    if [ -x $program ]; then
        exec $program -vconsole:info -vfile:off -vsyslog:off --unixctl=/run/openvswitch/ovs-vswitchd.ctl \
            --pidfile=/run/openvswitch/ovs-vswitchd.pid "$@" unix:/run/openvswitch/db.sock
    fi
done
echo "the image has no ovs-vswitchd" >&2
exit 1
