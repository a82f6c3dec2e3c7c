//! Says how a reconcile went: conditions, waits, events, metrics. The status is written only when it changed.

use std::collections::HashSet;

use c5c3_api::Problems;
use c5c3_api::blocks::{Condition, ConditionStatus, WaitStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::apply::{self, Applied};
use crate::condition::{Said, find};
use crate::error::Error;
use crate::object::Ref;
use crate::plan::Plan;
use crate::wait::Wait;

/// What there is to say.
#[derive(Debug)]
pub enum Outcome<'a> {
    /// The spec is wrong.
    Invalid(&'a Problems),
    /// Something is missing before a plan can be made.
    Waiting(&'a [Wait]),
    /// A plan was carried out, as far as it went.
    Applied(&'a Applied, &'a Plan),
    /// Something failed, more than once in a row.
    Failed(&'a Error),
    /// The object is going, and these hold it up.
    Deleting(&'a [Wait]),
}

/// The status that is to be written, and whether it differs from what is there.
#[derive(Debug)]
pub struct Report {
    /// The whole status that is ours.
    pub status: Map<String, Value>,
    /// Whether it has to be written.
    pub changed: bool,
    /// `Ready`, if its status or reason changed: worth an event.
    pub turned: Option<Said>,
    /// What is waited for.
    pub waits: Vec<Wait>,
}

/// The most waits that a status holds.
const MOST_WAITS: usize = 64;

/// Makes a report: pure, from the object as it was read and what came of it.
pub fn report(
    object: &DynamicObject,
    manager: &str,
    conditions: &[&'static str],
    outcome: &Outcome<'_>,
    now: Timestamp,
) -> Report {
    let namespace = object.metadata.namespace.as_deref();
    let before = object.data.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
    let conditions_before: Vec<Condition> = list(&before, "conditions");
    let waits_before: Vec<WaitStatus> = list(&before, "waitingFor");

    let (ready, steps, waits) = say(outcome, namespace);
    let mut said = vec![ready.clone()];
    for condition in conditions {
        match steps.iter().find(|step| step.condition == *condition) {
            Some(step) => said.push(step.clone()),
            // Nothing new is known of it: it stays as it was, or is unknown from the start.
            None => said.push(find(&conditions_before, condition).map_or_else(|| unknown(condition), unchanged)),
        }
    }
    let generation = object.metadata.generation;
    let conditions_now: Vec<Condition> = said
        .iter()
        .map(|said| {
            let before = find(&conditions_before, &said.condition);
            let known = said.condition == "Ready" || steps.iter().any(|step| step.condition == said.condition);
            let observed = if known { generation } else { before.and_then(|before| before.observed_generation) };
            said.after(before, observed, now)
        })
        .collect();
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
    status.insert("conditions".into(), json!(conditions_now));
    if !waits_now.is_empty() {
        status.insert("waitingFor".into(), json!(waits_now));
    }
    if let Some(generation) = generation {
        status.insert("observedGeneration".into(), generation.into());
    }

    let ready_before = find(&conditions_before, "Ready");
    let turned = ready_before
        .is_none_or(|before| before.status != ready.status || before.reason.as_deref() != Some(ready.reason.as_str()));
    keep_known_fields(object, &mut status);
    let changed = !same(&before, &status, &said, &ours);
    Report { status, changed, turned: turned.then_some(ready), waits }
}

/// The fields of a status that every kind has.
const OURS: &[&str] = &["conditions", "waitingFor", "observedGeneration"];

fn say(outcome: &Outcome<'_>, namespace: Option<&str>) -> (Said, Vec<Said>, Vec<Wait>) {
    match outcome {
        Outcome::Invalid(problems) => (Said::no("Ready", "InvalidSpec", problems.to_string()), Vec::new(), Vec::new()),
        Outcome::Waiting(waits) => (not_ready(waits, namespace), Vec::new(), waits.to_vec()),
        Outcome::Deleting(waits) => {
            let message = match waits.first() {
                Some(wait) => wait.message(namespace),
                None => "being deleted".into(),
            };
            (Said::no("Ready", "Deleting", message), Vec::new(), waits.to_vec())
        }
        Outcome::Failed(error) => {
            let said =
                Said { status: ConditionStatus::Unknown, ..Said::no("Ready", error.reason(), error.to_string()) };
            (said, Vec::new(), Vec::new())
        }
        Outcome::Applied(applied, plan) => {
            let of_steps = applied.outcomes.iter().flat_map(|outcome| &outcome.waits);
            let waits: Vec<Wait> = of_steps.chain(&applied.left).cloned().collect();
            let steps = steps(applied, namespace);
            let ready = if waits.is_empty() {
                Said::yes("Ready", plan.ready_reason, "all is in place")
            } else {
                not_ready(&waits, namespace)
            };
            (ready, steps, waits)
        }
    }
}

/// What there is to say of each condition: it is true when all steps that share it are done.
fn steps(applied: &Applied, namespace: Option<&str>) -> Vec<Said> {
    let mut said: Vec<Said> = Vec::new();
    for outcome in &applied.outcomes {
        if said.iter().any(|said| said.condition == outcome.condition) {
            continue;
        }
        let shared: Vec<&apply::Outcome> =
            applied.outcomes.iter().filter(|other| other.condition == outcome.condition).collect();
        let waits: Vec<Wait> = shared.iter().flat_map(|step| step.waits.clone()).collect();
        let blocked: Vec<&str> = shared.iter().filter_map(|step| step.blocked.as_deref()).collect();
        let done: Vec<&str> = shared.iter().map(|step| step.done.as_str()).collect();
        said.push(match (waits.is_empty(), blocked.is_empty()) {
            (false, _) => Said { condition: outcome.condition.into(), ..not_ready(&waits, namespace) },
            (true, false) => Said::no(outcome.condition, "Blocked", blocked.join("; ")),
            (true, true) => Said::yes(outcome.condition, "Done", done.join("; ")),
        });
    }
    said
}

/// Failed waits first: they are the ones that someone has to act on.
fn not_ready(waits: &[Wait], namespace: Option<&str>) -> Said {
    let mut ordered: Vec<&Wait> = waits.iter().collect();
    ordered.sort_by_key(|wait| !wait.failed);
    let reason = ordered.first().map_or_else(|| "Waiting".to_owned(), |wait| wait.reason());
    let messages: Vec<String> = ordered.iter().map(|wait| wait.message(namespace)).collect();
    Said::no("Ready", reason, messages.join("\n"))
}

fn unknown(condition: &str) -> Said {
    Said { status: ConditionStatus::Unknown, ..Said::no(condition, "NotObserved", "not looked at yet") }
}

fn unchanged(before: &Condition) -> Said {
    Said {
        condition: before.r#type.clone(),
        status: before.status,
        reason: before.reason.clone().unwrap_or_default(),
        message: before.message.clone().unwrap_or_default(),
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
fn same(before: &Map<String, Value>, after: &Map<String, Value>, said: &[Said], ours: &HashSet<String>) -> bool {
    let conditions = |status: &Map<String, Value>| -> Vec<Value> {
        let all = status.get("conditions").and_then(Value::as_array).into_iter().flatten();
        let mut ours: Vec<Value> =
            all.filter(|condition| said.iter().any(|said| condition["type"] == said.condition)).cloned().collect();
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
        // The object went while we worked; there is nobody to tell.
        Err(error) if crate::object::is_not_found(&error) => Ok(()),
        Err(source) => Err(Error::ReportFailed { object: Box::new(about.clone()), source: Box::new(source) }),
    }
}
