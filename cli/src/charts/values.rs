//! The values of the charts of operators and agents, the schemas that Helm checks them with, and what both kinds of charts do
//! with them.

use serde_json::{Value, json};

use super::template::Node;
use super::{CONTAINER, POD};
use crate::manifests::REPOSITORY;

/// The defaults of an operator's chart, with what they mean.
pub(super) fn yaml(operator: &str) -> String {
    let own = if operator == "hypervisor" { include_str!("hypervisor.yaml") } else { "" };
    filled(&format!("{}{own}", include_str!("values.yaml")))
}

/// The same of an agent's chart. One that is about a cloud knows the cloud's namespace.
pub(super) fn agent_yaml(is_about_a_cloud: bool) -> String {
    let cloud =
        "# The namespace of the cloud's objects, which must exist; openstack when empty.\nwatchNamespace: openstack\n";
    filled(&include_str!("agent.yaml").replace("CLOUD\n", if is_about_a_cloud { cloud } else { "" }))
}

fn filled(text: &str) -> String {
    let (registry, repository) = REPOSITORY;
    text.replace("REGISTRY", registry).replace("REPOSITORY", repository)
}

/// Annotations of the account.
pub(super) fn account_annotations(account: &mut Node) {
    account.add("metadata", "annotations", Node::expression("toJson ."), "with .Values.serviceAccount.annotations");
}

/// What users choose of every pod: arguments, the image's secrets, annotations, and these fields where they are set.
pub(super) fn pod(workload: &mut Node, fields: &[&str]) {
    let args = format!("{CONTAINER}.args");
    workload.add(&args, "", Node::Scalar("'--log={{ . }}'".into()), "with .Values.logLevel");
    workload.add(&args, "", Node::expression("toJson ."), "range .Values.extraArgs");
    workload.add(CONTAINER, "imagePullPolicy", Node::expression("."), "with .Values.image.pullPolicy");
    let secrets = "with concat (((.Values.global).image).pullSecrets | default list) .Values.imagePullSecrets";
    workload.add(POD, "imagePullSecrets", Node::expression("toJson ."), secrets);
    for field in fields {
        workload.add(POD, field, Node::expression("toJson ."), &format!("with .Values.{field}"));
    }
    let annotations = "with .Values.podAnnotations";
    workload.add("spec.template.metadata", "annotations", Node::expression("toJson ."), annotations);
}

/// The schema of an operator's values. A name that is not known is a mistake.
pub(super) fn schema(chart: &str) -> Value {
    let text = json!({"type": "string"});
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let switch = json!({"type": "boolean"});
    let count = json!({"type": "integer", "minimum": 0});
    let mut schema = shared(chart);
    let own = json!({
        "replicaCount": count,
        "replicas": {"type": ["integer", "null"], "minimum": 0},
        "watchNamespace": namespace(),
        "clusterDomain": text,
        "affinity": {"type": "object"},
        "webhooks": object(&json!({"enabled": switch, "failurePolicy": {"enum": ["Ignore", "Fail"]}})),
        "metrics": object(&json!({
            "enabled": switch,
            "serviceMonitor": object(&json!({
                "enabled": switch, "interval": {"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"}, "labels": texts,
            })),
        })),
        "podDisruptionBudget": object(&json!({"enabled": switch, "maxUnavailable": {"type": ["integer", "string"]}})),
        "networkPolicy": object(&json!({"enabled": switch, "from": {"type": "array", "items": {"type": "object"}}})),
    });
    extend(&mut schema, own);
    if chart == "hypervisor-operator" {
        let issuer = json!({"namespace": namespace(), "kind": {"enum": ["Issuer", "ClusterIssuer"]}, "name": text});
        extend(
            &mut schema,
            json!({
                "hold": object(&json!({"namespace": namespace(), "image": {"type": "string", "minLength": 1}})),
                "certificateIssuer": object(&issuer),
            }),
        );
    }
    if chart == "openstack-resource-controller" {
        // A release as the documents have it is accepted. Objects of K-ORC name their credentials themselves.
        let unused = "Has no effect: each object names its own Secret in cloudCredentialsRef.";
        schema["properties"]["globalCloudConfig"] =
            object(&json!({"secretName": {"type": "string", "description": unused}}));
    }
    schema
}

/// The schema of an agent's values.
pub(super) fn agent_schema(chart: &str, is_about_a_cloud: bool) -> Value {
    let mut schema = shared(chart);
    if is_about_a_cloud {
        extend(&mut schema, json!({"watchNamespace": namespace()}));
    }
    schema
}

/// The schema of what charts of operators and agents share.
fn shared(chart: &str) -> Value {
    let text = json!({"type": "string"});
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let digest = json!({"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"});
    let mut schema = object(&json!({
        "enabled": {"type": "boolean", "description": "For a chart that this one is part of."},
        "global": global(),
        "image": object(&json!({
            "registry": text, "repository": {"type": "string", "minLength": 1}, "tag": text, "digest": digest,
            "pullPolicy": {"enum": ["", "Always", "IfNotPresent", "Never"]},
        })),
        "imagePullSecrets": pull_secrets(),
        "namespaceOverride": namespace(),
        "logLevel": text,
        "extraArgs": {"type": "array", "items": {"type": "string"}},
        "serviceAccount": object(&json!({"annotations": texts})),
        "resources": {"type": "object"},
        "podAnnotations": texts,
        "nodeSelector": texts,
        "tolerations": {"type": "array", "items": {"type": "object"}},
        "priorityClassName": text,
    }));
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema["title"] = format!("Values of the chart {chart}").into();
    schema
}

/// Adds properties to a schema.
fn extend(schema: &mut Value, properties: Value) {
    if let (Some(schema), Value::Object(properties)) = (schema["properties"].as_object_mut(), properties) {
        schema.extend(properties);
    }
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
