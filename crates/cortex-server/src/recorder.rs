//! Writes Decisions and removes the oldest, so that their number and their age stay bounded.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use c5c3_api::cortex::{Decision, SchedulingDomain};
use c5c3_cortex::{Promise, Resources};
use jiff::{SignedDuration, Timestamp};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::names::NAME;
use crate::records::record;
use crate::state::{Made, State, millis};

/// The field manager.
pub(crate) const MANAGER: &str = "cortex-scheduler";

/// How many Decisions are kept and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub most: usize,
    pub age: Duration,
}

/// The Decisions that exist, by age.
#[derive(Default)]
struct Known {
    by_time: BTreeSet<(Timestamp, String)>,
    times: HashMap<String, Timestamp>,
}

impl Known {
    fn put(&mut self, name: &str, at: Timestamp) {
        if let Some(before) = self.times.insert(name.to_owned(), at) {
            self.by_time.remove(&(before, name.to_owned()));
        }
        self.by_time.insert((at, name.to_owned()));
    }

    /// Takes out the oldest that is too old or one too many.
    fn next_to_remove(&mut self, bounds: Bounds, now: Timestamp) -> Option<String> {
        let age = SignedDuration::try_from(bounds.age).unwrap_or(SignedDuration::MAX);
        let (at, _) = self.by_time.first()?;
        if self.by_time.len() <= bounds.most && now.duration_since(*at) <= age {
            return None;
        }
        let (_, name) = self.by_time.pop_first()?;
        self.times.remove(&name);
        Some(name)
    }
}

/// Reads the Decisions that exist: promises that another process made are kept.
pub(crate) async fn restore(api: &Api<Decision>, state: &State, promise: Duration) -> kube::Result<usize> {
    let now = Timestamp::now();
    let list = api.list(&ListParams::default()).await?;
    let mut restored = 0;
    let mut scheduler = state.write();
    for decision in list.items {
        let Some(status) = &decision.status else { continue };
        let (Some(host), Some(at), Some(resources)) =
            (status.target_host.clone(), status.decided_at.as_ref(), decision.spec.resources)
        else {
            continue;
        };
        let expires = millis(at.0).saturating_add(u64::try_from(promise.as_millis()).unwrap_or(u64::MAX));
        if expires > millis(now) {
            let resources = Resources {
                vcpus: u64::from(resources.vcpus),
                memory_mib: resources.memory_mib,
                disk_gib: resources.disk_gib,
            };
            scheduler.restore(&decision.spec.resource_id, Promise { host, resources, expires });
            restored += 1;
        }
    }
    Ok(restored)
}

/// Writes what is decided until `stop`, and what is still queued then. Each minute those that are too old by `now` are removed.
pub(crate) async fn write_down(
    api: &Api<Decision>,
    state: &State,
    decisions: &mut mpsc::Receiver<Made>,
    bounds: Bounds,
    now: impl Fn() -> Timestamp,
    stop: CancellationToken,
) {
    let mut known = Known::default();
    match api.list(&ListParams::default()).await {
        Ok(list) => list.items.iter().for_each(|one| {
            let at = one.status.as_ref().and_then(|status| status.decided_at.as_ref()).map(|time| time.0);
            known.put(&one.name_any(), at.unwrap_or(Timestamp::UNIX_EPOCH));
            if !one.annotations().contains_key(NAME) {
                has_no_name(state, one, bounds);
            }
        }),
        Err(error) => tracing::warn!(%error, "cannot list Decisions; those of before are not removed until a restart"),
    }
    let mut clean = tokio::time::interval(Duration::from_mins(1));
    loop {
        tokio::select! {
            biased;
            made = decisions.recv() => {
                let Some(made) = made else { return };
                write_one(api, state, &made, &mut known, bounds).await;
                remove_old(api, &mut known, bounds, now()).await;
            }
            _ = clean.tick() => {
                remove_old(api, &mut known, bounds, now()).await;
                state.write().expire(millis(now()));
                state.metrics.knows(&state.read());
            }
            () = stop.cancelled() => return,
        }
    }
}

/// Has Nova asked for the name of a server; volumes and shares have theirs in the request.
fn has_no_name(state: &State, decision: &Decision, bounds: Bounds) {
    if decision.spec.scheduling_domain == SchedulingDomain::Nova {
        state.unnamed.push(&decision.name_any(), &decision.spec.resource_id, bounds.most);
    }
}

