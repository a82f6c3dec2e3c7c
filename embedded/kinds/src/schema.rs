//! The schema of each kind: upstream's OpenAPI definitions with the merge semantics that the generated types drop.
//!
//! Two forms. [`definitions`] are for clients: named as upstream names them, described, referring to each other.
//! [`schema`] is for the server: one self-contained structural schema per kind, without descriptions.

mod definitions;
mod enums;
mod inline;
mod merge;
mod roots;

use std::borrow::Cow;
use std::sync::{LazyLock, OnceLock};

use c5c3_schema::Schema;
use serde_json::{Value, json};

pub(crate) use definitions::{Definitions, REF_PREFIX, definition_name, definitions};
pub(crate) use inline::{ENUM, QUANTITY, REQUIRED};
pub use merge::PROVENANCE;

use crate::resource::{Origin, Resource, builtin};

/// The structural schema of a resource: `$ref`s inlined, merge semantics included. For a custom resource it is the
/// `openAPIV3Schema` of its definition.
///
/// It says nothing of required fields and enumerated values: a real API server decodes what lacks them and refuses it
/// later, in validation, which is [`crate::validate`]'s.
pub fn schema(resource: &Resource) -> Cow<'static, Value> {
    let anything = || Cow::Owned(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    match &resource.origin {
        Origin::BuiltIn => built_in(resource).map_or_else(anything, Cow::Borrowed),
        Origin::Custom(custom) => custom.schema().map_or_else(anything, Cow::Owned),
    }
}

/// The structural schema of a built-in resource, made once.
pub(crate) fn built_in(resource: &Resource) -> Option<&'static Value> {
    let make = || inline::inlined(&resource.group, &resource.version, &resource.kind);
    Some(cell(resource)?.json.get_or_init(make))
}

/// The compiled schema of a built-in resource, made once; none for custom resources, whose definitions change.
pub fn compiled(resource: &Resource) -> Option<&'static Schema> {
    let cell = cell(resource)?;
    let compile = || Schema::compile(&schema(resource)).expect("the schemas of built-in kinds compile");
    Some(cell.compiled.get_or_init(compile))
}

/// The structural schema of a kind that only subresources speak, such as `Scale` or `Eviction`; a new one each call.
pub fn schema_of_kind(group: &str, version: &str, kind: &str) -> Option<Value> {
    roots::root(group, version, kind)?;
    Some(inline::inlined(group, version, kind))
}

#[derive(Default)]
struct Cell {
    json: OnceLock<Value>,
    compiled: OnceLock<Schema>,
}

