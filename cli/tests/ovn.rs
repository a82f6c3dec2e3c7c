//! OVN on a whole cluster: the leader of a database dies while rows are written, a member loses its disk, packets cross from one
//! hypervisor to the other, and a hypervisor is removed.

mod machine;

use std::process::Command;

use machine::Machine;

/// The databases are on one node, so that the other can go.
const WEAVE: &str = r"
apiVersion: v1
kind: Namespace
metadata: {name: loom}
---
apiVersion: ovn.c5c3.io/v1alpha1
kind: OVNCluster
metadata: {name: weave, namespace: loom}
spec:
  northbound:
    storage: {size: 1Gi}
    scheduling: {nodeSelector: {kubernetes.io/hostname: node-1}}
  southbound:
    storage: {size: 1Gi}
    scheduling: {nodeSelector: {kubernetes.io/hostname: node-1}}
  northd:
    replicas: 2
    scheduling: {nodeSelector: {kubernetes.io/hostname: node-1}}
";

/// What `kubectl` says of a field.
fn field(object: &str, path: &str) -> String {
    format!("kubectl -n loom get {object} -o jsonpath='{{{path}}}'")
}

/// A command of a tool of OVN that finds the leader by itself.
fn ctl(side: &str, command: &str) -> String {
    let port = if side == "nb" { 6641 } else { 6642 };
    let all: Vec<String> =
        (0..3).map(|n| format!("tcp:weave-{side}-{n}.weave-{side}-raft.loom.svc.cluster.local:{port}")).collect();
    format!("kubectl -n loom exec deploy/weave-northd -- ovn-{side}ctl -t 20 --db={} {command}", all.join(","))
}

#[test]
fn ovn_loses_nothing_and_carries_packets_between_hypervisors() {
    let it = Machine::up_marked(2, "--hypervisors 2");
    it.ok("$C5C3 image import --data $PWD/data ovn openvswitch");
    for (node, image) in [(1, "ovn"), (1, "openvswitch"), (2, "ovn"), (2, "openvswitch")] {
        let names = format!("kubectl get node node-{node} -o jsonpath='{{.status.images[*].names}}'");
        it.eventually(&format!("{names} | grep -c ghcr.io/c5c3/{image}:"), "1");
    }
    it.write("weave.yaml", WEAVE);
    it.ok("kubectl apply -f weave.yaml");
    it.ok("kubectl -n loom wait --for=condition=Ready ovncluster/weave --timeout=300s");
    for side in ["northbound", "southbound"] {
        it.says(&field("ovncluster/weave", &format!(".status.{side}.readyMembers")), "3");
    }
    it.eventually(&field("ovncluster/weave", ".status.chassisCount"), "2");
    it.ok("kubectl -n loom wait --for=condition=Ready ovnchassis/node-1 ovnchassis/node-2 --timeout=120s");

    the_leader_dies_while_rows_are_written(&it);
    a_member_loses_its_disk(&it);
    packets_cross(&it);
    a_hypervisor_is_removed(&it);
}

