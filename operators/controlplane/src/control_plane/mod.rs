//! ControlPlane: one object that becomes an OpenStack. Infrastructure and Keystone so far; the objects of the other
//! services are made too, and say themselves that nobody acts on them yet.

mod accounts;
mod cloud;
mod graph;
mod infrastructure;
mod keystone;
mod memcached;
mod progress;
mod retention;
mod services;
mod settled;

use c5c3_api::c5c3::ControlPlane;
use c5c3_api::cortex::Cortex;
use c5c3_api::ext::cert_manager::{Certificate, ClusterIssuer, Issuer};
use c5c3_api::ext::mariadb::MariaDB;
use c5c3_api::ext::rabbitmq::RabbitmqCluster;
use c5c3_api::ext::valkey::Valkey;
use c5c3_api::openstack::{Cinder, Glance, Keystone, Neutron, Nova, Placement, Tempest};
use c5c3_kit::ownership::{MANAGED_BY, label};
use c5c3_kit::retention::Retained;
use c5c3_kit::{Child, Controller, Inputs, KindRef, Plan, Ref, Step, Verdict, Wait};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

use cloud::Cloud;
pub use graph::{GRAPH, Node};
pub use memcached::IMAGE as MEMCACHED_IMAGE;

/// The controller.
pub struct ControlPlanes;

impl Controller for ControlPlanes {
    type Kind = ControlPlane;
    type Valid = Cloud;
    const NAME: &'static str = "controlplane";
    const CONDITIONS: &'static [&'static str] = &[graph::INFRASTRUCTURE, graph::KEYSTONE, graph::KORC, graph::SERVICES];
    const FINALIZER: Option<&'static str> = Some("c5c3.io/controlplane-cleanup");

    fn children(&self) -> Vec<KindRef> {
        let beside = [
            KindRef::of::<Certificate>(),
            KindRef::of::<Secret>(),
            KindRef::of::<Service>(),
            KindRef::of::<PodDisruptionBudget>(),
            KindRef::of::<NetworkPolicy>(),
        ];
        GRAPH.iter().filter_map(|node| kind(node.name)).chain(beside).collect()
    }

    fn reads(&self) -> Vec<KindRef> {
        vec![KindRef::of::<StorageClass>(), KindRef::of::<ClusterIssuer>(), KindRef::of::<Issuer>()]
    }

    fn needs(&self, inputs: &Inputs<ControlPlane>) -> Vec<Ref> {
        let Ok(cloud) = Cloud::new(&inputs.object) else { return Vec::new() };
        // Of parts that hold data it matters also that they are there when nobody asks for them any more.
        let nodes = GRAPH.iter().map(|node| node.name).filter(|node| cloud.has(node) || settled::holds_data(node));
        let own = nodes.filter_map(|node| reference(&cloud, node));
        own.chain(infrastructure::needs(&cloud)).chain(accounts::needs(&cloud)).collect()
    }

    fn validate(&self, inputs: &Inputs<ControlPlane>) -> Verdict<Cloud> {
        let cloud = match Cloud::new(&inputs.object) {
            Ok(cloud) => cloud,
            Err(problems) => return Verdict::Invalid(problems.into()),
        };
        let problems = settled::problems(&cloud, inputs);
        if problems.is_empty() { Verdict::Valid(cloud) } else { Verdict::Invalid(problems.into()) }
    }

    fn plan(&self, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Plan {
        let mut plan = Plan::new().ready_reason("AllServicesReady");
        for node in cloud.nodes() {
            let needs: Vec<&'static str> = node.needs.iter().copied().filter(|need| cloud.has(need)).collect();
            plan = plan.step(step(node, cloud, inputs).node(node.name, needs));
        }
        if let Some(wait) = no_users(&inputs.object).filter(|_| !cloud.has("korc")) {
            plan = plan.step(Step::new(graph::KORC).node("users", []).wait(wait));
        }
        for condition in Self::CONDITIONS {
            if !plan.steps.iter().any(|step| step.condition == *condition) {
                plan = plan.step(Step::new(condition).node(condition, []).done("nothing of it is asked for"));
            }
        }
        progress::status(plan, cloud, inputs)
    }

    fn retention(&self, object: &Value) -> Vec<Retained> {
        retention::of(object)
    }

    /// What stands on others goes before them.
    fn teardown(&self) -> Vec<Vec<KindRef>> {
        let mut waves: Vec<Vec<KindRef>> = Vec::new();
        for node in GRAPH {
            let depth = depth(node);
            waves.resize_with(waves.len().max(depth + 1), Vec::new);
            waves[depth].extend(kind(node.name));
        }
        waves.reverse();
        waves
    }
}