async fn write_one(api: &Api<Decision>, state: &State, (decision, at): &Made, known: &mut Known, bounds: Bounds) {
    let Some(first) = record(decision, *at, None) else { return };
    let name = first.name_any();
    let written = async {
        let earlier = if known.times.contains_key(&name) { api.get_opt(&name).await? } else { None };
        let object = record(decision, *at, earlier.as_ref()).unwrap_or(first);
        let apply = PatchParams::apply(MANAGER).force();
        let status = json!({"apiVersion": "cortex.c5c3.io/v1alpha1", "kind": "Decision", "status": object.status});
        let spec = Decision { status: None, ..object };
        api.patch(&name, &apply, &Patch::Apply(&spec)).await?;
        api.patch_status(&name, &apply, &Patch::Apply(&status)).await
    };
    match written.await {
        Ok(written) => {
            known.put(&name, *at);
            // A server that is decided on again may have been renamed.
            has_no_name(state, &written, bounds);
            state.metrics.written();
        }
        Err(error) => {
            tracing::warn!(%error, decision = name, "cannot write a Decision");
            state.metrics.dropped();
        }
    }
}

async fn remove_old(api: &Api<Decision>, known: &mut Known, bounds: Bounds, now: Timestamp) {
    while let Some(name) = known.next_to_remove(bounds, now) {
        match api.delete(&name, &DeleteParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => {
                tracing::warn!(%error, decision = name, "cannot remove an old Decision; trying again");
                known.put(&name, Timestamp::UNIX_EPOCH);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use c5c3_cortex::{Candidate, Domain, Request, Scheduler};
    use c5c3_harness::TestCluster;
    use c5c3_kit::metrics::Metrics;

    use super::*;
    use crate::metrics::SchedulerMetrics;
    use crate::token::Tokens;

    fn decide(workload: &str) -> c5c3_cortex::Decision {
        let candidates = vec![Candidate { host: "hv-1".into(), node: None, weight: 1.0 }];
        Scheduler::new(1000).decide(&Request { candidates, ..Request::new(Domain::Nova, workload) }, 0).unwrap()
    }

    async fn names(api: &Api<Decision>) -> Vec<String> {
        let mut names: Vec<String> =
            api.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect();
        names.sort();
        names
    }

    /// Asks until these are there. The clock stands still, so that each look is a request and no pause.
    async fn until_there_are(api: &Api<Decision>, expected: &[&str]) {
        let begun = std::time::Instant::now();
        let mut found = names(api).await;
        while found != expected {
            assert!(begun.elapsed() < Duration::from_mins(1), "there are {found:?}, not {expected:?}");
            found = names(api).await;
        }
    }

    #[tokio::test]
    async fn decisions_are_removed_when_they_are_too_old() {
        let Some(cluster) = TestCluster::embedded("another cluster has Decisions of others").await.unwrap() else {
            return;
        };
        let kind = c5c3_api::find("cortex.c5c3.io/v1alpha1", "Decision").unwrap();
        cluster.install(&kind.crd()).await.unwrap();
        let api: Api<Decision> = Api::default_namespaced(cluster.client());
        let metrics = SchedulerMetrics::new(&Metrics::default());
        let (state, mut made) = State::new(Duration::from_mins(10), Tokens::in_file("/nonexistent"), metrics);

        tokio::time::pause();
        // A paused clock advances by itself when all tasks are idle, but not while a blocking task runs.
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let holding = tokio::task::spawn_blocking(move || ended.recv());
        let (start, zero) = (Timestamp::now(), tokio::time::Instant::now());
        let now = move || start + zero.elapsed();

        let bounds = Bounds { most: 100, age: Duration::from_hours(1) };
        let (api_of_recorder, recording, stop) = (api.clone(), state.clone(), CancellationToken::new());
        let stopped = stop.clone();
        let recorder = tokio::spawn(async move {
            write_down(&api_of_recorder, &recording, &mut made, bounds, now, stopped).await;
        });
        state.record(decide("old"), now());
        until_there_are(&api, &["nova-old"]).await;
        tokio::time::advance(Duration::from_mins(40)).await;
        state.record(decide("young"), now());
        until_there_are(&api, &["nova-old", "nova-young"]).await;
        tokio::time::advance(Duration::from_mins(21)).await;
        until_there_are(&api, &["nova-young"]).await;
        tokio::time::advance(Duration::from_mins(38)).await;
        state.record(decide("next"), now());
        until_there_are(&api, &["nova-next", "nova-young"]).await;
        tokio::time::advance(Duration::from_mins(2)).await;
        until_there_are(&api, &["nova-next"]).await;
        stop.cancel();
        recorder.await.unwrap();
        drop(end);
        let _ = holding.await;
    }

    #[test]
    fn the_oldest_go_first_and_only_as_many_as_are_too_many_or_too_old() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut known = Known::default();
        for (name, second) in [("a", 10), ("b", 20), ("c", 30), ("a", 40)] {
            known.put(name, at(second));
        }
        let mut gone = |most, age, now| known.next_to_remove(Bounds { most, age: Duration::from_secs(age) }, at(now));
        assert_eq!(gone(3, 100, 40), None);
        assert_eq!(gone(2, 100, 40).as_deref(), Some("b"), "a was decided on again");
        assert_eq!(gone(2, 100, 40), None);
        assert_eq!(gone(2, 15, 46).as_deref(), Some("c"));
        assert_eq!(gone(2, 15, 46), None);
    }
}
