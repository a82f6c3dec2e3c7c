//! The operator of `c5c3.io`: ControlPlane, as far as infrastructure, Keystone and Placement go, and
//! SecretAggregate.
//! CredentialRotation is accepted by the API and not yet acted on.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod control_plane;
mod secret_aggregate;

use c5c3_kit::Operator;

pub use control_plane::{ControlPlanes, MEMCACHED_IMAGE, Need, PARTS, Part, SERVER_IMAGES, parts, service_objects};
pub use secret_aggregate::SecretAggregates;

/// The field manager, and the value of the ownership label. It must never change.
pub const NAME: &str = "controlplane-operator";

/// The operator. With `cross_namespace`, Secrets may be read from and written to other namespaces than the object's own.
pub fn operator(cross_namespace: bool) -> Operator {
    Operator::new(NAME).controller(|| ControlPlanes).controller(move || SecretAggregates { cross_namespace })
}
