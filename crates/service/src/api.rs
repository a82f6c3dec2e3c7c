//! What a service's API has beside its pods: Services, autoscaling, a route of a Gateway.

use c5c3_api::blocks::{Autoscaling, GatewayRoute};
use c5c3_api::ext::gateway::{self, Filter, HTTPRoute, HTTPRouteSpec};
use c5c3_kit::{Child, KindRef};
use k8s_openapi::api::autoscaling::v2::{
    ContainerResourceMetricSource, CrossVersionObjectReference, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec,
    MetricSpec, MetricTarget,
};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::DynamicObject;

use crate::component::API as COMPONENT;
use crate::instance::Instance;
use crate::wsgi::CONTAINER;

/// A service's API.
#[derive(Clone, Debug)]
pub struct Api<'a> {
    /// Whose.
    pub instance: &'a Instance,
    /// Its port.
    pub port: i32,
    /// The port of `health.py`, if it is asked from outside the pods.
    pub health_port: Option<i32>,
    /// The path of its version, such as `/v3`.
    pub version: &'a str,
    /// How many pods.
    pub replicas: i32,
    /// How their number changes.
    pub autoscaling: Option<&'a Autoscaling>,
    /// What leads to it from outside.
    pub gateway: Option<&'a GatewayRoute>,
    /// The Deployment as it is now.
    pub live: Option<&'a DynamicObject>,
    /// The field manager that it is written as.
    pub manager: &'a str,
}

