//! ControlPlane: one object that becomes an OpenStack: infrastructure, Keystone, the catalog, the users, and the objects of the
//! services, which their own operators act on.

mod accounts;
mod bundle;
mod ceph;
mod cloud;
mod hypervisors;
mod identity;
mod ignored;
mod images;
mod immutable;
mod infrastructure;
mod keystone;
mod memcached;
mod ovn;
mod part;
mod parts;
mod policies;
mod progress;
mod retention;
mod rival;
mod services;
mod spec;

use std::sync::Arc;
use std::time::Duration;

use c5c3_api::c5c3::{ControlPlane, SecretAggregate};
use c5c3_api::ext::cert_manager::{Certificate, ClusterIssuer, Issuer};
use c5c3_api::ext::rook::{CephBlockPool, CephClient, CephCluster};
use c5c3_api::openstack::Keystone;
use c5c3_kit::ownership::{MANAGED_BY, label};
use c5c3_kit::retention::Retained;
use c5c3_kit::{Child, Controller, Inputs, KindRef, Plan, Question, Ref, RemoteHandle, Step, Verdict};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

use cloud::Cloud;
pub use images::SERVER_IMAGES;
pub use memcached::IMAGE as MEMCACHED_IMAGE;
use part::Makes;
pub use part::{Need, Part};
use parts::KORC;
pub use parts::PARTS;

/// The annotation of an object that was made before the ControlPlane and is to become one of its parts.
const ADOPT: &str = "c5c3.io/adopt";

/// How often Keystone is asked in which region the endpoints are: one list for all of them.
const RESYNC: Duration = Duration::from_mins(1);

/// The controller.
pub struct ControlPlanes;

impl Controller for ControlPlanes {
    type Kind = ControlPlane;
    type Valid = Cloud;
    const NAME: &'static str = "controlplane";
    const CONDITIONS: &'static [&'static str] =
        &[part::INFRASTRUCTURE, part::KEYSTONE, part::KORC, part::CREDENTIALS, part::SERVICES];
    const FINALIZER: Option<&'static str> = Some("c5c3.io/controlplane-cleanup");
    /// CephClients are in the namespace of their cluster.
    const CROSS_NAMESPACE: bool = true;
    /// What is in Keystone goes with the objects of K-ORC: nothing is left to say farewell to.
    const FAREWELL_PATIENCE: Option<Duration> = Some(Duration::ZERO);

    fn children(&self) -> Vec<KindRef> {
        let beside = [
            KindRef::of::<Certificate>(),
            KindRef::of::<Secret>(),
            KindRef::of::<Service>(),
            KindRef::of::<PodDisruptionBudget>(),
            KindRef::of::<NetworkPolicy>(),
            KindRef::of::<CephClient>(),
            KindRef::of::<SecretAggregate>(),
        ];
        PARTS.iter().filter_map(|part| part.kind()).chain(beside).chain(identity::kinds()).collect()
    }

    fn observes(&self) -> Vec<KindRef> {
        identity::kinds()
    }

    fn remote(&self) -> Option<RemoteHandle> {
        Some(RemoteHandle::new(Arc::new(identity::Keystone::new())))
    }

    fn questions(&self, inputs: &Inputs<ControlPlane>) -> Vec<Question> {
        Cloud::new(&inputs.object).map(|cloud| identity::questions(&cloud, inputs)).unwrap_or_default()
    }

    fn reads(&self) -> Vec<KindRef> {
        vec![
            KindRef::of::<ConfigMap>(),
            KindRef::of::<StorageClass>(),
            KindRef::of::<ClusterIssuer>(),
            KindRef::of::<Issuer>(),
            KindRef::of::<ControlPlane>(),
            KindRef::of::<CephCluster>(),
            KindRef::of::<CephBlockPool>(),
        ]
    }

    fn needs(&self, inputs: &Inputs<ControlPlane>) -> Vec<Ref> {
        let Ok(mut cloud) = Cloud::new(&inputs.object) else { return Vec::new() };
        ceph::by_convention(&mut cloud, inputs);
        // Of parts that hold data it matters also that they exist when the spec no longer has them.
        let parts = PARTS.iter().filter(|part| cloud.has(part) || part.holds_data);
        let own = parts.filter_map(|part| reference(&cloud, part));
        let rivals = rival::needs(&cloud, inputs);
        own.chain(infrastructure::needs(&cloud))
            .chain(accounts::needs(&cloud))
            .chain([bundle::reference(&cloud)])
            .chain(ceph::needs(&cloud, inputs))
            .chain(policies::reference(&cloud))
            .chain(identity::needs(&cloud, inputs))
            .chain(rivals)
            .collect()
    }

    fn validate(&self, inputs: &Inputs<ControlPlane>) -> Verdict<Cloud> {
        let mut cloud = match Cloud::new(&inputs.object) {
            Ok(cloud) => cloud,
            Err(problems) => return Verdict::Invalid(problems.into()),
        };
        if let Some(problem) = rival::problem_of(&cloud, inputs) {
            return Verdict::Invalid(vec![problem].into());
        }
        ceph::by_convention(&mut cloud, inputs);
        let mut problems = policies::read(&mut cloud, inputs);
        problems.extend(ceph::problems(&cloud));
        problems.extend(immutable::problems(&cloud, inputs));
        problems.extend(policies::problems(&cloud, inputs));
        problems.extend(services::problems(&cloud));
        problems.extend(identity::problems(&cloud, inputs));
        if problems.is_empty() { Verdict::Valid(cloud) } else { Verdict::Invalid(problems.into()) }
    }

    fn plan(&self, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Plan {
        let mut plan = Plan::new().ready_reason("AllServicesReady").resync(cloud.has(&KORC).then_some(RESYNC));
        for part in cloud.parts() {
            let needs: Vec<&'static str> = cloud.needs(part).map(|need| need.name).collect();
            plan = plan.step(step(part, cloud, inputs).node(part.name, needs));
        }
        plan = ignored::steps(cloud, &inputs.object).into_iter().fold(plan, Plan::step);
        for part in PARTS.iter().filter(|part| !cloud.has(part)) {
            plan = match identity::leaving(part, cloud, inputs) {
                Some(step) => plan.step(step.node(part.name, [])),
                None => plan.without_step(part.name),
            };
        }
        for condition in Self::CONDITIONS {
            if !plan.steps.iter().any(|step| step.condition == *condition) {
                let step = Step::new(condition).node(*condition, []).childless();
                plan = plan.step(step.done("it is not part of the spec"));
            }
        }
        let plan = ceph::status(progress::status(plan, cloud, inputs), cloud, inputs);
        identity::status(plan, cloud, inputs)
    }

    fn retention(&self, object: &Value) -> Vec<Retained> {
        retention::of(object)
    }

    /// What stands on others goes before them.
    fn teardown(&self) -> Vec<Vec<KindRef>> {
        let mut waves: Vec<Vec<KindRef>> = Vec::new();
        for part in PARTS {
            let depth = part.depth();
            waves.resize_with(waves.len().max(depth + 1), Vec::new);
            waves[depth].extend(part.kind());
        }
        waves.reverse();
        // What is in Keystone is deleted while it runs, and after the services that sign in with it.
        let keystone = waves.iter().position(|wave| wave.contains(&KindRef::of::<Keystone>())).unwrap_or(waves.len());
        waves.splice(keystone..keystone, identity::teardown());
        waves
    }
}

