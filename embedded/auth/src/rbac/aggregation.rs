//! ClusterRoles that are made of others: whatever carries the right labels adds its rules.

use c5c3_kinds::selector::selects;
use serde::Deserialize;
use serde_json::Value;

use super::Rule;
use super::policy::rules_of;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregationRule {
    #[serde(default)]
    cluster_role_selectors: Vec<Value>,
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
        for contributor in contributors.iter().filter(|other| selects(selector, &other["metadata"]["labels"])) {
            for rule in rules_of(contributor).unwrap_or_default() {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
    }
    Some(rules)
}
