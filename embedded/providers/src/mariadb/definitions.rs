//! The kinds of mariadb-operator, as far as they are modelled here.

use c5c3_api::ext::mariadb::{Backup, Database, Grant, MariaDB, MaxScale, Restore, User};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::definitions::{AGE, Definition, READY};

/// The message of `Ready`, which the tables call status.
const STATUS: &str = ".status.conditions[?(@.type==\"Ready\")].message";

/// Every kind of mariadb-operator that is looked after, or refused, here.
pub(crate) fn definitions() -> Vec<CustomResourceDefinition> {
    [mariadb(), database(), user(), grant(), maxscale(), backup(), restore()].map(Definition::build).into()
}

fn mariadb() -> Definition {
    Definition::of::<MariaDB>()
        .short("mdb")
        .column("Ready", READY)
        .column("Status", STATUS)
        .column("Primary", ".status.currentPrimary")
        .column("Updates", ".spec.updateStrategy.type")
        .column("Age", AGE)
        .scaled()
        .spec(json!({
            "properties": {
                "replicas": {"type": "integer", "format": "int32", "default": 1},
                "replicasAllowEvenNumber": {"type": "boolean", "default": false},
                "image": {"type": "string"},
                "port": {"type": "integer", "format": "int32", "default": 3306},
                "myCnf": {"type": "string"},
                "suspend": {"type": "boolean", "default": false},
                "cleanupPolicy": cleanup_policy(),
                "galera": {"properties": {"enabled": {"type": "boolean"}}},
                "rootPasswordSecretKeyRef": secret_key(&json!({"generate": {"type": "boolean", "default": false}})),
                "storage": {"properties": {
                    "size": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true},
                    "storageClassName": {"type": "string"},
                    "ephemeral": {"type": "boolean"},
                }},
                "tls": {"properties": {"enabled": {"type": "boolean"}, "required": {"type": "boolean"}}},
            },
            "x-kubernetes-validations": [{
                "rule": "!has(self.galera) || !has(self.galera.enabled) || !self.galera.enabled || \
                         self.replicas % 2 == 1 || self.replicasAllowEvenNumber",
                "message": "a Galera cluster has an odd number of replicas, so that one half never stands against \
                            the other; spec.replicasAllowEvenNumber=true lifts this rule",
            }],
        }))
        .status(conditions(&json!({"replicas": {"type": "integer", "format": "int32"}})))
}

fn database() -> Definition {
    Definition::of::<Database>()
        .short("dmdb")
        .column("Ready", READY)
        .column("Status", STATUS)
        .column("CharSet", ".spec.characterSet")
        .column("Collate", ".spec.collate")
        .column("MariaDB", ".spec.mariaDbRef.name")
        .column("Age", AGE)
        .column("Name", ".spec.name")
        .spec(in_mariadb(
            &[],
            &json!({
                "name": {"type": "string", "maxLength": 80},
                "characterSet": {"type": "string", "default": "utf8"},
                "collate": {"type": "string", "default": "utf8_general_ci"},
            }),
        ))
        .status(conditions(&json!({})))
}

fn user() -> Definition {
    Definition::of::<User>()
        .short("umdb")
        .column("Ready", READY)
        .column("Status", STATUS)
        .column("MaxConns", ".spec.maxUserConnections")
        .column("MariaDB", ".spec.mariaDbRef.name")
        .column("Age", AGE)
        .spec(in_mariadb(
            &[],
            &json!({
                "name": {"type": "string", "maxLength": 80},
                "host": {"type": "string", "maxLength": 255},
                "maxUserConnections": {"type": "integer", "format": "int32", "default": 10},
                "passwordSecretKeyRef": secret_key(&json!({})),
                "require": {"properties": {"ssl": {"type": "boolean"}, "x509": {"type": "boolean"}}},
            }),
        ))
        .status(conditions(&json!({})))
}

fn grant() -> Definition {
    Definition::of::<Grant>()
        .short("gmdb")
        .column("Ready", READY)
        .column("Status", STATUS)
        .column("Database", ".spec.database")
        .column("Table", ".spec.table")
        .column("Username", ".spec.username")
        .column("GrantOpt", ".spec.grantOption")
        .column("MariaDB", ".spec.mariaDbRef.name")
        .column("Age", AGE)
        .spec(in_mariadb(
            &["privileges", "username"],
            &json!({
                "database": {"type": "string", "default": "*"},
                "table": {"type": "string", "default": "*"},
                "username": {"type": "string"},
                "host": {"type": "string"},
                "privileges": {"type": "array", "minItems": 1, "items": {"type": "string"}},
                "grantOption": {"type": "boolean", "default": false},
            }),
        ))
        .status(conditions(&json!({"currentPrivileges": {"type": "array", "items": {"type": "string"}}})))
}

