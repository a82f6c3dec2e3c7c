//! A cluster with the operator and a cloud, and what tests do with them.

use std::time::Duration;

use c5c3_api::hypervisor::{Eviction, Hypervisor};
use c5c3_harness::TestCluster;
use c5c3_kit::Settings as KitSettings;
use c5c3_kit::http::Readiness;
use c5c3_kit::metrics::Metrics;
use c5c3_kit::run::RunOptions;
use c5c3_openstack::{Clients, Limits, Options};
use c5c3_operator_hypervisor::{CloudSecret, Drain, ROLE, Settings, Smoke};
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::openstack::OpenStack;

pub(crate) struct Site {
    pub(crate) cluster: TestCluster,
    pub(crate) cloud: OpenStack,
    pub(crate) settings: Settings,
    pub(crate) metrics: Metrics,
    task: JoinHandle<()>,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn settings(namespace: &str) -> Settings {
    let short = Duration::from_millis(50);
    Settings {
        cloud: CloudSecret { namespace: namespace.into(), name: "clouds".into(), cloud: "orchard".into() },
        agent_namespaces: vec![namespace.into()],
        drain: Drain {
            parallel: 2,
            attempts: 2,
            poll: short,
            deadline: Duration::from_mins(10),
            deadline_per_gib: Duration::from_mins(1),
        },
        shared: Duration::from_millis(10),
        wait: short,
        ..Settings::default()
    }
}

pub(crate) fn smoke() -> Smoke {
    Smoke {
        image: "cirros".into(),
        flavor: "tiny".into(),
        network: Some("lab".into()),
        cloud: None,
        patience: Duration::from_mins(1),
    }
}

impl Site {
    /// A cluster with the operator and a cloud with one other compute host.
    pub(crate) async fn open(change: impl FnOnce(&mut Settings)) -> Self {
        let cluster = TestCluster::embedded("nodes are made by hand").await.unwrap().unwrap();
        Self::in_cluster(cluster, change).await
    }

    /// The same on a cluster of the test's own.
    pub(crate) async fn in_cluster(cluster: TestCluster, change: impl FnOnce(&mut Settings)) -> Self {
        for kind in ["Hypervisor", "Eviction"] {
            cluster.install(&c5c3_api::find("hypervisor.c5c3.io/v1", kind).unwrap().crd()).await.unwrap();
        }
        let cloud = OpenStack::start().await;
        cloud.register("spare");
        cloud.world().services.get_mut("spare").unwrap()["status"] = "enabled".into();
        let mut settings = settings(cluster.namespace());
        change(&mut settings);
        let metrics = Metrics::default();
        let secrets: Api<Secret> = Api::default_namespaced(cluster.client());
        let secret = json!({"metadata": {"name": "clouds"}, "stringData": {"clouds.yaml": cloud.clouds()}});
        secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
        let task = start(&cluster, &settings, &metrics);
        Self { cluster, cloud, settings, metrics, task }
    }

    pub(crate) async fn kill(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }

    pub(crate) fn restart(&mut self) {
        self.task = start(&self.cluster, &self.settings, &self.metrics);
    }

    pub(crate) fn hypervisors(&self) -> Api<Hypervisor> {
        Api::all(self.cluster.client())
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.cluster.client())
    }

    /// A node with the role, and these annotations.
    pub(crate) async fn node(&self, name: &str, annotations: Value) {
        let node = json!({"metadata": {"name": name, "annotations": annotations,
            "labels": {ROLE: "", "topology.kubernetes.io/zone": "az-1", "kubernetes.io/hostname": name}}});
        self.nodes().create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    }

    /// A node that is in Nova and takes servers.
    pub(crate) async fn ready(&self, name: &str) {
        self.cloud.register(name);
        self.node(name, json!({})).await;
        self.said("Hypervisor", name, "Ready", "True", "Ready").await;
    }