/// The names of the parts that a ControlPlane consists of, each after what it needs; none of one that is wrong.
pub fn parts(object: &ControlPlane) -> Vec<&'static str> {
    Cloud::new(object).map(|cloud| cloud.nodes().map(|node| node.name).collect()).unwrap_or_default()
}

/// How many nodes stand below a node, one on top of the other.
fn depth(node: &Node) -> usize {
    let below = node.needs.iter().filter_map(|need| graph::find(need));
    below.map(|need| depth(need) + 1).max().unwrap_or_default()
}

/// The children of a node, and what must be there before them.
fn step(node: &Node, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Step {
    let step = Step::new(node.condition).done(format!("{} is ready", node.name));
    match node.name {
        "mariadb" => infrastructure::mariadb(step, cloud, inputs),
        "rabbitmq" => infrastructure::rabbitmq(step, cloud, inputs),
        "valkey" => step.child(infrastructure::valkey(cloud)),
        "memcached" => memcached::children(cloud).into_iter().fold(step, Step::child),
        "korc" => step.wait(no_catalog(&inputs.object)),
        service => match services::child(service, cloud) {
            Some(child) => accounts::of(service, step, cloud, inputs).child(explained(node, child)),
            None => step,
        },
    }
}

/// The services that this version has an operator for. The objects of the others are made, and nobody acts on them.
const OPERATED: &[&str] = &["keystone"];

/// Says of an object that nobody acts on it, to who waits for it.
fn explained(node: &Node, child: Child) -> Child {
    if OPERATED.contains(&node.name) {
        return child;
    }
    let field = match node.name {
        "cortex" | "tempest" => format!("spec.{}.enabled", node.name),
        service => format!("spec.services.{service}.enabled"),
    };
    child.because(format!(
        "this version has no operator for {}, so nobody acts on the object: set {field} to false to go without it",
        node.name
    ))
}

/// The wait of who asked for a catalog that is kept as objects, which this version cannot do.
fn no_catalog(object: &ControlPlane) -> Wait {
    nobody_acts(object, "has its catalog and identities as objects", "spec.korc.enabled", "set it to false")
}

/// The wait of who asked for users that the catalog would make.
fn no_users(object: &ControlPlane) -> Option<Wait> {
    let bootstrap = object.spec.identity.as_ref()?.keystone.as_ref()?.bootstrap.as_ref()?;
    let field = "spec.identity.keystone.bootstrap.serviceUsers";
    let wait = || nobody_acts(object, "has its service users", field, "remove them, and create them in Keystone");
    (!bootstrap.service_users.is_empty()).then(wait)
}

fn nobody_acts(object: &ControlPlane, what: &str, field: &str, instead: &str) -> Wait {
    let own = Ref::namespaced::<ControlPlane>(object.namespace().unwrap_or_default(), object.name_any());
    Wait::on(&own)
        .condition(what)
        .now(format!("{field} asks for it, and nobody acts on it in this version"))
        .look_at(format!("{field}: {instead}"))
        .failed("NobodyActs")
}

/// The kind of a node's object; none for a node without an object of its own.
fn kind(node: &str) -> Option<KindRef> {
    Some(match node {
        "mariadb" => KindRef::of::<MariaDB>(),
        "rabbitmq" => KindRef::of::<RabbitmqCluster>(),
        "valkey" => KindRef::of::<Valkey>(),
        "memcached" => KindRef::of::<StatefulSet>(),
        "keystone" => KindRef::of::<Keystone>(),
        "glance" => KindRef::of::<Glance>(),
        "placement" => KindRef::of::<Placement>(),
        "nova" => KindRef::of::<Nova>(),
        "neutron" => KindRef::of::<Neutron>(),
        "cinder" => KindRef::of::<Cinder>(),
        "cortex" => KindRef::of::<Cortex>(),
        "tempest" => KindRef::of::<Tempest>(),
        _ => return None,
    })
}

/// A node's object as it was read, if it is one of ours: what stands in the way of ours says nothing about ours.
fn own<'i>(cloud: &Cloud, node: &str, inputs: &'i Inputs<ControlPlane>) -> Option<&'i DynamicObject> {
    let object = inputs.get(&reference(cloud, node)?)?;
    let ours = label(&object.metadata, MANAGED_BY).is_some_and(|by| by == crate::NAME);
    (ours && cloud.existing(node).is_none()).then_some(object)
}

/// A node's object, which is called as the node is, unless it is one that exists already.
fn reference(cloud: &Cloud, node: &str) -> Option<Ref> {
    let KindRef { resource, .. } = kind(node)?;
    let existing = cloud.existing(node);
    let namespace = existing.and_then(|existing| existing.namespace.as_ref()).map(ToString::to_string);
    let name = existing.map_or_else(|| node.to_owned(), |existing| existing.name.to_string());
    Some(Ref { resource, namespace: Some(namespace.unwrap_or_else(|| cloud.namespace.clone())), name })
}
