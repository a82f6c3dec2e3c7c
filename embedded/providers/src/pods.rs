//! What every pod of a provider has in common: who it runs as, what it may not do, where it may write.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// The user and group of every image.
const USER: i64 = 42_424;

/// The security context of a pod: never root, and volumes that the user may write to.
pub(crate) fn pod_security() -> Value {
    json!({
        "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER,
        "fsGroup": USER, "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

/// The security context of a container: no privileges, and nothing of the image can be changed.
pub(crate) fn container_security() -> Value {
    json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
    })
}

/// Where programs write that expect to: volumes, and the mounts of them.
pub(crate) fn scratch() -> [(Value, Value); 2] {
    let folder =
        |name: &str, path: &str| (json!({"name": name, "emptyDir": {}}), json!({"name": name, "mountPath": path}));
    [folder("tmp", "/tmp"), folder("run", "/run")]
}

/// Whether a pod serves.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}

/// The bytes of a quantity; 0 of what is none.
pub(crate) fn bytes(quantity: &str) -> u128 {
    const UNITS: &[(&str, u128)] = &[
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("Pi", 1 << 50),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
        ("", 1),
    ];
    let unit = UNITS.iter().find_map(|(unit, factor)| Some((quantity.strip_suffix(unit)?, factor)));
    unit.and_then(|(number, factor)| Some(number.parse::<u128>().ok()?.saturating_mul(*factor))).unwrap_or(0)
}
