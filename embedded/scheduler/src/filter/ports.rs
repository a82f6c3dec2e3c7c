//! Ports of the node.

use crate::model::pod::{HostPort, Pod};
use crate::reason::Reason;
use crate::snapshot::Occupants;

const ALL: &str = "0.0.0.0";

/// Whether someone has a port that the pod wants.
pub(super) fn taken(pod: &Pod, occupants: &Occupants) -> Option<Reason> {
    let all = || occupants.pods.values().flat_map(|other| &other.wants.ports);
    pod.wants.ports.iter().any(|wanted| all().any(|taken| collide(wanted, taken))).then_some(Reason::Ports)
}

fn collide(one: &HostPort, other: &HostPort) -> bool {
    let same_address = one.address == other.address || one.address == ALL || other.address == ALL;
    same_address && one.port == other.port && one.protocol == other.protocol
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::testing::Cluster;

    fn taking(ports: Value) -> Value {
        json!({"spec": {"containers": [{"name": "main", "ports": ports}]}})
    }

    #[test]
    fn a_port_is_taken_once_for_each_address_and_protocol() {
        let cases = [
            (json!([{"hostPort": 80, "containerPort": 80}]), false),
            (json!([{"hostPort": 81, "containerPort": 80}]), true),
            (json!([{"hostPort": 80, "containerPort": 80, "protocol": "UDP"}]), true),
            (json!([{"hostPort": 80, "containerPort": 80, "hostIP": "10.0.0.2"}]), true),
            (json!([{"hostPort": 80, "containerPort": 80, "hostIP": "10.0.0.1"}]), false),
            (json!([{"hostPort": 80, "containerPort": 80, "hostIP": "0.0.0.0"}]), false),
            (json!([{"containerPort": 80}]), true),
        ];
        let taken = taking(json!([{"hostPort": 80, "containerPort": 8080, "hostIP": "10.0.0.1"}]));
        let cluster = Cluster::of(&["oak"]).pod("oak", "first", taken);
        for (ports, wanted) in cases {
            assert_eq!(cluster.suitable(taking(ports.clone())) == "oak", wanted, "{ports}");
        }
        let said = cluster.says_first(taking(json!([{"hostPort": 80, "containerPort": 80}])));
        let wanted = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.";
        assert_eq!(said, wanted);
    }
}
