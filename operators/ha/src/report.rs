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
    told(hypervisor, None, &Fenced::Kept, Timestamp::UNIX_EPOCH).is_none()
}

/// Our conditions after this turn, if they differ from those before.
pub(crate) fn told(
    hypervisor: &Hypervisor,
    report: Option<&(bool, &'static str, String)>,
    fenced: &Fenced,
    now: Timestamp,
) -> Option<Vec<Condition>> {
    let before = conditions(hypervisor.status.as_ref());
    let failed = match report {
        Some((true, reason, message)) => Some(ConditionState::met(FAILED, *reason, message)),
        Some((false, reason, message)) => Some(ConditionState::unmet(FAILED, *reason, message)),
        None => None,
    };
    let old = |kind: &str| find(before, kind).cloned();
    let failed = failed.map(|state| state.to_condition(old(FAILED).as_ref(), None, now)).or_else(|| old(FAILED));
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
    let wanted: Vec<Condition> = failed.into_iter().chain(fence).chain([enabled]).collect();
    let present: Vec<Condition> = [FAILED, FENCED, ENABLED].into_iter().filter_map(old).collect();
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
    let meta = json!({"metadata": {"uid": hypervisor.uid(), "annotations": {RUNNING: text}}});
    let params = PatchParams { field_manager: Some(NAME.into()), ..PatchParams::default() };
    hypervisors(client).patch(&hypervisor.name_any(), &params, &Patch::Merge(meta)).await.map(drop)
}

fn object(mut body: Value, hypervisor: &Hypervisor) -> Value {
    body["apiVersion"] = "hypervisor.c5c3.io/v1".into();
    body["kind"] = "Hypervisor".into();
    body["metadata"] = json!({"name": hypervisor.name_any(), "uid": hypervisor.uid()});
    body
}
