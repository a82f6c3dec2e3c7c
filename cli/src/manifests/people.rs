//! What people may do with our kinds, as parts of the ClusterRoles that every cluster has: whoever may view, edit or administer a
//! namespace may do the same with a ControlPlane in it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::object;
use crate::status;

const GROUP: &str = "rbac.authorization.k8s.io";

/// The roles. Cluster administrators bind none of them: the cluster adds their rules to `view`, `edit` and `admin`.
pub(super) fn roles() -> Vec<Value> {
    let own = c5c3_api::all().iter().map(|kind| (kind.group().to_owned(), kind.crd().spec.names.plural));
    let own: BTreeSet<(String, String)> = own.collect();
    // `c5c3 status` and `why` follow a ControlPlane down to the servers that other operators run for it.
    let others = status::kinds().into_iter().filter(|kind| is_of_others(&kind.resource.group));
    let others = others.map(|kind| (kind.resource.group, kind.resource.plural));
    let seen: BTreeSet<(String, String)> = own.iter().cloned().chain(others).collect();
    vec![
        role("c5c3-view", &["view", "edit", "admin"], &seen, &["get", "list", "watch"]),
        role("c5c3-edit", &["edit", "admin"], &own, &["create", "delete", "deletecollection", "patch", "update"]),
    ]
}

/// Whether a group is of another project: those of Kubernetes have no dots, or end in k8s.io.
fn is_of_others(group: &str) -> bool {
    group.contains('.') && !group.ends_with(".k8s.io")
}

fn role(name: &str, parts_of: &[&str], kinds: &BTreeSet<(String, String)>, verbs: &[&str]) -> Value {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (group, plural) in kinds {
        groups.entry(group).or_default().push(plural);
    }
    let mut role = object(&format!("{GROUP}/v1"), "ClusterRole", name, None);
    for part_of in parts_of {
        role["metadata"]["labels"][format!("{GROUP}/aggregate-to-{part_of}")] = "true".into();
    }
    let rule = |(group, resources)| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    role["rules"] = groups.into_iter().map(rule).collect();
    role
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_may_see_what_status_lists_and_nothing_of_secrets() {
        let roles = roles();
        let text = roles[0].to_string();
        for resource in ["controlplanes", "keystones", "mariadbs", "rabbitmqclusters", "valkeys"] {
            assert!(text.contains(&format!("\"{resource}\"")), "{resource}");
        }
        assert!(!json!(roles).to_string().contains("\"secrets\""));
        assert!(!roles[1].to_string().contains("mariadbs"), "servers are changed by their ControlPlane");
    }
}
