//! Whether an object is healthy, by the rules of kstatus, which Flux uses, or by expressions in CEL.

use c5c3_schema::{Budget, Expression, Variables};
use serde_json::Value;

use super::kinds::HealthExpression;

/// What one look at an object may cost.
const BUDGET: u64 = 10_000_000;

/// How an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// As it should be.
    Current,
    /// On its way; what is missing.
    InProgress(String),
    /// It will not get there by itself.
    Failed(String),
}

/// How an object is; `None` is one that is not there.
pub(super) fn health(object: Option<&Value>, expressions: &[HealthExpression]) -> Health {
    let Some(object) = object else { return progress("is not there") };
    if !object["metadata"]["deletionTimestamp"].is_null() {
        return progress("is being deleted");
    }
    let applies = |one: &&HealthExpression| object["apiVersion"] == one.api_version && object["kind"] == one.kind;
    if let Some(expression) = expressions.iter().find(applies) {
        return by_expression(object, expression);
    }
    let generation = object["metadata"]["generation"].as_i64();
    if let (Some(observed), Some(generation)) = (object["status"]["observedGeneration"].as_i64(), generation)
        && observed < generation
    {
        return progress("its change is not seen yet");
    }
    let group =
        object["apiVersion"].as_str().and_then(|version| version.split_once('/')).map_or("", |(group, _)| group);
    match (group, object["kind"].as_str().unwrap_or_default()) {
        ("apps", "Deployment") => deployment(object),
        ("apps", "StatefulSet") => stateful_set(object),
        ("apps", "DaemonSet") => daemon_set(object),
        ("batch", "Job") => job(object),
        ("", "PersistentVolumeClaim") => phase(object, &["Bound"], &["Lost"]),
        ("", "Pod") if object["status"]["phase"] != "Succeeded" => {
            if object["status"]["phase"] == "Failed" {
                Health::Failed("failed".into())
            } else {
                ready(object, true)
            }
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => holds(object, "Established"),
        ("", "Service") if object["spec"]["type"] == "LoadBalancer" => {
            let is_served = object["status"]["loadBalancer"]["ingress"].is_array();
            if is_served { Health::Current } else { progress("has no address of a load balancer") }
        }
        _ => generic(object),
    }
}

fn progress(why: impl Into<String>) -> Health {
    Health::InProgress(why.into())
}

/// Conditions that say how any object is.
fn generic(object: &Value) -> Health {
    if let Some(stalled) = condition(object, "Stalled").filter(|stalled| stalled["status"] == "True") {
        return Health::Failed(said(stalled));
    }
    if let Some(reconciling) = condition(object, "Reconciling").filter(|reconciling| reconciling["status"] == "True") {
        return progress(said(reconciling));
    }
    ready(object, false)
}

/// The condition `Ready`; what has none is as it should be, unless it must have one.
fn ready(object: &Value, is_needed: bool) -> Health {
    match condition(object, "Ready") {
        Some(ready) if ready["status"] == "True" => Health::Current,
        Some(ready) => progress(said(ready)),
        None if is_needed => progress("is not Ready"),
        None => Health::Current,
    }
}

fn holds(object: &Value, r#type: &str) -> Health {
    let holds = condition(object, r#type).is_some_and(|condition| condition["status"] == "True");
    if holds { Health::Current } else { progress(format!("is not {type}")) }
}

fn condition<'a>(object: &'a Value, r#type: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == r#type)
}

fn said(condition: &Value) -> String {
    let text = |field: &str| condition[field].as_str().filter(|text| !text.is_empty());
    text("message").or_else(|| text("reason")).unwrap_or("does not say why").to_owned()
}

fn phase(object: &Value, good: &[&str], bad: &[&str]) -> Health {
    match object["status"]["phase"].as_str().unwrap_or("Pending") {
        phase if good.contains(&phase) => Health::Current,
        phase if bad.contains(&phase) => Health::Failed(format!("is {phase}")),
        phase => progress(format!("is {phase}")),
    }
}

fn count(object: &Value, path: &str) -> i64 {
    object.pointer(path).and_then(Value::as_i64).unwrap_or(0)
}

/// How many of those that are wanted there are, by each of several counts.
fn counts(object: &Value, wanted: i64, fields: &[(&str, &str)]) -> Health {
    for (path, what) in fields {
        let there = count(object, path);
        if there < wanted {
            return progress(format!("{there} of {wanted} are {what}"));
        }
    }
    Health::Current
}

fn deployment(object: &Value) -> Health {
    if condition(object, "Progressing").is_some_and(|progressing| progressing["reason"] == "ProgressDeadlineExceeded") {
        return Health::Failed("progress deadline exceeded".into());
    }
    let wanted = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    if count(object, "/status/replicas") > wanted.max(count(object, "/status/updatedReplicas")) {
        return progress("old replicas are still there");
    }
    let fields = [
        ("/status/updatedReplicas", "updated"),
        ("/status/availableReplicas", "available"),
        ("/status/readyReplicas", "ready"),
    ];
    counts(object, wanted, &fields)
}

fn stateful_set(object: &Value) -> Health {
    let wanted = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    let (current, update) = (&object["status"]["currentRevision"], &object["status"]["updateRevision"]);
    match counts(object, wanted, &[("/status/replicas", "there"), ("/status/readyReplicas", "ready")]) {
        Health::Current if current != update => progress("is being updated"),
        health => health,
    }
}

fn daemon_set(object: &Value) -> Health {
    let Some(wanted) = object.pointer("/status/desiredNumberScheduled").and_then(Value::as_i64) else {
        return progress("its change is not seen yet");
    };
    let fields = [
        ("/status/updatedNumberScheduled", "updated"),
        ("/status/numberAvailable", "available"),
        ("/status/numberReady", "ready"),
    ];
    counts(object, wanted, &fields)
}

fn job(object: &Value) -> Health {
    if let Some(failed) = condition(object, "Failed").filter(|failed| failed["status"] == "True") {
        return Health::Failed(said(failed));
    }
    holds(object, "Complete")
}

/// What is wrong with the expressions of a kind.
pub(super) fn check(expression: &HealthExpression) -> Result<(), String> {
    let sources = [Some(&expression.current), expression.in_progress.as_ref(), expression.failed.as_ref()];
    for source in sources.into_iter().flatten() {
        Expression::parse(source).map_err(|error| format!("{source}: {error}"))?;
    }
    Ok(())
}

fn by_expression(object: &Value, expression: &HealthExpression) -> Health {
    let mut variables = Variables::default();
    for (name, value) in object.as_object().into_iter().flatten() {
        variables.json(name, value);
    }
    let is_true = |source: &String| {
        let parsed = Expression::parse(source)?;
        let outcome = parsed.evaluate(&variables, &mut Budget::new(BUDGET)).map_err(|error| error.to_string())?;
        outcome.as_bool().ok_or_else(|| format!("{source} is neither true nor false"))
    };
    let asks = |source: Option<&String>| source.map_or(Ok(false), is_true);
    let answer = (|| {
        if asks(expression.in_progress.as_ref())? {
            return Ok(progress("is on its way"));
        }
        if asks(expression.failed.as_ref())? {
            return Ok(Health::Failed(format!("{} holds", expression.failed.as_deref().unwrap_or_default())));
        }
        Ok(if is_true(&expression.current)? { Health::Current } else { generic_progress(object) })
    })();
    // What an expression needs may come later, such as a status.
    answer.unwrap_or_else(|error: String| progress(error))
}

/// What an object says of itself, when an expression says that it is not there yet.
fn generic_progress(object: &Value) -> Health {
    match generic(object) {
        Health::InProgress(why) | Health::Failed(why) => progress(why),
        Health::Current => progress("is not current"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "a test writes it down where it is used")]
    fn of(api_version: &str, kind: &str, status: Value) -> Health {
        let metadata = json!({"name": "heron", "generation": 3});
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {"replicas": 2}, "status": status});
        health(Some(&object), &[])
    }

    #[test]
    fn objects_are_judged_by_their_kind() {
        let all = json!({"observedGeneration": 3, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "readyReplicas": 2});
        assert_eq!(of("apps/v1", "Deployment", all.clone()), Health::Current);
        assert_eq!(of("apps/v1", "StatefulSet", all), Health::Current);
        let some = json!({"observedGeneration": 3, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 1});
        assert_eq!(of("apps/v1", "Deployment", some), progress("1 of 2 are available"));
        assert_eq!(
            of("apps/v1", "Deployment", json!({"observedGeneration": 2})),
            progress("its change is not seen yet")
        );
        let failed = json!({"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]});
        assert_eq!(of("batch/v1", "Job", failed), Health::Failed("BackoffLimitExceeded".into()));
        assert_eq!(of("v1", "PersistentVolumeClaim", json!({"phase": "Bound"})), Health::Current);
        assert_eq!(of("v1", "ConfigMap", Value::Null), Health::Current);
        let waits = json!({"conditions": [{"type": "Ready", "status": "False", "message": "no database"}]});
        assert_eq!(of("example.org/v1", "Heron", waits), progress("no database"));
        assert_eq!(health(None, &[]), progress("is not there"));
    }

    #[test]
    fn an_expression_says_what_current_means_for_a_kind() {
        let expression = HealthExpression {
            api_version: "c5c3.io/v1alpha1".into(),
            kind: "ControlPlane".into(),
            current: "status.conditions.exists(e, e.type == 'Ready' && e.status == 'True' && e.observedGeneration == \
                      metadata.generation)"
                .into(),
            ..HealthExpression::default()
        };
        assert_eq!(check(&expression), Ok(()));
        let plane = |status: Value| json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane", "metadata": {"generation": 4}, "status": status});
        let ready = |generation: i64| json!({"conditions": [{"type": "Ready", "status": "True", "observedGeneration": generation}]});
        let judged = |status: Value| health(Some(&plane(status)), std::slice::from_ref(&expression));
        assert_eq!(judged(ready(4)), Health::Current);
        assert_eq!(judged(ready(3)), progress("is not current"));
        assert!(matches!(judged(json!({})), Health::InProgress(_)));
        assert!(check(&HealthExpression { current: "status.".into(), ..expression }).is_err());
    }
}
