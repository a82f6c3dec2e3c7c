//! The kinds of External Secrets, as far as they are modelled here.

use c5c3_api::ext::external_secrets::{ClusterSecretStore, ExternalSecret, PushSecret, SecretStore};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::definitions::{AGE, Definition, READY};

const REASON: &str = ".status.conditions[?(@.type==\"Ready\")].reason";

/// Every kind of External Secrets that is looked after here.
pub(crate) fn definitions() -> Vec<CustomResourceDefinition> {
    let (store, cluster_store) =
        (Definition::of::<SecretStore>().short("ss"), Definition::of::<ClusterSecretStore>().short("css"));
    [self::store(store), self::store(cluster_store), external_secret(), push_secret()].map(Definition::build).into()
}

fn store(definition: Definition) -> Definition {
    definition
        .category("external-secrets")
        .column("AGE", AGE)
        .column("Status", REASON)
        .column("Capabilities", ".status.capabilities")
        .column("Ready", READY)
        .spec(json!({"required": ["provider"], "properties": {"provider": {}}}))
        .status(status(json!({"capabilities": {"type": "string"}})))
}

fn external_secret() -> Definition {
    Definition::of::<ExternalSecret>()
        .short("es")
        .category("external-secrets")
        .column("StoreType", ".spec.secretStoreRef.kind")
        .column("Store", ".spec.secretStoreRef.name")
        .column("Refresh Interval", ".spec.refreshInterval")
        .column("Status", REASON)
        .column("Ready", READY)
        .column_like(json!({"name": "Last Sync", "type": "date", "jsonPath": ".status.refreshTime"}))
        .spec(json!({"properties": {
            "refreshInterval": {"type": "string", "default": "1h0m0s"},
            "refreshPolicy": {"type": "string", "enum": ["CreatedOnce", "Periodic", "OnChange"]},
            "secretStoreRef": {"properties": {"name": {"type": "string"}, "kind": {"type": "string"}}},
        }}))
        .status(status(json!({"syncedResourceVersion": {"type": "string"}})))
}

fn push_secret() -> Definition {
    Definition::of::<PushSecret>()
        .short("ps")
        .category("external-secrets")
        .column("AGE", AGE)
        .column("Status", REASON)
        .column_like(json!({"name": "Last Sync", "type": "date", "jsonPath": ".status.refreshTime"}))
        .spec(json!({
            "required": ["secretStoreRefs", "selector"],
            "properties": {
                "deletionPolicy": {"type": "string", "enum": ["Delete", "None"], "default": "None"},
                "updatePolicy": {"type": "string", "enum": ["Replace", "IfNotExists"], "default": "Replace"},
                "refreshInterval": {"type": "string", "default": "1h0m0s"},
                "selector": {},
            },
        }))
        .status(status(json!({"syncedResourceVersion": {"type": "string"}})))
}

fn status(mut more: Value) -> Value {
    more["conditions"] = json!({"type": "array", "items": {
        "required": ["type", "status"],
        "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
    }});
    json!({"properties": more})
}
