//! One ControlPlane per namespace: the parts have fixed names, so a second ControlPlane would ask for the same MariaDB. The
//! younger of two is refused as a whole, before it takes a part that the older one still waits for.

use c5c3_api::c5c3::ControlPlane;
use c5c3_api::{Problem, problem};
use c5c3_kit::ownership::owner_of;
use c5c3_kit::{Inputs, KindRef, Ref};
use kube::ResourceExt;

use super::cloud::Cloud;
use super::parts::PARTS;
use super::reference;

/// The other ControlPlanes of the namespace that own a part by the name of one of ours.
pub(super) fn needs(cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Vec<Ref> {
    let kind = KindRef::of::<ControlPlane>().resource;
    let name = inputs.object.name_any();
    let parts = PARTS.iter().filter(|part| cloud.existing(part).is_none());
    let found = parts.filter_map(|part| inputs.get(&reference(cloud, part)?));
    let mut rivals: Vec<Ref> = found
        .filter_map(|object| owner_of(&object.metadata, &kind))
        .filter(|owner| owner.name != name && owner.namespace.as_deref() == Some(&cloud.namespace))
        .collect();
    rivals.sort_by(|a, b| a.name.cmp(&b.name));
    rivals.dedup();
    rivals
}

/// The problem of a ControlPlane beside an older one. One that is gone or terminating is no rival: its parts go with it.
pub(super) fn problem_of(cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Option<Problem> {
    let own = &inputs.object.metadata;
    let age = |meta: &kube::core::ObjectMeta| (meta.creation_timestamp.clone(), meta.name.clone());
    let older = needs(cloud, inputs).into_iter().find(|rival| {
        inputs
            .get(rival)
            .is_some_and(|rival| rival.metadata.deletion_timestamp.is_none() && age(&rival.metadata) < age(own))
    })?;
    let (here, namespace) = (inputs.object.name_any(), &cloud.namespace);
    Some(problem(
        "metadata.namespace",
        format!(
            "the namespace {namespace} already has controlplane/{}, and each namespace can have one ControlPlane",
            older.name
        ),
        format!("delete controlplane/{here}, or create it in another namespace"),
    ))
}
