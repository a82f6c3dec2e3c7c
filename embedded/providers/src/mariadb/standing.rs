//! How a MariaDB stands, in the words of mariadb-operator. Pure.

use c5c3_api::ext::mariadb::MariaDBStatus;
use c5c3_kit::condition::{ConditionState, find};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::members::{self, Member};
use super::tls;
use super::wanted::Wanted;
use crate::pods::is_ready;

/// The condition that is about metrics.
const METRICS: &str = "MetricsReady";

/// Why there are none.
const NO_EXPORTER: &str = "spec.metrics: the embedded cluster has no exporter for MariaDB; leave it out, or set \
                           spec.metrics.enabled to false";

/// What there is of a MariaDB.
pub(super) struct Seen<'s> {
    pub(super) wanted: &'s Wanted,
    pub(super) stateful_set: Option<&'s StatefulSet>,
    pub(super) pods: &'s [Pod],
    pub(super) members: &'s [Member],
    /// What keeps children from being as they should.
    pub(super) in_the_way: Option<String>,
}

/// The pod that takes the writes: who did so before, until it does not serve any more and another one does.
pub(super) fn primary(wanted: &Wanted, before: Option<i32>, pods: &[Pod]) -> i32 {
    let serves = |index: &i32| pods.iter().any(|pod| pod.name_any() == wanted.pod(*index) && is_ready(pod));
    let before = before.filter(|index| *index < wanted.replicas).unwrap_or(0);
    if !wanted.auto_failover || serves(&before) {
        return before;
    }
    (0..wanted.replicas).find(serves).unwrap_or(before)
}

