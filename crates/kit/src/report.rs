//! Says how a reconcile went: conditions, waits, events, metrics. The status is written only when it changed.
//!
//! Three conditions say how an object is as a whole, computed from the object and its last status alone:
//!
//! | the object is | `Ready` | `Progressing` | `Degraded` |
//! |---|---|---|---|
//! | coming up for the first time | False | True, `Installing` | False |
//! | of a newer generation than the one that was ready last | False | True, `Updating` or `Upgrading` | False |
//! | ready | True | False | False |
//! | not ready, and has been for this generation | False | False | True, with the reason of the first wait |
//!
//! `Progressing` is the memory: it is False with the generation that has become ready, and True until then. What is no news
//! about progress (a wrong spec, an API that fails, a deletion, a pause) leaves it and `Degraded` as they were.

use std::collections::HashSet;

use c5c3_api::Problems;
use c5c3_api::blocks::{Condition, ConditionStatus, WaitStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::apply::{self, Applied};
use crate::condition::{ConditionState, find};
use crate::error::Error;
use crate::object::Ref;
use crate::plan::{Plan, Step};
use crate::summary::Summary;
use crate::wait::Wait;

/// What there is to say.
#[derive(Debug)]
pub enum Outcome<'a> {
    /// The spec is wrong. What must go on all the same was carried out.
    Invalid(&'a Problems, Option<(&'a Applied, &'a Plan)>),
    /// Something is missing before a plan can be made.
    Waiting(&'a [Wait]),
    /// A plan was carried out, as far as it went.
    Applied(&'a Applied, &'a Plan),
    /// Something failed, more than once in a row.
    Failed(&'a Error),
    /// The object is going, and these hold it up.
    Deleting(&'a [Wait]),
    /// The object is paused: nothing was applied, and this is the status of its children.
    Paused(&'a Applied, &'a Plan),
}

impl<'a> Outcome<'a> {
    /// What is known of steps.
    fn applied(&self) -> Option<(&'a Applied, &'a Plan)> {
        match self {
            Self::Invalid(_, maintained) => *maintained,
            Self::Applied(applied, plan) | Self::Paused(applied, plan) => Some((applied, plan)),
            Self::Waiting(_) | Self::Failed(_) | Self::Deleting(_) => None,
        }
    }

    fn waits(&self) -> Vec<Wait> {
        match self {
            Self::Waiting(waits) | Self::Deleting(waits) => waits.to_vec(),
            _ => self.applied().into_iter().flat_map(|(applied, _)| waits_of(applied)).collect(),
        }
    }
}

pub(crate) fn waits_of(applied: &Applied) -> Vec<Wait> {
    let of_steps = applied.outcomes.iter().flat_map(|outcome| &outcome.waits);
    of_steps.chain(&applied.left).cloned().collect()
}

/// The conditions of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Types {
    /// Those about the object as a whole, the most important one first.
    pub summary: &'static [&'static str],
    /// Those of steps.
    pub steps: &'static [&'static str],
}

/// On an object: `true` lets nothing of it be applied or pruned.
pub const PAUSED: &str = "c5c3.io/paused";

/// Whether the object is paused.
pub(crate) fn is_paused(object: &DynamicObject) -> bool {
    object.metadata.annotations.iter().flatten().any(|(key, value)| key == PAUSED && value == "true")
}

/// The condition of an object that is paused; others do not have it.
const PAUSED_CONDITION: &str = "Paused";

/// The status that is to be written, and whether it differs from what is there.
#[derive(Debug)]
pub struct Report {
    /// The whole status that is ours.
    pub status: Map<String, Value>,
    /// Whether it has to be written.
    pub changed: bool,
    /// All conditions of ours.
    pub conditions: Vec<Condition>,
    /// The first condition of the summary, if its status or reason changed: worth an event.
    pub transition: Option<ConditionState>,
    /// What is waited for.
    pub waits: Vec<Wait>,
}

/// The most waits that a status holds.
const MOST_WAITS: usize = 64;

/// Makes a report: pure, from the object as it was read and what came of it.
pub fn report(
    object: &DynamicObject,
    manager: &str,
    types: Types,
    outcome: &Outcome<'_>,
    summary: impl FnOnce(Summary<'_>) -> Vec<ConditionState>,
    now: Timestamp,
) -> Report {
    let namespace = object.metadata.namespace.as_deref();
    let before = object.data.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
    let conditions_before: Vec<Condition> = list(&before, "conditions");
    let waits_before: Vec<WaitStatus> = list(&before, "waitingFor");

    let generation = object.metadata.generation;
    let waits = outcome.waits();
    let paused = is_paused(object);
    let summary =
        summary(Summary { outcome, waits: &waits, before: &conditions_before, generation, namespace, paused });
    let conditions_now = conditions(types, outcome, &summary, &conditions_before, object, now);
    let waits_now: Vec<WaitStatus> =
        waits.iter().take(MOST_WAITS).map(|wait| with_since(wait, namespace, &waits_before, now)).collect();

    let ours = owned_fields(object, manager);
    let mut status = match outcome {
        Outcome::Applied(_, plan) => plan.status.clone(),
        // What the operator said of itself still holds: the last good configuration keeps running. What others said is
        // theirs to keep.
        _ => before
            .iter()
            .filter(|(field, _)| ours.contains(*field) && !OURS.contains(&field.as_str()))
            .map(clone_entry)
            .collect(),
    };
    if let Outcome::Invalid(_, Some((_, plan))) = outcome {
        status.extend(plan.status.clone());
    }
    status.insert("conditions".into(), json!(conditions_now));
    if !waits_now.is_empty() {
        status.insert("waitingFor".into(), json!(waits_now));
    }
    if let Some(generation) = generation {
        status.insert("observedGeneration".into(), generation.into());
    }

    let headline = summary.into_iter().find(|said| types.summary.first() == Some(&said.condition.as_str()));
    let transition = headline.filter(|said| {
        find(&conditions_before, &said.condition)
            .is_none_or(|before| before.status != said.status || before.reason.as_deref() != Some(said.reason.as_str()))
    });
    keep_known_fields(object, &mut status);
    let changed = !same(&before, &status, &conditions_now, &ours);
    Report { status, changed, conditions: conditions_now, transition, waits }
}

/// The fields of a status that every kind has.
const OURS: &[&str] = &["conditions", "waitingFor", "observedGeneration"];

/// All conditions of ours. One of which nothing new is known stays as it was, and about the generation it was about.
fn conditions(
    types: Types,
    outcome: &Outcome<'_>,
    summary: &[ConditionState],
    before: &[Condition],
    object: &DynamicObject,
    now: Timestamp,
) -> Vec<Condition> {
    let namespace = object.metadata.namespace.as_deref();
    let generation = object.metadata.generation;
    let stated = outcome.applied().map(|(_, plan)| plan.conditions.clone()).unwrap_or_default();
    let of_steps = outcome.applied().map(|(applied, plan)| steps(applied, plan, namespace)).unwrap_or_default();
    let said_of_steps: Vec<ConditionState> = stated.into_iter().chain(of_steps).collect();
    let one = |said: &[ConditionState], condition: &str| {
        let before = find(before, condition);
        // The steps of an older spec go on while the present one is wrong.
        let is_older = matches!(outcome, Outcome::Invalid(..)) && types.steps.contains(&condition);
        let generation = if is_older { before.and_then(|before| before.observed_generation) } else { generation };
        let said = said.iter().find(|said| said.condition == condition);
        said.map(|said| said.to_condition(before, generation, now)).or_else(|| before.cloned())
    };
    let of_summary = types.summary.iter().filter_map(|condition| one(summary, condition));
    let of_steps = types.steps.iter().map(|condition| {
        one(&said_of_steps, condition).unwrap_or_else(|| unknown(condition).to_condition(None, None, now))
    });
    let mut conditions: Vec<Condition> = of_summary.chain(of_steps).collect();
    if is_paused(object) {
        let message = format!(
            "reconciliation is paused: nothing is applied or deleted; to resume it, remove the annotation {PAUSED}"
        );
        let paused = ConditionState::met(PAUSED_CONDITION, "Paused", message);
        conditions.push(paused.to_condition(find(before, PAUSED_CONDITION), generation, now));
    }
    conditions
}

/// What there is to say of each condition: it is true when all steps that share it are done.
fn steps(applied: &Applied, plan: &Plan, namespace: Option<&str>) -> Vec<ConditionState> {
    let mut said: Vec<ConditionState> = Vec::new();
    for outcome in &applied.outcomes {
        if said.iter().any(|said| said.condition == outcome.condition) {
            continue;
        }
        let shared: Vec<&apply::Outcome> =
            applied.outcomes.iter().filter(|other| other.condition == outcome.condition).collect();
        let waits: Vec<Wait> = shared.iter().flat_map(|step| step.waits.clone()).collect();
        let blocked: Vec<&str> = shared.iter().filter_map(|step| step.blocked.as_deref()).collect();
        let done: Vec<&str> = shared.iter().map(|step| step.done.as_str()).filter(|done| !done.is_empty()).collect();
        let waiting = shared.iter().find(|step| !step.waits.is_empty());
        said.push(match (waits.is_empty(), blocked.is_empty()) {
            (false, _) => {
                let mut said = ConditionState { condition: outcome.condition.into(), ..not_ready(&waits, namespace) };
                let is_unnamed =
                    waits.iter().any(|wait| said.reason == format!("WaitingFor{}", wait.object.resource.kind));
                if let Some(waiting) = waiting.and_then(|step| planned(plan, step)?.waiting_reason)
                    && is_unnamed
                {
                    waiting.clone_into(&mut said.reason);
                }
                said
            }
            (true, false) => ConditionState::unmet(outcome.condition, "Blocked", blocked.join("; ")),
            (true, true) => {
                let reason = planned(plan, outcome).map_or("Done", |step| step.done_reason);
                ConditionState::met(outcome.condition, reason, done.join("; "))
            }
        });
    }
    said
}

/// The step that an outcome is of.
fn planned<'a>(plan: &'a Plan, outcome: &apply::Outcome) -> Option<&'a Step> {
    let is_it = |step: &&Step| {
        let name = step.node.as_ref().map(|node| &node.name);
        step.condition == outcome.condition && name == outcome.name.as_ref()
    };
    plan.steps.iter().find(is_it)
}

