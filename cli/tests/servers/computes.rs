//! Fake hypervisors, as `compute.fake` of a Nova makes them.

use crate::cells::status;
use crate::cloud::{Cloud, client};

const COUNT: &str = "kubectl -n cloud get nova nova -o jsonpath='{.status.cells[?(@.name==\"cell1\")].computeNodes}'";

/// They register in their cell, schedulers find them, and one that is restarted is the same one.
pub fn register_and_are_counted(cloud: &Cloud) {
    let it = &cloud.machine;
    let fake = r#"{"spec": {"services": {"nova": {"template": {"compute": {"fake": {"replicas": 2}}}}}}}"#;
    it.ok(&format!("kubectl -n cloud patch controlplane lab --type=merge -p '{fake}'"));
    let list = "compute service list --service nova-compute -f value -c Host -c State | sort | xargs";
    let all_up = "nova-fake-cell1-0 up nova-fake-cell1-1 up";
    it.eventually(&client(list), all_up);
    it.eventually(COUNT, "2");
    it.eventually(&status("cell1"), "Ready");
    let hypervisors = client("hypervisor list -f value -c ID -c \"Hypervisor Hostname\" | sort | xargs");
    it.eventually(&format!("{hypervisors} | wc -w"), "4");
    let before = it.ok(&hypervisors);
    it.ok("kubectl -n cloud delete pod nova-fake-cell1-0");
    // It is ready when it hears conductors, as which it has registered once more.
    let ready = "{.status.conditions[?(@.type==\"Ready\")].status}";
    it.eventually(&format!("kubectl -n cloud get pod nova-fake-cell1-0 -o jsonpath='{ready}'"), "True");
    it.eventually(&client(list), all_up);
    it.says(&hypervisors, &before);
}
