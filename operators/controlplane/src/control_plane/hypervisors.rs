//! Hypervisors among the nodes of this cluster.

use serde_json::json;

use super::cloud::Cloud;
use super::parts::CINDER;
use super::spec::Spec;
use super::{ceph, images};

/// Has a Nova make hypervisors of the nodes with the label, unless those of other clusters are named. Where no node has the label,
/// nothing runs.
pub(super) fn project(spec: &mut Spec, cloud: &Cloud) {
    const FIELD: &str = "spec.compute.hypervisorClusters";
    spec.set("compute", json!({}), FIELD);
    for (field, usual) in [("compute.libvirtImage", images::LIBVIRT), ("compute.probeImage", images::GUEST)] {
        let mirrored = cloud.mirrored(usual);
        if let Some((repository, tag)) = mirrored.as_deref().and_then(|image| image.rsplit_once(':')) {
            spec.set(field, json!({"repository": repository, "tag": tag}), "spec.global.image.registry");
        }
    }
    // Nova attaches volumes with Cinder's own key.
    if let Some(rbd) = ceph::rbd(cloud, &CINDER, &ceph::volumes(&cloud.spec)).filter(|_| cloud.has(&CINDER)) {
        spec.set("compute.volumePools", json!([rbd]), "spec.storage.ceph");
    }
}