impl Api<'_> {
    /// The kinds of its objects.
    pub fn children() -> [KindRef; 3] {
        [KindRef::of::<Service>(), KindRef::of::<HorizontalPodAutoscaler>(), KindRef::of::<HTTPRoute>()]
    }

    /// How many pods to ask for; nothing once an autoscaler, or a user by hand, sets it. Until then the number stays as
    /// it is: a field that its only owner leaves out is reset to 1, and all other pods would go.
    pub(crate) fn count(&self) -> Option<i32> {
        let Some(autoscaling) = self.autoscaling else { return Some(self.replicas) };
        if self.live.is_some_and(|live| is_scaled_by_another(live, self.manager)) {
            return None;
        }
        let now = self.live.and_then(|live| live.data["spec"]["replicas"].as_i64());
        let now = now.and_then(|now| i32::try_from(now).ok()).unwrap_or(self.replicas);
        let (fewest, most) = self.bounds(autoscaling);
        Some(now.clamp(fewest, most))
    }

    /// The fewest and the most pods that an autoscaler may make. It takes no 0.
    fn bounds(&self, autoscaling: &Autoscaling) -> (i32, i32) {
        let most = autoscaling.max_replicas.get().max(1);
        let fewest = autoscaling.min_replicas.map_or(self.replicas, c5c3_api::blocks::Replicas::get);
        (fewest.clamp(1, most), most)
    }

    /// What scales its pods, if anything does.
    pub fn scaling(&self) -> Option<Child> {
        self.autoscaling.map(|autoscaling| self.autoscaler(autoscaling))
    }

    /// The addresses of the API. They need nothing, and are there before what they lead to, so that others know them early.
    pub fn services(&self) -> Vec<Child> {
        let names = [self.instance.name.clone(), self.instance.named(COMPONENT)];
        let api = (COMPONENT, self.port);
        let health = self.health_port.map(|port| ("health", port));
        let ports = [vec![api], [Some(api), health].into_iter().flatten().collect()];
        names.iter().zip(ports).map(|(name, ports)| service(self.instance, name, COMPONENT, &ports)).collect()
    }

    /// Goes by the container of the API: there is no share of what a whole pod requests where one container, such as that
    /// which speaks TLS, requests nothing.
    fn autoscaler(&self, autoscaling: &Autoscaling) -> Child {
        let metric = |name: &str, percent: Option<i32>| {
            let target =
                MetricTarget { type_: "Utilization".into(), average_utilization: percent, ..MetricTarget::default() };
            percent.map(|_| MetricSpec {
                type_: "ContainerResource".into(),
                container_resource: Some(ContainerResourceMetricSource {
                    container: CONTAINER.into(),
                    name: name.into(),
                    target,
                }),
                ..MetricSpec::default()
            })
        };
        let metrics = [
            metric("cpu", autoscaling.target_cpu_utilization),
            metric("memory", autoscaling.target_memory_utilization),
        ];
        let (fewest, most) = self.bounds(autoscaling);
        Child::new(&HorizontalPodAutoscaler {
            metadata: self.instance.meta(self.instance.named(COMPONENT), COMPONENT),
            spec: Some(HorizontalPodAutoscalerSpec {
                min_replicas: Some(fewest),
                max_replicas: most,
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

    /// What leads to it from outside, if anything does.
    pub fn route(&self) -> Option<Child> {
        let gateway = self.gateway?;
        let spec = HTTPRouteSpec {
            parent_refs: vec![gateway::ParentRef {
                namespace: gateway.parent_ref.namespace.as_ref().map(ToString::to_string),
                section_name: gateway.parent_ref.section_name.as_ref().map(ToString::to_string),
                ..gateway::ParentRef::new(gateway.parent_ref.name.to_string())
            }],
            hostnames: vec![gateway.hostname.to_string()],
            rules: vec![self.rule(gateway.path.trim_end_matches('/'))],
        };
        let mut route = HTTPRoute::new(&self.instance.name, spec);
        route.metadata = self.instance.meta(&self.instance.name, COMPONENT);
        Some(Child::new(&route).because("spec.gateway asks for it"))
    }

    /// Services are served at the root, whatever clients see them under. They are told that, since they answer with links.
    fn rule(&self, path: &str) -> gateway::Rule {
        let (under, root) = match path.strip_suffix(self.version) {
            Some(under) => (under, self.version),
            None => (path, "/"),
        };
        let filters = [Filter::replace_prefix(root), Filter::set_header("X-Forwarded-Prefix", under)];
        let path = if path.is_empty() { "/" } else { path };
        gateway::Rule {
            filters: filters.into_iter().filter(|_| !under.is_empty()).collect(),
            ..gateway::Rule::prefix(path, &self.instance.name, self.port)
        }
    }
}

/// A Service of a component's pods.
pub(crate) fn service(instance: &Instance, name: &str, component: &str, ports: &[(&str, i32)]) -> Child {
    let port = |(name, port): &(&str, i32)| ServicePort {
        name: Some((*name).into()),
        port: *port,
        target_port: Some(IntOrString::Int(*port)),
        protocol: Some("TCP".into()),
        ..ServicePort::default()
    };
    Child::new(&Service {
        metadata: instance.meta(name, component),
        spec: Some(ServiceSpec {
            selector: Some(instance.labels(component)),
            ports: Some(ports.iter().map(port).collect()),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    })
}

/// Whether a field manager other than `manager` owns the number of pods.
fn is_scaled_by_another(live: &DynamicObject, manager: &str) -> bool {
    let others =
        live.metadata.managed_fields.iter().flatten().filter(|entry| entry.manager.as_deref() != Some(manager));
    let mut fields = others.filter_map(|entry| entry.fields_v1.as_ref());
    fields.any(|fields| fields.0["f:spec"].get("f:replicas").is_some())
}

#[cfg(test)]
mod tests {
    use c5c3_api::blocks::Replicas;
    use kube::core::ObjectMeta;
    use serde_json::{Value, json};

    use super::*;

    /// How many pods are asked for where 3 are usual and 2 to 5 may be, and `live` is there.
    fn asked(live: &Value) -> Option<i64> {
        let instance = Instance::new("kestrel", &ObjectMeta::default());
        let replicas = |count| Replicas::new(count).unwrap();
        let autoscaling = Autoscaling {
            min_replicas: Some(replicas(2)),
            max_replicas: replicas(5),
            target_cpu_utilization: Some(50),
            target_memory_utilization: None,
        };
        let live: Option<DynamicObject> = serde_json::from_value(live.clone()).unwrap();
        let api = Api {
            instance: &instance,
            port: 80,
            health_port: None,
            version: "/v3",
            replicas: 3,
            autoscaling: Some(&autoscaling),
            gateway: None,
            live: live.as_ref(),
            manager: "falconer",
        };
        api.count().map(i64::from)
    }

    fn running(replicas: i64, owner: &str, subresource: Option<&str>) -> Value {
        json!({"metadata": {"managedFields": [
            {"manager": "falconer", "operation": "Apply", "fieldsV1": {"f:spec": {"f:template": {}}}},
            {"manager": owner, "subresource": subresource, "fieldsV1": {"f:spec": {"f:replicas": {}}}},
        ]}, "spec": {"replicas": replicas}})
    }

    #[test]
    fn pods_stay_when_autoscaling_is_switched_on_until_another_field_manager_owns_the_number() {
        assert_eq!(asked(&Value::Null), Some(3));
        assert_eq!(asked(&running(4, "falconer", None)), Some(4));
        assert_eq!(asked(&running(9, "falconer", None)), Some(5));
        assert_eq!(asked(&running(1, "falconer", None)), Some(2));
        assert_eq!(asked(&running(4, "kube-controller-manager", Some("scale"))), None);
        assert_eq!(asked(&running(9, "kubectl-edit", None)), None);
    }

    /// The path that requests come under, what is put in its place, and what the service is told of it.
    fn routed(path: &str) -> (String, Option<String>, Option<String>) {
        let instance = Instance::new("kestrel", &ObjectMeta::default());
        let gateway = json!({"parentRef": {"name": "fence"}, "hostname": "kestrel.example.net", "path": path});
        let gateway: GatewayRoute = serde_json::from_value(gateway).unwrap();
        let api = Api {
            instance: &instance,
            port: 80,
            health_port: None,
            version: "/v3",
            replicas: 3,
            autoscaling: None,
            gateway: Some(&gateway),
            live: None,
            manager: "falconer",
        };
        let rule = api.route().unwrap().object.data["spec"]["rules"][0].clone();
        let text = |pointer: &str| rule.pointer(pointer).and_then(Value::as_str).map(ToOwned::to_owned);
        let rewritten = text("/filters/0/urlRewrite/path/replacePrefixMatch");
        let told = text("/filters/1/requestHeaderModifier/set/0/value");
        (text("/matches/0/path/value").unwrap(), rewritten, told)
    }

    #[test]
    fn a_service_under_a_path_is_asked_at_its_root_and_told_the_path() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(routed("/"), ("/".into(), None, None));
        assert_eq!(routed("/v3/"), ("/v3".into(), None, None));
        assert_eq!(routed("/kestrel/"), ("/kestrel".into(), some("/"), some("/kestrel")));
        assert_eq!(routed("/kestrel/v3"), ("/kestrel/v3".into(), some("/v3"), some("/kestrel")));
    }
}
