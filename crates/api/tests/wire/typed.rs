//! Every kind as its Rust type, to read a document and write it again.

use c5c3_api::{c5c3, ceph, cortex, hypervisor, openstack, orc, ovn, ovs};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads a document as the type of its kind, and writes it again.
pub(crate) fn round_trip(document: &Value) -> Value {
    fn through<K: DeserializeOwned + Serialize>(document: &Value) -> Value {
        let object: K =
            serde_json::from_value(document.clone()).unwrap_or_else(|error| panic!("{error}: {document:#}"));
        serde_json::to_value(object).unwrap()
    }
    let group = document["apiVersion"].as_str().unwrap().split('/').next().unwrap();
    match (group, document["kind"].as_str().unwrap()) {
        (_, "ControlPlane") => through::<c5c3::ControlPlane>(document),
        (_, "SecretAggregate") => through::<c5c3::SecretAggregate>(document),
        (_, "CredentialRotation") => through::<c5c3::CredentialRotation>(document),
        (_, "Keystone") => through::<openstack::Keystone>(document),
        (_, "Glance") => through::<openstack::Glance>(document),
        (_, "Placement") => through::<openstack::Placement>(document),
        (_, "Nova") => through::<openstack::Nova>(document),
        (_, "Neutron") => through::<openstack::Neutron>(document),
        (_, "Cinder") => through::<openstack::Cinder>(document),
        (_, "Tempest") => through::<openstack::Tempest>(document),
        (_, "Cortex") => through::<cortex::Cortex>(document),
        (_, "Pipeline") => through::<cortex::Pipeline>(document),
        (_, "Decision") => through::<cortex::Decision>(document),
        (_, "Descheduling") => through::<cortex::Descheduling>(document),
        (_, "OVNCluster") => through::<ovn::OVNCluster>(document),
        (_, "OVNChassis") => through::<ovn::OVNChassis>(document),
        (_, "OVSNode") => through::<ovs::OVSNode>(document),
        (_, "Hypervisor") => through::<hypervisor::Hypervisor>(document),
        (_, "Eviction") => through::<hypervisor::Eviction>(document),
        (_, "Migration") => through::<hypervisor::Migration>(document),
        (_, "RemoteCluster") => through::<ceph::RemoteCluster>(document),
        (_, "RemoteArbiter") => through::<ceph::RemoteArbiter>(document),
        ("openstack.k-orc.cloud", "Domain") => through::<orc::Domain>(document),
        ("openstack.k-orc.cloud", "Project") => through::<orc::Project>(document),
        ("openstack.k-orc.cloud", "Role") => through::<orc::Role>(document),
        ("openstack.k-orc.cloud", "Group") => through::<orc::Group>(document),
        ("openstack.k-orc.cloud", "Service") => through::<orc::Service>(document),
        ("openstack.k-orc.cloud", "Endpoint") => through::<orc::Endpoint>(document),
        ("openstack.k-orc.cloud", "User") => through::<orc::User>(document),
        ("openstack.k-orc.cloud", "ApplicationCredential") => through::<orc::ApplicationCredential>(document),
        ("openstack.k-orc.cloud", "RoleAssignment") => through::<orc::RoleAssignment>(document),
        (group, kind) => panic!("{group} {kind} is not in this list"),
    }
}
