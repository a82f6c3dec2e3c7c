//! The operator of `c5c3.io`: ControlPlane, as far as infrastructure, Keystone and Placement go,
//! SecretAggregate and CredentialRotation.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod ceph_users;
mod control_plane;
mod credential_rotation;
mod secret_aggregate;

use c5c3_kit::Operator;
use c5c3_openstack::Options;

pub use control_plane::{ControlPlanes, MEMCACHED_IMAGE, Need, PARTS, Part, SERVER_IMAGES, parts, service_objects};
pub use credential_rotation::{CredentialRotations, ROTATE};
pub use secret_aggregate::SecretAggregates;

/// The field manager, and the value of the ownership label. It must never change.
pub const NAME: &str = "controlplane-operator";

/// The operator. With `cross_namespace`, Secrets may be read from and written to other namespaces than the object's own.
pub fn operator(cross_namespace: bool) -> Operator {
    with(cross_namespace, Options::default())
}

/// The operator, whose calls to Keystone have these options.
pub fn with(cross_namespace: bool, options: Options) -> Operator {
    Operator::new(NAME)
        .controller(|| ControlPlanes)
        .controller(move || SecretAggregates { cross_namespace })
        .controller(move || CredentialRotations::new(options.clone()))
}