/// Failed waits first: a user has to act on those.
pub(crate) fn not_ready(waits: &[Wait], namespace: Option<&str>) -> ConditionState {
    let mut ordered: Vec<&Wait> = waits.iter().collect();
    ordered.sort_by_key(|wait| !wait.failed);
    let reason = ordered.first().map_or_else(|| "Waiting".to_owned(), |wait| wait.reason());
    let messages: Vec<String> = ordered.iter().map(|wait| wait.message(namespace)).collect();
    ConditionState::unmet("Ready", reason, messages.join("\n"))
}

fn unknown(condition: &str) -> ConditionState {
    ConditionState {
        status: ConditionStatus::Unknown,
        ..ConditionState::unmet(condition, "NotObserved", "not observed yet")
    }
}

fn with_since(wait: &Wait, namespace: Option<&str>, before: &[WaitStatus], now: Timestamp) -> WaitStatus {
    let status = wait.status(namespace, Time(now));
    let same = before.iter().find(|old| old.object == status.object && old.condition == status.condition);
    WaitStatus { since: same.and_then(|old| old.since.clone()).or(status.since.clone()), ..status }
}

fn list<T: DeserializeOwned>(status: &Map<String, Value>, field: &str) -> Vec<T> {
    let items = status.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    items.into_iter().filter_map(|item| serde_json::from_value(item).ok()).collect()
}

