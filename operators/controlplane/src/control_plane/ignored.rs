//! Fields that a ControlPlane takes and this version does not act on. Each is a wait that says so: a user who asks for something
//! is told that it does not come.

use c5c3_api::c5c3::{Ceph, ControlPlane, ControlPlaneSpec};
use c5c3_kit::{Ref, Step, Wait};
use kube::ResourceExt;

use super::cloud::Cloud;
use super::part;
use super::parts::KORC;

/// A field that no operator of this version acts on.
struct Ignored {
    /// The field.
    field: &'static str,
    /// Whether it is set.
    is_set: fn(&ControlPlaneSpec) -> bool,
    /// What the cloud would have by it.
    what: &'static str,
    /// What to do in its place.
    instead: &'static str,
}

/// Users are made with K-ORC's kinds alone.
const USERS: &[Ignored] = &[Ignored {
    field: "spec.identity.keystone.bootstrap.serviceUsers",
    is_set: |spec| {
        let keystone = spec.identity.as_ref().and_then(|identity| identity.keystone.as_ref());
        let bootstrap = keystone.and_then(|keystone| keystone.bootstrap.as_ref());
        bootstrap.is_some_and(|bootstrap| !bootstrap.service_users.is_empty())
    },
    what: "has its service users",
    instead: "remove them, or set spec.korc.enabled to true",
}];

const STORAGE: &[Ignored] = &[
    Ignored {
        field: "spec.storage.storageClusters",
        is_set: |spec| {
            let clusters = spec.storage.as_ref().is_some_and(|storage| !storage.storage_clusters.is_empty());
            clusters && super::ceph::users(spec).is_empty()
        },
        what: "has keys from its storage clusters",
        instead: "remove it; or enable a service that stores in Ceph, and remove spec.storage.ceph.secretRef",
    },
    Ignored {
        field: "spec.storage.ceph.monitors",
        is_set: |spec| ceph(spec).is_some_and(|ceph| !ceph.monitors.is_empty()),
        what: "tells its services the monitors of Ceph",
        instead: "remove it; Rook tells its monitors, and the Secret of spec.storage.ceph.secretRef has them under the key monitors",
    },
    Ignored {
        field: "spec.storage.ceph.filesystem",
        is_set: |spec| ceph(spec).is_some_and(|ceph| ceph.filesystem.is_some()),
        what: "has shares on a Ceph file system",
        instead: "remove it",
    },
];

fn ceph(spec: &ControlPlaneSpec) -> Option<&Ceph> {
    spec.storage.as_ref()?.ceph.as_ref()
}

/// A step for each group of fields of which some are set.
pub(super) fn steps(cloud: &Cloud, object: &ControlPlane) -> Vec<Step> {
    let users = if cloud.has(&KORC) { &[] } else { USERS };
    let groups = [(part::KORC, "users", users), (part::SERVICES, "storage", STORAGE)];
    let step = |(condition, name, fields): (&'static str, &'static str, &[Ignored])| {
        let set = fields.iter().filter(|field| (field.is_set)(&object.spec));
        let mut waits = set.map(|field| no_operator_acts(object, field.what, field.field, field.instead)).peekable();
        waits.peek()?;
        Some(waits.fold(Step::new(condition).node(name, []).childless(), Step::wait))
    };
    groups.into_iter().filter_map(step).collect()
}

fn no_operator_acts(object: &ControlPlane, what: &str, field: &str, instead: &str) -> Wait {
    let own = Ref::namespaced::<ControlPlane>(object.namespace().unwrap_or_default(), object.name_any());
    Wait::on(&own)
        .condition(what)
        .now(format!("sets {field}, and no operator of this version acts on it"))
        .look_at(format!("{field}: {instead}"))
        .failed("NotSupported")
}
