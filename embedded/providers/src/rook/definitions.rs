//! The kinds of Rook, as far as they are modelled here.

use c5c3_api::ext::rook::{CephBlockPool, CephClient, CephCluster};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::definitions::{AGE, Definition};

/// Every kind of Rook that is looked after here.
pub(crate) fn definitions() -> Vec<CustomResourceDefinition> {
    [cluster(), pool(), client()].map(Definition::build).into()
}

fn cluster() -> Definition {
    Definition::of::<CephCluster>()
        .short("ceph")
        .column("DataDirHostPath", ".spec.dataDirHostPath")
        .column("MonCount", ".spec.mon.count")
        .column("Age", AGE)
        .column("Phase", ".status.phase")
        .column("Message", ".status.message")
        .column("Health", ".status.ceph.health")
        .column_like(json!({"name": "External", "type": "boolean", "jsonPath": ".spec.external.enable"}))
        .column("FSID", ".status.ceph.fsid")
        .spec(json!({"properties": {
            "cephVersion": {"properties": {"image": {"type": "string"}}},
            "mon": {"properties": {
                "count": {"type": "integer", "minimum": 0, "maximum": 9},
                "allowMultiplePerNode": {"type": "boolean"},
            }},
            "mgr": {"properties": {"count": {"type": "integer", "minimum": 0, "maximum": 5}}},
            "storage": {"properties": {
                "useAllNodes": {"type": "boolean"},
                "useAllDevices": {"type": "boolean"},
                "storageClassDeviceSets": {"type": "array", "items": {
                    "required": ["count", "name", "volumeClaimTemplates"],
                    "properties": {"name": {"type": "string"}, "count": {"type": "integer", "minimum": 1}},
                }},
            }},
        }}))
        .status(status())
}

fn pool() -> Definition {
    let chunks = |name: &str, path: &str| json!({"name": name, "type": "integer", "priority": 1, "jsonPath": path});
    Definition::of::<CephBlockPool>()
        .short("cephbp")
        .column("Phase", ".status.phase")
        .column("Type", ".status.info.type")
        .column("FailureDomain", ".status.info.failureDomain")
        .column_like(chunks("Replication", ".spec.replicated.size"))
        .column_like(chunks("EC-CodingChunks", ".spec.erasureCoded.codingChunks"))
        .column_like(chunks("EC-DataChunks", ".spec.erasureCoded.dataChunks"))
        .column("Age", AGE)
        .spec(json!({"properties": {
            "failureDomain": {"type": "string"},
            "deviceClass": {"type": "string"},
            "application": {"type": "string"},
            "replicated": {"required": ["size"], "properties": {"size": {"type": "integer", "minimum": 0}}},
            "quotas": {"properties": {"maxSize": {"type": "string"}}},
        }}))
        .status(status())
}

fn client() -> Definition {
    Definition::of::<CephClient>()
        .short("cephcl")
        .column("Phase", ".status.phase")
        .column("Age", AGE)
        .spec(json!({"required": ["caps"], "properties": {
            "name": {"type": "string"},
            "secretName": {"type": "string"},
            "security": {"properties": {"cephx": {"properties": {
                "keyGeneration": {"type": "integer", "format": "int64", "minimum": 0, "maximum": 4_294_967_295_i64},
                "keyRotationPolicy": {"type": "string", "enum": ["", "Disabled", "KeyGeneration"]},
            }}}},
        }}))
        .status(status())
}

fn status() -> Value {
    json!({"properties": {
        "phase": {"type": "string"},
        "observedGeneration": {"type": "integer", "format": "int64"},
    }})
}