/// Where the schema of a built-in resource is kept once made.
fn cell(resource: &Resource) -> Option<&'static Cell> {
    static CELLS: LazyLock<Vec<Cell>> = LazyLock::new(|| builtin().iter().map(|_| Cell::default()).collect());
    let is_it =
        |row: &Resource| row.kind == resource.kind && row.group == resource.group && row.version == resource.version;
    let position = builtin().iter().position(is_it)?;
    matches!(resource.origin, Origin::BuiltIn).then(|| &CELLS[position])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::find;

    fn schema(resource: &Resource) -> &'static Value {
        built_in(resource).unwrap()
    }

    fn at<'v>(schema: &'v Value, path: &str) -> &'v Value {
        path.split('.').fold(schema, |schema, step| match step {
            "[]" => &schema["items"],
            "{}" => &schema["additionalProperties"],
            name => &schema["properties"][name],
        })
    }

    fn pod() -> &'static Value {
        schema(find("", "v1", "pods").unwrap())
    }

    fn keys(schema: &Value, path: &str) -> String {
        let list = at(schema, path);
        let keys: Vec<&str> = list["x-kubernetes-list-map-keys"]
            .as_array()
            .map(|keys| keys.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        format!("{} {}", list["x-kubernetes-list-type"].as_str().unwrap_or("-"), keys.join(",")).trim_end().to_owned()
    }

    #[test]
    fn every_built_in_kind_has_a_schema_that_compiles() {
        for resource in builtin() {
            assert_eq!(schema(resource)["type"], "object", "{}", resource.kind);
            assert!(at(schema(resource), "kind").is_object(), "{}", resource.kind);
            assert!(compiled(resource).is_some(), "{}", resource.kind);
        }
    }

    #[test]
    fn lists_of_pods_merge_by_the_keys_that_upstream_gives_them() {
        let expected = [
            ("spec.containers", "map name"),
            ("spec.containers.[].ports", "map containerPort,protocol"),
            ("spec.containers.[].env", "map name"),
            ("spec.containers.[].volumeMounts", "map mountPath"),
            ("spec.containers.[].volumeDevices", "map devicePath"),
            ("spec.containers.[].command", "atomic"),
            ("spec.containers.[].resources.claims", "map name"),
            ("spec.tolerations", "atomic"),
            ("spec.hostAliases", "map ip"),
            ("spec.imagePullSecrets", "map name"),
            ("spec.topologySpreadConstraints", "map topologyKey,whenUnsatisfiable"),
            ("spec.volumes", "map name"),
            ("metadata.finalizers", "set"),
            ("metadata.ownerReferences", "map uid"),
            ("status.conditions", "map type"),
            ("status.hostIPs", "atomic"),
            ("status.podIPs", "map ip"),
        ];
        for (path, strategy) in expected {
            assert_eq!(keys(pod(), path), strategy, "{path}");
        }
    }

    #[test]
    fn lists_of_other_kinds_too() {
        let expected = [
            ("", "v1", "services", "spec.ports", "map port,protocol"),
            ("", "v1", "serviceaccounts", "secrets", "map name"),
            ("", "v1", "serviceaccounts", "imagePullSecrets", "atomic"),
            ("", "v1", "nodes", "spec.podCIDRs", "set"),
            ("apps", "v1", "statefulsets", "spec.volumeClaimTemplates", "atomic"),
            ("apps", "v1", "deployments", "status.conditions", "map type"),
            ("batch", "v1", "jobs", "status.conditions", "atomic"),
            ("discovery.k8s.io", "v1", "endpointslices", "endpoints.[].addresses", "set"),
            ("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "webhooks", "map name"),
            ("rbac.authorization.k8s.io", "v1", "clusterroles", "rules", "atomic"),
        ];
        for (group, version, plural, path, strategy) in expected {
            assert_eq!(keys(schema(find(group, version, plural).unwrap()), path), strategy, "{plural} {path}");
        }
    }

    #[test]
    fn strategic_merge_patches_find_their_merge_keys() {
        let ports = at(pod(), "spec.containers.[].ports");
        assert_eq!(ports["x-kubernetes-patch-merge-key"], "containerPort");
        assert_eq!(ports["x-kubernetes-patch-strategy"], "merge");
        assert_eq!(at(pod(), "spec.volumes")["x-kubernetes-patch-strategy"], "merge,retainKeys");
        assert_eq!(at(pod(), "status.hostIPs")["x-kubernetes-patch-merge-key"], "ip");
        assert!(at(pod(), "spec.tolerations").get("x-kubernetes-patch-strategy").is_none());
        let deployment = schema(find("apps", "v1", "deployments").unwrap());
        assert_eq!(at(deployment, "spec.strategy")["x-kubernetes-patch-strategy"], "retainKeys");
    }

    #[test]
    fn references_and_selectors_are_replaced_as_a_whole() {
        for path in ["spec.imagePullSecrets.[]", "spec.nodeSelector", "metadata.ownerReferences.[]"] {
            assert_eq!(at(pod(), path)["x-kubernetes-map-type"], "atomic", "{path}");
        }
        assert!(at(pod(), "metadata.labels").get("x-kubernetes-map-type").is_none());
        let volume = schema(find("", "v1", "persistentvolumes").unwrap());
        assert_eq!(at(volume, "spec.claimRef")["x-kubernetes-map-type"], "granular");
        let deployment = schema(find("apps", "v1", "deployments").unwrap());
        assert_eq!(at(deployment, "spec.selector")["x-kubernetes-map-type"], "atomic");
    }

    #[test]
    fn a_port_without_protocol_is_keyed_as_tcp() {
        assert_eq!(at(pod(), "spec.containers.[].ports.[].protocol")["default"], "TCP");
        let service = schema(find("", "v1", "services").unwrap());
        assert_eq!(at(service, "spec.ports.[].protocol")["default"], "TCP");
    }

    #[test]
    fn a_schema_within_a_schema_is_open() {
        let crd = schema(find("apiextensions.k8s.io", "v1", "customresourcedefinitions").unwrap());
        let nested = at(crd, "spec.versions.[].schema.openAPIV3Schema.properties.{}");
        assert_eq!(nested["x-kubernetes-preserve-unknown-fields"], true);
    }

    #[test]
    fn strings_of_the_spec_are_required_and_nothing_of_the_status() {
        assert_eq!(at(pod(), "spec.containers.[]")[REQUIRED], json!(["name"]));
        assert!(at(pod(), "status.containerStatuses.[]").get(REQUIRED).is_none());
        assert!(pod().get(REQUIRED).is_none());
    }

    #[test]
    fn descriptions_are_left_to_openapi() {
        assert!(!pod().to_string().contains("\"description\":"));
    }
}
