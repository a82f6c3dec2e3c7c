//! What must be ready before a service starts, beyond what it stands on by itself.

use c5c3_api::blocks::{DependencyKind, DependsOn};
use c5c3_api::ext::{mariadb::MariaDB, rabbitmq::RabbitmqCluster, valkey::Valkey};
use c5c3_api::openstack::{Cinder, Glance, Keystone, Neutron, Nova, Placement, Tempest};
use c5c3_api::{cortex::Cortex, ovn::OVNCluster};
use c5c3_kit::object::condition;
use c5c3_kit::{Inputs, KindRef, Ref, Wait, readiness};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::Resource;
use kube::core::ApiResource;

use crate::cache::memcached;

/// Everything that can be depended on.
const KINDS: &[DependencyKind] = &[
    DependencyKind::Keystone,
    DependencyKind::Glance,
    DependencyKind::Placement,
    DependencyKind::Nova,
    DependencyKind::Neutron,
    DependencyKind::Cinder,
    DependencyKind::Cortex,
    DependencyKind::Tempest,
    DependencyKind::OVNCluster,
    DependencyKind::MariaDB,
    DependencyKind::RabbitmqCluster,
    DependencyKind::Valkey,
    DependencyKind::Memcached,
];

/// The kinds that [`needs`] may name.
pub fn reads() -> Vec<KindRef> {
    let kinds = KINDS.iter().map(|kind| KindRef { resource: resource(*kind), namespaced: true });
    kinds.chain([KindRef::of::<StatefulSet>()]).collect()
}

/// What has to be read for a dependency. A cache is an object of a Memcached operator, or the StatefulSet that a ControlPlane
/// makes without one.
pub fn needs(dependency: &DependsOn, namespace: &str) -> Vec<Ref> {
    let own = reference(dependency, namespace);
    let namespace = own.namespace.clone().unwrap_or_default();
    let mut needs = vec![own];
    if dependency.kind == DependencyKind::Memcached {
        needs.push(Ref::namespaced::<StatefulSet>(namespace, dependency.name.to_string()));
    }
    needs
}

fn reference(dependency: &DependsOn, namespace: &str) -> Ref {
    Ref {
        resource: resource(dependency.kind),
        namespace: Some(dependency.namespace.as_ref().map_or_else(|| namespace.to_owned(), ToString::to_string)),
        name: dependency.name.to_string(),
    }
}

/// The waits for dependencies that are not as they must be.
pub fn waits<K: Resource>(dependencies: &[DependsOn], inputs: &Inputs<K>, namespace: &str) -> Vec<Wait> {
    let wait = |dependency: &DependsOn| {
        let needs = needs(dependency, namespace);
        let reference = needs.iter().find(|need| inputs.get(need).is_some()).unwrap_or(&needs[0]);
        let found = match inputs.get(reference) {
            None => Some(inputs.missing(reference)),
            Some(object) if dependency.condition == "Ready" => readiness::wait(reference, object),
            Some(object) => match condition(object, &dependency.condition) {
                Some(found) if found["status"] == "True" => None,
                Some(found) => Some(
                    Wait::on(reference)
                        .now(format!("the condition is {}", found["status"].as_str().unwrap_or("Unknown"))),
                ),
                None => Some(Wait::on(reference).now("the condition is not set yet")),
            },
        };
        found.map(|wait| {
            wait.condition(&dependency.condition).because("spec.dependsOn names it").with_reason("DependencyNotMet")
        })
    };
    dependencies.iter().filter_map(wait).collect()
}

fn resource(kind: DependencyKind) -> ApiResource {
    match kind {
        DependencyKind::Keystone => ApiResource::erase::<Keystone>(&()),
        DependencyKind::Glance => ApiResource::erase::<Glance>(&()),
        DependencyKind::Placement => ApiResource::erase::<Placement>(&()),
        DependencyKind::Nova => ApiResource::erase::<Nova>(&()),
        DependencyKind::Neutron => ApiResource::erase::<Neutron>(&()),
        DependencyKind::Cinder => ApiResource::erase::<Cinder>(&()),
        DependencyKind::Cortex => ApiResource::erase::<Cortex>(&()),
        DependencyKind::Tempest => ApiResource::erase::<Tempest>(&()),
        DependencyKind::OVNCluster => ApiResource::erase::<OVNCluster>(&()),
        DependencyKind::MariaDB => ApiResource::erase::<MariaDB>(&()),
        DependencyKind::RabbitmqCluster => ApiResource::erase::<RabbitmqCluster>(&()),
        DependencyKind::Valkey => ApiResource::erase::<Valkey>(&()),
        DependencyKind::Memcached => memcached(),
    }
}
