//! What a CephCluster asks for, with everything decided; or what of it cannot be had here. Pure.

use std::collections::BTreeMap;

use c5c3_api::blocks::Resources;
use c5c3_api::ext::rook::{CephCluster, CephDeviceSet, ClaimTemplate};
use kube::ResourceExt;

use crate::pods::bytes;

/// The image of daemons unless the cluster names another.
const IMAGE: &str = "ghcr.io/c5c3/ceph:18.2.7";

/// Claim of a monitor unless the cluster asks for another.
const MON_SIZE: &str = "10Gi";

/// BlueStore lays out about half of this at once; with less it cannot start.
const SMALLEST_DISK: u128 = 1 << 30;

/// A cluster that can be had.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) image: String,
    pub(super) mons: Vec<String>,
    /// Whether each monitor needs a node of its own.
    pub(super) spread: bool,
    pub(super) mon_claim: Claim,
    pub(super) mgrs: Vec<String>,
    pub(super) osds: Vec<Osd>,
    pub(super) config: BTreeMap<String, BTreeMap<String, String>>,
    pub(super) resources: BTreeMap<String, Resources>,
}

/// What is claimed for a daemon.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Claim {
    pub(super) size: String,
    pub(super) class: Option<String>,
}

/// A disk.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Osd {
    pub(super) id: usize,
    /// Its claim, which is also the host that it is to Ceph if it is portable.
    pub(super) claim_name: String,
    pub(super) claim: Claim,
    pub(super) portable: bool,
    pub(super) resources: Option<Resources>,
}

impl Wanted {
    /// What the cluster asks for; or which field cannot be had, and what to write instead.
    pub(super) fn of(cluster: &CephCluster) -> Result<Self, String> {
        let spec = &cluster.spec;
        if spec.external.as_ref().is_some_and(|external| external.enable == Some(true)) {
            return Err("spec.external.enable: the embedded cluster runs its own Ceph; leave it out".into());
        }
        let network = spec.network.as_ref().and_then(|network| network.get("provider")?.as_str());
        if let Some(provider) = network.filter(|provider| !provider.is_empty()) {
            return Err(format!("spec.network.provider: the embedded cluster has no network {provider}; leave it out"));
        }
        let mons = spec.mon.clone().unwrap_or_default();
        if mons.stretch_cluster.is_some() || mons.external_mon_ids.is_some_and(|ids| !ids.is_empty()) {
            return Err("spec.mon: monitors in several sites are not provided on the embedded cluster; leave \
                        stretchCluster and externalMonIDs out"
                .into());
        }
        let count = usize::try_from(mons.count.unwrap_or(0)).unwrap_or(0);
        let count = if count == 0 { 3 } else { count };
        if count > 9 {
            return Err("spec.mon.count: Ceph has at most 9 monitors; write 1 or 3".into());
        }
        let mgrs = usize::try_from(spec.mgr.as_ref().and_then(|mgr| mgr.count).unwrap_or(1)).unwrap_or(1).clamp(1, 2);
        Ok(Self {
            name: cluster.name_any(),
            namespace: cluster.namespace().unwrap_or_default(),
            image: spec.ceph_version.as_ref().and_then(|version| version.image.clone()).unwrap_or_else(|| IMAGE.into()),
            mons: letters(count),
            spread: count > 1 && mons.allow_multiple_per_node != Some(true),
            mon_claim: claim(mons.volume_claim_template.as_ref(), "spec.mon.volumeClaimTemplate", MON_SIZE)?,
            mgrs: letters(mgrs),
            osds: osds(cluster)?,
            config: spec.ceph_config.clone(),
            resources: spec.resources.clone(),
        })
    }
}

/// The names that Rook gives to daemons.
fn letters(count: usize) -> Vec<String> {
    ('a'..='z').take(count).map(String::from).collect()
}

fn osds(cluster: &CephCluster) -> Result<Vec<Osd>, String> {
    let storage = cluster.spec.storage.clone().unwrap_or_default();
    let devices = [
        ("useAllDevices", storage.use_all_devices == Some(true)),
        ("deviceFilter", storage.device_filter.is_some()),
        ("nodes", storage.nodes.is_some_and(|nodes| !nodes.is_empty())),
    ];
    if let Some((field, _)) = devices.iter().find(|(_, set)| *set) {
        return Err(format!(
            "spec.storage.{field}: a node of the embedded cluster has no disks to give; write \
             spec.storage.storageClassDeviceSets, whose disks are files on claims"
        ));
    }
    let mut osds = Vec::new();
    for (number, set) in storage.storage_class_device_sets.iter().enumerate() {
        let path = format!("spec.storage.storageClassDeviceSets[{number}]");
        if storage.storage_class_device_sets[..number].iter().any(|other| other.name == set.name) {
            return Err(format!("{path}.name: there is a set {:?} before it; name each set differently", set.name));
        }
        let claim = data_claim(set, &path)?;
        for index in 0..set.count.max(0) {
            osds.push(Osd {
                id: osds.len(),
                claim_name: format!("{}-data-{index}", set.name),
                claim: claim.clone(),
                portable: set.portable == Some(true),
                resources: set.resources.clone(),
            });
        }
    }
    Ok(osds)
}

