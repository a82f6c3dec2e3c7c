//! The environment of a container: what it is given by value, by reference, by Services. Nothing here talks to anything.

mod expansion;
pub(crate) mod fields;
mod service_links;

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVar, EnvVarSource, Service};

pub(crate) use expansion::expand;
use fields::FieldError;

use crate::pod::Pod;
use crate::references::{Kind, Payload, ReferenceError};

/// Looks a ConfigMap or Secret of the pod's namespace up: its content, or nothing if it is not there.
pub(crate) type Lookup<'a> = dyn Fn(Kind, &str) -> Result<Option<Payload>, ReferenceError> + Sync + 'a;

/// What is known by the time that a container is made.
pub(crate) struct Surroundings<'a> {
    pub(crate) pod: &'a Pod,
    /// What the node's name, addresses and size are.
    pub(crate) node: &'a fields::NodeFacts,
    /// The pod's addresses.
    pub(crate) pod_ips: &'a [String],
    pub(crate) services: &'a [Service],
}

/// Why a container has no environment.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EnvironmentError {
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    #[error("{} \"{name}\" not found", .kind.lower())]
    Missing { kind: Kind, name: String },
    #[error("couldn't find key {key} in {kind:?} {namespace}/{name}")]
    MissingKey { kind: Kind, namespace: String, name: String, key: String },
    #[error(transparent)]
    Field(#[from] FieldError),
}

/// The variables, each once, in the order in which they are first named.
pub(crate) fn environment(
    around: &Surroundings<'_>,
    container: &Container,
    lookup: &Lookup<'_>,
) -> Result<Vec<(String, String)>, EnvironmentError> {
    let mut found = Variables::default();
    for source in container.env_from.iter().flatten() {
        from(source, lookup, &mut found)?;
    }
    let links = service_links::variables(around.pod, around.services);
    for variable in container.env.iter().flatten() {
        if let Some(value) = value(around, container, variable, lookup, &found, &links)? {
            found.set(&variable.name, value);
        }
    }
    for (name, value) in links {
        // What the pod says itself counts.
        if !found.values.contains_key(&name) {
            found.set(&name, value);
        }
    }
    Ok(found.in_order())
}

/// What a container's environment refers to.
pub(crate) fn references(container: &Container) -> Vec<(Kind, String)> {
    let all = container.env_from.iter().flatten().flat_map(|from| {
        let map = from.config_map_ref.iter().map(|map| (Kind::ConfigMap, map.name.clone()));
        map.chain(from.secret_ref.iter().map(|secret| (Kind::Secret, secret.name.clone())))
    });
    let single = container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()).flat_map(|from| {
        let map = from.config_map_key_ref.iter().map(|map| (Kind::ConfigMap, map.name.clone()));
        map.chain(from.secret_key_ref.iter().map(|secret| (Kind::Secret, secret.name.clone())))
    });
    all.chain(single).collect()
}

#[derive(Default)]
struct Variables {
    names: Vec<String>,
    values: HashMap<String, String>,
}

impl Variables {
    fn set(&mut self, name: &str, value: String) {
        if self.values.insert(name.to_owned(), value).is_none() {
            self.names.push(name.to_owned());
        }
    }

    fn in_order(mut self) -> Vec<(String, String)> {
        let names = std::mem::take(&mut self.names);
        names.into_iter().filter_map(|name| self.values.remove(&name).map(|value| (name, value))).collect()
    }
}

/// All keys of a ConfigMap or Secret as variables.
fn from(source: &EnvFromSource, lookup: &Lookup<'_>, found: &mut Variables) -> Result<(), EnvironmentError> {
    let map = source.config_map_ref.as_ref().map(|map| (Kind::ConfigMap, &map.name, map.optional));
    let secret = source.secret_ref.as_ref().map(|secret| (Kind::Secret, &secret.name, secret.optional));
    for (kind, name, optional) in map.into_iter().chain(secret) {
        let Some(payload) = get(kind, name, optional == Some(true), lookup)? else { continue };
        for (key, value) in payload.text() {
            let name = format!("{}{key}", source.prefix.as_deref().unwrap_or_default());
            // Other keys cannot be variables; they are left out, as upstream does.
            if !name.is_empty() && !name.contains('=') {
                found.set(&name, value);
            }
        }
    }
    Ok(())
}

