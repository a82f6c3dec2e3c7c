//! Which fields of an object the controller of its owner manages, by `metadata.managedFields`: a change of one of them by another
//! client does not last, and admission warns of it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::DynamicObject;
use serde_json::{Map, Value};

use crate::ownership::{MANAGED_BY, OWNER, annotation, label};

/// A warning for each field that `new` changes and that the owner of the object sets back. `writer` is the field manager of the
/// request: the owner's own controller is not warned.
pub(crate) fn warnings(old: &DynamicObject, new: &DynamicObject, writer: Option<&str>) -> Vec<String> {
    let Some(manager) = label(&old.metadata, MANAGED_BY).filter(|manager| Some(manager.as_str()) != writer) else {
        return Vec::new();
    };
    let Some((owner, edit)) = annotation(&old.metadata, OWNER).and_then(|path| owner(path)) else { return Vec::new() };
    let is_applied = |entry: &&ManagedFieldsEntry| {
        entry.manager.as_ref() == Some(manager)
            && entry.operation.as_deref() == Some("Apply")
            && entry.subresource.is_none()
    };
    let applied = old.metadata.managed_fields.iter().flatten().filter(is_applied);
    let mut changed = Vec::new();
    for fields in applied.filter_map(|entry| entry.fields_v1.as_ref()?.0.get("f:spec")?.as_object()) {
        compare(fields, "spec", &old.data["spec"], &new.data["spec"], &mut changed);
    }
    let warn = |field: String| format!("{field}: {owner} manages this field and sets it back; change it there: {edit}");
    changed.into_iter().map(warn).collect()
}

/// The owner as people name it, and the command that edits it.
fn owner(path: &str) -> Option<(String, String)> {
    let [kind, namespace, name] = path.split('/').collect::<Vec<_>>().try_into().ok()?;
    let kind = kind.to_lowercase();
    let scope = if namespace.is_empty() { String::new() } else { format!(" -n {namespace}") };
    Some((format!("{kind}/{name}"), format!("kubectl edit {kind} {name}{scope}")))
}

/// Adds the managed fields that differ. A list is one field: its items have keys, and which of them changed is in the object.
fn compare(managed: &Map<String, Value>, path: &str, old: &Value, new: &Value, changed: &mut Vec<String>) {
    let below: Option<Vec<_>> = managed
        .iter()
        .filter(|(key, _)| *key != ".")
        .map(|(key, below)| Some((key.strip_prefix("f:")?, below)))
        .collect();
    match below {
        Some(fields) if !fields.is_empty() && old.is_object() => {
            for (name, below) in fields {
                let none = Map::new();
                let below = below.as_object().unwrap_or(&none);
                compare(below, &format!("{path}.{name}"), &old[name], &new[name], changed);
            }
        }
        _ if old != new => changed.push(path.to_owned()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A Keystone that a ControlPlane made: its operator manages the image and the networks, and a person the options.
    fn keystone(spec: &Value) -> DynamicObject {
        let entry = |manager: &str, operation: &str, fields: Value| json!({"manager": manager, "operation": operation, "fieldsV1": {"f:spec": fields}});
        serde_json::from_value(json!({
            "apiVersion": "keystone.openstack.c5c3.io/v1alpha1", "kind": "Keystone",
            "metadata": {
                "name": "gate", "namespace": "cellar",
                "labels": {MANAGED_BY: "plane-operator"}, "annotations": {OWNER: "ControlPlane/cellar/lab"},
                "managedFields": [
                    entry("plane-operator", "Apply", json!({
                        "f:image": {".": {}, "f:tag": {}, "f:repository": {}},
                        "f:networks": {"k:{\"cidr\":\"10.0.0.0/8\"}": {".": {}, "f:cidr": {}}},
                    })),
                    entry("kubectl-edit", "Update", json!({"f:extraConfig": {"f:token": {"f:expiration": {}}}})),
                ],
            },
            "spec": spec,
        }))
        .unwrap()
    }

    #[test]
    fn a_field_that_the_owner_sets_back_is_warned_of() {
        let old =
            keystone(&json!({"image": {"tag": "28.0.0"}, "networks": [{"cidr": "10.0.0.0/8"}], "extraConfig": {}}));
        let warned = |spec: Value, writer: Option<&str>| warnings(&old, &keystone(&spec), writer);
        let changed =
            json!({"image": {"tag": "99.0.0"}, "networks": [{"cidr": "10.0.0.0/8"}], "extraConfig": {"token": {}}});
        assert_eq!(
            warned(changed.clone(), Some("kubectl-patch")),
            [
                "spec.image.tag: controlplane/lab manages this field and sets it back; change it there: kubectl edit controlplane lab -n cellar"
            ]
        );
        assert_eq!(warned(changed, Some("plane-operator")), Vec::<String>::new(), "it is the owner's own change");
        assert_eq!(warned(json!({}), None).len(), 2, "a field that is removed is set back as well");
    }

    #[test]
    fn an_object_of_a_user_has_no_such_fields() {
        let mut old = keystone(&json!({"image": {"tag": "28.0.0"}}));
        old.metadata.labels = None;
        assert_eq!(warnings(&old, &keystone(&json!({"image": {"tag": "99.0.0"}})), None), Vec::<String>::new());
    }
}
