//! Every Kubernetes kind of CobaltCore: its wire format, its defaults, its rules.
//!
//! [`all`] lists the kinds we own. [`ext`] holds typed slices of the kinds of others that we write or read.
//! The YAML of the documents that define the system is the wire format: nothing in it may be refused or lost.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod alias;
pub mod blocks;
pub mod c5c3;
mod catalog;
pub mod ceph;
pub mod cortex;
mod crd;
pub mod ext;
pub mod hypervisor;
pub mod openstack;
pub mod orc;
pub mod ovn;
pub mod ovs;

pub use alias::Alias;
pub use c5c3_schema::{Problem, ProblemKind, Problems};
pub use catalog::{Kind, Rules, all, find, problem};
pub use crd::FOREIGN;

fn kinds() -> Vec<Kind> {
    vec![
        Kind::of::<c5c3::ControlPlane>(),
        Kind::of::<c5c3::SecretAggregate>(),
        Kind::of::<c5c3::CredentialRotation>(),
        Kind::of::<openstack::Keystone>(),
        Kind::of::<openstack::Glance>(),
        Kind::of::<openstack::Placement>(),
        Kind::of::<openstack::Nova>(),
        Kind::of::<openstack::Neutron>(),
        Kind::of::<openstack::Cinder>(),
        Kind::of::<openstack::Tempest>(),
        Kind::of::<cortex::Cortex>(),
        Kind::of::<cortex::Pipeline>(),
        Kind::of::<cortex::Decision>(),
        Kind::of::<cortex::Descheduling>(),
        Kind::of::<ovn::OVNCluster>(),
        Kind::of::<ovn::OVNChassis>(),
        Kind::of::<ovs::OVSNode>(),
        Kind::of::<hypervisor::Hypervisor>(),
        Kind::of::<hypervisor::Eviction>(),
        Kind::of::<hypervisor::Migration>(),
        Kind::of::<ceph::RemoteCluster>(),
        Kind::of::<ceph::RemoteArbiter>(),
        Kind::of::<orc::Domain>(),
        Kind::of::<orc::Project>(),
        Kind::of::<orc::Role>(),
        Kind::of::<orc::Group>(),
        Kind::of::<orc::Service>(),
        Kind::of::<orc::Endpoint>(),
        Kind::of::<orc::User>(),
        Kind::of::<orc::ApplicationCredential>(),
        Kind::of::<orc::RoleAssignment>(),
    ]
}
