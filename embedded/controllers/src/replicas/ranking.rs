//! Which pods go first when there are too many: those that would be missed least.

use std::cmp::Reverse;
use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::pods;

/// Lets users say which pods they would miss.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Sorts pods, the one to be deleted first at the front. `crowding` is how many pods of the kind each node has.
pub(super) fn sort(pods: &mut [Pod], crowding: &HashMap<String, usize>, now: Timestamp) {
    pods.sort_by_cached_key(|pod| {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).filter(|node| !node.is_empty());
        let ready = pods::condition(pod, "Ready").filter(|ready| ready.status == "True");
        let ready_since = ready.and_then(|ready| ready.last_transition_time.as_ref()).map(|time| time.0);
        let made = pod.creation_timestamp().map(|time| time.0);
        (
            node.is_some(),
            match pods::phase(pod) {
                "Pending" => 0,
                "Running" => 2,
                _ => 1,
            },
            ready.is_some(),
            deletion_cost(pod),
            Reverse(node.and_then(|node| crowding.get(node)).copied().unwrap_or(0)),
            ready_since.map(|since| magnitude(since, now)),
            Reverse(restarts(pod)),
            made.map(|since| magnitude(since, now)),
            pod.uid(),
        )
    });
}

fn deletion_cost(pod: &Pod) -> i32 {
    pod.annotations().get(DELETION_COST).and_then(|cost| cost.parse().ok()).unwrap_or(0)
}

/// How long ago something was, in powers of two: of pods that are about as old, none is preferred, so that which one
/// goes does not follow from which node was filled last.
fn magnitude(since: Timestamp, now: Timestamp) -> i64 {
    let nanoseconds = u128::try_from(now.duration_since(since).as_nanos()).unwrap_or(0);
    nanoseconds.checked_ilog2().map_or(-1, i64::from)
}

fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    statuses.map(|status| status.restart_count).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A pod that is assigned, runs, is ready and old.
    fn good(name: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "roomy", "containers": []},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0}],
            },
        }))
        .unwrap()
    }

    fn with(name: &str, change: impl FnOnce(&mut Pod)) -> Pod {
        let mut pod = good(name);
        change(&mut pod);
        pod
    }

    #[test]
    fn the_pods_that_would_be_missed_least_go_first() {
        let status = |pod: &mut Pod| pod.status.take().unwrap();
        let cost = |cost: &str| [(DELETION_COST.to_owned(), cost.to_owned())].into();
        let pods = vec![
            good("1 good"),
            good("2 as good, but of a greater uid"),
            with("young", |pod| {
                pod.metadata.creation_timestamp = Some(serde_json::from_value(json!("2026-01-09T00:00:00Z")).unwrap());
            }),
            with("restarted", |pod| {
                pod.status.as_mut().unwrap().container_statuses.as_mut().unwrap()[0].restart_count = 3;
            }),
            with("just ready", |pod| {
                let mut changed = status(pod);
                changed.conditions.as_mut().unwrap()[0].last_transition_time =
                    Some(serde_json::from_value(json!("2026-01-09T23:59:00Z")).unwrap());
                pod.status = Some(changed);
            }),
            with("crowded", |pod| pod.spec.as_mut().unwrap().node_name = Some("crowded".into())),
            with("cheap", |pod| pod.metadata.annotations = Some(cost("-5"))),
            with("dear", |pod| pod.metadata.annotations = Some(cost("5"))),
            with("not ready", |pod| pod.status.as_mut().unwrap().conditions = None),
            with("pending", |pod| pod.status.as_mut().unwrap().phase = Some("Pending".into())),
            with("unassigned", |pod| pod.spec.as_mut().unwrap().node_name = None),
        ];
        let crowding = [("crowded".to_owned(), 3), ("roomy".to_owned(), 1)].into();
        let mut sorted = pods;
        sort(&mut sorted, &crowding, "2026-01-10T00:00:00Z".parse().unwrap());
        let names: Vec<String> = sorted.iter().map(ResourceExt::name_any).collect();
        assert_eq!(
            names,
            [
                "unassigned",
                "pending",
                "not ready",
                "cheap",
                "crowded",
                "just ready",
                "restarted",
                "young",
                "1 good",
                "2 as good, but of a greater uid",
                "dear"
            ]
        );
    }
}
