//! What is left on a node.

use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::resources::PODS;
use crate::reason::Reason;
use crate::snapshot::Occupants;

/// All that the node has too little of.
pub(super) fn missing(pod: &Pod, node: &Node, occupants: &Occupants) -> Result<(), Vec<Reason>> {
    let mut missing = Vec::new();
    let count = i64::try_from(occupants.pods.len()).unwrap_or(i64::MAX);
    if count.saturating_add(1) > node.allocatable.get(PODS) {
        missing.push(Reason::TooManyPods);
    }
    for (resource, wanted) in pod.wants.requests.iter().filter(|(_, wanted)| *wanted > 0) {
        let there_is = node.allocatable.get(resource);
        if wanted > there_is.saturating_sub(occupants.requests.get(resource)) {
            missing.push(Reason::Insufficient { resource: resource.into(), even_when_empty: wanted > there_is });
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(missing) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{Cluster, asking};

    #[test]
    fn a_node_gives_what_is_left_and_no_more() {
        let cluster = Cluster::of(&["oak"]).pod("oak", "first", asking(json!({"cpu": "1", "memory": "1Gi"})));
        let cases = [
            (json!({"cpu": "2", "memory": "2Gi"}), "oak"),
            (json!({"cpu": "2001m"}), "0/1 nodes are available: 1 Insufficient cpu."),
            (
                json!({"cpu": "3", "memory": "2050Mi"}),
                "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.",
            ),
            (json!({"ephemeral-storage": "1"}), "0/1 nodes are available: 1 Insufficient ephemeral-storage."),
            (json!({"example.com/gpu": "1"}), "0/1 nodes are available: 1 Insufficient example.com/gpu."),
            (json!({"example.com/gpu": "0"}), "oak"),
        ];
        for (requests, wanted) in cases {
            assert_eq!(cluster.says_first(asking(requests.clone())), wanted, "{requests}");
        }
    }

    #[test]
    fn a_node_takes_only_so_many_pods() {
        let full = (0..10).fold(Cluster::of(&["oak"]), |cluster, n| cluster.pod("oak", &format!("pod-{n}"), json!({})));
        assert_eq!(full.says_first(json!({})), "0/1 nodes are available: 1 Too many pods.");
    }

    #[test]
    fn a_place_that_has_been_decided_on_is_taken_before_the_api_shows_it() {
        let mut cluster = Cluster::of(&["oak"]);
        let large = asking(json!({"cpu": "2"}));
        cluster.0.assume(&crate::testing::pod("first", large.clone()), "oak", &[]);
        assert_eq!(cluster.says_first(large.clone()), "0/1 nodes are available: 1 Insufficient cpu.");
        cluster.0.forget("first");
        assert_eq!(cluster.says(large), "oak");
    }
}
