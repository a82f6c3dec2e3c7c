# Writes what the OVNChassis of this node says to its Open vSwitch, and again when that changes.
#
# The end of tunnels: with the kernel's datapath it is the address as it is. The userspace datapath sees packets only on a
# bridge of its own, so that the address must be on one (br-encap):
# - An address on a link of its own moves to the bridge together with the link.
# - The address of the node itself cannot move, since Kubernetes uses it. The bridge gets a second link on the same wire
#   (macvlan) and an address of 198.18.0.0/15 that is made of the node's address. Nodes must share that wire.
set -u
chassis=/etc/ovn-chassis/$NODE_NAME
done=/run/configured/chassis
ours=198.18.0.0/15

vsctl() {
    ovs-vsctl -t 10 "$@"
}

read_chassis() {
    system_id= hostname= encap_type= encap_ip= node_ip= remote= mappings= uplinks=
    while read -r key value; do
        case $key in
        system-id) system_id=$value ;;
        hostname) hostname=$value ;;
        encap-type) encap_type=$value ;;
        encap-ip) encap_ip=$value ;;
        node-ip) node_ip=$value ;;
        remote) remote=$value ;;
        mappings) mappings=$value ;;
        uplinks) uplinks=$value ;;
        esac
    done <"$chassis"
}

# The link that has an address, and the address with the length of its range.
find_address() {
    set -- $(ip -o addr show to "$1")
    link=${2:-} found=${4:-}
}

octets() {
    old=$IFS
    IFS=.
    set -- $1
    IFS=$old
    first=$1 second=$2 third=$3 fourth=$4
}

tunnel_end() {
    end=$encap_ip
    [ "$datapath" = netdev ] || return 0
    find_address "$encap_ip"
    if [ "$encap_ip" = "$node_ip" ]; then
        case $node_ip in
        *:*)
            echo "the userspace datapath needs an IPv4 address; give the OVNChassis $NODE_NAME the address of a link of its own"
            return 1
            ;;
        esac
        octets "$node_ip"
        end=198.$((18 + second % 2)).$third.$fourth prefix=${ours#*/} port=encap0
        hardware=$(printf '02:c5:%02x:%02x:%02x:%02x' "$first" "$second" "$third" "$fourth")
        if [ ! -e /sys/class/net/encap0 ]; then
            ip link add link "$link" name encap0 address "$hardware" type macvlan mode bridge || return 1
        fi
    elif [ "$link" = br-encap ]; then
        return 0
    elif [ -n "$link" ]; then
        port=$link prefix=${found#*/}
        hardware=$(cat "/sys/class/net/$link/address")
    else
        echo "no link of this node has the address $encap_ip that the OVNChassis $NODE_NAME names"
        return 1
    fi
    # The address of the hardware is fixed: peers remember it for a quarter of an hour.
    vsctl --may-exist add-br br-encap -- set bridge br-encap datapath_type=netdev fail_mode=standalone \
        other-config:hwaddr="$hardware" -- --may-exist add-port br-encap "$port" || return 1
    if [ "$port" != encap0 ]; then
        ip addr del "$end/$prefix" dev "$port"
    fi
    ip addr replace "$end/$prefix" dev br-encap && ip link set "$port" up && ip link set br-encap up || return 1
    ovs-appctl -t /run/openvswitch/ovs-vswitchd.ctl tnl/neigh/flush >/dev/null
}

has_tunnel_end() {
    [ "$datapath" != netdev ] || [ -n "$(ip -o addr show dev br-encap to "$end" 2>/dev/null)" ]
}

# Calls a function with both parts of each pair of a list: a:b,c:d.
each_pair() {
    list=$2
    while [ -n "$list" ]; do
        pair=${list%%,*}
        "$1" "${pair%%:*}" "${pair#*:}" || return 1
        case $list in
        *,*) list=${list#*,} ;;
        *) list= ;;
        esac
    done
}

bridge() {
    vsctl --may-exist add-br "$2" -- set bridge "$2" datapath_type="$datapath"
}

uplink() {
    if [ ! -e "/sys/class/net/$2" ]; then
        echo "this node has no link $2, which bridgeMappings names for the bridge $1"
        return 1
    fi
    vsctl --may-exist add-port "$1" "$2" && ip link set "$2" up
}

configure() {
    datapath=$(vsctl get Open_vSwitch . external_ids:ovn-bridge-datapath-type | tr -d '"')
    [ -n "$datapath" ] && [ -n "$system_id" ] && tunnel_end || return 1
    each_pair bridge "$mappings" && each_pair uplink "$uplinks" || return 1
    if [ -n "$mappings" ]; then
        # A node with a way out may be the gateway of routers.
        vsctl set Open_vSwitch . external_ids:ovn-bridge-mappings="\"$mappings\"" \
            external_ids:ovn-cms-options=enable-chassis-as-gw || return 1
    else
        vsctl remove Open_vSwitch . external_ids ovn-bridge-mappings -- \
            remove Open_vSwitch . external_ids ovn-cms-options || return 1
    fi
    vsctl set Open_vSwitch . external_ids:system-id="\"$system_id\"" external_ids:hostname="\"$hostname\"" \
        external_ids:ovn-encap-type="$encap_type" external_ids:ovn-encap-ip="\"$end\"" external_ids:ovn-remote="\"$remote\""
}

written=none datapath= end=
while :; do
    if [ ! -e "$chassis" ]; then
        echo "waiting: no OVNChassis is known for the node $NODE_NAME"
    else
        content=$(cat "$chassis")
        if [ "$content" != "$written" ] || ! has_tunnel_end; then
            read_chassis
            if configure; then
                written=$content
                touch "$done"
                echo "configured: $datapath datapath, tunnels end at $end"
            else
                rm -f "$done"
            fi
        fi
    fi
    sleep 2
done
