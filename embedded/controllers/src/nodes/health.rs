//! Whether a node is still heard of, and what its conditions become when it is not.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// What no one knows of a node that is silent.
const CONDITIONS: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

pub(super) fn condition<'n>(node: &'n Node, name: &str) -> Option<&'n NodeCondition> {
    node.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == name)
}

/// What the Ready condition says: `True`, `False` or `Unknown`.
pub(super) fn ready(node: &Node) -> &str {
    condition(node, "Ready").map_or("Unknown", |condition| condition.status.as_str())
}

/// When a node was last heard of: it renewed its lease, or told its status. Never: when it was first seen.
pub(super) fn last_heard(node: &Node, lease: Option<&Lease>, first_seen: Timestamp) -> Timestamp {
    let renewed = lease.and_then(|lease| Some(lease.spec.as_ref()?.renew_time.as_ref()?.0));
    let told = condition(node, "Ready").filter(|ready| ready.status != "Unknown");
    let told = told.and_then(|ready| Some(ready.last_heartbeat_time.as_ref()?.0));
    renewed.into_iter().chain(told).chain([first_seen]).max().unwrap_or(first_seen)
}

/// How much longer a node may be silent; nothing if it has been for too long.
pub(super) fn patience(heard: Timestamp, grace: Duration, now: Timestamp) -> Option<Duration> {
    let silent = Duration::try_from(now.duration_since(heard)).unwrap_or_default();
    grace.checked_sub(silent).filter(|left| !left.is_zero())
}

/// The conditions of a node that has been silent for too long. None: they say so already.
pub(super) fn silenced(node: &Node, now: Timestamp) -> Option<Vec<NodeCondition>> {
    let mut conditions = node.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let before = conditions.clone();
    for name in CONDITIONS {
        match conditions.iter_mut().find(|condition| condition.type_ == name) {
            Some(found) if found.status != "Unknown" => {
                found.status = "Unknown".into();
                found.reason = Some("NodeStatusUnknown".into());
                found.message = Some("Kubelet stopped posting node status.".into());
                found.last_transition_time = Some(Time(now));
            }
            Some(_) => {}
            None => conditions.push(NodeCondition {
                type_: name.into(),
                status: "Unknown".into(),
                reason: Some("NodeStatusNeverUpdated".into()),
                message: Some("Kubelet never posted node status.".into()),
                last_heartbeat_time: node.metadata.creation_timestamp.clone(),
                last_transition_time: Some(Time(now)),
            }),
        }
    }
    (conditions != before).then_some(conditions)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::of;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn node(ready: &str, heartbeat: i64) -> Node {
        let ready =
            json!({"type": "Ready", "status": ready, "lastHeartbeatTime": at(heartbeat), "reason": "KubeletReady"});
        of(json!({"metadata": {"name": "n1", "creationTimestamp": at(0)}, "status": {"conditions": [ready]}}))
    }

    #[test]
    fn a_lease_or_a_status_is_a_sign_of_life() {
        let lease: Lease = of(json!({"spec": {"renewTime": "1970-01-12T13:47:20.000000Z"}}));
        assert_eq!(last_heard(&node("True", 5), Some(&lease), at(0)), at(40));
        assert_eq!(last_heard(&node("True", 50), Some(&lease), at(0)), at(50));
        assert_eq!(last_heard(&node("Unknown", 50), None, at(7)), at(7), "what we say ourselves is no sign of life");
        let grace = Duration::from_secs(40);
        assert_eq!(patience(at(0), grace, at(30)), Some(Duration::from_secs(10)));
        assert_eq!(patience(at(0), grace, at(40)), None);
        assert_eq!(patience(at(50), grace, at(40)), Some(grace), "clocks that differ do not matter");
    }

    #[test]
    fn a_silent_node_is_unknown_in_every_respect() {
        let silent = silenced(&node("True", 0), at(60)).unwrap();
        let told: Vec<_> =
            silent.iter().map(|found| (found.type_.as_str(), found.reason.as_deref().unwrap())).collect();
        let never = "NodeStatusNeverUpdated";
        assert_eq!(
            told,
            [
                ("Ready", "NodeStatusUnknown"),
                ("MemoryPressure", never),
                ("DiskPressure", never),
                ("PIDPressure", never)
            ]
        );
        assert!(silent.iter().all(|condition| condition.status == "Unknown"));
        let mut known = node("True", 0);
        known.status.as_mut().unwrap().conditions = Some(silent);
        assert_eq!(silenced(&known, at(99)), None);
    }
}
