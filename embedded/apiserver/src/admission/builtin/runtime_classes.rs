//! What a pod's RuntimeClass asks of its nodes: the overhead of the runtime, node labels and tolerations.

use c5c3_kinds::Quantity;
use serde_json::{Map, Value, json};

use super::all;
use crate::call::Call;
use crate::object::meta;
use crate::status::ApiError;

/// Completes a new pod by its RuntimeClass, or says why it may not be created.
pub(super) fn admit(call: &Call<'_>, pod: &mut Value) -> Result<(), ApiError> {
    let Some(spec) = pod.get_mut("spec").filter(|spec| spec.is_object()) else { return Ok(()) };
    let named = spec["runtimeClassName"].as_str().filter(|name| !name.is_empty()).map(ToOwned::to_owned);
    let classes = if named.is_some() { all(call.server, "node.k8s.io", "runtimeclasses") } else { Vec::new() };
    let completed = match named {
        Some(name) => match classes.iter().find(|class| meta(class, "name") == name) {
            Some(class) => complete(spec, Some(class)),
            None => Err(format!("pod rejected: RuntimeClass {name:?} not found")),
        },
        None => complete(spec, None),
    };
    completed.map_err(|why| ApiError::forbidden_object(&call.served.resource, meta(pod, "name"), &why))
}

fn complete(spec: &mut Value, class: Option<&Value>) -> Result<(), String> {
    overhead(spec, class.and_then(|class| class["overhead"]["podFixed"].as_object()))?;
    let Some(scheduling) = class.map(|class| &class["scheduling"]) else { return Ok(()) };
    for (key, wanted) in scheduling["nodeSelector"].as_object().into_iter().flatten() {
        let given = &spec["nodeSelector"][key];
        if !given.is_null() && given != wanted {
            let (wanted, given) = (wanted.as_str().unwrap_or_default(), given.as_str().unwrap_or_default());
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted}; pod.spec.nodeSelector[{key}] = {given}"
            ));
        }
        if !spec["nodeSelector"].is_object() {
            spec["nodeSelector"] = json!({});
        }
        spec["nodeSelector"][key] = wanted.clone();
    }
    let list = |tolerations: &Value| tolerations.as_array().cloned().unwrap_or_default();
    let merged = merge(list(&spec["tolerations"]), list(&scheduling["tolerations"]));
    if !merged.is_empty() {
        spec["tolerations"] = merged.into();
    }
    Ok(())
}

/// A pod's overhead is that of its class: users do not choose it.
fn overhead(spec: &mut Value, of_class: Option<&Map<String, Value>>) -> Result<(), String> {
    let given = spec["overhead"].as_object().filter(|given| !given.is_empty());
    match (of_class, given) {
        (None, Some(_)) => {
            Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead".to_owned())
        }
        (Some(wanted), Some(given)) if !are_equal(wanted, given) => {
            Err("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned())
        }
        (Some(wanted), None) => {
            spec["overhead"] = Value::Object(wanted.clone());
            Ok(())
        }
        (None, None) | (Some(_), Some(_)) => Ok(()),
    }
}

fn are_equal(a: &Map<String, Value>, b: &Map<String, Value>) -> bool {
    let amount = |value: Option<&Value>| value.and_then(Value::as_str).and_then(Quantity::parse);
    a.len() == b.len() && a.keys().all(|name| b.contains_key(name) && amount(a.get(name)) == amount(b.get(name)))
}

/// Both lists, without what another toleration covers.
fn merge(first: Vec<Value>, second: Vec<Value>) -> Vec<Value> {
    let all: Vec<Value> = first.into_iter().chain(second).collect();
    let is_covered = |(at, one): (usize, &Value)| {
        let by = |(other_at, other): (usize, &Value)| {
            // Of equal ones the first stays.
            other_at != at && covers(other, one) && (other_at < at || !covers(one, other))
        };
        all.iter().enumerate().any(by)
    };
    all.iter().enumerate().filter(|entry| !is_covered(*entry)).map(|(_, toleration)| toleration.clone()).collect()
}

/// Whether a toleration tolerates everything that another one does.
fn covers(one: &Value, other: &Value) -> bool {
    let text = |toleration: &Value, field: &str| toleration[field].as_str().unwrap_or_default().to_owned();
    let operator = |toleration: &Value| match text(toleration, "operator").as_str() {
        "" => "Equal".to_owned(),
        given => given.to_owned(),
    };
    let takes_all_keys = text(one, "key").is_empty() && operator(one) == "Exists";
    if text(one, "key") != text(other, "key") && !takes_all_keys {
        return false;
    }
    if text(one, "effect") != text(other, "effect") && !text(one, "effect").is_empty() {
        return false;
    }
    if text(one, "effect") == "NoExecute"
        && let Some(seconds) = one["tolerationSeconds"].as_i64()
        && other["tolerationSeconds"].as_i64().is_none_or(|longer| longer > seconds)
    {
        return false;
    }
    match operator(one).as_str() {
        "Exists" => true,
        _ => operator(one) == operator(other) && text(one, "value") == text(other, "value"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class() -> Value {
        json!({
            "metadata": {"name": "kata"}, "handler": "kata", "overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}},
            "scheduling": {
                "nodeSelector": {"runtime": "kata"},
                "tolerations": [{"key": "kata", "operator": "Exists", "effect": "NoSchedule"}],
            },
        })
    }

    fn completed(mut spec: Value) -> Result<Value, String> {
        complete(&mut spec, Some(&class())).map(|()| spec)
    }

    #[test]
    fn a_pod_gets_the_overhead_labels_and_tolerations_of_its_class() {
        let own = json!({"key": "kata", "value": "x", "effect": "NoSchedule"});
        let other = json!({"key": "gpu", "operator": "Exists"});
        let spec = completed(json!({"nodeSelector": {"zone": "a"}, "tolerations": [own, other]})).unwrap();
        assert_eq!(spec["overhead"], json!({"cpu": "250m", "memory": "120Mi"}));
        assert_eq!(spec["nodeSelector"], json!({"zone": "a", "runtime": "kata"}));
        assert_eq!(spec["tolerations"], json!([other, class()["scheduling"]["tolerations"][0]]));
        assert_eq!(completed(spec.clone()), Ok(spec), "a second pass changes nothing");
    }

    #[test]
    fn a_pod_does_not_choose_its_overhead_or_a_node_that_its_class_excludes() {
        assert!(completed(json!({"overhead": {"cpu": "0.25", "memory": "120Mi"}})).is_ok());
        let differs = completed(json!({"overhead": {"cpu": "1"}})).unwrap_err();
        assert_eq!(differs, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead");
        let mut spec = json!({"overhead": {"cpu": "1"}});
        let without = complete(&mut spec, None).unwrap_err();
        assert_eq!(without, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead");
        let conflict = completed(json!({"nodeSelector": {"runtime": "runc"}})).unwrap_err();
        assert!(conflict.starts_with("conflict: runtimeClass.scheduling.nodeSelector[runtime] = kata;"), "{conflict}");
    }

    #[test]
    fn a_toleration_that_another_covers_is_left_out() {
        let all = json!({"operator": "Exists"});
        let short = json!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5});
        let long = json!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9});
        assert_eq!(merge(vec![short.clone()], vec![long.clone()]), vec![long.clone()]);
        assert_eq!(merge(vec![long.clone()], vec![long.clone()]), vec![long.clone()]);
        assert_eq!(merge(vec![short, long], vec![all.clone()]), vec![all]);
    }
}
