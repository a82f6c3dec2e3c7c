//! ClusterRoles that are made of others: whatever carries the right labels adds its rules.

use serde::Deserialize;
use serde_json::Value;

use super::Rule;
use super::policy::rules_of;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregationRule {
    #[serde(default)]
    cluster_role_selectors: Vec<Selector>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Selector {
    match_labels: Option<serde_json::Map<String, Value>>,
    match_expressions: Option<Vec<Requirement>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Requirement {
    key: String,
    operator: String,
    values: Option<Vec<String>>,
}

/// The rules that `role` should have, given all ClusterRoles; `None` if it is not made of others.
///
/// The order is that of the contributors' names, each rule once, so that the controller writes only real changes. A
/// contributor that is itself made of others counts with the rules that it has by now.
pub fn aggregate<'a>(role: &Value, all: impl IntoIterator<Item = &'a Value>) -> Option<Vec<Rule>> {
    let name = role["metadata"]["name"].as_str();
    let AggregationRule { cluster_role_selectors } = Option::deserialize(&role["aggregationRule"]).ok()??;
    let mut contributors: Vec<_> = all.into_iter().filter(|other| other["metadata"]["name"].as_str() != name).collect();
    contributors.sort_by_key(|other| other["metadata"]["name"].as_str());
    let mut rules = Vec::new();
    for selector in &cluster_role_selectors {
        for contributor in contributors.iter().filter(|other| selector.matches(&other["metadata"]["labels"])) {
            for rule in rules_of(contributor).unwrap_or_default() {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
    }
    Some(rules)
}

impl Selector {
    fn matches(&self, labels: &Value) -> bool {
        self.match_labels.iter().flatten().all(|(key, value)| &labels[key] == value)
            && self.match_expressions.iter().flatten().all(|requirement| requirement.matches(labels))
    }
}

impl Requirement {
    fn matches(&self, labels: &Value) -> bool {
        let value = labels[&self.key].as_str();
        let listed = || value.is_some_and(|value| self.values.iter().flatten().any(|v| v == value));
        match self.operator.as_str() {
            "In" => listed(),
            "NotIn" => !listed(),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    }
}
