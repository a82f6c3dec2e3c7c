//! The kind of valkey-operator, as far as it is modelled here.

use c5c3_api::ext::valkey::Valkey;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

use crate::definitions::{AGE, Definition};

/// Every kind of valkey-operator.
pub(crate) fn definitions() -> Vec<CustomResourceDefinition> {
    let on = json!({"properties": {"enabled": {"type": "boolean"}}});
    let valkey = Definition::of::<Valkey>()
        .column("State", ".status.state")
        .column("Age", AGE)
        .spec(json!({"properties": {
            "replicas": {"type": "integer", "default": 1, "minimum": 1},
            "version": {"type": "string"},
            "sentinel": on,
            "tls": {"properties": {
                "enabled": {"type": "boolean"},
                "certManager": {"properties": {"issuer": {"properties": {
                    "group": {"type": "string"}, "kind": {"type": "string"}, "name": {"type": "string"},
                }}}},
            }},
            "persistence": {"properties": {
                "enabled": {"type": "boolean"},
                "storageClass": {"type": "string"},
                "size": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true},
            }},
            "binding": {"properties": {"secretName": {"type": "string"}, "template": {"type": "string"}}},
        }}))
        .status(json!({"properties": {
            "state": {"type": "string"},
            "observedGeneration": {"type": "integer", "format": "int64"},
            "conditions": {"type": "array", "items": {
                "required": ["type", "status"],
                "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
            }},
        }}));
    vec![valkey.build()]
}
