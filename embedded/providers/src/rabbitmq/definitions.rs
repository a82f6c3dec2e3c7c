//! The kinds of the two RabbitMQ operators, as far as they are modelled here.

use c5c3_api::ext::rabbitmq::{Permission, RabbitmqCluster, User, Vhost};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::definitions::{AGE, Definition};

/// Every kind of the two operators that is looked after here.
pub(crate) fn definitions() -> Vec<CustomResourceDefinition> {
    [cluster(), vhost(), user(), permission()].map(Definition::build).into()
}

fn cluster() -> Definition {
    Definition::of::<RabbitmqCluster>()
        .short("rmq")
        .category("rabbitmq")
        .column("AllReplicasReady", ".status.conditions[?(@.type == 'AllReplicasReady')].status")
        .column("ReconcileSuccess", ".status.conditions[?(@.type == 'ReconcileSuccess')].status")
        .column("Age", AGE)
        .spec(json!({"properties": {
            "replicas": {"type": "integer", "format": "int32", "default": 1, "minimum": 0},
            "image": {"type": "string"},
            "persistence": {"properties": {
                "storage": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true},
                "storageClassName": {"type": "string"},
            }},
            "rabbitmq": {"properties": {
                "additionalConfig": {"type": "string"},
                "additionalPlugins": {"type": "array", "items": {"type": "string"}},
                "advancedConfig": {"type": "string"},
                "envConfig": {"type": "string"},
            }},
            "secretBackend": {"properties": {"externalSecret": {"properties": {"name": {"type": "string"}}}}},
            "service": {"properties": {
                "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
                "type": {"type": "string", "enum": ["ClusterIP", "LoadBalancer", "NodePort"]},
            }},
            "tls": {"properties": {
                "secretName": {"type": "string"},
                "caSecretName": {"type": "string"},
                "disableNonTLSListeners": {"type": "boolean"},
            }},
            "terminationGracePeriodSeconds": {"type": "integer", "format": "int64", "minimum": 0},
        }}))
        .status(status(json!({"quorumStatus": {"type": "string"}})))
}

fn vhost() -> Definition {
    Definition::of::<Vhost>()
        .category("rabbitmq")
        .spec(json!({
            "required": ["name", "rabbitmqClusterReference"],
            "properties": {
                "rabbitmqClusterReference": reference(),
                "name": {"type": "string"},
                "defaultQueueType": {"type": "string", "enum": ["quorum", "classic", "stream"]},
                "deletionPolicy": {"type": "string", "enum": ["delete", "retain"], "default": "delete"},
                "limits": limits(&["connections", "queues"]),
            },
        }))
        .status(status(json!({})))
}

fn user() -> Definition {
    Definition::of::<User>()
        .category("rabbitmq")
        .spec(json!({
            "required": ["rabbitmqClusterReference"],
            "properties": {
                "rabbitmqClusterReference": reference(),
                "importCredentialsSecret": {"properties": {"name": {"type": "string"}}},
                "tags": {"type": "array", "items": {
                    "type": "string", "enum": ["management", "policymaker", "monitoring", "administrator"],
                }},
                "limits": limits(&["connections", "channels"]),
            },
        }))
        .status(status(json!({
            "username": {"type": "string"},
            "credentials": {"properties": {"name": {"type": "string"}}},
        })))
}

fn permission() -> Definition {
    Definition::of::<Permission>()
        .category("rabbitmq")
        .spec(json!({
            "required": ["permissions", "rabbitmqClusterReference", "vhost"],
            "properties": {
                "rabbitmqClusterReference": reference(),
                "vhost": {"type": "string"},
                "user": {"type": "string"},
                "userReference": {"properties": {"name": {"type": "string"}}},
                "permissions": {"properties": {
                    "configure": {"type": "string"}, "write": {"type": "string"}, "read": {"type": "string"},
                }},
            },
        }))
        .status(status(json!({})))
}

fn reference() -> Value {
    json!({"properties": {
        "name": {"type": "string"},
        "namespace": {"type": "string"},
        "connectionSecret": {"properties": {"name": {"type": "string"}}},
    }})
}

fn limits(names: &[&str]) -> Value {
    let limit = json!({"type": "integer", "format": "int32"});
    json!({"properties": names.iter().map(|name| ((*name).to_owned(), limit.clone())).collect::<serde_json::Map<_, _>>()})
}

fn status(mut more: Value) -> Value {
    more["observedGeneration"] = json!({"type": "integer", "format": "int64"});
    more["conditions"] = json!({"type": "array", "items": {
        "required": ["type", "status"],
        "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
    }});
    json!({"properties": more})
}
