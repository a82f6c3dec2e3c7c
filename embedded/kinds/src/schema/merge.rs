//! How the lists and maps of built-in kinds merge: upstream's `x-kubernetes-list-type`, `-list-map-keys`, `-map-type`,
//! `-patch-strategy` and `-patch-merge-key`, as far as they differ from the default. A list that is not here is
//! atomic, a map or struct that is not here merges field by field.

use serde_json::{Map, Value, json};

/// How the tables of this crate came about, for whoever updates them to a later Kubernetes.
pub const PROVENANCE: &str = "\
k8s-openapi encodes merge strategies in the DeepMerge implementation of each generated type \
(list::map with its key closures, list::set, map::atomic). The rows were listed from the v1_33 sources by matching \
those calls with the type's schema name and the JSON name of the field. DeepMerge knows one key per list and prefers \
the patch strategy to the list type, so these were corrected by hand: the second keys of container ports, service \
ports and topology spread constraints; host IPs and Job conditions (atomic lists that strategic merge patches merge); \
volume claim templates (atomic); retainKeys; lists without any patch strategy; and the structs that are atomic.";

/// How one list behaves.
#[derive(Debug, Clone, Copy)]
enum List {
    /// Merged by keys by server-side apply; a patch, if it merges at all, uses the first.
    Map(&'static [&'static str]),
    /// A set of scalars.
    Set,
    /// Replaced as a whole.
    Atomic,
}
use List::{Atomic, Map as ByKey, Set};

