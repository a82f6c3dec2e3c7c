//! A node with a real containerd on an API in the test's process.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::fmt::Write;
use std::time::Duration;

use c5c3_cri::testing::Machine;
use c5c3_cri::{Containerd, Runtime, images};
use c5c3_harness::TestCluster;
use c5c3_node::NodeConfig;
use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// The name of the node in all tests.
pub const NODE: &str = "node-0";
/// Long enough for a machine with two busy cores.
const PATIENCE: Duration = Duration::from_mins(2);

/// A node that runs pods. Everything of it is removed when it is dropped.
pub struct TestNode {
    pub client: Client,
    pub runtime: Runtime,
    pub config: NodeConfig,
    running: Option<(CancellationToken, JoinHandle<()>)>,
    _containerd: Containerd,
    pub machine: Machine,
}

impl TestNode {
    pub async fn start() -> Self {
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
        let machine = Machine::new(1);
        let containerd = machine.start(0).await;
        let cluster = TestCluster::in_process().await.unwrap();
        let mut config = NodeConfig::new(machine.sites[0].clone(), machine.network.addresses.node(0).into());
        config.cluster_dns = vec!["10.125.0.10".parse().unwrap()];
        config.pod_cidr = machine.network.addresses.pods_of(0).to_string();
        config.archives = Some((machine.folder().join("images"), machine.programs.clone()));
        let (client, runtime) = (cluster.client(), containerd.runtime());
        let mut node = Self { client, runtime, config, running: None, _containerd: containerd, machine };
        node.resume();
        node
    }

    /// Runs the node's process, as it were.
    pub fn resume(&mut self) {
        let stop = CancellationToken::new();
        let node = c5c3_node::run(self.client.clone(), self.runtime.clone(), self.config.clone(), stop.clone());
        self.running = Some((stop, tokio::spawn(node)));
    }

    /// Ends the node's process, as it were; its containers stay.
    pub async fn pause(&mut self) {
        if let Some((stop, task)) = self.running.take() {
            stop.cancel();
            task.await.unwrap();
        }
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Creates a pod on the node; containers without an image get the one of tests.
    pub async fn create(&self, name: &str, mut spec: Value) {
        spec["nodeName"] = NODE.into();
        for list in ["containers", "initContainers"] {
            for container in spec[list].as_array_mut().into_iter().flatten() {
                if container.get("image").is_none() {
                    container["image"] = images::BUSYBOX.into();
                }
            }
        }
        if spec.get("terminationGracePeriodSeconds").is_none() {
            spec["terminationGracePeriodSeconds"] = 1.into();
        }
        let metadata = json!({"name": name, "labels": {"app": name}, "annotations": {"note": "first"}});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
        self.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }

    /// Creates any object.
    pub async fn apply(&self, object: Value) {
        let path = match object["kind"].as_str().unwrap() {
            "ConfigMap" => "/api/v1/namespaces/default/configmaps",
            "Secret" => "/api/v1/namespaces/default/secrets",
            "Service" => "/api/v1/namespaces/default/services",
            "PersistentVolume" => "/api/v1/persistentvolumes",
            "PersistentVolumeClaim" => "/api/v1/namespaces/default/persistentvolumeclaims",
            other => panic!("{other}"),
        };
        let name = object["metadata"]["name"].as_str().unwrap();
        let uri = format!("{path}/{name}?fieldManager=test&force=true");
        let request = http::Request::patch(uri).header("content-type", "application/apply-patch+yaml");
        let request = request.body(serde_json::to_vec(&object).unwrap()).unwrap();
        self.client.request::<Value>(request).await.unwrap();
    }

    /// Waits until the pod fulfils something, and gives what it found. What the pod was at last is told otherwise.
    pub async fn until<T>(&self, name: &str, what: impl Fn(&Pod) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let pod = self.pods().get_opt(name).await.unwrap();
            if let Some(found) = pod.as_ref().and_then(&what) {
                return found;
            }
            if Instant::now() > deadline {
                let status = pod.map(|pod| serde_json::to_string_pretty(&pod.status).unwrap()).unwrap_or_default();
                panic!("{name} does not get there: {status}\n{}", self.events(name).await);
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn ready(&self, name: &str) -> Pod {
        self.until(name, |pod| has_condition(pod, "Ready", "True").then(|| pod.clone())).await
    }

    pub async fn phase(&self, name: &str, phase: &str) -> Pod {
        self.until(name, |pod| (pod.status.as_ref()?.phase.as_deref() == Some(phase)).then(|| pod.clone())).await
    }

    /// Waits until a container waits for that reason; the message.
    pub async fn waiting(&self, name: &str, container: &str, reason: &str) -> String {
        let found = |pod: &Pod| {
            let waiting = container_status(pod, container)?.state?.waiting?;
            (waiting.reason.as_deref() == Some(reason)).then(|| waiting.message.unwrap_or_default())
        };
        self.until(name, found).await
    }

    pub async fn gone(&self, name: &str) {
        self.eventually(&format!("{name} is gone"), async || {
            self.pods().get_opt(name).await.unwrap().is_none().then_some(())
        })
        .await;
    }

    pub async fn delete(&self, name: &str) {
        self.pods().delete(name, &DeleteParams::default()).await.unwrap();
        self.gone(name).await;
    }

    /// Waits for anything.
    pub async fn eventually<T>(&self, what: &str, look: impl AsyncFn() -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look().await {
                return found;
            }
            assert!(Instant::now() < deadline, "{what} does not come true");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// The events about a pod, a line each: `Reason: message (xN)`.
    pub async fn events(&self, name: &str) -> String {
        let api = Api::<Event>::namespaced(self.client.clone(), "default");
        let list = api.list(&ListParams::default().fields(&format!("involvedObject.name={name}"))).await.unwrap();
        list.items.into_iter().fold(String::new(), |mut lines, event| {
            let (reason, message) = (event.reason.unwrap_or_default(), event.message.unwrap_or_default());
            writeln!(lines, "{reason}: {message}").unwrap();
            lines
        })
    }

    /// Waits for an event that begins like this.
    pub async fn event(&self, name: &str, beginning: &str) {
        self.eventually(&format!("{name}: {beginning}"), async || {
            self.events(name).await.lines().any(|line| line.starts_with(beginning)).then_some(())
        })
        .await;
    }

    /// What a command in a container prints; the container must run.
    pub async fn exec(&self, pod: &str, container: &str, command: &str) -> String {
        let id = self.until(pod, |pod| container_status(pod, container)?.container_id).await;
        let id = id.trim_start_matches("containerd://");
        let command = ["sh", "-c", command].map(str::to_owned).to_vec();
        let done = self.runtime.exec_sync(id, command, None).await.unwrap();
        let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        format!("{out}{err}").trim_end().to_owned()
    }
}

pub fn has_condition(pod: &Pod, name: &str, status: &str) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == name && condition.status == status)
}

pub fn container_status(pod: &Pod, name: &str) -> Option<ContainerStatus> {
    let status = pod.status.as_ref()?;
    let mut all = status.container_statuses.iter().chain(status.init_container_statuses.iter()).flatten();
    all.find(|status| status.name == name).cloned()
}

/// A container that runs a script.
pub fn sh(name: &str, script: &str) -> Value {
    json!({"name": name, "command": ["sh", "-c", script]})
}

/// A container that does nothing, and ends when it is told to.
pub fn idle(name: &str) -> Value {
    sh(name, "trap 'exit 0' TERM; while :; do sleep 0.1; done")
}