fn maxscale() -> Definition {
    Definition::of::<MaxScale>()
        .short("mxs")
        .column("Ready", READY)
        .column("Status", STATUS)
        .column("Primary", ".status.primaryServer")
        .column("Age", AGE)
        .scaled()
        .spec(json!({"properties": {"replicas": {"type": "integer", "format": "int32", "default": 1}}}))
        .status(conditions(&json!({"replicas": {"type": "integer", "format": "int32"}})))
}

/// How a backup or its restoration ended.
const COMPLETE: &str = ".status.conditions[?(@.type==\"Complete\")].status";

fn of_complete(definition: Definition) -> Definition {
    definition
        .column("Complete", COMPLETE)
        .column("Status", ".status.conditions[?(@.type==\"Complete\")].message")
        .column("MariaDB", ".spec.mariaDbRef.name")
        .column("Age", AGE)
        .status(conditions(&json!({})))
}

fn backup() -> Definition {
    let claim = json!({"properties": {
        "accessModes": {"type": "array", "items": {"type": "string"}},
        "storageClassName": {"type": "string"},
    }});
    of_complete(Definition::of::<Backup>().short("bmdb")).spec(dumped(
        &["storage"],
        &json!({
            "compression": {"type": "string", "enum": ["none", "bzip2", "gzip"]},
            "databases": {"type": "array", "items": {"type": "string"}},
            "ignoreGlobalPriv": {"type": "boolean"},
            "maxRetention": {"type": "string"},
            "backoffLimit": {"type": "integer", "format": "int32"},
            "schedule": {"required": ["cron"], "properties": {
                "cron": {"type": "string"},
                "suspend": {"type": "boolean", "default": false},
            }},
            "storage": {"properties": {"persistentVolumeClaim": claim, "volume": {}, "s3": {}}},
        }),
    ))
}

fn restore() -> Definition {
    of_complete(Definition::of::<Restore>().short("rmdb")).spec(dumped(
        &[],
        &json!({
            "backoffLimit": {"type": "integer", "format": "int32", "default": 5},
            "backupRef": {"properties": {"name": {"type": "string"}}},
            "database": {"type": "string"},
            "targetRecoveryTime": {"type": "string", "format": "date-time"},
        }),
    ))
}

/// The spec of a Backup or Restore.
fn dumped(required: &[&str], own: &Value) -> Value {
    let shared = json!({
        "mariaDbRef": {"properties": {
            "name": {"type": "string"},
            "namespace": {"type": "string"},
            "kind": {"type": "string"},
            "waitForIt": {"type": "boolean", "default": true},
        }},
        "logLevel": {"type": "string", "default": "info",
            "enum": ["debug", "info", "warn", "error", "dpanic", "panic", "fatal"]},
        "restartPolicy": {"type": "string", "default": "OnFailure", "enum": ["Always", "OnFailure", "Never"]},
    });
    let required: Vec<&str> = ["mariaDbRef"].iter().chain(required).copied().collect();
    json!({"required": required, "properties": joined(&shared, own)})
}

/// The spec of something inside a MariaDB.
fn in_mariadb(required: &[&str], own: &Value) -> Value {
    let shared = json!({
        "mariaDbRef": {"properties": {
            "name": {"type": "string"},
            "namespace": {"type": "string"},
            "waitForIt": {"type": "boolean", "default": true},
        }},
        "cleanupPolicy": cleanup_policy(),
        "requeueInterval": {"type": "string"},
        "retryInterval": {"type": "string"},
    });
    let required: Vec<&str> = ["mariaDbRef"].iter().chain(required).copied().collect();
    json!({"required": required, "properties": joined(&shared, own)})
}

fn cleanup_policy() -> Value {
    json!({"type": "string", "enum": ["Skip", "Delete"]})
}

fn secret_key(more: &Value) -> Value {
    let own = json!({"name": {"type": "string"}, "key": {"type": "string"}});
    json!({"required": ["key"], "properties": joined(&own, more)})
}

fn conditions(more: &Value) -> Value {
    let own = json!({"conditions": {"type": "array", "items": {
        "required": ["type", "status"],
        "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
    }}});
    json!({"properties": joined(&own, more)})
}

/// The properties of both.
fn joined(one: &Value, other: &Value) -> Value {
    let fields = [one, other].into_iter().filter_map(Value::as_object).flatten();
    Value::Object(fields.map(|(name, schema)| (name.clone(), schema.clone())).collect())
}