fn clone_entry((field, value): (&String, &Value)) -> (String, Value) {
    (field.clone(), value.clone())
}

/// The top-level fields of the status that this manager wrote, as the API server keeps book of it.
fn owned_fields(object: &DynamicObject, manager: &str) -> HashSet<String> {
    let entries = object.metadata.managed_fields.iter().flatten();
    let ours = entries
        .filter(|entry| entry.manager.as_deref() == Some(manager) && entry.subresource.as_deref() == Some("status"));
    ours.filter_map(|entry| entry.fields_v1.as_ref()?.0.get("f:status")?.as_object())
        .flat_map(|fields| fields.keys().filter_map(|field| field.strip_prefix("f:")))
        .map(ToOwned::to_owned)
        .collect()
}

/// Leaves out what the kind's schema does not have: an API server refuses a whole status for one undeclared field, as the
/// kinds of other projects have no `waitingFor`.
fn keep_known_fields(object: &DynamicObject, status: &mut Map<String, Value>) {
    let Some(types) = &object.types else { return };
    let Some(kind) = c5c3_api::find(&types.api_version, &types.kind) else { return };
    status.retain(|field, _| kind.has_status_field(field));
}

/// Whether a status says the same. Fields and conditions of others in it are not ours to compare.
fn same(before: &Map<String, Value>, after: &Map<String, Value>, now: &[Condition], ours: &HashSet<String>) -> bool {
    // One that is no longer said goes when the status is written without it.
    let is_ours = |condition: &Value| {
        condition["type"] == PAUSED_CONDITION || now.iter().any(|now| condition["type"] == now.r#type)
    };
    let conditions = |status: &Map<String, Value>| -> Vec<Value> {
        let all = status.get("conditions").and_then(Value::as_array).into_iter().flatten();
        let mut ours: Vec<Value> = all.filter(|condition| is_ours(condition)).cloned().collect();
        ours.sort_by_key(|condition| condition["type"].to_string());
        ours
    };
    let rest = |status: &Map<String, Value>| -> Map<String, Value> {
        let is_ours = |field: &String| field != "conditions" && (ours.contains(field) || after.contains_key(field));
        status.iter().filter(|(field, _)| is_ours(field)).map(clone_entry).collect()
    };
    rest(before) == rest(after) && conditions(before) == conditions(after)
}

/// Writes the status by server-side apply, so that conditions of other managers stay.
pub async fn write(client: &kube::Client, about: &Ref, uid: &str, manager: &str, report: &Report) -> Result<(), Error> {
    let mut metadata = json!({"name": about.name, "uid": uid});
    if let Some(namespace) = &about.namespace {
        metadata["namespace"] = namespace.as_str().into();
    }
    let patch = json!({
        "apiVersion": about.resource.api_version,
        "kind": about.resource.kind,
        "metadata": metadata,
        "status": report.status,
    });
    let params = PatchParams::apply(manager).force();
    match about.api(client.clone()).patch_status(&about.name, &params, &Patch::Apply(patch)).await {
        Ok(_) => Ok(()),
        // The object was deleted meanwhile.
        Err(error) if crate::object::is_not_found(&error) => Ok(()),
        Err(source) => Err(Error::ReportFailed { object: Box::new(about.clone()), source: Box::new(source) }),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use kube::core::ApiResource;

    use super::*;

    const TYPES: Types = Types { summary: &["Available", "Progressing"], steps: &["Ripe"] };

    fn object(paused: bool) -> DynamicObject {
        let mut object = DynamicObject::new("tree", &ApiResource::erase::<ConfigMap>(&())).within("orchard");
        object.metadata.generation = Some(2);
        object.metadata.annotations = paused.then(|| [(PAUSED.to_owned(), "true".to_owned())].into());
        object.data = json!({});
        object
    }

    fn types(report: &Report) -> Vec<&str> {
        report.conditions.iter().map(|condition| condition.r#type.as_str()).collect()
    }

    #[test]
    fn a_kind_may_have_other_conditions_about_the_whole() {
        let key = Ref::namespaced::<Secret>("orchard", "key");
        let waits = [Wait::on(&key), Wait::on(&key).failed("KeyMissing")];
        let summary = |state: Summary<'_>| vec![ConditionState { condition: "Available".into(), ..state.ready() }];
        let outcome = Outcome::Waiting(&waits);
        let report = report(&object(false), "gardener", TYPES, &outcome, summary, Timestamp::UNIX_EPOCH);
        assert_eq!(types(&report), ["Available", "Ripe"], "what is left out and was never said is not there");
        assert_eq!(report.transition.map(|said| said.condition).as_deref(), Some("Available"));
        let reasons: Vec<_> = list::<WaitStatus>(&report.status, "waitingFor")
            .into_iter()
            .map(|wait| (wait.reason, wait.failed))
            .collect();
        assert_eq!(reasons, [(Some("WaitingForSecret".into()), false), (Some("KeyMissing".into()), true)]);
    }

    #[test]
    fn an_object_that_waits_while_it_is_paused_says_that_it_is() {
        let waits = [Wait::on(&Ref::namespaced::<Secret>("orchard", "key"))];
        let summary = |state: Summary<'_>| state.standard();
        let outcome = Outcome::Waiting(&waits);
        let report = report(&object(true), "gardener", TYPES, &outcome, summary, Timestamp::UNIX_EPOCH);
        assert_eq!(types(&report), ["Ripe", "Paused"]);
        assert!(report.transition.is_none());
    }
}