fn value(
    around: &Surroundings<'_>,
    container: &Container,
    variable: &EnvVar,
    lookup: &Lookup<'_>,
    found: &Variables,
    links: &BTreeMap<String, String>,
) -> Result<Option<String>, EnvironmentError> {
    if let Some(text) = variable.value.as_deref().filter(|text| !text.is_empty()) {
        let known = |name: &str| found.values.get(name).or_else(|| links.get(name)).cloned();
        return Ok(Some(expansion::expand_by(text, &known)));
    }
    let Some(source) = &variable.value_from else { return Ok(Some(String::new())) };
    let EnvVarSource { field_ref, resource_field_ref, config_map_key_ref, secret_key_ref, .. } = source;
    if let Some(field) = field_ref {
        return Ok(Some(fields::value(around.pod, &field.field_path, around.node, around.pod_ips)?));
    }
    if let Some(resource) = resource_field_ref {
        let named = resource.container_name.as_deref().filter(|name| !name.is_empty());
        let of = named.and_then(|name| around.pod.container(name)).unwrap_or(container);
        return Ok(Some(fields::resource(of, resource, around.node)?));
    }
    let map = config_map_key_ref.as_ref().map(|from| (Kind::ConfigMap, &from.name, &from.key, from.optional));
    let secret = secret_key_ref.as_ref().map(|from| (Kind::Secret, &from.name, &from.key, from.optional));
    let Some((kind, name, key, optional)) = map.or(secret) else { return Ok(Some(String::new())) };
    let is_optional = optional == Some(true);
    let Some(payload) = get(kind, name, is_optional, lookup)? else { return Ok(None) };
    match payload.text().remove(key) {
        Some(value) => Ok(Some(value)),
        None if is_optional => Ok(None),
        None => Err(EnvironmentError::MissingKey {
            kind,
            namespace: around.pod.namespace().to_owned(),
            name: name.clone(),
            key: key.clone(),
        }),
    }
}

fn get(kind: Kind, name: &str, is_optional: bool, lookup: &Lookup<'_>) -> Result<Option<Payload>, EnvironmentError> {
    match lookup(kind, name)? {
        None if !is_optional => Err(EnvironmentError::Missing { kind, name: name.to_owned() }),
        found => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::testing::pod;

    fn found(kind: Kind, name: &str) -> Option<Payload> {
        match (kind, name) {
            (Kind::ConfigMap, "till") => Some(Payload::of([("open", "8"), ("a=b", "x")])),
            (Kind::Secret, "key") => Some(Payload::of([("pin", "1234")])),
            _ => None,
        }
    }

    fn made(container: Value) -> Result<BTreeMap<String, String>, String> {
        let mut container = container;
        container["name"] = "app".into();
        let pod = pod(json!({"enableServiceLinks": false, "containers": [container]}));
        let node = fields::testing::node();
        let around = Surroundings { pod: &pod, node: &node, pod_ips: &["10.124.1.7".to_owned()], services: &[] };
        let made = environment(&around, &pod.main_containers()[0], &|kind, name| Ok(found(kind, name)));
        made.map(|list| list.into_iter().collect()).map_err(|error| error.to_string())
    }

    fn by_ref(kind: &str, name: &str, key: &str, optional: bool) -> Value {
        json!({"env": [{"name": "A", "valueFrom": {kind: {"name": name, "key": key, "optional": optional}}}]})
    }

    #[test]
    fn later_variables_see_earlier_ones() {
        let env = json!([{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)-$(C)"}, {"name": "C", "value": "3"},
            {"name": "A", "value": "again"}]);
        let made = made(json!({"env": env})).unwrap();
        assert_eq!((made["A"].as_str(), made["B"].as_str()), ("again", "1-$(C)"));
    }

    #[test]
    fn values_come_from_secrets_config_maps_and_fields() {
        assert_eq!(made(by_ref("secretKeyRef", "key", "pin", false)).unwrap()["A"], "1234");
        assert_eq!(made(by_ref("configMapKeyRef", "till", "open", false)).unwrap()["A"], "8");
        let field = json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]});
        assert_eq!(made(field).unwrap()["A"], "10.124.1.7");
    }

    #[test]
    fn what_is_missing_is_named_unless_it_is_optional() {
        let said = |kind, name, key| made(by_ref(kind, name, key, false)).unwrap_err();
        assert_eq!(said("secretKeyRef", "none", "pin"), "secret \"none\" not found");
        assert_eq!(said("configMapKeyRef", "none", "open"), "configmap \"none\" not found");
        assert_eq!(said("secretKeyRef", "key", "pan"), "couldn't find key pan in Secret shop/key");
        assert_eq!(made(by_ref("secretKeyRef", "none", "pin", true)).unwrap().len(), 0);
        assert_eq!(made(by_ref("secretKeyRef", "key", "pan", true)).unwrap().len(), 0);
    }

    #[test]
    fn all_keys_of_a_map_become_variables_with_a_prefix() {
        let from = json!([{"prefix": "TILL_", "configMapRef": {"name": "till"}},
            {"secretRef": {"name": "none", "optional": true}}]);
        let made = made(json!({"envFrom": from})).unwrap();
        assert_eq!(made.into_iter().collect::<Vec<_>>(), [("TILL_open".to_owned(), "8".to_owned())]);
    }
}
