//! Writes Decisions and removes the oldest, so that their number and their age stay bounded.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use c5c3_api::cortex::Decision;
use c5c3_cortex::{Promise, Resources};
use jiff::{SignedDuration, Timestamp};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

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

/// Writes what is decided until `stop`, and what is still queued then.
pub(crate) async fn write_down(
    api: &Api<Decision>,
    state: &State,
    decisions: &mut mpsc::Receiver<Made>,
    bounds: Bounds,
    stop: CancellationToken,
) {
    let mut known = Known::default();
    match api.list(&ListParams::default()).await {
        Ok(list) => list.items.iter().for_each(|one| {
            let at = one.status.as_ref().and_then(|status| status.decided_at.as_ref()).map(|time| time.0);
            known.put(&one.name_any(), at.unwrap_or(Timestamp::UNIX_EPOCH));
        }),
        Err(error) => tracing::warn!(%error, "cannot list Decisions; those of before are not removed until a restart"),
    }
    let mut clean = tokio::time::interval(Duration::from_mins(1));
    loop {
        tokio::select! {
            biased;
            made = decisions.recv() => {
                let Some(made) = made else { return };
                write_one(api, state, &made, &mut known).await;
                remove_old(api, &mut known, bounds).await;
            }
            _ = clean.tick() => {
                remove_old(api, &mut known, bounds).await;
                state.write().expire(millis(Timestamp::now()));
                state.metrics.knows(&state.read());
            }
            () = stop.cancelled() => return,
        }
    }
}

async fn write_one(api: &Api<Decision>, state: &State, (decision, at): &Made, known: &mut Known) {
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
        Ok(_) => {
            known.put(&name, *at);
            state.metrics.written();
        }
        Err(error) => {
            tracing::warn!(%error, decision = name, "cannot write a Decision");
            state.metrics.dropped();
        }
    }
}

async fn remove_old(api: &Api<Decision>, known: &mut Known, bounds: Bounds) {
    while let Some(name) = known.next_to_remove(bounds, Timestamp::now()) {
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
    use super::*;

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
