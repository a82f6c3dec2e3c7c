//! The pods that decide, how they are reached, and how they are.

use std::collections::BTreeMap;

use c5c3_api::blocks::{Image, Tls};
use c5c3_api::cortex::{Cortex, Pipeline};
use c5c3_kit::object::condition;
use c5c3_kit::{Child, Inputs, Ref, Wait};
use c5c3_service::network::{Traffic, policy};
use c5c3_service::pod::{Mount, Pod, Shared, container, resources, spread};
use c5c3_service::{Instance, tls};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction, ObjectFieldSelector, Probe, ResourceRequirements,
    Service, ServicePort, ServiceSpec,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use crate::{TOKEN, access, endpoint, pipelines};

/// The component of every object.
pub(crate) const COMPONENT: &str = "scheduler";

/// Where the API answers.
pub(crate) const PORT: i32 = 8080;

/// Where `/healthz`, `/readyz` and `/metrics` are.
const METRICS_PORT: i32 = 8081;

/// Where the token is.
const TOKEN_FOLDER: &str = "/etc/cortex-token";

/// What a pod asks for of which the spec says nothing: ten thousand hosts in memory are less than 64 MiB.
const CPU: &str = "50m";
const MEMORY: &str = "64Mi";

/// The Secret with the token.
pub(crate) fn token_secret(instance: &Instance) -> String {
    instance.named("token")
}

/// What the pods are made of.
pub(crate) struct Scheduler<'a> {
    pub(crate) instance: &'a Instance,
    pub(crate) cortex: &'a Cortex,
    pub(crate) tls: Option<&'a Tls>,
}