fn data_claim(set: &CephDeviceSet, path: &str) -> Result<Claim, String> {
    if set.encrypted == Some(true) {
        return Err(format!("{path}.encrypted: the kernel of the embedded cluster has no dm-crypt; leave it out"));
    }
    let [template] = set.volume_claim_templates.as_slice() else {
        return Err(format!("{path}.volumeClaimTemplates: a disk here is one file; write one template, called data"));
    };
    let claim = claim(Some(template), &format!("{path}.volumeClaimTemplates[0]"), "")?;
    if bytes(&claim.size) < SMALLEST_DISK {
        return Err(format!(
            "{path}.volumeClaimTemplates[0].spec.resources.requests.storage: is {:?}, and BlueStore needs 1Gi at least",
            claim.size
        ));
    }
    Ok(claim)
}

fn claim(template: Option<&ClaimTemplate>, path: &str, otherwise: &str) -> Result<Claim, String> {
    let spec = template.and_then(|template| template.spec.clone()).unwrap_or_default();
    let asked = spec.resources.and_then(|resources| resources.requests?.get("storage").map(|size| size.0.clone()));
    let size = asked.unwrap_or_else(|| otherwise.to_owned());
    if !size.is_empty() && bytes(&size) == 0 {
        return Err(format!("{path}.spec.resources.requests.storage: {size:?} is no size; write one such as 10Gi"));
    }
    Ok(Claim { size, class: spec.storage_class_name })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ceph_cluster;
    use serde_json::{Value, json};

    fn disks(name: &str, count: u8, size: &str) -> Value {
        json!({"name": name, "count": count, "volumeClaimTemplates": [
            {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": size}}}}]})
    }

    #[test]
    fn three_monitors_on_nodes_of_their_own_unless_the_cluster_says_otherwise() {
        let wanted = Wanted::of(&ceph_cluster(json!({}))).unwrap();
        assert_eq!((wanted.mons, wanted.spread, wanted.mgrs), (letters(3), true, letters(1)));
        let one = Wanted::of(&ceph_cluster(json!({"mon": {"count": 1}}))).unwrap();
        assert_eq!((one.mons, one.spread), (letters(1), false));
        let shared = json!({"mon": {"count": 3, "allowMultiplePerNode": true}});
        assert!(!Wanted::of(&ceph_cluster(shared)).unwrap().spread);
    }

    #[test]
    fn disks_are_numbered_through_all_sets() {
        let spec = json!({"storage": {"storageClassDeviceSets": [disks("kiln", 2, "5Gi"), disks("oven", 1, "6Gi")]}});
        let wanted = Wanted::of(&ceph_cluster(spec)).unwrap();
        let told: Vec<_> =
            wanted.osds.iter().map(|osd| (osd.id, osd.claim_name.as_str(), osd.claim.size.as_str())).collect();
        assert_eq!(told, [(0, "kiln-data-0", "5Gi"), (1, "kiln-data-1", "5Gi"), (2, "oven-data-0", "6Gi")]);
    }

    #[test]
    fn what_cannot_be_had_is_refused_by_its_field() {
        for (spec, field) in [
            (json!({"external": {"enable": true}}), "spec.external.enable: "),
            (json!({"network": {"provider": "multus"}}), "spec.network.provider: "),
            (json!({"storage": {"useAllDevices": true}}), "spec.storage.useAllDevices: "),
            (json!({"storage": {"nodes": [{"name": "oak"}]}}), "spec.storage.nodes: "),
            (
                json!({"storage": {"storageClassDeviceSets": [disks("kiln", 1, "10Mi")]}}),
                "spec.storage.storageClassDeviceSets[0].volumeClaimTemplates[0].spec.resources.requests.storage: ",
            ),
        ] {
            let why = Wanted::of(&ceph_cluster(spec)).unwrap_err();
            assert!(why.starts_with(field), "{why}");
        }
    }
}
