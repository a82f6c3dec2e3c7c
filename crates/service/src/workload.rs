//! The objects that run a component: a Deployment, StatefulSet or DaemonSet, and how many of its pods may be down.

use std::collections::BTreeMap;

use c5c3_kit::{Child, KindRef};
use k8s_openapi::api::apps::v1::{
    DaemonSet, DaemonSetSpec, Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment, StatefulSet,
    StatefulSetSpec,
};
use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector, PodTemplateSpec};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::component::{Component, Kind, Runs};
use crate::health;
use crate::instance::Instance;
use crate::pod::{Mount, Pod, Shared, container, resources, spread};
use crate::wsgi::{GRACE_SECONDS, Wsgi};

/// A component, and what all of its pods get.
#[derive(Debug)]
pub struct Workload<'a> {
    /// Whose.
    pub instance: &'a Instance,
    /// The component.
    pub component: &'a Component,
    /// The image.
    pub image: &'a str,
    /// What its pods must not run without: the image and where the schemas are. A change of it waits for what the pods need.
    pub version: String,
    /// What pods of the instance have in common.
    pub shared: &'a Shared,
    /// The folder of the configuration.
    pub folder: &'a str,
    /// The configuration and certificates.
    pub mounts: Vec<Mount>,
    /// What speaks TLS for it, if anything does.
    pub tls: Option<Container>,
}

impl Workload<'_> {
    /// The kinds of its objects.
    pub fn children() -> [KindRef; 4] {
        [
            KindRef::of::<Deployment>(),
            KindRef::of::<StatefulSet>(),
            KindRef::of::<DaemonSet>(),
            KindRef::of::<PodDisruptionBudget>(),
        ]
    }

    /// The objects; `replicas` is absent where an autoscaler counts the pods.
    pub fn objects(self, replicas: Option<i32>) -> Vec<Child> {
        let budget = self.budget();
        let (instance, component, version) = (self.instance, self.component, self.version.clone());
        let metadata = instance.meta(instance.named(&component.name), &component.name);
        let selector = instance.selector(&component.name);
        let template = self.template();
        let workload = match &component.kind {
            Kind::Deployment => Child::new(&Deployment {
                metadata,
                spec: Some(DeploymentSpec {
                    replicas,
                    selector,
                    strategy: Some(strategy(component)),
                    template,
                    ..DeploymentSpec::default()
                }),
                ..Deployment::default()
            }),
            Kind::StatefulSet { claims } => Child::new(&StatefulSet {
                spec: Some(StatefulSetSpec {
                    replicas,
                    selector,
                    service_name: metadata.name.clone(),
                    // They have names, not an order.
                    pod_management_policy: Some("Parallel".into()),
                    volume_claim_templates: Some(claims.clone()).filter(|claims| !claims.is_empty()),
                    template,
                    ..StatefulSetSpec::default()
                }),
                metadata,
                ..StatefulSet::default()
            }),
            Kind::DaemonSet => Child::new(&DaemonSet {
                metadata,
                spec: Some(DaemonSetSpec { selector, template, ..DaemonSetSpec::default() }),
                ..DaemonSet::default()
            }),
        };
        budget.into_iter().chain([workload.version(version)]).collect()
    }

    /// A DaemonSet's pods go with their nodes, whatever a budget says.
    fn budget(&self) -> Option<Child> {
        let Component { name, kind, .. } = self.component;
        (*kind != Kind::DaemonSet).then(|| {
            Child::new(&PodDisruptionBudget {
                metadata: self.instance.meta(self.instance.named(name), name),
                spec: Some(PodDisruptionBudgetSpec {
                    selector: Some(self.instance.selector(name)),
                    max_unavailable: Some(IntOrString::Int(1)),
                    ..PodDisruptionBudgetSpec::default()
                }),
                ..PodDisruptionBudget::default()
            })
        })
    }

    fn template(self) -> PodTemplateSpec {
        let Component { name, scheduling, .. } = self.component;
        let mut containers = vec![self.container()];
        containers.extend(self.tls.clone());
        let mut mounts = self.mounts;
        mounts.extend(self.component.mounts.clone());
        let pod = Pod {
            instance: self.instance,
            component: name,
            shared: self.shared,
            containers,
            init_containers: Vec::new(),
            mounts,
            scheduling: scheduling.as_ref(),
            service_account: None,
            annotations: BTreeMap::new(),
        };
        let mut template = pod.template();
        if let Some(spec) = &mut template.spec {
            spec.termination_grace_period_seconds =
                Some(self.component.wsgi().map_or(GRACE_SECONDS, Wsgi::grace_seconds));
            if self.component.kind != Kind::DaemonSet {
                spec.topology_spread_constraints = Some(spread(self.instance, name, scheduling.as_ref()));
            }
        }
        template
    }

    fn container(&self) -> Container {
        let mut container = self.program();
        if self.component.knows_address {
            // First, for what follows may name it.
            container.env.get_or_insert_default().insert(0, address());
        }
        container
    }

    fn program(&self) -> Container {
        let Component { name, env, resources: size, .. } = self.component;
        let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (*name, value.as_str())).collect();
        match &self.component.runs {
            Runs::Wsgi(wsgi) => wsgi.container(self.image, &env, size.as_ref()),
            Runs::Program { command, ports } => {
                let command: Vec<&str> = command.iter().map(String::as_str).collect();
                let python = format!("/opt/{}/bin/python", self.instance.service);
                let port = |(name, port): &(&'static str, i32)| k8s_openapi::api::core::v1::ContainerPort {
                    name: Some((*name).into()),
                    container_port: *port,
                    ..Default::default()
                };
                let listens = |seconds: i32, failures: i32| {
                    ports.first().map(|(_, port)| health::listens(*port, seconds, failures))
                };
                Container {
                    ports: Some(ports.iter().map(port).collect::<Vec<_>>()).filter(|ports| !ports.is_empty()),
                    resources: resources(size.as_ref()),
                    // Two minutes: on a busy machine a program takes long to begin.
                    startup_probe: listens(5, 24),
                    readiness_probe: Some(health::probe(&python, self.folder, name)),
                    liveness_probe: listens(30, 3),
                    ..container(name, self.image, &command, &env)
                }
            }
        }
    }
}

fn strategy(component: &Component) -> DeploymentStrategy {
    if component.one_at_a_time {
        return DeploymentStrategy { type_: Some("Recreate".into()), rolling_update: None };
    }
    DeploymentStrategy {
        type_: Some("RollingUpdate".into()),
        // A new pod is ready before an old one goes, so that no request is turned away.
        rolling_update: Some(RollingUpdateDeployment {
            max_unavailable: Some(IntOrString::Int(0)),
            max_surge: Some(IntOrString::Int(1)),
        }),
    }
}

/// The pod's own address.
fn address() -> EnvVar {
    let field = ObjectFieldSelector { field_path: "status.podIP".into(), ..ObjectFieldSelector::default() };
    let source = EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() };
    EnvVar { name: "POD_IP".into(), value_from: Some(source), ..EnvVar::default() }
}
