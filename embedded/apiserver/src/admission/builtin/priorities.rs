//! A pod's priority is that of its class, or of the default class, or none.

use serde_json::Value;

use super::all;
use crate::call::Call;
use crate::object::meta;
use crate::status::ApiError;

/// What pods without a class do, and classes that do not say.
const PREEMPTS: &str = "PreemptLowerPriority";

/// Fills in the priority of a new pod; that of a pod which is there does not change.
pub(super) fn admit(call: &Call<'_>, pod: &mut Value, old: Option<&Value>) -> Result<(), ApiError> {
    let decided = match old {
        Some(old) => {
            for field in ["priority", "preemptionPolicy"] {
                if pod["spec"][field].is_null()
                    && let Some(kept) = old["spec"].get(field)
                {
                    pod["spec"][field] = kept.clone();
                }
            }
            Ok(())
        }
        None => match pod.get_mut("spec") {
            Some(spec) => decide(spec, &all(call.server, "scheduling.k8s.io", "priorityclasses")),
            None => Ok(()),
        },
    };
    decided.map_err(|why| ApiError::forbidden_object(&call.served.resource, meta(pod, "name"), &why))
}

fn decide(spec: &mut Value, classes: &[Value]) -> Result<(), String> {
    let named = spec["priorityClassName"].as_str().filter(|name| !name.is_empty()).map(ToOwned::to_owned);
    let class = match &named {
        Some(name) => Some(
            classes
                .iter()
                .find(|class| meta(class, "name") == name)
                .ok_or_else(|| format!("no PriorityClass with name {name} was found"))?,
        ),
        // Of several defaults the lowest counts.
        None => {
            classes.iter().filter(|class| class["globalDefault"] == true).min_by_key(|class| class["value"].as_i64())
        }
    };
    let value = class.and_then(|class| class["value"].as_i64()).unwrap_or(0);
    let policy = class.and_then(|class| class["preemptionPolicy"].as_str()).unwrap_or(PREEMPTS).to_owned();
    if let Some(given) = spec["priority"].as_i64().filter(|given| *given != value) {
        return Err(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        ));
    }
    if let Some(given) = spec["preemptionPolicy"].as_str().filter(|given| *given != policy) {
        return Err(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        ));
    }
    if let Some(fields) = spec.as_object_mut() {
        if let Some(class) = class {
            fields.insert("priorityClassName".into(), meta(class, "name").into());
        }
        fields.insert("priority".into(), value.into());
        fields.insert("preemptionPolicy".into(), policy.into());
    }
    Ok(())
}

/// Refuses a second default class.
pub(super) fn only_default(call: &Call<'_>, class: &Value) -> Result<(), ApiError> {
    if class["globalDefault"] != true {
        return Ok(());
    }
    let others = all(call.server, "scheduling.k8s.io", "priorityclasses");
    let other =
        others.iter().find(|other| other["globalDefault"] == true && meta(other, "name") != meta(class, "name"));
    let Some(other) = other else { return Ok(()) };
    let why = format!("PriorityClass {} is already marked as default. Only one default can exist", meta(other, "name"));
    Err(ApiError::forbidden_object(&call.served.resource, meta(class, "name"), &why))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decided(mut spec: Value) -> Result<Value, String> {
        let class = |name: &str, value: i64, default: bool| json!({"metadata": {"name": name}, "value": value, "globalDefault": default, "preemptionPolicy": "Never"});
        decide(&mut spec, &[class("high", 100, false), class("usual", 5, true)])?;
        Ok(spec)
    }

    #[test]
    fn a_pod_has_the_priority_of_its_class() {
        let high = json!({"priorityClassName": "high", "priority": 100, "preemptionPolicy": "Never"});
        assert_eq!(decided(json!({"priorityClassName": "high"})), Ok(high.clone()));
        assert_eq!(decided(high.clone()), Ok(high));
        let usual = json!({"priorityClassName": "usual", "priority": 5, "preemptionPolicy": "Never"});
        assert_eq!(decided(json!({})), Ok(usual));
        let mut plain = json!({});
        decide(&mut plain, &[]).unwrap();
        assert_eq!(plain, json!({"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}));
    }

    #[test]
    fn a_pod_does_not_choose_its_priority() {
        let no_class = decided(json!({"priorityClassName": "none"})).unwrap_err();
        assert_eq!(no_class, "no PriorityClass with name none was found");
        assert!(decided(json!({"priority": 7})).unwrap_err().starts_with("the integer value of priority (7)"));
        let other = json!({"priorityClassName": "high", "preemptionPolicy": PREEMPTS});
        assert!(decided(other).unwrap_err().contains("computed Never"));
    }
}