impl Scheduler<'_> {
    pub(crate) fn children(&self) -> Vec<Child> {
        // There is no PodDisruptionBudget: of the pods one is ready, and no budget would let it be drained.
        let mut children = vec![self.deployment(), self.service()];
        let traffic = Traffic {
            component: COMPONENT,
            pods: self.instance.selector(COMPONENT),
            ports: &[PORT, METRICS_PORT],
            // The address of the Kubernetes API is not known.
            egress: None,
        };
        children.extend(policy(self.instance, traffic, None));
        children
    }

    fn replicas(&self) -> i32 {
        self.cortex.spec.replicas.get()
    }

    fn image(&self) -> String {
        self.cortex.spec.image.as_ref().map_or_else(|| tls::IMAGE.to_owned(), Image::reference)
    }

    fn deployment(&self) -> Child {
        let (instance, spec) = (self.instance, &self.cortex.spec);
        let secret = tls::secret(instance, self.tls);
        let mut mounts = vec![Mount::secret_items("token", &token_secret(instance), TOKEN_FOLDER, &[(TOKEN, TOKEN)])];
        mounts.extend(secret.as_ref().map(tls::mount));
        let pull_secrets = spec.image_pull_secrets.iter().map(|secret| secret.name.to_string()).collect();
        let pod = Pod {
            instance,
            component: COMPONENT,
            shared: &Shared { pull_secrets, ..Shared::default() },
            containers: vec![self.container()],
            init_containers: Vec::new(),
            mounts,
            scheduling: spec.scheduling.as_ref(),
            service_account: Some(access::account(instance)),
            annotations: BTreeMap::new(),
        };
        let mut template = pod.template();
        if let Some(pod) = &mut template.spec {
            pod.topology_spread_constraints = Some(spread(instance, COMPONENT, spec.scheduling.as_ref()));
        }
        let deployment = Deployment {
            metadata: instance.meta(instance.named(COMPONENT), COMPONENT),
            spec: Some(DeploymentSpec {
                replicas: Some(self.replicas()),
                selector: instance.selector(COMPONENT),
                strategy: Some(DeploymentStrategy {
                    type_: Some("RollingUpdate".into()),
                    // A new pod is not ready as long as an old one decides, so that waiting for it would never end.
                    rolling_update: Some(RollingUpdateDeployment {
                        max_unavailable: Some(IntOrString::String("100%".into())),
                        max_surge: Some(IntOrString::Int(0)),
                    }),
                }),
                template,
                ..DeploymentSpec::default()
            }),
            ..Deployment::default()
        };
        Child::new(&deployment).version(self.image()).readiness_optional()
    }

    fn container(&self) -> Container {
        let namespace = format!("--namespace={}", self.instance.namespace);
        let (listen, metrics) =
            (format!("--listen=0.0.0.0:{PORT}"), format!("--metrics-address=0.0.0.0:{METRICS_PORT}"));
        let token = format!("--token-file={TOKEN_FOLDER}/{TOKEN}");
        let security = match tls::secret(self.instance, self.tls) {
            Some(_) => format!("--certificates={}", tls::FOLDER),
            None => "--plaintext".to_owned(),
        };
        let domains = pipelines::enabled(self.cortex);
        let domains: Vec<&str> = domains.iter().map(|(domain, _)| domain.as_str()).collect();
        let domains = format!("--domains={}", domains.join(","));
        let args =
            ["c5c3", "scheduler", "--log-format=json", &namespace, &listen, &metrics, &token, &security, &domains];
        let port = |name: &str, port| ContainerPort {
            name: Some(name.into()),
            container_port: port,
            ..ContainerPort::default()
        };
        let probe = |path: &str, period| Probe {
            http_get: Some(HTTPGetAction {
                path: Some(path.into()),
                port: IntOrString::String("metrics".into()),
                ..HTTPGetAction::default()
            }),
            period_seconds: Some(period),
            timeout_seconds: Some(5),
            ..Probe::default()
        };
        let requests = [("cpu", CPU), ("memory", MEMORY)].map(|(name, size)| (name.to_owned(), Quantity(size.into())));
        let usual = || ResourceRequirements { requests: Some(requests.into()), ..ResourceRequirements::default() };
        let container = container(COMPONENT, &self.image(), &args, &[]);
        Container {
            env: Some(container.env.iter().flatten().cloned().chain(own_pod()).collect()),
            ports: Some(vec![port("api", PORT), port("metrics", METRICS_PORT)]),
            resources: Some(resources(self.cortex.spec.resources.as_ref()).unwrap_or_else(usual)),
            readiness_probe: Some(probe("/readyz", 2)),
            liveness_probe: Some(Probe { failure_threshold: Some(6), ..probe("/healthz", 10) }),
            ..container
        }
    }

    /// It leads to the pod that decides, since no other is ready.
    fn service(&self) -> Child {
        let port = |name: &str, port| ServicePort {
            name: Some(name.into()),
            port,
            target_port: Some(IntOrString::String(name.into())),
            ..ServicePort::default()
        };
        Child::new(&Service {
            metadata: self.instance.meta(&self.instance.name, COMPONENT),
            spec: Some(ServiceSpec {
                selector: Some(self.instance.labels(COMPONENT)),
                ports: Some(vec![port("api", PORT), port("metrics", METRICS_PORT)]),
                ..ServiceSpec::default()
            }),
            ..Service::default()
        })
    }

    fn reference(&self) -> Ref {
        Ref::namespaced::<Deployment>(&self.instance.namespace, self.instance.named(COMPONENT))
    }

    /// How many pods the Deployment has and which of them are ready, of the version that is wanted.
    fn pods(&self, inputs: &Inputs<Cortex>) -> Option<Pods> {
        let live = inputs.own_named::<Deployment>(&self.reference().name)?;
        let status = live.data.get("status")?;
        let number = |field: &str| status.get(field).and_then(Value::as_i64).unwrap_or_default();
        let is_current = live.metadata.generation.is_some_and(|wanted| number("observedGeneration") >= wanted);
        Some(Pods {
            all: number("replicas"),
            updated: if is_current { number("updatedReplicas") } else { 0 },
            available: number("availableReplicas"),
        })
    }

    /// What is lacking for a pod of the wanted version to decide.
    pub(crate) fn waits(&self, inputs: &Inputs<Cortex>) -> Option<Wait> {
        let reference = self.reference();
        let look = format!("kubectl logs deployment/{} -n {} --all-pods", reference.name, self.instance.namespace);
        let wait = Wait::on(&reference).condition("has a pod that decides").look_at(look);
        let wanted = i64::from(self.replicas());
        let Some(pods) = self.pods(inputs) else { return Some(wait.now("has no status yet")) };
        match () {
            () if wanted == 0 => Some(wait.now("is scaled to 0 replicas, so nothing decides").failed("ScaledToZero")),
            () if pods.updated < wanted => Some(wait.now(format!("has {} of {wanted} pods updated", pods.updated))),
            () if pods.available == 0 => Some(wait.now(format!("has {} pods, and none of them decides yet", pods.all))),
            () => None,
        }
    }

    /// The fields of the status.
    pub(crate) fn statuses(&self, inputs: &Inputs<Cortex>) -> Vec<(&'static str, Value)> {
        let labels = self.instance.labels(COMPONENT);
        let selector: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let pods = self.pods(inputs);
        vec![
            ("endpoint", endpoint(self.instance, self.tls)),
            ("activePipelines", json!(self.active(inputs, pods.as_ref()))),
            ("replicas", json!(pods.map_or(0, |pods| pods.all))),
            ("selector", json!(selector.join(","))),
        ]
    }

    /// The services that requests are answered of. A pipeline without steps of its own is one that is built in.
    fn active(&self, inputs: &Inputs<Cortex>, pods: Option<&Pods>) -> Vec<&'static str> {
        if pods.is_none_or(|pods| pods.available == 0) {
            return Vec::new();
        }
        let answers = |name: &str, is_written: bool| match inputs.own_named::<Pipeline>(name) {
            Some(live) => condition(live, "Ready").is_some_and(|ready| ready["status"] == "True"),
            None => !is_written,
        };
        let enabled = pipelines::enabled(self.cortex).into_iter();
        let active = enabled.filter(|(domain, pipeline)| answers(domain.as_str(), pipelines::is_written(pipeline)));
        active.map(|(domain, _)| domain.as_str()).collect()
    }
}

/// How many pods there are.
struct Pods {
    all: i64,
    updated: i64,
    available: i64,
}

/// What the scheduler is told of its pod, which owns the Lease while it leads.
fn own_pod() -> impl Iterator<Item = EnvVar> {
    [("POD_NAME", "metadata.name"), ("POD_NAMESPACE", "metadata.namespace"), ("POD_UID", "metadata.uid")]
        .into_iter()
        .map(|(name, path)| {
            let field = ObjectFieldSelector { field_path: path.into(), api_version: Some("v1".into()) };
            let source = EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() };
            EnvVar { name: name.into(), value_from: Some(source), ..EnvVar::default() }
        })
}
