//! Backends of a real Cinder that come and go, one that does not answer, and one that cannot run here.

use serde_json::{Value, json};

use crate::cloud::{self, Cloud};

/// Addresses for documentation: nothing answers there.
const SECRET: &str = "kubectl -n cloud create secret generic lost-ceph --from-literal=monitors=192.0.2.1:3300 \
    --from-literal=key=AQBaaaaaAAAAABAAaaaaaaaaaaaaaaaaaaaaaa==";

const SERVICES: &str = "volume service list -f value -c Binary -c Host";

pub fn come_and_go_and_a_driver_without_its_kernel_is_refused(cloud: &Cloud) {
    cloud.machine.eventually(&cloud::client(SERVICES), "cinder-scheduler cinder-scheduler-0");
    a_backend_that_does_not_answer_is_told_and_nothing_hangs(cloud);
    a_backend_that_is_removed_leaves_nothing_but_what_volumes_use(cloud);
    a_driver_without_its_kernel_is_refused_by_the_name_of_the_module(cloud);
    set_backends(cloud, &Value::Null);
}

fn set_backends(cloud: &Cloud, backends: &Value) {
    let patch = json!({"spec": {"services": {"cinder": {"template": {"backends": backends}}}}});
    cloud.machine.ok(&format!("kubectl -n cloud patch controlplane lab --type=merge -p '{patch}'"));
}

fn condition(name: &str, field: &str) -> String {
    format!("kubectl -n cloud get cinder cinder -o jsonpath='{{.status.conditions[?(@.type==\"{name}\")].{field}}}'")
}

fn backend(name: &str) -> String {
    let status = format!("{{.status.backends[?(@.name==\"{name}\")].status}}");
    format!("kubectl -n cloud get cinder cinder -o jsonpath='{status}' | cut -d: -f1")
}

fn a_backend_that_does_not_answer_is_told_and_nothing_hangs(cloud: &Cloud) {
    cloud.machine.ok(SECRET);
    set_backends(cloud, &json!([{"name": "lost", "rbd": {"cephSecretRef": {"name": "lost-ceph"}}}]));
    cloud.machine.eventually(&cloud::client("volume type show lost -f value -c name 2>/dev/null"), "lost");
    cloud.machine.eventually(&condition("CephConnected", "reason"), "Unreachable");
    let named = "the backend lost: Unreachable: pool volumes as client.cinder";
    cloud.machine.eventually(&format!("{} | grep -o '{named}'", condition("CephConnected", "message")), named);
    let own = "{.status.backends[?(@.name==\"lost\")].conditions[?(@.type==\"CephConnected\")].reason}";
    cloud.machine.eventually(&format!("kubectl -n cloud get cinder cinder -o jsonpath='{own}'"), "Unreachable");
    cloud.openstack("volume create --size 1 --type lost first -f value -c id");
    cloud.machine.eventually(&cloud::client("volume show first -f value -c status"), "error");
    cloud.machine.eventually(&backend("lost"), "Down");
}

fn a_backend_that_is_removed_leaves_nothing_but_what_volumes_use(cloud: &Cloud) {
    set_backends(cloud, &json!([]));
    cloud.machine.eventually(&backend("lost"), "Removed");
    cloud.machine.eventually(&cloud::client(SERVICES), "cinder-scheduler cinder-scheduler-0");
    cloud.machine.eventually(&condition("CephConnected", "status"), "True");
    cloud.openstack("volume delete first");
    cloud.machine.eventually(&cloud::client("volume list -f value"), "");
    cloud.machine.eventually(&condition("Ready", "status"), "True");
}

fn a_driver_without_its_kernel_is_refused_by_the_name_of_the_module(cloud: &Cloud) {
    set_backends(cloud, &json!([{"name": "disks", "driver": "cinder.volume.drivers.lvm.LVMVolumeDriver"}]));
    let look = format!("{} | grep -o 'has no dm_mod'", condition("VolumeReady", "message"));
    cloud.machine.eventually(&look, "has no dm_mod");
    // The API serves meanwhile.
    assert!(cloud.openstack("volume type list -f value -c Name").contains("__DEFAULT__"));
}
