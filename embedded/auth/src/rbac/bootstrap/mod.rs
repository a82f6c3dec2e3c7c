//! The roles and bindings that every cluster begins with, under the names that charts and people rely on.
//!
//! There is no Node authorizer here, so `system:nodes` holds `system:node` by a binding, as clusters did before that
//! authorizer existed; and no component holds a role under the name of a controller that the embedded cluster lacks.

mod controllers;
mod roles;

use serde_json::{Value, json};

use super::{GROUP, aggregate};

/// One rule, as a row of a table: words separated by blanks, the core group written as `core`.
#[derive(Clone, Copy)]
struct Row {
    verbs: &'static str,
    groups: &'static str,
    resources: &'static str,
    names: &'static str,
    paths: &'static str,
}

const fn on(verbs: &'static str, groups: &'static str, resources: &'static str) -> Row {
    Row { verbs, groups, resources, names: "", paths: "" }
}

const fn named(verbs: &'static str, groups: &'static str, resources: &'static str, names: &'static str) -> Row {
    Row { verbs, groups, resources, names, paths: "" }
}

const fn paths(verbs: &'static str, paths: &'static str) -> Row {
    Row { verbs, groups: "", resources: "", names: "", paths }
}

const READ: &str = "get list watch";
const WRITE: &str = "create delete deletecollection patch update";
const READ_WRITE: &str = "create delete deletecollection get list patch update watch";
const EVENTS: Row = on("create patch update", "core events.k8s.io", "events");

/// A role: its name, its labels beside the common one, its rules.
struct RoleTable {
    name: &'static str,
    rows: &'static [Row],
    /// Of `admin`, `edit` and `view`: the role that takes over these rules.
    aggregates_to: Option<&'static str>,
    /// Whether the role is made of those labelled for it.
    aggregated: bool,
}

const fn role(name: &'static str, rows: &'static [Row]) -> RoleTable {
    RoleTable { name, rows, aggregates_to: None, aggregated: false }
}

/// Who holds a role, cluster-wide.
struct Holder {
    binding: &'static str,
    role: &'static str,
    subjects: &'static [Who],
}

#[derive(Clone, Copy)]
enum Who {
    User(&'static str),
    Group(&'static str),
    /// In `kube-system`.
    ServiceAccount(&'static str),
}

/// Every role and binding of a new cluster, to be created in this order: namespaced ones live in `kube-system`.
///
/// `admin`, `edit` and `view` have their rules already; the aggregation controller finds nothing to do.
pub fn objects() -> Vec<Value> {
    let mut cluster_roles: Vec<_> = roles::CLUSTER_ROLES.iter().chain(controllers::ROLES).map(cluster_role).collect();
    // Each takes over the one before.
    for name in ["view", "edit", "admin"] {
        let Some(index) = cluster_roles.iter().position(|role| role["metadata"]["name"] == name) else { continue };
        let rules = aggregate(&cluster_roles[index], &cluster_roles);
        cluster_roles[index]["rules"] = json!(rules);
    }
    let holders = roles::HOLDERS.iter().map(|h| cluster_binding(h.binding, h.role, h.subjects));
    let controllers = controllers::ROLES.iter().map(|table| {
        let account = table.name.strip_prefix(controllers::PREFIX).unwrap_or(table.name);
        cluster_binding(table.name, table.name, &[Who::ServiceAccount(account)])
    });
    let bindings: Vec<_> = holders.chain(controllers).collect();
    let local_roles = roles::LOCAL_ROLES.iter().map(|(name, rows)| local_role(name, rows));
    let local_bindings = roles::LOCAL_HOLDERS.iter().map(|h| local_binding(h.binding, h.role, h.subjects));
    cluster_roles.into_iter().chain(bindings).chain(local_roles).chain(local_bindings).collect()
}

fn cluster_role(table: &RoleTable) -> Value {
    let mut role = object("ClusterRole", table.name);
    role["rules"] = json!(table.rows.iter().map(rule).collect::<Vec<_>>());
    if let Some(target) = table.aggregates_to {
        role["metadata"]["labels"][format!("{GROUP}/aggregate-to-{target}")] = json!("true");
    }
    if table.aggregated {
        let label = format!("{GROUP}/aggregate-to-{}", table.name);
        role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]});
    }
    role
}

fn local_role(name: &str, rows: &[Row]) -> Value {
    let mut role = object("Role", name);
    role["metadata"]["namespace"] = json!("kube-system");
    role["rules"] = json!(rows.iter().map(rule).collect::<Vec<_>>());
    role
}

fn cluster_binding(name: &str, role: &str, subjects: &[Who]) -> Value {
    let mut binding = object("ClusterRoleBinding", name);
    binding["roleRef"] = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": role});
    binding["subjects"] = json!(subjects.iter().map(subject).collect::<Vec<_>>());
    binding
}

fn local_binding(name: &str, role: &str, subjects: &[Who]) -> Value {
    let mut binding = cluster_binding(name, role, subjects);
    binding["kind"] = json!("RoleBinding");
    binding["metadata"]["namespace"] = json!("kube-system");
    binding["roleRef"]["kind"] = json!("Role");
    binding
}

fn object(kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": kind,
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        },
    })
}

fn subject(who: &Who) -> Value {
    match who {
        Who::User(name) => json!({"apiGroup": GROUP, "kind": "User", "name": name}),
        Who::Group(name) => json!({"apiGroup": GROUP, "kind": "Group", "name": name}),
        Who::ServiceAccount(name) => json!({"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}),
    }
}

fn rule(row: &Row) -> super::Rule {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    super::Rule {
        verbs: words(row.verbs),
        api_groups: words(row.groups)
            .into_iter()
            .map(|group| if group == "core" { String::new() } else { group })
            .collect(),
        resources: words(row.resources),
        resource_names: words(row.names),
        non_resource_urls: words(row.paths),
    }
}

#[cfg(test)]
mod tests;