/// What a strategic merge patch does with a field.
#[derive(Debug, Clone, Copy)]
enum Patch {
    /// Replaces a list, merges a map.
    Plain,
    /// Merges a list of scalars.
    Merge,
    /// Merges a list by this key.
    Key(&'static str),
    /// The same, dropping the fields of an item that the patch does not name in `$retainKeys`.
    KeyRetain(&'static str),
}
use Patch::{Key, KeyRetain, Merge, Plain};

const NAME: &[&str] = &["name"];
const TYPE: &[&str] = &["type"];
const BY_NAME: (List, Patch) = (ByKey(NAME), Key("name"));
const BY_TYPE: (List, Patch) = (ByKey(TYPE), Key("type"));

/// Lists that are not simply atomic, by definition (without its `io.k8s.` prefix) and field.
#[rustfmt::skip]
const LISTS: &[(&str, &str, (List, Patch))] = &[
    ("api.admissionregistration.v1.MutatingWebhook", "matchConditions", BY_NAME),
    ("api.admissionregistration.v1.MutatingWebhookConfiguration", "webhooks", BY_NAME),
    ("api.admissionregistration.v1.ValidatingWebhook", "matchConditions", BY_NAME),
    ("api.admissionregistration.v1.ValidatingWebhookConfiguration", "webhooks", BY_NAME),
    ("api.apps.v1.DaemonSetStatus", "conditions", BY_TYPE),
    ("api.apps.v1.DeploymentStatus", "conditions", BY_TYPE),
    ("api.apps.v1.ReplicaSetStatus", "conditions", BY_TYPE),
    ("api.apps.v1.StatefulSetStatus", "conditions", BY_TYPE),
    ("api.autoscaling.v2.HorizontalPodAutoscalerStatus", "conditions", BY_TYPE),
    ("api.batch.v1.JobStatus", "conditions", (Atomic, Key("type"))),
    ("api.batch.v1.PodFailurePolicyOnExitCodesRequirement", "values", (Set, Plain)),
    ("api.batch.v1.UncountedTerminatedPods", "failed", (Set, Plain)),
    ("api.batch.v1.UncountedTerminatedPods", "succeeded", (Set, Plain)),
    ("api.core.v1.Container", "env", BY_NAME),
    ("api.core.v1.Container", "ports", (ByKey(&["containerPort", "protocol"]), Key("containerPort"))),
    ("api.core.v1.Container", "volumeDevices", (ByKey(&["devicePath"]), Key("devicePath"))),
    ("api.core.v1.Container", "volumeMounts", (ByKey(&["mountPath"]), Key("mountPath"))),
    ("api.core.v1.ContainerStatus", "allocatedResourcesStatus", BY_NAME),
    ("api.core.v1.ContainerStatus", "volumeMounts", (ByKey(&["mountPath"]), Key("mountPath"))),
    ("api.core.v1.EphemeralContainer", "env", BY_NAME),
    ("api.core.v1.EphemeralContainer", "ports", (ByKey(&["containerPort", "protocol"]), Key("containerPort"))),
    ("api.core.v1.EphemeralContainer", "volumeDevices", (ByKey(&["devicePath"]), Key("devicePath"))),
    ("api.core.v1.EphemeralContainer", "volumeMounts", (ByKey(&["mountPath"]), Key("mountPath"))),
    ("api.core.v1.NamespaceStatus", "conditions", BY_TYPE),
    ("api.core.v1.NodeSpec", "podCIDRs", (Set, Merge)),
    ("api.core.v1.NodeStatus", "addresses", BY_TYPE),
    ("api.core.v1.NodeStatus", "conditions", BY_TYPE),
    ("api.core.v1.PersistentVolumeClaimStatus", "conditions", BY_TYPE),
    ("api.core.v1.PodSpec", "containers", BY_NAME),
    ("api.core.v1.PodSpec", "ephemeralContainers", BY_NAME),
    ("api.core.v1.PodSpec", "hostAliases", (ByKey(&["ip"]), Key("ip"))),
    ("api.core.v1.PodSpec", "imagePullSecrets", BY_NAME),
    ("api.core.v1.PodSpec", "initContainers", BY_NAME),
    ("api.core.v1.PodSpec", "resourceClaims", (ByKey(NAME), KeyRetain("name"))),
    ("api.core.v1.PodSpec", "schedulingGates", BY_NAME),
    ("api.core.v1.PodSpec", "topologySpreadConstraints",
        (ByKey(&["topologyKey", "whenUnsatisfiable"]), Key("topologyKey"))),
    ("api.core.v1.PodSpec", "volumes", (ByKey(NAME), KeyRetain("name"))),
    ("api.core.v1.PodStatus", "conditions", BY_TYPE),
    ("api.core.v1.PodStatus", "hostIPs", (Atomic, Key("ip"))),
    ("api.core.v1.PodStatus", "podIPs", (ByKey(&["ip"]), Key("ip"))),
    ("api.core.v1.PodStatus", "resourceClaimStatuses", (ByKey(NAME), KeyRetain("name"))),
    ("api.core.v1.ReplicationControllerStatus", "conditions", BY_TYPE),
    ("api.core.v1.ResourceRequirements", "claims", (ByKey(NAME), Plain)),
    ("api.core.v1.ResourceStatus", "resources", (ByKey(&["resourceID"]), Plain)),
    ("api.core.v1.ServiceAccount", "secrets", BY_NAME),
    ("api.core.v1.ServiceSpec", "ports", (ByKey(&["port", "protocol"]), Key("port"))),
    ("api.core.v1.ServiceStatus", "conditions", BY_TYPE),
    ("api.discovery.v1.Endpoint", "addresses", (Set, Plain)),
    ("api.policy.v1.PodDisruptionBudgetStatus", "conditions", BY_TYPE),
    ("api.storage.v1.CSIDriverSpec", "volumeLifecycleModes", (Set, Plain)),
    ("api.storage.v1.CSINodeSpec", "drivers", BY_NAME),
    ("apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionStatus", "conditions",
        (ByKey(TYPE), Plain)),
    ("apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps", "x-kubernetes-validations",
        (ByKey(&["rule"]), Key("rule"))),
    ("apimachinery.pkg.apis.meta.v1.ObjectMeta", "finalizers", (Set, Merge)),
    ("apimachinery.pkg.apis.meta.v1.ObjectMeta", "ownerReferences", (ByKey(&["uid"]), Key("uid"))),
    ("kube-aggregator.pkg.apis.apiregistration.v1.APIServiceStatus", "conditions", BY_TYPE),
];

/// Maps that are replaced as a whole.
const ATOMIC_MAPS: &[(&str, &str)] = &[
    ("api.core.v1.PodSpec", "nodeSelector"),
    ("api.core.v1.ReplicationControllerSpec", "selector"),
    ("api.core.v1.ServiceSpec", "selector"),
    ("api.node.v1.Scheduling", "nodeSelector"),
];

/// Structs that are replaced as a whole by server-side apply.
const ATOMIC_STRUCTS: &[&str] = &[
    "api.admissionregistration.v1.MatchResources",
    "api.autoscaling.v1.CrossVersionObjectReference",
    "api.core.v1.ConfigMapKeySelector",
    "api.core.v1.EndpointAddress",
    "api.core.v1.EndpointPort",
    "api.core.v1.LocalObjectReference",
    "api.core.v1.NodeSelector",
    "api.core.v1.NodeSelectorTerm",
    "api.core.v1.ObjectFieldSelector",
    "api.core.v1.ObjectReference",
    "api.core.v1.ResourceFieldSelector",
    "api.core.v1.ScopeSelector",
    "api.core.v1.ScopedResourceSelectorRequirement",
    "api.core.v1.SecretKeySelector",
    "api.core.v1.SecretReference",
    "api.core.v1.TopologySelectorTerm",
    "api.core.v1.TypedLocalObjectReference",
    "api.discovery.v1.EndpointPort",
    "api.networking.v1.ServiceBackendPort",
    "api.rbac.v1.RoleRef",
    "api.rbac.v1.Subject",
    "apimachinery.pkg.apis.meta.v1.LabelSelector",
    "apimachinery.pkg.apis.meta.v1.OwnerReference",
];

/// Fields that hold an atomic struct and merge it nevertheless: the binder and the user each write a part of it.
const GRANULAR: &[(&str, &str)] = &[("api.core.v1.PersistentVolumeSpec", "claimRef")];

/// Structs of which a patch drops what it does not mention: switching a strategy's type drops the old type's settings.
const RETAIN_KEYS: &[(&str, &str)] = &[("api.apps.v1.DeploymentSpec", "strategy")];

/// Fields that are part of a key and have a default, without which two spellings of one item would not meet.
const KEY_DEFAULTS: &[(&str, &str, &str)] =
    &[("api.core.v1.ContainerPort", "protocol", "TCP"), ("api.core.v1.ServicePort", "protocol", "TCP")];

/// Writes the merge semantics of one definition into its schema.
pub(super) fn annotate(name: &str, schema: &mut Map<String, Value>) {
    let short = name.strip_prefix("io.k8s.").unwrap_or(name);
    if ATOMIC_STRUCTS.contains(&short) {
        schema.insert("x-kubernetes-map-type".to_owned(), json!("atomic"));
    }
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for (field, property) in properties {
        let Some(property) = property.as_object_mut() else { continue };
        let here = |(definition, name): &(&str, &str)| *definition == short && name == field;
        if property.get("type").is_some_and(|kind| kind == "array") {
            let row = LISTS.iter().find(|(definition, name, _)| *definition == short && name == field);
            list(property, row.map_or((Atomic, Plain), |row| row.2));
        }
        if ATOMIC_MAPS.iter().any(here) {
            property.insert("x-kubernetes-map-type".to_owned(), json!("atomic"));
        }
        if GRANULAR.iter().any(here) {
            property.insert("x-kubernetes-map-type".to_owned(), json!("granular"));
        }
        if RETAIN_KEYS.iter().any(here) {
            property.insert("x-kubernetes-patch-strategy".to_owned(), json!("retainKeys"));
        }
        if let Some((_, _, default)) = KEY_DEFAULTS.iter().find(|(d, name, _)| here(&(*d, *name))) {
            property.insert("default".to_owned(), json!(default));
        }
    }
}

fn list(property: &mut Map<String, Value>, (list, patch): (List, Patch)) {
    let mut set = |key: &str, value: Value| drop(property.insert(format!("x-kubernetes-{key}"), value));
    match list {
        Atomic => set("list-type", json!("atomic")),
        Set => set("list-type", json!("set")),
        ByKey(keys) => {
            set("list-type", json!("map"));
            set("list-map-keys", json!(keys));
        }
    }
    match patch {
        Plain => {}
        Merge => set("patch-strategy", json!("merge")),
        Key(key) => {
            set("patch-strategy", json!("merge"));
            set("patch-merge-key", json!(key));
        }
        KeyRetain(key) => {
            set("patch-strategy", json!("merge,retainKeys"));
            set("patch-merge-key", json!(key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::definitions;

    /// A row that names nothing would be lost silently when upstream renames a field.
    #[test]
    fn every_row_names_a_field_that_exists() {
        let definitions = definitions();
        let property = |short: &str, field: &str| {
            let schema = definitions.get(&format!("io.k8s.{short}"));
            schema.is_some_and(|schema| schema["properties"].get(field).is_some())
        };
        for (definition, field, _) in LISTS {
            assert!(property(definition, field), "{definition} {field}");
        }
        for (definition, field) in ATOMIC_MAPS.iter().chain(RETAIN_KEYS).chain(GRANULAR) {
            assert!(property(definition, field), "{definition} {field}");
        }
        for (definition, field, _) in KEY_DEFAULTS {
            assert!(property(definition, field), "{definition} {field}");
        }
    }

    #[test]
    fn every_key_of_a_list_map_is_a_field_of_its_items() {
        let definitions = definitions();
        for (definition, field, (list, _)) in LISTS {
            let ByKey(keys) = list else { continue };
            let items = &definitions.get(&format!("io.k8s.{definition}")).unwrap()["properties"][field]["items"];
            let name = items["$ref"].as_str().and_then(|path| path.rsplit('/').next()).unwrap();
            for key in *keys {
                assert!(definitions.get(name).unwrap()["properties"].get(key).is_some(), "{definition} {field} {key}");
            }
        }
    }
}
