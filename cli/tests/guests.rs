//! A whole cloud with a hypervisor: a server boots, gets its address and its metadata, outlives the pods of its hypervisor, and
//! goes without a trace.

#[path = "cloud/mod.rs"]
mod cloud;
#[path = "machine/mod.rs"]
mod machine;

use cloud::{Cloud, client};
use machine::Machine;

/// What `docs/first-server.md` starts with.
const CONTROL_PLANE: &str = include_str!("../../examples/controlplane/controlplane-servers.yaml");

/// A command in the pod of libvirt.
const LIBVIRT: &str = "kubectl -n cloud exec ds/nova-libvirt -c libvirt --";

#[test]
fn a_server_boots_with_its_address_and_its_metadata_and_outlives_the_pods_of_its_hypervisor() {
    let plane = CONTROL_PLANE.replace("name: c5c3", "name: lab").replace("namespace: openstack", "namespace: cloud");
    let cloud = Cloud::on(Machine::up_to_ready_with(&plane, "--hypervisors 1"));
    the_node_is_a_hypervisor(&cloud);
    let id = a_server_boots(&cloud);
    it_says_who_it_is(&cloud, &id);
    it_outlives_libvirt_and_nova_compute(&cloud);
    it_goes_without_a_trace(&cloud);
}

fn the_node_is_a_hypervisor(cloud: &Cloud) {
    let it = &cloud.machine;
    it.eventually(&client("compute service list --service nova-compute -f value -c Host -c State"), "node-1 up");
    it.eventually("kubectl -n cloud get nova nova -o jsonpath='{.status.cells[*].computeNodes}'", "1");
    it.eventually("kubectl -n cloud get ovncluster ovn -o jsonpath='{.status.chassisCount}'", "1");
}

/// As the quick start does it.
fn a_server_boots(cloud: &Cloud) -> String {
    cloud.machine.ok("$C5C3 image guest --output tiny.qcow2");
    for command in [
        "image create tiny --disk-format qcow2 --container-format bare --file tiny.qcow2",
        "flavor create tiny --ram 128 --disk 1 --vcpus 1",
        "network create inside",
        "subnet create inside --network inside --subnet-range 10.20.0.0/24",
        "server create first --image tiny --flavor tiny --network inside",
    ] {
        cloud.openstack(command);
    }
    cloud.machine.eventually(&client("server show first -f value -c status"), "ACTIVE");
    cloud.openstack("server show first -f value -c id").trim().to_owned()
}

/// What the guest says on its console: DHCP and metadata work only with the whole of OVN, Neutron and Nova.
fn it_says_who_it_is(cloud: &Cloud, id: &str) {
    let says = |text: &str| client(&format!("console log show first | grep -c '{text}'"));
    let address = cloud.openstack("port list --server first -f value -c \"Fixed IP Addresses\"");
    let address = address.split('\'').find(|part| part.starts_with("10.20.0.")).unwrap_or_else(|| panic!("{address}"));
    cloud.machine.eventually(&says(&format!("GUEST-LEASE eth0 {address} 1442")), "1");
    cloud.machine.eventually(&says(&format!("GUEST-METADATA .* {id} ")), "1");
}

/// The emulator is the same process before and after, and Nova is in charge of it again.
fn it_outlives_libvirt_and_nova_compute(cloud: &Cloud) {
    let it = &cloud.machine;
    let emulator = format!("{LIBVIRT} cat /run/libvirt/qemu/instance-00000001.pid");
    let before = it.ok(&emulator);
    for component in ["libvirt", "compute-cell1"] {
        it.ok(&format!("kubectl -n cloud delete pod -l app.kubernetes.io/component={component} --wait=true"));
    }
    it.eventually(
        &format!("{LIBVIRT} virsh -q -c qemu:///system list --state-running --name | xargs"),
        "instance-00000001",
    );
    it.says(&emulator, &before);
    it.eventually(&client("compute service list --service nova-compute -f value -c State"), "up");
    cloud.openstack("server reboot --hard first");
    it.eventually(&client("server show first -f value -c status"), "ACTIVE");
}

fn it_goes_without_a_trace(cloud: &Cloud) {
    let it = &cloud.machine;
    cloud.openstack("server delete first");
    it.eventually(&client("server list -f value"), "");
    it.eventually(&format!("{LIBVIRT} virsh -q -c qemu:///system list --all --name | xargs"), "");
    it.eventually(&client("port list --device-owner compute:nova -f value"), "");
    let allocations = client(
        "allocation candidate list --resource VCPU=1 --resource MEMORY_MB=128 -f value -c \"resource provider\"",
    );
    it.ok(&format!("{allocations} | grep ."));
}
