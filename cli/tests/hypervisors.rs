//! Nodes fit for hypervisors: two nodes of one machine, each with Open vSwitch and libvirt in pods that use host paths of
//! the same names, and a network card that was moved into one of them.

mod machine;

use machine::Machine;

/// Open vSwitch with its userspace datapath, and libvirt, as a DaemonSet would run them; `tools` sees the same sockets.
fn pods(node: u8, ovs: &str, libvirt: &str) -> String {
    let paths = |names: &[(&str, &str)]| {
        let volume = |(name, path): &(&str, &str)| {
            format!("{{name: {name}, hostPath: {{path: {path}, type: DirectoryOrCreate}}}}")
        };
        names.iter().map(volume).collect::<Vec<_>>().join(", ")
    };
    let mounts = |names: &[(&str, &str)]| {
        let mount = |(name, path): &(&str, &str)| format!("{{name: {name}, mountPath: {path}}}");
        names.iter().map(mount).collect::<Vec<_>>().join(", ")
    };
    let switch = [("run", "/run/openvswitch"), ("db", "/etc/openvswitch")];
    let emulator = [("run", "/run/libvirt"), ("lib", "/var/lib/libvirt"), ("switch", "/run/openvswitch")];
    format!(
        r"
apiVersion: v1
kind: Pod
metadata: {{name: switch-{node}}}
spec:
  nodeName: node-{node}
  terminationGracePeriodSeconds: 1
  volumes: [{switch_volumes}]
  containers:
  - name: ovs
    image: {ovs}
    securityContext: {{runAsUser: 0, capabilities: {{add: [NET_ADMIN]}}}}
    resources: {{limits: {{devices.kubevirt.io/tun: 1}}}}
    command: [sh, -c]
    args:
    - |
      test -e /etc/openvswitch/conf.db || ovsdb-tool create /etc/openvswitch/conf.db /usr/share/openvswitch/vswitch.ovsschema
      ovsdb-server --remote=punix:/run/openvswitch/db.sock --pidfile=/run/openvswitch/ovsdb-server.pid /etc/openvswitch/conf.db &
      until ovs-vsctl --no-wait init; do sleep 0.1; done
      exec $(ls /usr/lib/openvswitch-switch/ovs-vswitchd /usr/sbin/ovs-vswitchd 2>/dev/null | head -1) --disable-system unix:/run/openvswitch/db.sock
    volumeMounts: [{switch_mounts}]
---
apiVersion: v1
kind: Pod
metadata: {{name: emulator-{node}}}
spec:
  nodeName: node-{node}
  terminationGracePeriodSeconds: 1
  volumes: [{emulator_volumes}]
  containers:
  - name: libvirt
    image: {libvirt}
    securityContext: {{privileged: true}}
    command: [libvirtd]
    volumeMounts: [{emulator_mounts}]
",
        switch_volumes = paths(&switch),
        switch_mounts = mounts(&switch),
        emulator_volumes = paths(&emulator),
        emulator_mounts = mounts(&emulator),
    )
}

#[test]
fn two_nodes_have_their_own_open_vswitch_and_libvirt_at_the_same_paths() {
    let it = Machine::up_with(2, &["openvswitch", "libvirt"]);
    let image = |name: &str| {
        let all = it.ok("kubectl get node node-1 -o jsonpath='{.status.images[*].names[*]}'");
        all.split_whitespace().find(|image| image.contains(&format!("/{name}:"))).unwrap().to_owned()
    };
    let (ovs, libvirt) = (image("openvswitch"), image("libvirt"));
    for node in [1, 2] {
        it.write("pods.yaml", &pods(node, &ovs, &libvirt));
        it.ok("kubectl apply -f pods.yaml");
    }
    for node in [1, 2] {
        it.ok(&format!("kubectl wait --for=condition=Ready pod/switch-{node} pod/emulator-{node} --timeout=120s"));
        let bridge = format!("ovs-vsctl -t 30 add-br br-{node} -- set bridge br-{node} datapath_type=netdev");
        it.eventually(&format!("kubectl exec switch-{node} -- {bridge} && echo made"), "made");
        it.eventually(&format!("kubectl exec emulator-{node} -- virsh -q -c qemu:///system uri"), "qemu:///system");
        let pool =
            format!("virsh -q -c qemu:///system pool-define-as pool-{node} dir --target /var/lib/libvirt/p >/dev/null");
        it.ok(&format!("kubectl exec emulator-{node} -- {pool}"));
    }
    for node in [1, 2] {
        it.says(&format!("kubectl exec switch-{node} -- ovs-vsctl list-br"), &format!("br-{node}"));
        // As libvirt does for a port of a guest.
        it.says(&format!("kubectl exec emulator-{node} -- ovs-vsctl -t 30 list-br"), &format!("br-{node}"));
        let pools = "virsh -q -c qemu:///system pool-list --all --name | grep .";
        it.says(&format!("kubectl exec emulator-{node} -- sh -c '{pools}'"), &format!("pool-{node}"));
    }
    // A link of the userspace datapath is made by /dev/net/tun, which the pod has without being privileged.
    it.says("kubectl exec switch-1 -- sh -c 'test -c /dev/net/tun && echo a device'", "a device");
    it.says("kubectl get node node-1 -o jsonpath='{.status.allocatable.devices\\.kubevirt\\.io/tun}'", "1k");
    // Neither the machine nor the other node sees these paths.
    it.ok("! test -e /etc/openvswitch/conf.db || ! grep -q br-1 /etc/openvswitch/conf.db");
}

#[test]
fn hypervisors_are_labelled_and_a_network_card_moves_into_a_node_and_back() {
    let link = format!("c5t{}", std::process::id());
    let ip = |words: &str| {
        let done = std::process::Command::new("ip").args(words.split_whitespace()).status().unwrap();
        assert!(done.success(), "ip {words}");
    };
    // One end of a cable plays a network card; a kernel without the module for dummy links has these.
    ip(&format!("link add {link} type veth peer name {link}p"));
    let mut it = Machine::up_marked(2, &format!("--hypervisors 1 --nic node-2:{link}"));
    it.says("kubectl get nodes -l node-role.kubernetes.io/hypervisor -o name", "node/node-2");
    it.ok(&format!("! test -e /sys/class/net/{link}"));
    it.write("card.yaml", &format!("{{apiVersion: v1, kind: Pod, metadata: {{name: card}}, spec: {{hostNetwork: true, nodeSelector: {{node-role.kubernetes.io/hypervisor: ''}}, tolerations: [{{operator: Exists}}], restartPolicy: Never, containers: [{{name: c, image: 'c5c3.local/busybox:1', command: [sh, -c, 'ip link show {link} && echo it is here']}}]}}}}"));
    it.ok("kubectl apply -f card.yaml");
    it.ok("kubectl wait --for=jsonpath='{.status.phase}'=Succeeded pod/card --timeout=60s");
    assert!(it.ok("kubectl logs card").contains("it is here"));
    it.down(false);
    it.ok(&format!("test -e /sys/class/net/{link}"));
    ip(&format!("link del {link}"));
}
