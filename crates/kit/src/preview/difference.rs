//! Which fields of an object differ, by their paths. Of a Secret only the paths are printed.

use kube::api::DynamicObject;
use serde_json::Value;

use crate::apply_cache::is_secret;
use crate::object::Ref;

/// Fields that an API server writes, and that no one asks for.
const OWN: &[&str] = &["managedFields", "resourceVersion", "generation", "creationTimestamp", "uid", "selfLink"];

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldChange {
    /// Its path, such as `spec.template.spec.containers[api].image`.
    pub path: String,
    /// Its value now; none if it is not there, or confidential.
    pub before: Option<Value>,
    /// Its value then; none if it is not there, or confidential.
    pub after: Option<Value>,
    /// Whether its values are confidential.
    pub confidential: bool,
}

/// The fields in which two states of an object differ, without its status and what its API server writes.
pub fn differing(object: &Ref, before: &DynamicObject, after: &DynamicObject) -> Vec<FieldChange> {
    let mut found = Vec::new();
    compare(String::new(), Some(&plain(before)), Some(&plain(after)), &mut found);
    if is_secret(object) {
        for field in found.iter_mut().filter(|field| !field.path.starts_with("metadata.")) {
            *field =
                FieldChange { path: std::mem::take(&mut field.path), before: None, after: None, confidential: true };
        }
    }
    found
}

fn plain(object: &DynamicObject) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("status");
    }
    if let Some(meta) = value["metadata"].as_object_mut() {
        meta.retain(|field, _| !OWN.contains(&field.as_str()));
    }
    value
}

fn compare(path: String, before: Option<&Value>, after: Option<&Value>, found: &mut Vec<FieldChange>) {
    match (before, after) {
        (before, after) if before == after => {}
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let mut names: Vec<&String> =
                before.keys().chain(after.keys().filter(|name| !before.contains_key(*name))).collect();
            names.sort();
            for name in names {
                compare(joined(&path, name), before.get(name), after.get(name), found);
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) => match (named(before), named(after)) {
            (Some(before), Some(after)) => {
                let names =
                    before.iter().chain(after.iter().filter(|(name, _)| before.iter().all(|one| one.0 != *name)));
                let of = |list: &[(&str, &Value)], name: &str| {
                    list.iter().find(|one| one.0 == name).map(|one| one.1.clone())
                };
                for (name, _) in names {
                    compare(format!("{path}[{name}]"), of(&before, name).as_ref(), of(&after, name).as_ref(), found);
                }
                if before != after && same(&before, &after) {
                    // Only their order differs.
                    found.push(changed(path, None, None));
                }
            }
            _ if before.len() == after.len() => {
                for (index, (before, after)) in before.iter().zip(after).enumerate() {
                    compare(format!("{path}[{index}]"), Some(before), Some(after), found);
                }
            }
            _ => found.push(changed(path, Some(&Value::Array(before.clone())), Some(&Value::Array(after.clone())))),
        },
        (before, after) => found.push(changed(path, before, after)),
    }
}

fn changed(path: String, before: Option<&Value>, after: Option<&Value>) -> FieldChange {
    FieldChange { path, before: before.cloned(), after: after.cloned(), confidential: false }
}

/// Whether two lists have the same elements, whatever their order.
fn same(before: &[(&str, &Value)], after: &[(&str, &Value)]) -> bool {
    before.len() == after.len() && before.iter().all(|one| after.contains(one))
}

/// The elements of a list by their names, if each has one of its own.
fn named(list: &[Value]) -> Option<Vec<(&str, &Value)>> {
    let named: Vec<(&str, &Value)> =
        list.iter().map(|one| Some((one["name"].as_str()?, one))).collect::<Option<_>>()?;
    let is_first = |(index, one): (usize, &(&str, &Value))| named.iter().take(index).all(|other| other.0 != one.0);
    (!named.is_empty() && named.iter().enumerate().all(is_first)).then_some(named)
}

fn joined(path: &str, name: &str) -> String {
    let name = if name.contains(['.', '/']) { format!("[{name}]") } else { name.to_owned() };
    match path {
        "" => name,
        _ if name.starts_with('[') => format!("{path}{name}"),
        _ => format!("{path}.{name}"),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use kube::Resource;
    use kube::core::ApiResource;
    use serde_json::json;

    use super::*;

    fn told<K: Resource<DynamicType = ()>>(before: &Value, after: &Value) -> Vec<String> {
        let object = |value: &Value| {
            let mut object = DynamicObject::new("apple", &ApiResource::erase::<K>(&()));
            object.metadata = serde_json::from_value(value["metadata"].clone()).unwrap_or_default();
            object.data = value.clone();
            object
        };
        let reference = Ref::namespaced::<K>("orchard", "apple");
        let fields = differing(&reference, &object(before), &object(after));
        let text = |value: &Option<Value>| value.as_ref().map_or("-".to_owned(), ToString::to_string);
        fields.iter().map(|field| format!("{}: {} {}", field.path, text(&field.before), text(&field.after))).collect()
    }

    #[test]
    fn elements_of_lists_are_told_by_their_names_and_what_the_api_server_writes_is_not() {
        let before = json!({"metadata": {"resourceVersion": "1", "labels": {"c5c3.io/step": "a"}}, "status": {"a": 1},
            "spec": {"containers": [{"name": "api", "image": "a:1"}, {"name": "tls", "image": "t:1"}], "ports": [1, 2]}});
        let after = json!({"metadata": {"resourceVersion": "2", "labels": {"c5c3.io/step": "b"}}, "status": {"a": 2},
            "spec": {"containers": [{"name": "tls", "image": "t:1"}, {"name": "api", "image": "a:2"}], "ports": [1, 3], "new": true}});
        let expected = [
            "metadata.labels[c5c3.io/step]: \"a\" \"b\"",
            "spec.containers[api].image: \"a:1\" \"a:2\"",
            "spec.new: - true",
            "spec.ports[1]: 2 3",
        ];
        assert_eq!(told::<ConfigMap>(&before, &after), expected);
        assert!(told::<ConfigMap>(&before, &before).is_empty());
    }

    #[test]
    fn values_of_a_secret_are_never_told() {
        let secret = |value: &str| json!({"data": {"password": value}});
        assert_eq!(told::<Secret>(&secret("cmlkZGxl"), &secret("b3ds")), ["data.password: - -"]);
    }
}
