//! Whether labels are what a selector asks for: the one place that knows its operators.

use serde_json::Value;

use crate::read::{entries_at, list_at, str_at, strings_at};

/// Whether the value of a label, or its absence, meets one requirement of a selector. An operator that Kubernetes does
/// not know is met by nothing.
pub fn meets(found: Option<&str>, operator: &str, values: &[impl AsRef<str>]) -> bool {
    let is_listed = || found.is_some_and(|found| values.iter().any(|value| value.as_ref() == found));
    let numbers = || -> Option<(i64, i64)> {
        let [bound] = values else { return None };
        Some((found?.parse().ok()?, bound.as_ref().parse().ok()?))
    };
    match operator {
        "In" => is_listed(),
        "NotIn" => !is_listed(),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => numbers().is_some_and(|(found, bound)| found > bound),
        "Lt" => numbers().is_some_and(|(found, bound)| found < bound),
        _ => false,
    }
}

/// Whether a label selector selects these labels. An empty one selects everything.
pub fn selects(selector: &Value, labels: &Value) -> bool {
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    let expressions = list_at(selector, "matchExpressions")
        .iter()
        .all(|one| meets(label(str_at(one, "key")), str_at(one, "operator"), &strings_at(one, "values")));
    expressions && entries_at(selector, "matchLabels").all(|(key, value)| labels.get(key) == Some(value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_operator_is_met_by_what_kubernetes_says() {
        for (operator, values, of_seven, of_none) in [
            ("In", &["6", "7"][..], true, false),
            ("In", &[], false, false),
            ("NotIn", &["6", "7"], false, true),
            ("NotIn", &["6"], true, true),
            ("Exists", &[], true, false),
            ("DoesNotExist", &[], false, true),
            ("Gt", &["6"], true, false),
            ("Gt", &["7"], false, false),
            ("Gt", &["6", "6"], false, false),
            ("Lt", &["8"], true, false),
            ("Lt", &["many"], false, false),
            ("Near", &["7"], false, false),
        ] {
            assert_eq!(meets(Some("7"), operator, values), of_seven, "{operator} {values:?}");
            assert_eq!(meets(None, operator, values), of_none, "{operator} {values:?}");
        }
    }

    #[test]
    fn a_selector_selects_labels_that_meet_all_of_it() {
        let selector = json!({"matchLabels": {"app": "oak"}, "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["bark", "root"]}, {"key": "dead", "operator": "DoesNotExist"}]});
        assert!(selects(&selector, &json!({"app": "oak", "tier": "root"})));
        assert!(selects(&json!({}), &json!({"app": "oak"})));
        for labels in [
            json!({"app": "elm", "tier": "root"}),
            json!({"app": "oak", "tier": "leaf"}),
            json!({"app": "oak", "tier": "root", "dead": "yes"}),
            json!(null),
        ] {
            assert!(!selects(&selector, &labels), "{labels}");
        }
    }
}