fn the_leader_dies_while_rows_are_written(it: &Machine) {
    let leader = it.ok(&field("ovncluster/weave", ".status.northbound.leader"));
    // A row is acknowledged when the tool ends well. One that is refused meanwhile is written again.
    let write = "sh -c 'for i in $(seq 150); do \
        until ovn-nbctl -t 20 --db=$0 --may-exist ls-add row-$i; do sleep 0.2; done; echo row-$i; done'";
    let list = ctl("nb", "ls-list");
    let all = list.split("--db=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let kill = format!("kubectl -n loom exec {leader} -c ovsdb -- sh -c 'kill -9 $(pgrep -x ovsdb-server)'");
    it.ok(&format!(
        "kubectl -n loom exec deploy/weave-northd -- {write} {all} >acknowledged 2>writer.log & sleep 1; {kill}; wait"
    ));
    it.says("wc -l <acknowledged", "150");
    it.ok(&format!("until {list} >listed; do sleep 1; done; sed 's/.*(//; s/)//' listed | sort >rows"));
    it.says("sort acknowledged | comm -23 - rows | wc -l", "0");
    it.eventually(&field("ovncluster/weave", ".status.northbound.readyMembers"), "3");
}

fn a_member_loses_its_disk(it: &Machine) {
    let id = it.ok(&field("ovncluster/weave", ".status.northbound.clusterId"));
    let claim = it.ok(&field("pvc/data-weave-nb-1", ".metadata.uid"));
    it.ok("kubectl -n loom delete pvc data-weave-nb-1 --wait=false");
    it.ok("kubectl -n loom delete pod weave-nb-1 --grace-period=0 --force");
    it.eventually(
        &format!("test \"$({})\" != {claim} && echo new", field("pvc/data-weave-nb-1", ".metadata.uid")),
        "new",
    );
    let status =
        "kubectl -n loom exec weave-nb-1 -c ovsdb -- ovs-appctl -T 5 -t /run/ovn/db.ctl cluster/status OVN_Northbound";
    it.eventually(&format!("{status} | grep '^Status:'"), "Status: cluster member");
    it.eventually(&format!("{status} | grep -c '^ .* at tcp:'"), "3");
    it.says(&format!("{status} | grep -o 'Cluster ID: .* (.*)' | sed 's/.*(//; s/)//'"), &id);
    let own = "ovn-nbctl --no-leader-only --db=unix:/run/ovn/db.sock ls-list";
    let rows = it.ok("wc -l <rows");
    it.eventually(&format!("kubectl -n loom exec weave-nb-1 -c ovsdb -- {own} | wc -l"), &rows);
    it.eventually(&field("ovncluster/weave", ".status.northbound.clusterId"), &id);
    it.ok("kubectl -n loom wait --for=condition=Ready ovncluster/weave --timeout=120s");
}

/// Network namespaces that play instances; they go with the value.
struct Guests(Vec<String>);

impl Drop for Guests {
    fn drop(&mut self) {
        for guest in &self.0 {
            let _ = Command::new("ip").args(["netns", "del", guest]).status();
        }
    }
}

fn packets_cross(it: &Machine) {
    let instance = c5c3_cri::Instance::of(&it.data()).to_string();
    let guests = Guests([1, 2].map(|n| format!("c5t{}-{n}", std::process::id())).into());
    let ports = "lsp-add sheet p1 -- lsp-set-addresses p1 '02:00:00:00:00:01 10.0.5.11' -- lsp-add sheet p2 -- lsp-set-addresses p2 '02:00:00:00:00:02 10.0.5.12'";
    it.ok(&ctl("nb", &format!("ls-add sheet -- {ports}")));
    for (number, guest) in guests.0.iter().enumerate() {
        let n = number + 1;
        let node = format!("nsenter --net=/run/c5c3-{instance}/netns/node-{n} ip link");
        it.ok(&format!("ip netns add {guest} && {node} add vp{n} type veth peer name e0"));
        it.ok(&format!("{node} set e0 netns {guest} && {node} set vp{n} up"));
        it.ok(&format!("ip -n {guest} link set e0 address 02:00:00:00:00:0{n} mtu 1442 up"));
        it.ok(&format!("ip -n {guest} addr add 10.0.5.1{n}/24 dev e0"));
        let select = format!("-l app.kubernetes.io/component=ovs --field-selector spec.nodeName=node-{n}");
        let pod = it.ok(&format!("kubectl -n loom get pods {select} -o name"));
        let add = format!("ovs-vsctl -t 10 add-port br-int vp{n} -- set interface vp{n} external-ids:iface-id=p{n}");
        it.ok(&format!("kubectl -n loom exec {pod} -c vswitchd -- {add}"));
    }
    let ping = format!("ip netns exec {} busybox ping -c 1 -W 2 10.0.5.12 >/dev/null && echo pong", guests.0[0]);
    it.eventually(&ping, "pong");
    // By a tunnel between the bridges that hold its ends.
    let tunnels = ctl("sb", "--bare --columns=type,ip list encap");
    it.says(&format!("{tunnels} | grep -c -e geneve -e '^198.1[89]'"), "4");
}

fn a_hypervisor_is_removed(it: &Machine) {
    // Not the Node itself: the agent of a node that runs would register it again.
    it.ok("kubectl label node node-2 node-role.kubernetes.io/hypervisor-");
    it.eventually("kubectl -n loom get ovnchassis -o name", "ovnchassis.ovn.c5c3.io/node-1");
    it.eventually(&ctl("sb", "--bare --columns=name list chassis"), "node-1");
    it.eventually(&field("ovncluster/weave", ".status.chassisCount"), "1");
}