/// The whole status.
pub(super) fn status(before: Option<&MariaDBStatus>, seen: &Seen<'_>, primary: i32, now: Timestamp) -> MariaDBStatus {
    let wanted = seen.wanted;
    let ready = ready_replicas(seen);
    let mut said = vec![is_running(seen)];
    if wanted.galera && ready > 0 {
        said.push(ConditionState::met("GaleraReady", "GaleraReady", "Galera ready"));
    } else if wanted.galera {
        said.push(ConditionState::unmet("GaleraReady", "GaleraNotReady", "Galera not ready"));
    }
    if wanted.metrics {
        // Servers are none the worse for it, so that this is no part of Ready.
        said.push(ConditionState::unmet(METRICS, "NotProvided", NO_EXPORTER));
    }
    let mut status = with_conditions(before, &said, now);
    status.conditions.retain(|condition| wanted.metrics || condition.r#type != METRICS);
    MariaDBStatus {
        current_primary: Some(wanted.pod(primary)),
        current_primary_pod_index: Some(primary),
        replicas: Some(ready),
        ..status
    }
}

/// The status as it was, with these conditions.
pub(super) fn with_conditions(
    before: Option<&MariaDBStatus>,
    said: &[ConditionState],
    now: Timestamp,
) -> MariaDBStatus {
    let before = before.cloned().unwrap_or_default();
    let conditions = said.iter().map(|said| said.to_condition(find(&before.conditions, &said.condition), None, now));
    let others = before.conditions.iter().filter(|old| said.iter().all(|said| said.condition != old.r#type)).cloned();
    MariaDBStatus { conditions: conditions.chain(others).collect(), ..before }
}

fn ready_replicas(seen: &Seen<'_>) -> i32 {
    seen.stateful_set.and_then(|set| set.status.as_ref()?.ready_replicas).unwrap_or(0)
}

/// Whether all servers run as they are asked for now.
pub(super) fn is_complete(seen: &Seen<'_>) -> bool {
    let Some(set) = seen.stateful_set else { return false };
    let Some(status) = &set.status else { return false };
    let is = |count: Option<i32>| count.unwrap_or(0) == seen.wanted.replicas;
    status.observed_generation >= set.metadata.generation && is(status.ready_replicas) && is(status.updated_replicas)
}

fn is_running(seen: &Seen<'_>) -> ConditionState {
    if let Some(what) = &seen.in_the_way {
        return ConditionState::unmet("Ready", "Failed", what.clone());
    }
    if is_complete(seen) {
        return ConditionState::met("Ready", "StatefulSetReady", "Running");
    }
    if let Some(conflict) = members::conflict(seen.members) {
        return ConditionState::unmet("Ready", "GaleraNotReady", conflict);
    }
    if seen.wanted.tls.is_some() && seen.stateful_set.is_none() {
        let name = tls::server_secret(&seen.wanted.name);
        return ConditionState::unmet("Ready", "TLSNotReady", format!("certificate/{name} is not issued yet"));
    }
    let (ready, replicas) = (ready_replicas(seen), seen.wanted.replicas);
    let whys: Vec<String> = seen.wanted.pods().filter_map(|name| why_not(seen, &name)).collect();
    let message = format!("{ready} of {replicas} servers are ready; {}", whys.join("; "));
    let message = message.trim_end_matches("; ").to_owned();
    let reason = if seen.wanted.galera && ready == 0 { "GaleraNotReady" } else { "StatefulSetNotReady" };
    ConditionState::unmet("Ready", reason, message)
}

/// Why a pod does not serve; none if it does.
fn why_not(seen: &Seen<'_>, name: &str) -> Option<String> {
    let Some(pod) = seen.pods.iter().find(|pod| pod.name_any() == name) else {
        return Some(format!("pod/{name} is not there yet"));
    };
    if is_ready(pod) {
        return None;
    }
    let status = pod.status.as_ref();
    let unscheduled = status.and_then(|status| {
        let conditions = status.conditions.iter().flatten();
        conditions
            .filter(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
            .find_map(|condition| condition.message.clone())
    });
    let waiting = || {
        let containers = status?.container_statuses.as_ref()?;
        let waiting = containers.first()?.state.as_ref()?.waiting.as_ref()?;
        let message = waiting.message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
        Some(format!("{}{message}", waiting.reason.clone().unwrap_or_default()))
    };
    let ordinal = name.rsplit('-').next().and_then(|ordinal| ordinal.parse().ok());
    let member = || seen.members.iter().find(|member| Some(member.ordinal) == ordinal).map(Member::tell);
    let why = unscheduled.or_else(member).or_else(waiting).unwrap_or_else(|| "starts".into());
    Some(format!("pod/{name}: {why}"))
}

#[cfg(test)]
mod tests {
    use c5c3_api::blocks::ConditionStatus;
    use serde_json::json;

    use super::*;
    use crate::testing::mariadb;

    fn wanted(replicas: i32) -> Wanted {
        let spec = json!({"replicas": replicas, "galera": {"enabled": true}, "storage": {"size": "1Gi"}});
        Wanted::of(&mariadb(spec)).unwrap()
    }

    fn pod(index: i32, ready: &str) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": format!("ledger-{index}")},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}}))
        .unwrap()
    }

    fn set(ready: i32) -> StatefulSet {
        serde_json::from_value(json!({"metadata": {"name": "ledger", "generation": 1}, "status": {"replicas": 3,
            "observedGeneration": 1, "readyReplicas": ready, "updatedReplicas": 3}}))
        .unwrap()
    }

    fn seen<'s>(wanted: &'s Wanted, set: &'s StatefulSet, pods: &'s [Pod], members: &'s [Member]) -> Seen<'s> {
        Seen { wanted, stateful_set: Some(set), pods, members, in_the_way: None }
    }

    #[test]
    fn writes_stay_where_they_are_until_that_server_fails_and_another_serves() {
        let wanted = wanted(3);
        let pods = |ready: [&str; 3]| [pod(0, ready[0]), pod(1, ready[1]), pod(2, ready[2])];
        assert_eq!(primary(&wanted, None, &[]), 0);
        assert_eq!(primary(&wanted, Some(1), &pods(["True", "True", "True"])), 1);
        assert_eq!(primary(&wanted, Some(1), &pods(["False", "False", "True"])), 2);
        assert_eq!(primary(&wanted, Some(1), &pods(["False", "False", "False"])), 1);
        assert_eq!(primary(&Wanted { auto_failover: false, ..wanted }, Some(1), &pods(["True", "False", "True"])), 1);
    }

    #[test]
    fn a_mariadb_is_ready_when_all_servers_are_and_says_of_each_what_it_lacks() {
        let (wanted, now) = (wanted(3), Timestamp::UNIX_EPOCH);
        let pods = [pod(0, "True"), pod(1, "False")];
        let members = [Member::parse("1 joining aaaa 4 0 1").unwrap()];
        let two = set(1);
        let status_now = status(None, &seen(&wanted, &two, &pods, &members), 0, now);
        let ready = &status_now.conditions[0];
        assert_eq!(ready.reason.as_deref(), Some("StatefulSetNotReady"));
        assert_eq!(
            ready.message.as_deref(),
            Some(
                "1 of 3 servers are ready; pod/ledger-1: joins the cluster, and copies what it lacks; pod/ledger-2 is not there yet"
            )
        );
        let three = set(3);
        let status_then = status(Some(&status_now), &seen(&wanted, &three, &pods, &[]), 0, now);
        assert_eq!(status_then.conditions[0].reason.as_deref(), Some("StatefulSetReady"));
        assert_eq!((status_then.replicas, status_then.current_primary.as_deref()), (Some(3), Some("ledger-0")));
    }

    #[test]
    fn metrics_are_refused_as_long_as_they_are_asked_for_and_servers_are_ready_all_the_same() {
        let (wanted, three, now) = (wanted(3), set(3), Timestamp::UNIX_EPOCH);
        let monitored = Wanted { metrics: true, ..wanted.clone() };
        let refused = status(None, &seen(&monitored, &three, &[], &[]), 0, now);
        let ready = |status: &MariaDBStatus, condition: &str| {
            find(&status.conditions, condition).map(|condition| condition.status == ConditionStatus::True)
        };
        assert_eq!(ready(&refused, "Ready"), Some(true));
        assert_eq!(ready(&refused, METRICS), Some(false));
        assert_eq!(ready(&status(Some(&refused), &seen(&wanted, &three, &[], &[]), 0, now), METRICS), None);
    }
}
