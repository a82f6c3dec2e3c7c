//! Defaults of storage.

use serde_json::{Value, json};

use crate::write::{child, ensure, fill};

/// A PersistentVolumeClaim, on its own or as a template.
pub(super) fn claim(claim: &mut Value) {
    if let Some(spec) = child(claim, "spec") {
        fill(spec, "volumeMode", "Filesystem");
        ensure(spec, "resources");
    }
}

pub(super) fn volume(volume: &mut Value) {
    let Some(spec) = child(volume, "spec") else { return };
    fill(spec, "volumeMode", "Filesystem");
    fill(spec, "persistentVolumeReclaimPolicy", "Retain");
    if let Some(host) = child(spec, "hostPath") {
        fill(host, "type", "");
    }
}

pub(super) fn class(class: &mut Value) {
    fill(class, "reclaimPolicy", "Delete");
    fill(class, "volumeBindingMode", "Immediate");
}

pub(super) fn csi_driver(driver: &mut Value) {
    let Some(spec) = child(driver, "spec") else { return };
    fill(spec, "attachRequired", true);
    for key in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        fill(spec, key, false);
    }
    fill(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    fill(spec, "volumeLifecycleModes", json!(["Persistent"]));
}

#[cfg(test)]
mod tests {
    use super::super::tests::defaulted;
    use super::*;

    #[test]
    fn a_volume_made_by_hand_is_kept_and_one_made_by_a_class_is_deleted() {
        let volume = defaulted("", "persistentvolumes", json!({"spec": {"capacity": {"storage": "2048Ki"}}}));
        assert_eq!(volume["spec"]["persistentVolumeReclaimPolicy"], "Retain");
        assert_eq!(volume["spec"]["capacity"]["storage"], "2Mi");
        let class = defaulted("storage.k8s.io", "storageclasses", json!({"provisioner": "p"}));
        assert_eq!(class, json!({"provisioner": "p", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}));
    }
}
