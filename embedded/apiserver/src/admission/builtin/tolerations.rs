//! Pods stay five minutes on a node that is not ready or not reachable, unless they say otherwise.

use serde_json::{Value, json};

const KEYS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Adds the tolerations that a pod does not have.
pub(super) fn add(pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let mut tolerations = spec.get("tolerations").and_then(Value::as_array).cloned().unwrap_or_default();
    for key in KEYS {
        let text = |toleration: &Value, field: &str| toleration[field].as_str().unwrap_or_default().to_owned();
        let tolerates = |toleration: &Value| {
            [key, ""].contains(&text(toleration, "key").as_str())
                && ["NoExecute", ""].contains(&text(toleration, "effect").as_str())
        };
        if !tolerations.iter().any(tolerates) {
            tolerations
                .push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
    spec.insert("tolerations".into(), tolerations.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_tolerates_nodes_that_are_away_for_a_while() {
        let mut pod =
            json!({"spec": {"tolerations": [{"key": KEYS[0], "operator": "Exists", "tolerationSeconds": 5}]}});
        add(&mut pod);
        let added = json!({"key": KEYS[1], "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
        let tolerations = pod["spec"]["tolerations"].as_array().unwrap();
        assert_eq!((tolerations.len(), &tolerations[1]), (2, &added));
        let mut everything = json!({"spec": {"tolerations": [{"operator": "Exists"}]}});
        let before = everything.clone();
        add(&mut everything);
        assert_eq!(everything, before);
    }
}
