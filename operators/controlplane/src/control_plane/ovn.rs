//! The OVN that Neutron writes networks to: an OVNCluster, unless the ControlPlane names another.

use c5c3_api::blocks::{Image, Quorum, Repository, ServerTls, Size, Tag};
use c5c3_api::c5c3::{ControlPlane, ControlPlaneSpec};
use c5c3_api::ovn::{OVNCluster, OVNClusterSpec, RaftDatabase, Volume};
use c5c3_kit::{Child, Inputs, Ref, Step};
use serde_json::{Value, json};

use super::cloud::Cloud;
use super::infrastructure::{Class, class, existing, named, no_class, no_issuer};
use super::parts::{NOVA, OVN};
use super::spec::Spec;
use super::{images, part};

/// The size of volumes when none is asked for.
pub(super) const SIZE: &str = "10Gi";

/// Whether a ControlPlane asks for the part.
pub(super) fn asked(spec: &ControlPlaneSpec) -> part::Asked {
    let written = spec.infrastructure.as_ref().is_some_and(|parts| parts.ovn.is_some());
    match (is_elsewhere(spec), written) {
        (true, _) => part::Asked::No,
        (false, true) => part::Asked::Yes,
        (false, false) => part::Asked::IfNeeded,
    }
}

/// Whether Neutron's template says itself where networks are made: by addresses, by an object, or not by OVN.
fn is_elsewhere(spec: &ControlPlaneSpec) -> bool {
    let neutron = spec.services.as_ref().and_then(|services| services.neutron.as_ref());
    let template = neutron.map(|neutron| &neutron.template).filter(|template| !template.is_empty());
    let Some(template) = template.map(|template| template.canonical("neutron", "Neutron")) else { return false };
    let ovn = template.get("ovn").cloned().unwrap_or_default();
    let names = ["clusterRef", "nbConnection", "sbConnection"].iter().any(|field| ovn.get(field).is_some());
    let drivers = template.get("ml2").and_then(|ml2| ml2["mechanismDrivers"].as_array());
    let makes_none = drivers.is_some_and(|drivers| !drivers.contains(&Value::from("ovn")));
    names || makes_none || ovn.get("enabled") == Some(&Value::Bool(false))
}

pub(super) fn cluster(step: Step, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Step {
    if cloud.existing(&OVN).is_some() {
        return existing(step, &OVN, cloud, inputs);
    }
    let written = cloud.infrastructure.ovn.clone().unwrap_or_default();
    let size = written.storage_size.unwrap_or_else(|| Size::new(SIZE).expect("it is a size"));
    let database = RaftDatabase {
        replicas: written.replicas.unwrap_or_else(|| Quorum::new(3).expect("3 is odd")),
        storage: Volume { size, storage_class: written.storage_class },
        resources: written.resources,
        ..RaftDatabase::default()
    };
    let spec = OVNClusterSpec {
        ovn_image: image(cloud, images::OVN),
        ovs_image: image(cloud, images::OPENVSWITCH),
        northbound: database.clone(),
        southbound: database,
        bridge_mappings: written.bridge_mappings,
        tls: cloud.issuer().map(|issuer| ServerTls {
            enabled: true,
            issuer_ref: Some(issuer.clone()),
            cert_secret_ref: None,
        }),
        ..empty()
    };
    let step = no_class(step, &OVN, storage_class(cloud), cloud, inputs);
    let step = no_issuer(step, cloud, inputs);
    let object = OVNCluster { metadata: named(OVN.name, cloud), spec, status: None };
    step.child(Child::new(&object))
}

/// An OVNCluster as one is that says nothing.
fn empty() -> OVNClusterSpec {
    serde_json::from_value(json!({})).expect("every field has a default")
}

/// An image from the registry of all images; without one the operator knows which it can run.
fn image(cloud: &Cloud, usual: &str) -> Option<Image> {
    let mirrored = cloud.mirrored(usual)?;
    let (repository, tag) = mirrored.rsplit_once(':')?;
    Some(Image { repository: Repository::new(repository).ok()?, tag: Tag::new(tag).ok(), digest: None })
}

fn storage_class(cloud: &Cloud) -> Option<Class> {
    class("spec.infrastructure.ovn.storageClass", cloud.infrastructure.ovn.as_ref()?.storage_class.as_ref())
}

/// What the OVNCluster refers to.
pub(super) fn needs(cloud: &Cloud) -> Option<Ref> {
    storage_class(cloud).map(|(_, class)| class)
}

/// Tells a Neutron which OVN it writes to; and, where the ControlPlane makes it, that hypervisors need the agent for Nova's
/// metadata.
pub(super) fn project(spec: &mut Spec, cloud: &Cloud) {
    if !cloud.has(&OVN) {
        return;
    }
    let existing = cloud.existing(&OVN);
    let object = existing.map_or_else(|| json!({"name": OVN.name}), |existing| json!(existing));
    spec.set("ovn.clusterRef", object, format!("{}.clusterRef", OVN.field));
    if existing.is_none() && cloud.has(&NOVA) {
        spec.set("metadataAgent", json!({}), "spec.services.nova");
    }
}
