//! Hypervisors: guests of a real libvirt outlive its pod, and end with their node.

mod machine;

use c5c3_api::openstack::NovaCompute;
use c5c3_service::Instance;
use machine::Machine;

/// A guest that boots from a kernel, with a console that is logged as Nova has it.
const GUEST: &str = "
<domain type='qemu'><name>tiny</name><memory unit='MiB'>128</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='q35'>hvm</type><kernel>/var/lib/nova/guest/vmlinuz</kernel>
<initrd>/var/lib/nova/guest/initramfs.gz</initrd><cmdline>console=ttyS0 quiet</cmdline></os>
<features><acpi/></features>
<devices><serial type='pty'><log file='/var/lib/nova/instances/tiny/console.log' append='on'/></serial></devices></domain>";

const IN_POD: &str = "kubectl exec daemonset/gate-libvirt -c libvirt --";
const READY: &str = "kubectl get daemonset gate-libvirt -o jsonpath='{.status.numberAvailable}'";
const POD: &str = "kubectl get pods -l app.kubernetes.io/component=libvirt -o name";

/// What the operator makes for libvirt, in the namespace `default`.
fn libvirt() -> String {
    let instance = Instance { service: "nova", name: "gate".into(), namespace: "default".into() };
    let children = c5c3_operator_nova::libvirt(&instance, &NovaCompute::default());
    let document = |child: &c5c3_kit::Child| serde_json::to_string(&child.object).unwrap();
    children.iter().map(document).collect::<Vec<_>>().join("\n---\n")
}

fn virsh(it: &Machine, words: &str) -> String {
    it.ok(&format!("{IN_POD} virsh -q -c qemu:///system {words}"))
}

/// Waits until libvirt answers that the guest runs, and says which process it is.
fn guest(it: &Machine) -> String {
    it.eventually(&format!("{IN_POD} virsh -q -c qemu:///system domstate tiny"), "running");
    let pid = it.ok(&format!("{IN_POD} cat /run/libvirt/qemu/tiny.pid"));
    it.ok(&format!("kill -0 {pid} && grep -q guest=tiny /proc/{pid}/cmdline"));
    pid
}

#[test]
fn a_guest_outlives_its_libvirt_pod_and_ends_with_its_node() {
    let mut it = Machine::up_marked(1, "--hypervisors 1");
    it.ok("$C5C3 image import --data $PWD/data libvirt guest");
    it.write("libvirt.yaml", &libvirt());
    it.ok("kubectl apply -f libvirt.yaml");
    it.eventually(READY, "1");

    // What was found out about the node is there for nova-compute, and the node has its own name.
    assert!(["kvm", "qemu"].contains(&it.ok(&format!("{IN_POD} cat /run/libvirt/c5c3/virt-type")).as_str()));
    assert_eq!(virsh(&it, "hostname"), "node-1");
    // Without live migration libvirtd listens on no port.
    it.ok(&format!("! {IN_POD} grep -qi :407D /proc/net/tcp"));

    it.write("guest.xml", GUEST);
    it.ok(&format!("{IN_POD} sh -c 'cp -r /guest /var/lib/nova/; mkdir -p /var/lib/nova/instances/tiny'"));
    it.ok(&format!("{} sh -c 'cat >/tmp/guest.xml' <guest.xml", IN_POD.replace("exec", "exec -i")));
    virsh(&it, "define /tmp/guest.xml");
    virsh(&it, "start tiny");
    it.eventually(&format!("{IN_POD} grep -o GUEST-READY /var/lib/nova/instances/tiny/console.log"), "GUEST-READY");
    let qemu = guest(&it);

    // A pod that is deleted.
    let pod = it.ok(POD);
    it.ok(&format!("kubectl delete {pod}"));
    it.ok(&format!("kill -0 {qemu}"));
    it.eventually(&format!("{POD} | grep -vc {pod}"), "1");
    it.eventually(READY, "1");
    assert_eq!(guest(&it), qemu);

    // A pod that is killed with its container's first process, as a crash would.
    let restarts = format!("kubectl get $({POD}) -o jsonpath='{{.status.containerStatuses[0].restartCount}}'");
    it.ok(&format!("kill -9 $(cut -d' ' -f4 /proc/$({IN_POD} cat /run/libvirt/libvirtd.pid)/stat)"));
    it.eventually(&restarts, "1");
    it.eventually(READY, "1");
    assert_eq!(guest(&it), qemu);

    // The new libvirtd is in charge: it ends the guest, and starts another that ends with the node.
    virsh(&it, "destroy tiny");
    it.ok(&format!("! kill -0 {qemu}"));
    virsh(&it, "start tiny");
    let qemu = guest(&it);
    it.down(true);
    it.ok(&format!("! kill -0 {qemu}"));
    assert_eq!(it.traces(), "");
}
