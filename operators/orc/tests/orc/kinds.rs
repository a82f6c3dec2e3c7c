//! The nine kinds as tests walk over them: how Keystone is called for each, the least spec, and what a spec can refer to.

use c5c3_operator_orc::Settings;
use serde_json::{Value, json};

use crate::site::Site;

/// A kind, and how Keystone is called when one is created.
pub(crate) const KINDS: [(&str, &str); 9] = [
    ("Domain", "POST /domains"),
    ("Project", "POST /projects"),
    ("Role", "POST /roles"),
    ("Group", "POST /groups"),
    ("Service", "POST /services"),
    ("Endpoint", "POST /endpoints"),
    ("User", "POST /users"),
    ("RoleAssignment", "PUT /projects"),
    ("ApplicationCredential", "POST /users"),
];

/// The least spec of a kind, where [`prepared`] has made what it refers to. Keystone deletes no domain that is enabled.
pub(crate) fn fields(kind: &str) -> Value {
    match kind {
        "Domain" => json!({"enabled": false}),
        "Service" => json!({"type": "fruit"}),
        "Endpoint" => json!({"serviceRef": "shop", "interface": "public", "url": "http://a"}),
        "RoleAssignment" => json!({"roleRef": "reader", "userRef": "ada", "projectRef": "acre"}),
        "ApplicationCredential" => json!({"userRef": "ada", "secretRef": "code"}),
        _ => json!({}),
    }
}

/// The collection of a kind in Keystone.
pub(crate) fn plural(kind: &str) -> String {
    match kind {
        "RoleAssignment" => "role_assignments".into(),
        "ApplicationCredential" => "application_credentials".into(),
        _ => format!("{}s", kind.to_lowercase()),
    }
}

/// How Keystone is called when one is deleted.
pub(crate) fn deletion(kind: &str) -> String {
    match kind {
        "RoleAssignment" => "DELETE /projects".into(),
        "ApplicationCredential" => "DELETE /users".into(),
        _ => format!("DELETE /{}", plural(kind)),
    }
}

/// An import of what has [`fields`] and the name `pear`.
pub(crate) fn import(kind: &str) -> Value {
    match kind {
        "Endpoint" => json!({"filter": {"serviceRef": "shop", "interface": "public", "url": "http://a"}}),
        "RoleAssignment" => json!({"filter": fields(kind)}),
        "ApplicationCredential" => json!({"filter": {"userRef": "ada", "name": "pear"}}),
        _ => json!({"filter": {"name": "pear"}}),
    }
}

/// A spec of the same kind that fits no other resource than its own, of an object with this name.
pub(crate) async fn another(site: &Site, kind: &str, name: &str) -> Value {
    let mut spec = fields(kind);
    match kind {
        "RoleAssignment" => {
            let project = format!("project-of-{name}");
            site.managed("Project", &project, json!({})).await;
            site.done("Project", &project).await;
            spec["projectRef"] = project.into();
        }
        "Endpoint" => spec["url"] = format!("http://{name}").into(),
        _ => {}
    }
    spec
}

/// What a status says its resource is: an id, or the parts of a role assignment.
pub(crate) fn identity(status: &Value) -> Value {
    if status["id"].is_null() { status["resource"].clone() } else { status["id"].clone() }
}

/// The finalizer of a kind.
pub(crate) fn finalizer(kind: &str) -> String {
    format!("openstack.k-orc.cloud/{}", kind.to_lowercase())
}

/// Everything that a spec of a kind can refer to, the field and the kind of the object, in the order in which it is waited for.
/// A role assignment cannot refer to all of it at once.
pub(crate) fn references(kind: &str) -> Vec<Vec<(&'static str, &'static str)>> {
    match kind {
        "Project" | "Role" | "Group" => vec![vec![("domainRef", "Domain")]],
        "User" => vec![vec![("domainRef", "Domain"), ("defaultProjectRef", "Project")]],
        "Endpoint" => vec![vec![("serviceRef", "Service")]],
        "RoleAssignment" => vec![
            vec![("roleRef", "Role"), ("userRef", "User"), ("projectRef", "Project")],
            vec![("roleRef", "Role"), ("groupRef", "Group"), ("domainRef", "Domain")],
        ],
        "ApplicationCredential" => vec![vec![("userRef", "User"), ("roleRefs", "Role"), ("accessRules", "Service")]],
        _ => vec![],
    }
}

/// A spec that names other objects in these fields, and nothing else that exists.
pub(crate) fn referring(kind: &str, names: &[(&str, String)]) -> Value {
    let mut spec = match kind {
        "RoleAssignment" => json!({}),
        _ => fields(kind),
    };
    for (field, name) in names {
        spec[*field] = match *field {
            "roleRefs" => json!([name]),
            "accessRules" => json!([{"serviceRef": name}]),
            _ => json!(name),
        };
    }
    spec
}

/// A site with everything that [`fields`] refer to.
pub(crate) async fn prepared() -> Site {
    prepared_with(Settings::default()).await
}

/// The same, with an operator that works like this.
pub(crate) async fn prepared_with(settings: Settings) -> Site {
    let site = Site::open_with(settings).await;
    site.secret("code", "value", "cherry-stone").await;
    let needed = [("Role", "reader"), ("User", "ada"), ("Project", "acre"), ("Service", "shop")];
    for (kind, name) in needed {
        site.managed(kind, name, fields(kind)).await;
    }
    for (kind, name) in needed {
        site.done(kind, name).await;
    }
    site
}
