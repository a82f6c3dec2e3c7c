//! `<service>.openstack.c5c3.io`: the OpenStack services, one group and one module each.
//!
//! Every field of a service's spec is optional: what is left out follows the conventions of the ControlPlane, so that
//! `spec: {}` is a service on the objects `mariadb`, `rabbitmq`, `memcached` and `keystone` of its namespace.

mod cinder;
mod compute;
mod console;
mod glance;
mod keystone;
mod neutron;
mod nova;
mod placement;
mod shared;
mod tempest;

pub use cinder::*;
pub use compute::*;
pub use console::*;
pub use glance::*;
pub use keystone::*;
pub use neutron::*;
pub use nova::*;
pub use placement::*;
pub use shared::ServiceObject;
pub use tempest::*;

use shared::{LONGEST_NAME, service_mistakes, service_object, unfit_name};
pub(crate) use shared::{keeps_schema, keystone_aliases, mistakes};
