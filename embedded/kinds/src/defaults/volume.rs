//! Defaults of a pod's volumes.

use serde_json::{Value, json};

use crate::write::{child, each, fill};

/// Readable by all, writable by the owner: 0644.
const MODE: u32 = 0o644;

/// One volume of a pod. A volume that names no source is an empty directory.
pub(super) fn volume(volume: &mut Value) {
    if volume.as_object().is_some_and(|fields| fields.keys().all(|key| key == "name")) {
        volume["emptyDir"] = json!({});
    }
    for (source, defaults) in SOURCES {
        if let Some(source) = child(volume, source) {
            for (key, value) in *defaults {
                fill(source, key, value.json());
            }
        }
    }
    if let Some(source) = child(volume, "downwardAPI") {
        each(source, "items", downward);
    }
    if let Some(source) = child(volume, "projected") {
        each(source, "sources", projection);
    }
    let template = child(volume, "ephemeral").and_then(|source| child(source, "volumeClaimTemplate"));
    if let Some(spec) = template.and_then(|template| child(template, "spec")) {
        fill(spec, "volumeMode", "Filesystem");
    }
    if let Some(source) = child(volume, "image") {
        let image = crate::read::str_at(source, "reference").to_owned();
        let policy = if crate::image::tag(&image) == Some("latest") { "Always" } else { "IfNotPresent" };
        fill(source, "pullPolicy", policy);
    }
}

enum Default {
    Text(&'static str),
    Mode,
    No,
}

impl Default {
    fn json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Mode => json!(MODE),
            Self::No => json!(false),
        }
    }
}

use Default::{Mode, No, Text};

#[rustfmt::skip]
const SOURCES: &[(&str, &[(&str, Default)])] = &[
    ("secret", &[("defaultMode", Mode)]),
    ("configMap", &[("defaultMode", Mode)]),
    ("downwardAPI", &[("defaultMode", Mode)]),
    ("projected", &[("defaultMode", Mode)]),
    ("hostPath", &[("type", Text(""))]),
    ("iscsi", &[("iscsiInterface", Text("default"))]),
    ("rbd", &[("pool", Text("rbd")), ("user", Text("admin")), ("keyring", Text("/etc/ceph/keyring"))]),
    ("scaleIO", &[("storageMode", Text("ThinProvisioned")), ("fsType", Text("xfs"))]),
    ("azureDisk", &[("cachingMode", Text("ReadWrite")), ("fsType", Text("ext4")), ("kind", Text("Shared")), ("readOnly", No)]),
];

fn projection(source: &mut Value) {
    if let Some(downward_api) = child(source, "downwardAPI") {
        each(downward_api, "items", downward);
    }
    if let Some(token) = child(source, "serviceAccountToken") {
        fill(token, "expirationSeconds", 3600);
    }
}

/// What an environment variable or a file takes from the pod itself.
pub(super) fn downward(source: &mut Value) {
    if let Some(field) = child(source, "fieldRef") {
        fill(field, "apiVersion", "v1");
    }
    if let Some(amount) = child(source, "resourceFieldRef") {
        fill(amount, "divisor", "0");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::defaulted;

    #[test]
    fn each_source_of_a_volume_gets_its_modes() {
        let pod = defaulted(
            "",
            "pods",
            json!({"spec": {"volumes": [
                {"name": "a", "secret": {"secretName": "s"}},
                {"name": "b"},
                {"name": "c", "hostPath": {"path": "/x"}},
                {"name": "d", "projected": {"sources": [
                    {"serviceAccountToken": {"path": "token"}},
                    {"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
                ]}},
                {"name": "e", "configMap": {"name": "m", "defaultMode": 256}},
            ]}}),
        );
        assert_eq!(
            pod["spec"]["volumes"],
            json!([
                {"name": "a", "secret": {"secretName": "s", "defaultMode": 420}},
                {"name": "b", "emptyDir": {}},
                {"name": "c", "hostPath": {"path": "/x", "type": ""}},
                {"name": "d", "projected": {"defaultMode": 420, "sources": [
                    {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
                    {"downwardAPI": {"items": [
                        {"path": "p", "fieldRef": {"fieldPath": "metadata.namespace", "apiVersion": "v1"}},
                    ]}},
                ]}},
                {"name": "e", "configMap": {"name": "m", "defaultMode": 256}},
            ])
        );
    }
}
