//! ClusterRoles that are made of others follow them, and roles that every cluster has get what a newer release adds.

use std::sync::Arc;

use c5c3_auth::rbac::{Rule, aggregate, covers};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{CONTROLLERS, SERVER, edit};
use crate::object::{meta, of_entry};
use crate::server::Server;
use crate::status::ApiError;

/// Brings every role that is made of others up to date.
pub(super) async fn reconcile(server: &Arc<Server>) -> Result<(), ApiError> {
    let served = server.registry().find("rbac.authorization.k8s.io", "v1", "clusterroles");
    let served = &served.ok_or_else(ApiError::no_such_path)?;
    let entries = server.store().list(&served.prefix(None));
    let all: Vec<Value> =
        entries.iter().map(|entry| of_entry(&served.resource, entry)).collect::<Result<_, ApiError>>()?;
    for role in &all {
        let Some(rules) = aggregate(role, &all).map(|rules| json!(rules)) else { continue };
        if role["rules"] == rules || (role["rules"].is_null() && rules == json!([])) {
            continue;
        }
        let key = served.key(None, meta(role, "name"));
        edit(server, CONTROLLERS, served, &key, |role| {
            let changed = role["rules"] != rules;
            role["rules"] = rules.clone();
            changed
        })
        .await?;
    }
    Ok(())
}

/// Set to `false`, it keeps the server from changing a role or binding that every cluster has.
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// Adds to a role or a binding that is stored what every cluster has and it lacks. Nothing is taken away: what a person
/// has added stays.
pub(super) async fn complete(server: &Arc<Server>, wanted: &Value) -> Result<(), ApiError> {
    let text = |field: &str| wanted[field].as_str().unwrap_or_default();
    let served = server.registry().of_kind(text("apiVersion"), text("kind")).ok_or_else(ApiError::no_such_path)?;
    let namespace = Some(meta(wanted, "namespace")).filter(|_| served.resource.namespaced);
    let key = served.key(namespace, meta(wanted, "name"));
    edit(server, SERVER, &served, &key, |stored| add(stored, wanted)).await
}

fn add(stored: &mut Value, wanted: &Value) -> bool {
    if stored["metadata"]["annotations"][AUTO_UPDATE] == "false" {
        return false;
    }
    let mut changed = false;
    for field in ["labels", "annotations"] {
        for (name, value) in wanted["metadata"][field].as_object().into_iter().flatten() {
            if stored["metadata"][field].get(name).is_none() {
                stored["metadata"][field][name] = value.clone();
                changed = true;
            }
        }
    }
    // A binding to another role than it was made for gives rights that were not meant.
    if stored["roleRef"] != wanted["roleRef"] {
        stored["roleRef"] = wanted["roleRef"].clone();
        changed = true;
    }
    changed |= append(stored, "/subjects", wanted, |_, _| false);
    if wanted["aggregationRule"].is_null() {
        changed | append(stored, "/rules", wanted, is_covered)
    } else {
        // Its rules are those of others, and follow them.
        changed | append(stored, "/aggregationRule/clusterRoleSelectors", wanted, |_, _| false)
    }
}

/// Appends those elements of a list that are neither in the stored one nor, as `has` says, provided by it.
fn append(stored: &mut Value, list: &str, wanted: &Value, has: fn(&[Value], &Value) -> bool) -> bool {
    let Some(wanted) = wanted.pointer(list).and_then(Value::as_array) else { return false };
    let held = stored.pointer(list).and_then(Value::as_array).cloned().unwrap_or_default();
    let missing: Vec<&Value> = wanted.iter().filter(|one| !held.contains(one) && !has(&held, one)).collect();
    if missing.is_empty() {
        return false;
    }
    let all = held.iter().chain(missing).cloned().collect();
    *list.split('/').skip(1).fold(stored, |at, field| &mut at[field]) = Value::Array(all);
    true
}

fn is_covered(held: &[Value], rule: &Value) -> bool {
    let read = |rule: &Value| Rule::deserialize(rule).ok();
    let held: Vec<Rule> = held.iter().filter_map(read).collect();
    read(rule).is_some_and(|rule| covers(&held, &[rule]).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(rules: &Value) -> Value {
        json!({"kind": "ClusterRole", "metadata": {"name": "gardener"}, "rules": rules})
    }

    #[test]
    fn a_stored_role_gets_the_rules_it_lacks_and_keeps_those_of_a_person() {
        let pods = json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]});
        let all_of_pods = json!({"verbs": ["*"], "apiGroups": [""], "resources": ["pods"]});
        let nodes = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]});
        let wanted = role(&json!([pods, nodes]));
        let mut stored = role(&json!([all_of_pods]));
        assert!(add(&mut stored, &wanted));
        assert_eq!(stored["rules"], json!([all_of_pods, nodes]));
        assert!(!add(&mut stored, &wanted), "there is nothing more to add");

        let mut kept = role(&json!([]));
        kept["metadata"]["annotations"] = json!({AUTO_UPDATE: "false"});
        assert!(!add(&mut kept, &wanted), "a person keeps it as it is");
    }

    #[test]
    fn a_stored_binding_gets_the_subjects_it_lacks_and_its_role() {
        let (ours, theirs) = (json!({"kind": "Group", "name": "a"}), json!({"kind": "User", "name": "b"}));
        let wanted = json!({"metadata": {}, "roleRef": {"name": "view"}, "subjects": [ours]});
        let mut stored = json!({"metadata": {}, "roleRef": {"name": "cluster-admin"}, "subjects": [theirs]});
        assert!(add(&mut stored, &wanted));
        assert_eq!(stored, json!({"metadata": {}, "roleRef": {"name": "view"}, "subjects": [theirs, ours]}));
    }

    #[test]
    fn a_role_that_is_made_of_others_gets_selectors_and_no_rules() {
        let selector = json!({"matchLabels": {"a": "b"}});
        let mut wanted = role(&json!([{"verbs": ["get"]}]));
        wanted["aggregationRule"] = json!({"clusterRoleSelectors": [selector]});
        let mut stored = role(&json!([]));
        assert!(add(&mut stored, &wanted));
        assert_eq!(stored["aggregationRule"], wanted["aggregationRule"]);
        assert_eq!(stored["rules"], json!([]));
    }
}
