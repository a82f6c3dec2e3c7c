//! The kinds of cert-manager, as far as they are modelled here.

use c5c3_api::ext::cert_manager::{Certificate, ClusterIssuer, Issuer};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::definitions::{AGE, Definition};

const READY: &str = ".status.conditions[?(@.type == \"Ready\")].status";
const STATUS: &str = ".status.conditions[?(@.type == \"Ready\")].message";

/// Every kind of cert-manager that is looked after here.
pub(crate) fn definitions() -> Vec<CustomResourceDefinition> {
    let issuer = issuer(Definition::of::<Issuer>().short("iss"));
    let cluster_issuer = self::issuer(Definition::of::<ClusterIssuer>().short("ciss"));
    [certificate(), issuer, cluster_issuer].map(Definition::build).into()
}

/// A column that only `kubectl get -o wide` shows.
fn wide(name: &str, path: &str) -> Value {
    json!({"name": name, "type": "string", "jsonPath": path, "priority": 1})
}

fn certificate() -> Definition {
    let texts = json!({"type": "array", "items": {"type": "string"}});
    Definition::of::<Certificate>()
        .short("cert")
        .short("certs")
        .category("cert-manager")
        .column("Ready", READY)
        .column("Secret", ".spec.secretName")
        .column_like(wide("Issuer", ".spec.issuerRef.name"))
        .column_like(wide("Status", STATUS))
        .column("Age", AGE)
        .spec(json!({
            "required": ["issuerRef", "secretName"],
            "properties": {
                "secretName": {"type": "string"},
                "issuerRef": {"required": ["name"], "properties": {
                    "name": {"type": "string"}, "kind": {"type": "string"}, "group": {"type": "string"},
                }},
                "commonName": {"type": "string"},
                "dnsNames": texts, "ipAddresses": texts, "uris": texts,
                "duration": {"type": "string"},
                "renewBefore": {"type": "string"},
                "isCA": {"type": "boolean"},
                "privateKey": {"properties": {
                    "algorithm": {"type": "string", "enum": ["RSA", "ECDSA", "Ed25519"]},
                    "rotationPolicy": {"type": "string", "enum": ["Never", "Always"]},
                    "size": {"type": "integer"},
                }},
            },
        }))
        .status(conditions())
}

fn issuer(definition: Definition) -> Definition {
    definition
        .category("cert-manager")
        .column("Ready", READY)
        .column_like(wide("Status", STATUS))
        .column("Age", AGE)
        .spec(json!({"properties": {
            "selfSigned": {},
            "ca": {"required": ["secretName"], "properties": {"secretName": {"type": "string"}}},
        }}))
        .status(conditions())
}

fn conditions() -> Value {
    json!({"properties": {"conditions": {"type": "array", "items": {
        "required": ["type", "status"],
        "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
    }}}})
}
