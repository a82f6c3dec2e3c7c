//! What is told on a Hypervisor: conditions of our own, under our own field manager, written only when they change.

use std::collections::BTreeSet;

use c5c3_api::blocks::{Condition, ConditionStatus};
use c5c3_kit::condition::{ConditionState, find};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::NAME;
use crate::enabled::{ENABLED, enabled};
use crate::read::{Hypervisor, conditions, hypervisors};

/// Whether the host has failed, and how far its evacuation is.
pub(crate) const FAILED: &str = "HostFailed";

/// Whether the host was confirmed to be off; its message is the fencing record.
pub(crate) const FENCED: &str = "Fenced";

/// Whether guests of the host are down after a crash or an I/O error.
pub(crate) const GUESTS: &str = "GuestsFailed";

/// The annotation with the servers that ran when the host was fenced.
pub(crate) const RUNNING: &str = "ha.c5c3.io/running";

/// What becomes of the fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fenced {
    /// It is as it was.
    Kept,
    /// It was confirmed now, with this record.
    Confirmed(String),
    /// It is over.
    Over,
}

/// Whether `HaEnabled` on the Hypervisor is up to date.
pub(crate) fn is_enabled_told(hypervisor: &Hypervisor) -> bool {
    told(hypervisor, None, None, &Fenced::Kept, Timestamp::UNIX_EPOCH).is_none()
}

/// What is told by a condition: its status, a reason for programs and a message for people.
pub(crate) type Report = (bool, &'static str, String);

/// Our conditions after this turn, if they differ from those before. Those of which nothing is reported stay.
pub(crate) fn told(
    hypervisor: &Hypervisor,
    host: Option<&Report>,
    guests: Option<&Report>,
    fenced: &Fenced,
    now: Timestamp,
) -> Option<Vec<Condition>> {
    let before = conditions(hypervisor.status.as_ref());
    let old = |kind: &str| find(before, kind).cloned();
    let reported = |kind: &str, report: Option<&Report>| {
        let state = report.map(|(is_failed, reason, message)| {
            let status = if *is_failed { ConditionStatus::True } else { ConditionStatus::False };
            ConditionState { status, ..ConditionState::met(kind, *reason, message) }
        });
        state.map(|state| state.to_condition(old(kind).as_ref(), None, now)).or_else(|| old(kind))
    };
    let fence = match fenced {
        Fenced::Kept => old(FENCED),
        Fenced::Over => None,
        Fenced::Confirmed(record) => Some(Condition {
            r#type: FENCED.into(),
            status: ConditionStatus::True,
            reason: Some("Confirmed".into()),
            message: Some(record.clone()),
            last_transition_time: Some(Time(now)),
            observed_generation: None,
        }),
    };
    let enabled = enabled(hypervisor.spec.high_availability, before).to_condition(old(ENABLED).as_ref(), None, now);
    let (failed, guests) = (reported(FAILED, host), reported(GUESTS, guests));
    let wanted: Vec<Condition> = failed.into_iter().chain(fence).chain([enabled]).chain(guests).collect();
    let present: Vec<Condition> = [FAILED, FENCED, ENABLED, GUESTS].into_iter().filter_map(old).collect();
    (wanted != present).then_some(wanted)
}

/// Writes our conditions; those of others stay.
pub(crate) async fn write(client: &Client, hypervisor: &Hypervisor, wanted: &[Condition]) -> Result<(), kube::Error> {
    let status = object(json!({"status": {"conditions": wanted}}), hypervisor);
    let params = PatchParams::apply(NAME).force();
    hypervisors(client).patch_status(&hypervisor.name_any(), &params, &Patch::Apply(status)).await.map(drop)
}

/// Writes down which servers ran, or forgets it. Fails if it is another Hypervisor by now.
pub(crate) async fn record(
    client: &Client,
    hypervisor: &Hypervisor,
    running: Option<&BTreeSet<String>>,
) -> Result<(), kube::Error> {
    let text = running.map(|ids| ids.iter().map(String::as_str).collect::<Vec<_>>().join(","));
    annotate(client, hypervisor, RUNNING, text, false).await
}

/// Sets an annotation, or removes it. Fails if it is another Hypervisor by now, and with `unchanged` if it changed since it was read.
pub(crate) async fn annotate(
    client: &Client,
    hypervisor: &Hypervisor,
    name: &str,
    text: Option<String>,
    unchanged: bool,
) -> Result<(), kube::Error> {
    let mut meta = json!({"metadata": {"uid": hypervisor.uid(), "annotations": {name: text}}});
    if unchanged {
        meta["metadata"]["resourceVersion"] = hypervisor.resource_version().into();
    }
    let params = PatchParams { field_manager: Some(NAME.into()), ..PatchParams::default() };
    hypervisors(client).patch(&hypervisor.name_any(), &params, &Patch::Merge(meta)).await.map(drop)
}

fn object(mut body: Value, hypervisor: &Hypervisor) -> Value {
    body["apiVersion"] = "hypervisor.c5c3.io/v1".into();
    body["kind"] = "Hypervisor".into();
    body["metadata"] = json!({"name": hypervisor.name_any(), "uid": hypervisor.uid()});
    body
}