/// The names of the parts that a ControlPlane consists of, each after what it needs; none of one that is wrong.
pub fn parts(object: &ControlPlane) -> Vec<&'static str> {
    Cloud::new(object).map(|cloud| cloud.parts().map(|part| part.name).collect()).unwrap_or_default()
}

/// The objects of services that a ControlPlane becomes, as far as it decides about them; none of one that is wrong.
pub fn service_objects(object: &Value) -> Vec<Value> {
    let Ok(parsed) = c5c3_kit::controller::parse::<ControlPlane>(object) else { return Vec::new() };
    let Ok(cloud) = Cloud::new(&parsed) else { return Vec::new() };
    let child = |part: &'static Part| match part.makes {
        Makes::Service { kind, project, template } => {
            let template = services::template(part, template, &cloud);
            let child = services::child(part, kind(), project, &template, &cloud);
            serde_json::to_value(child.object).ok()
        }
        Makes::Servers { .. } | Makes::Identity { .. } => None,
    };
    cloud.parts().filter_map(child).collect()
}

/// The children of a part, and what must be there before them.
fn step(part: &'static Part, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Step {
    let new = Step::new(part.condition).done(format!("{} is ready", part.name));
    match part.makes {
        Makes::Servers { step, .. } => step(new, cloud, inputs),
        Makes::Service { kind, project, template } => {
            let template = services::template(part, template, cloud);
            let child = services::child(part, kind(), project, &template, cloud);
            let new = policies::waiting(part, new, cloud);
            accounts::of(part, new, cloud, inputs).child(adopting(part, explained(part, child), cloud, inputs))
        }
        Makes::Identity { step, .. } => step(part, new, cloud, inputs),
    }
}

/// Says of an object, in the wait for it, that it has no operator.
fn explained(part: &Part, child: Child) -> Child {
    if part.operated {
        return child;
    }
    child.because(format!(
        "this version has no operator for {}, so the object does not become ready; set {}.enabled to false to go without it",
        part.name, part.field
    ))
}

/// Adopts an object that a user created for the ControlPlane.
fn adopting(part: &Part, child: Child, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Child {
    let found = reference(cloud, part).and_then(|object| inputs.get(&object));
    if found.is_some_and(is_adopted) { child.adoptable() } else { child }
}

/// A part's object as it was read, if it is one of ours or becomes one: a foreign object says nothing about ours.
fn own<'i>(cloud: &Cloud, part: &Part, inputs: &'i Inputs<ControlPlane>) -> Option<&'i DynamicObject> {
    let object = inputs.get(&reference(cloud, part)?)?;
    let ours = label(&object.metadata, MANAGED_BY).is_some_and(|by| by == crate::NAME);
    ((ours || is_adopted(object)) && cloud.existing(part).is_none()).then_some(object)
}

/// Whether a user created an object for the ControlPlane to adopt.
fn is_adopted(object: &DynamicObject) -> bool {
    object.annotations().get(ADOPT).is_some_and(|adopt| adopt == "true")
}

/// A part's object, which is called as the part is, unless it is one that exists already.
fn reference(cloud: &Cloud, part: &Part) -> Option<Ref> {
    let KindRef { resource, .. } = part.kind()?;
    let existing = cloud.existing(part);
    let namespace = existing.and_then(|existing| existing.namespace.as_ref()).map(ToString::to_string);
    let name = existing.map_or_else(|| part.name.to_owned(), |existing| existing.name.to_string());
    Some(Ref { resource, namespace: Some(namespace.unwrap_or_else(|| cloud.namespace.clone())), name })
}
