//! Columns and rows of storage.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Cells;
use super::format::{UNSET, age, first_few, joined, name, plain, text_or};
use crate::read::{bool_at, entries_at, is_empty_at, list_at, str_at, strings_at};

pub(super) fn built_in(kind: &str) -> (&'static [&'static str], Cells) {
    match kind {
        "PersistentVolume" => (
            &[
                "Name",
                "Capacity",
                "Access Modes",
                "Reclaim Policy",
                "Status",
                "Claim",
                "StorageClass",
                "VolumeAttributesClass",
                "Reason",
                "Age",
                "VolumeMode*",
            ],
            volume,
        ),
        "PersistentVolumeClaim" => (
            &[
                "Name",
                "Status",
                "Volume",
                "Capacity",
                "Access Modes",
                "StorageClass",
                "VolumeAttributesClass",
                "Age",
                "VolumeMode*",
            ],
            claim,
        ),
        "StorageClass" => {
            (&["Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"], class)
        }
        "CSINode" => (&["Name", "Drivers", "Age"], csi_node),
        "CSIDriver" => (
            &[
                "Name",
                "AttachRequired",
                "PodInfoOnMount",
                "StorageCapacity",
                "TokenRequests",
                "RequiresRepublish",
                "Modes",
                "Age",
            ],
            csi_driver,
        ),
        "CSIStorageCapacity" => (&["Name", "StorageClassName", "Capacity", "Age"], capacity),
        "VolumeAttributesClass" => (&["Name", "DriverName", "Age"], attributes_class),
        _ => (&["Name", "Attacher", "PV", "Node", "Attached", "Age"], attachment),
    }
}

fn access_modes(of: &Value) -> String {
    let short = |mode: &String| match mode.as_str() {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        "ReadWriteOncePod" => "RWOP",
        _ => "",
    };
    let modes = strings_at(of, "accessModes");
    modes.iter().map(short).collect::<Vec<_>>().join(",")
}

fn phase(object: &Value) -> &str {
    let deleted = !is_empty_at(&object["metadata"], "deletionTimestamp");
    if deleted { "Terminating" } else { str_at(&object["status"], "phase") }
}

/// The class of a volume: an annotation from before there was a field still counts.
fn storage_class(object: &Value) -> &str {
    let annotation = object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"].as_str();
    annotation.unwrap_or(str_at(&object["spec"], "storageClassName"))
}

fn volume(volume: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &volume["spec"];
    let claim = match &spec["claimRef"] {
        Value::Null => String::new(),
        claim => format!("{}/{}", str_at(claim, "namespace"), str_at(claim, "name")),
    };
    vec![
        name(volume),
        json!(str_at(&spec["capacity"], "storage")),
        json!(access_modes(spec)),
        json!(str_at(spec, "persistentVolumeReclaimPolicy")),
        json!(phase(volume)),
        json!(claim),
        json!(storage_class(volume)),
        json!(text_or(spec, "volumeAttributesClassName", UNSET)),
        json!(str_at(&volume["status"], "reason")),
        age(volume, now),
        json!(text_or(spec, "volumeMode", UNSET)),
    ]
}

fn claim(claim: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&claim["spec"], &claim["status"]);
    let bound = !is_empty_at(spec, "volumeName");
    let capacity = if bound { str_at(&status["capacity"], "storage") } else { "" };
    vec![
        name(claim),
        json!(phase(claim)),
        json!(str_at(spec, "volumeName")),
        json!(capacity),
        json!(if bound { access_modes(status) } else { String::new() }),
        json!(storage_class(claim)),
        json!(text_or(spec, "volumeAttributesClassName", UNSET)),
        age(claim, now),
        json!(text_or(spec, "volumeMode", UNSET)),
    ]
}

fn class(class: &Value, now: Timestamp) -> Vec<Value> {
    let is_default = entries_at(&class["metadata"], "annotations")
        .any(|(key, value)| key == "storageclass.kubernetes.io/is-default-class" && value == "true");
    let suffix = if is_default { " (default)" } else { "" };
    vec![
        json!(format!("{}{suffix}", str_at(&class["metadata"], "name"))),
        json!(str_at(class, "provisioner")),
        json!(text_or(class, "reclaimPolicy", "Delete")),
        json!(text_or(class, "volumeBindingMode", "Immediate")),
        json!(bool_at(class, "allowVolumeExpansion")),
        age(class, now),
    ]
}

fn csi_node(node: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(node), json!(list_at(&node["spec"], "drivers").len()), age(node, now)]
}

fn csi_driver(driver: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &driver["spec"];
    let audiences: Vec<&str> =
        list_at(spec, "tokenRequests").iter().map(|request| str_at(request, "audience")).collect();
    let modes = strings_at(spec, "volumeLifecycleModes");
    vec![
        name(driver),
        json!(spec["attachRequired"].as_bool().unwrap_or(true)),
        json!(bool_at(spec, "podInfoOnMount")),
        json!(bool_at(spec, "storageCapacity")),
        json!(if audiences.is_empty() { UNSET.to_owned() } else { audiences.join(",") }),
        json!(bool_at(spec, "requiresRepublish")),
        json!(joined(&modes)),
        age(driver, now),
    ]
}

fn attributes_class(class: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(class), json!(str_at(class, "driverName")), age(class, now)]
}

fn capacity(capacity: &Value, now: Timestamp) -> Vec<Value> {
    let amount = capacity.get("capacity").map_or_else(|| UNSET.to_owned(), plain);
    vec![name(capacity), json!(str_at(capacity, "storageClassName")), json!(amount), age(capacity, now)]
}

fn attachment(attachment: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &attachment["spec"];
    let volume = first_few(&[str_at(&spec["source"], "persistentVolumeName").to_owned()], 1);
    vec![
        name(attachment),
        json!(str_at(spec, "attacher")),
        json!(volume),
        json!(str_at(spec, "nodeName")),
        json!(bool_at(&attachment["status"], "attached")),
        age(attachment, now),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;

    #[test]
    fn a_bound_claim_shows_what_it_got() {
        let object = json!({
            "metadata": {"name": "data"},
            "spec": {"volumeName": "pv1", "storageClassName": "fast", "volumeMode": "Filesystem"},
            "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]},
        });
        assert_eq!(
            row("", "persistentvolumeclaims", &object),
            "data | Bound | pv1 | 1Gi | RWO | fast | <unset> | <unknown> | Filesystem"
        );
    }

    #[test]
    fn the_default_class_says_so() {
        let object = json!({
            "metadata": {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "p",
        });
        assert_eq!(
            row("storage.k8s.io", "storageclasses", &object),
            "fast (default) | p | Delete | Immediate | false | <unknown>"
        );
    }

    #[test]
    fn a_class_of_attributes_names_its_driver() {
        let object = json!({"metadata": {"name": "gold"}, "driverName": "csi.example", "parameters": {"iops": "9"}});
        assert_eq!(row("storage.k8s.io", "volumeattributesclasses", &object), "gold | csi.example | <unknown>");
    }
}
