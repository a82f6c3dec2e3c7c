//! The kinds of Flux, as far as they are modelled here. URLs of files are accepted beside those that Flux has.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::kinds::{GitRepository, Kustomization};
use crate::definitions::{AGE, Definition, READY};

const STATUS: &str = ".status.conditions[?(@.type==\"Ready\")].message";

/// What a duration looks like.
const DURATION: &str = "^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$";

/// Every kind of Flux that is looked after here.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    let (git_repository, kustomization) = (git_repository(), kustomization());
    vec![git_repository.build(), kustomization.build()]
}

fn text() -> Value {
    json!({"type": "string"})
}

fn truth() -> Value {
    json!({"type": "boolean"})
}

fn duration() -> Value {
    json!({"type": "string", "pattern": DURATION})
}

fn git_repository() -> Definition {
    let artifact = json!({
        "required": ["digest", "lastUpdateTime", "path", "revision", "url"],
        "properties": {"digest": text(), "path": text(), "revision": text(), "url": text(),
            "lastUpdateTime": {"type": "string", "format": "date-time"}},
    });
    Definition::of::<GitRepository>()
        .short("gitrepo")
        .category("all")
        .category("fluxcd")
        .category("fluxcd-sources")
        .column("URL", ".spec.url")
        .column("Age", AGE)
        .column("Ready", READY)
        .column("Status", STATUS)
        .spec(json!({
            "required": ["interval", "url"],
            "properties": {
                "url": text(), "interval": duration(), "timeout": text(), "suspend": truth(),
                "ref": {"properties": {"branch": text(), "tag": text(), "name": text(), "commit": text()}},
            },
        }))
        .status(status(json!({"artifact": artifact})))
}

fn kustomization() -> Definition {
    let list = |properties: Value| json!({"type": "array", "items": {"properties": properties}});
    let required = |mut list: Value, fields: Value| {
        list["items"]["required"] = fields;
        list
    };
    let target = json!({"properties": {"group": text(), "version": text(), "kind": text(), "name": text(),
        "namespace": text()}});
    let checks = json!({"apiVersion": text(), "kind": text(), "name": text(), "namespace": text()});
    let expressions = json!({"apiVersion": text(), "kind": text(), "current": text(), "inProgress": text(),
        "failed": text()});
    Definition::of::<Kustomization>()
        .short("ks")
        .category("all")
        .category("fluxcd")
        .category("fluxcd-appliers")
        .column("Age", AGE)
        .column("Ready", READY)
        .column("Status", STATUS)
        .spec(json!({
            "required": ["interval", "prune", "sourceRef"],
            "properties": {
                "interval": duration(), "retryInterval": duration(), "timeout": duration(), "path": text(),
                "prune": truth(), "suspend": truth(), "wait": truth(), "targetNamespace": text(),
                "deletionPolicy": text(),
                "sourceRef": {"required": ["kind", "name"],
                    "properties": {"kind": text(), "name": text(), "namespace": text()}},
                "dependsOn": required(list(json!({"name": text(), "namespace": text()})), json!(["name"])),
                "patches": list(json!({"patch": text(), "target": target})),
                "healthChecks": required(list(checks), json!(["kind", "name"])),
                "healthCheckExprs": required(list(expressions), json!(["apiVersion", "current"])),
            },
        }))
        .status(status(json!({
            "lastAppliedRevision": text(),
            "lastAttemptedRevision": text(),
            "inventory": {"required": ["entries"], "properties": {"entries": {"type": "array", "items": {
                "required": ["id", "v"], "properties": {"id": text(), "v": text()}}}}},
        })))
}

fn status(mut more: Value) -> Value {
    more["observedGeneration"] = json!({"type": "integer", "format": "int64"});
    more["lastHandledReconcileAt"] = text();
    more["conditions"] = json!({"type": "array", "items": {
        "required": ["type", "status"],
        "properties": {"type": text(), "status": text()},
    }});
    json!({"properties": more})
}
