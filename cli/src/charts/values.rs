//! The values of an operator's chart, and the schema that Helm checks them with.

use serde_json::{Value, json};

use crate::manifests::REPOSITORY;

/// The defaults, with what they mean.
pub(super) fn yaml() -> String {
    let (registry, repository) = REPOSITORY;
    include_str!("values.yaml").replace("REGISTRY", registry).replace("REPOSITORY", repository)
}

/// The schema of an operator's values. A name that is not known is a mistake.
pub(super) fn schema(chart: &str) -> Value {
    let text = json!({"type": "string"});
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let switch = json!({"type": "boolean"});
    let count = json!({"type": "integer", "minimum": 0});
    let digest = json!({"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"});
    let mut schema = object(&json!({
        "enabled": {"type": "boolean", "description": "For a chart that this one is part of."},
        "global": global(),
        "replicaCount": count,
        "replicas": {"type": ["integer", "null"], "minimum": 0},
        "image": object(&json!({
            "registry": text, "repository": {"type": "string", "minLength": 1}, "tag": text, "digest": digest,
            "pullPolicy": {"enum": ["", "Always", "IfNotPresent", "Never"]},
        })),
        "imagePullSecrets": pull_secrets(),
        "watchNamespace": namespace(),
        "namespaceOverride": namespace(),
        "logLevel": text,
        "clusterDomain": text,
        "extraArgs": {"type": "array", "items": {"type": "string"}},
        "webhooks": object(&json!({"enabled": switch, "failurePolicy": {"enum": ["Ignore", "Fail"]}})),
        "metrics": object(&json!({
            "enabled": switch,
            "serviceMonitor": object(&json!({
                "enabled": switch, "interval": {"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"}, "labels": texts,
            })),
        })),
        "podDisruptionBudget": object(&json!({"enabled": switch, "maxUnavailable": {"type": ["integer", "string"]}})),
        "networkPolicy": object(&json!({"enabled": switch, "from": {"type": "array", "items": {"type": "object"}}})),
        "serviceAccount": object(&json!({"annotations": texts})),
        "resources": {"type": "object"},
        "podAnnotations": texts,
        "nodeSelector": texts,
        "tolerations": {"type": "array", "items": {"type": "object"}},
        "affinity": {"type": "object"},
        "priorityClassName": text,
    }));
    if chart == "openstack-resource-controller" {
        // A release as the documents have it is accepted. Objects of K-ORC name their credentials themselves.
        let unused = "Has no effect: each object names its own Secret in cloudCredentialsRef.";
        schema["properties"]["globalCloudConfig"] =
            object(&json!({"secretName": {"type": "string", "description": unused}}));
    }
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema["title"] = format!("Values of the chart {chart}").into();
    schema
}

/// What all charts of a release share.
pub(super) fn global() -> Value {
    json!({"type": "object", "properties": {
        "image": object(&json!({"registry": {"type": "string"}, "pullSecrets": pull_secrets()})),
    }})
}

/// An object with these fields and no others.
pub(super) fn object(properties: &Value) -> Value {
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

/// The name of a namespace, or none.
fn namespace() -> Value {
    json!({"type": "string", "maxLength": 63, "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"})
}

fn pull_secrets() -> Value {
    json!({"type": "array", "items": object(&json!({"name": {"type": "string"}}))})
}
