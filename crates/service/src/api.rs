//! A service's API in the cluster: its pods, its Service, how many of them may be down, how many there are, what leads to
//! it from outside.

use c5c3_api::blocks::{Autoscaling, GatewayRoute};
use c5c3_api::ext::gateway::{self, HTTPRoute, HTTPRouteSpec};
use c5c3_kit::{Child, KindRef};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment};
use k8s_openapi::api::autoscaling::v2::{
    CrossVersionObjectReference, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, MetricSpec, MetricTarget,
    ResourceMetricSource,
};
use k8s_openapi::api::core::v1::{PodTemplateSpec, Service, ServicePort, ServiceSpec};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::instance::Instance;
use crate::wsgi::GRACE_SECONDS;

/// The component that serves the API.
pub const COMPONENT: &str = "api";

/// A service's API.
#[derive(Clone, Debug)]
pub struct Api<'a> {
    /// Whose.
    pub instance: &'a Instance,
    /// Its port.
    pub port: i32,
    /// How many pods.
    pub replicas: i32,
    /// How their number changes.
    pub autoscaling: Option<&'a Autoscaling>,
    /// What leads to it from outside.
    pub gateway: Option<&'a GatewayRoute>,
}

impl Api<'_> {
    /// The kinds of its objects.
    pub fn children() -> Vec<KindRef> {
        vec![
            KindRef::of::<Deployment>(),
            KindRef::of::<Service>(),
            KindRef::of::<PodDisruptionBudget>(),
            KindRef::of::<HorizontalPodAutoscaler>(),
            KindRef::of::<NetworkPolicy>(),
            KindRef::of::<HTTPRoute>(),
        ]
    }

    /// The Deployment. An autoscaler that there is has the say over the number of pods.
    pub fn deployment(&self, mut template: PodTemplateSpec) -> Child {
        if let Some(spec) = &mut template.spec {
            spec.termination_grace_period_seconds = Some(GRACE_SECONDS);
        }
        let rolling = RollingUpdateDeployment {
            // A new pod is ready before an old one goes, so that nobody is turned away.
            max_unavailable: Some(IntOrString::Int(0)),
            max_surge: Some(IntOrString::Int(1)),
        };
        Child::new(&Deployment {
            metadata: self.instance.meta(self.instance.named(COMPONENT), COMPONENT),
            spec: Some(DeploymentSpec {
                replicas: self.autoscaling.is_none().then_some(self.replicas),
                selector: self.instance.selector(COMPONENT),
                strategy: Some(DeploymentStrategy {
                    type_: Some("RollingUpdate".into()),
                    rolling_update: Some(rolling),
                }),
                template,
                ..DeploymentSpec::default()
            }),
            ..Deployment::default()
        })
    }

    /// Everything beside the Deployment, the Services and the NetworkPolicy.
    pub fn around(&self) -> Vec<Child> {
        let mut children = vec![self.budget()];
        children.extend(self.autoscaling.map(|autoscaling| self.autoscaler(autoscaling)));
        children.extend(self.gateway.map(|gateway| self.route(gateway)));
        children
    }

    /// The addresses of the API. They need nothing, and are there before what they lead to, so that others know them early.
    pub fn services(&self) -> Vec<Child> {
        let names = [self.instance.name.clone(), self.instance.named(COMPONENT)];
        names.iter().map(|name| self.service(name)).collect()
    }

    fn service(&self, name: &str) -> Child {
        Child::new(&Service {
            metadata: self.instance.meta(name, COMPONENT),
            spec: Some(ServiceSpec {
                selector: Some(self.instance.labels(COMPONENT)),
                ports: Some(vec![ServicePort {
                    name: Some(COMPONENT.into()),
                    port: self.port,
                    target_port: Some(IntOrString::Int(self.port)),
                    protocol: Some("TCP".into()),
                    ..ServicePort::default()
                }]),
                ..ServiceSpec::default()
            }),
            ..Service::default()
        })
    }

    fn budget(&self) -> Child {
        Child::new(&PodDisruptionBudget {
            metadata: self.instance.meta(self.instance.named(COMPONENT), COMPONENT),
            spec: Some(PodDisruptionBudgetSpec {
                selector: Some(self.instance.selector(COMPONENT)),
                max_unavailable: Some(IntOrString::Int(1)),
                ..PodDisruptionBudgetSpec::default()
            }),
            ..PodDisruptionBudget::default()
        })
    }

    fn autoscaler(&self, autoscaling: &Autoscaling) -> Child {
        let metric = |name: &str, percent: Option<i32>| {
            let target =
                MetricTarget { type_: "Utilization".into(), average_utilization: percent, ..MetricTarget::default() };
            percent.map(|_| MetricSpec {
                type_: "Resource".into(),
                resource: Some(ResourceMetricSource { name: name.into(), target }),
                ..MetricSpec::default()
            })
        };
        let metrics = [
            metric("cpu", autoscaling.target_cpu_utilization),
            metric("memory", autoscaling.target_memory_utilization),
        ];
        Child::new(&HorizontalPodAutoscaler {
            metadata: self.instance.meta(self.instance.named(COMPONENT), COMPONENT),
            spec: Some(HorizontalPodAutoscalerSpec {
                min_replicas: Some(autoscaling.min_replicas.map_or(self.replicas, c5c3_api::blocks::Replicas::get)),
                max_replicas: autoscaling.max_replicas.get(),
                metrics: Some(metrics.into_iter().flatten().collect()),
                scale_target_ref: CrossVersionObjectReference {
                    api_version: Some("apps/v1".into()),
                    kind: "Deployment".into(),
                    name: self.instance.named(COMPONENT),
                },
                ..HorizontalPodAutoscalerSpec::default()
            }),
            ..HorizontalPodAutoscaler::default()
        })
    }

    fn route(&self, gateway: &GatewayRoute) -> Child {
        let spec = HTTPRouteSpec {
            parent_refs: vec![gateway::ParentRef {
                name: gateway.parent_ref.name.to_string(),
                namespace: gateway.parent_ref.namespace.as_ref().map(ToString::to_string),
                section_name: gateway.parent_ref.section_name.as_ref().map(ToString::to_string),
            }],
            hostnames: vec![gateway.hostname.to_string()],
            rules: vec![gateway::Rule::prefix(&gateway.path, &self.instance.name, self.port)],
        };
        let mut route = HTTPRoute::new(&self.instance.name, spec);
        route.metadata = self.instance.meta(&self.instance.name, COMPONENT);
        Child::new(&route)
    }
}