    pub(crate) async fn maintain(&self, name: &str, mode: &str) {
        let reason = (mode == "manual").then_some("a new disk");
        let patch = json!({"spec": {"maintenance": mode, "maintenanceReason": reason}});
        self.hypervisors().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) fn api(&self, kind: &str) -> Api<DynamicObject> {
        let resource = match kind {
            "Eviction" => ApiResource::erase::<Eviction>(&()),
            "Node" => ApiResource::erase::<Node>(&()),
            _ => ApiResource::erase::<Hypervisor>(&()),
        };
        Api::all_with(self.cluster.client(), &resource)
    }

    pub(crate) async fn until(
        &self,
        kind: &str,
        name: &str,
        what: &str,
        is_so: impl Fn(Option<&DynamicObject>) -> bool + Send + Sync,
    ) {
        let waited = tokio::time::timeout(Duration::from_mins(1), await_condition(self.api(kind), name, is_so)).await;
        let Ok(waited) = waited else {
            let found = self.api(kind).get_opt(name).await.unwrap().map(|found| found.data["status"].clone());
            panic!("not within 60 s: {kind} {name} {what}; {found:#?}\n{:#?}", self.cloud.world().log)
        };
        waited.unwrap();
    }

    /// Waits until a condition says this.
    pub(crate) async fn said(&self, kind: &str, name: &str, condition_type: &str, status: &str, reason: &str) {
        let is_so = |object: Option<&DynamicObject>| {
            object.is_some_and(|object| {
                let found = condition(&object.data["status"], condition_type);
                found["status"] == status && found["reason"] == reason
            })
        };
        self.until(kind, name, &format!("{condition_type}={status}/{reason}"), is_so).await;
    }

    pub(crate) async fn status(&self, kind: &str, name: &str) -> Value {
        self.api(kind).get(name).await.unwrap().data["status"].clone()
    }

    /// Annotates a host until the operator, which keeps lists of Nova for a moment, says what Nova has now.
    pub(crate) async fn looked_at(&self, name: &str, condition_type: &str, reason: &str) {
        let look = async {
            let mut count = 0;
            while condition(&self.status("Hypervisor", name).await, condition_type)["reason"] != reason {
                count += 1;
                let patch = json!({"metadata": {"annotations": {"seen": count.to_string()}}});
                self.hypervisors().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), look).await.expect("the lists are read again");
    }

    pub(crate) async fn gone(&self, kind: &str, name: &str) {
        self.until(kind, name, "is gone", |object| object.is_none()).await;
    }

    /// Another writer says this of a Hypervisor, beside what is there.
    pub(crate) async fn say(&self, name: &str, condition_type: &str, status: &str, reason: &str) {
        let condition = json!({"type": condition_type, "status": status, "reason": reason});
        let said = json!({"apiVersion": "hypervisor.c5c3.io/v1", "kind": "Hypervisor", "metadata": {"name": name},
            "status": {"conditions": [condition]}});
        let params = PatchParams::apply("another-writer").force();
        self.api("Hypervisor").patch_status(name, &params, &Patch::Apply(said)).await.unwrap();
    }

    pub(crate) async fn delete_node(&self, name: &str) {
        self.nodes().delete(name, &DeleteParams::default()).await.unwrap();
    }
}

fn start(cluster: &TestCluster, settings: &Settings, metrics: &Metrics) -> JoinHandle<()> {
    run(cluster.client(), None, settings, metrics)
}

/// Runs the operator with a client, in one namespace or in all.
pub(crate) fn run(client: Client, namespace: Option<String>, settings: &Settings, metrics: &Metrics) -> JoinHandle<()> {
    let options = RunOptions {
        namespace,
        debounce: Duration::ZERO,
        first_retry: Duration::from_millis(20),
        last_retry: Duration::from_millis(200),
        ..RunOptions::default()
    };
    let limits = Limits { whole: Duration::from_secs(10), ..Limits::default() };
    let clients = Clients::new(Options { limits, ..Options::default() });
    let (settings, metrics) = (settings.clone(), metrics.clone());
    tokio::spawn(async move {
        let operator = c5c3_operator_hypervisor::with(clients, settings);
        let run = KitSettings { options, election: None };
        operator.run(client, run, metrics, Readiness::default(), CancellationToken::new()).await;
    })
}

pub(crate) fn condition(status: &Value, condition_type: &str) -> Value {
    let all = status["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|found| found["type"] == condition_type).unwrap_or_default()
}
