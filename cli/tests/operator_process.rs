//! An operator as a process of its own, on a server that is another, with faults on the wire between them.

mod server;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use c5c3_harness::{Fault, TestCluster, leftovers};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DynamicObject, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};
use server::Apiserver;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An operator that runs, with its log. Dropping it kills it.
struct Operator {
    child: Child,
    log: PathBuf,
}

impl Operator {
    fn start(kubeconfig: &Path, namespace: &str, log: PathBuf) -> Self {
        let args = ["operator", "controlplane", "--no-leader-election", "--metrics-address", "127.0.0.1:0"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_c5c3"));
        command.args(args).args(["--log-format", "json", "--namespace", namespace]).env("KUBECONFIG", kubeconfig);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        Self { child: child.spawn().unwrap(), log }
    }

    /// The whole lines of the log so far: each is a JSON object.
    fn log(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.log).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"))).collect()
    }

    /// The first line of the log that is as described, now or soon.
    async fn logged(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        soon(what, async || self.log().into_iter().find(&is_it)).await
    }

    /// The status and the body of the answer to a path, from where the log says that it is served.
    async fn get(&self, path: &str) -> (u16, String) {
        let serving = |line: &Value| line["message"] == "serving /healthz, /readyz and /metrics";
        let line = self.logged("where metrics are served", serving).await;
        let mut stream = TcpStream::connect(line["address"].as_str().unwrap()).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: operator\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// The number of a metric, once it is told.
    async fn metric(&self, name: &str) -> u64 {
        let value = |text: &str| text.lines().find_map(|told| told.strip_prefix(name)?.trim().parse().ok());
        soon(name, async || value(&self.get("/metrics").await.1)).await
    }
}

/// Asks until there is an answer.
async fn soon<T>(what: &str, ask: impl AsyncFn() -> Option<T>) -> T {
    let asked = async {
        loop {
            match ask().await {
                Some(answer) => return answer,
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::time::timeout(Duration::from_mins(2), asked).await.unwrap_or_else(|_| panic!("never: {what}"))
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn connect(kubeconfig: &Path) -> kube::Client {
    let config = Kubeconfig::read_from(kubeconfig).unwrap();
    kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap().try_into().unwrap()
}

/// A server, a cluster of the test's on it that knows the operator's kinds, and a folder for both.
async fn stage() -> (tempfile::TempDir, Apiserver, TestCluster) {
    let folder = tempfile::tempdir().unwrap();
    let server = Apiserver::start(folder.path(), &["--in-memory", "--listen", "127.0.0.1:0"]);
    let cluster = TestCluster::on(&server.kubeconfig).await.unwrap();
    for kind in ["ControlPlane", "CredentialRotation", "SecretAggregate"] {
        cluster.install(&c5c3_api::find("c5c3.io/v1alpha1", kind).unwrap().crd()).await.unwrap();
    }
    (folder, server, cluster)
}

/// Asks for a Secret `all` with the password of `db-root`.
async fn aggregate(client: kube::Client) {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("c5c3.io", "v1alpha1", "SecretAggregate"));
    let aggregate = json!({
        "apiVersion": "c5c3.io/v1alpha1", "kind": "SecretAggregate", "metadata": {"name": "bundle"},
        "spec": {"sources": [{"secretRef": {"name": "db-root"}, "keys": ["password"]}], "target": {"name": "all"}},
    });
    let aggregates = Api::<DynamicObject>::default_namespaced_with(client, &kind);
    aggregates.create(&PostParams::default(), &serde_json::from_value(aggregate).unwrap()).await.unwrap();
}

/// Makes the source of the aggregate, and waits for its target.
async fn complete(client: kube::Client) {
    let secrets = Api::<Secret>::default_namespaced(client);
    let source = json!({"metadata": {"name": "db-root"}, "stringData": {"password": "open-sesame"}});
    secrets.create(&PostParams::default(), &serde_json::from_value(source).unwrap()).await.unwrap();
    let made = await_condition(secrets, "all", |secret: Option<&Secret>| secret.is_some());
    tokio::time::timeout(Duration::from_mins(2), made).await.expect("in time").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn providers_install_their_kinds_on_the_cluster_of_a_kubeconfig_and_act_on_objects_there() {
    let folder = tempfile::tempdir().unwrap();
    let server = Apiserver::start(folder.path(), &["--in-memory", "--listen", "127.0.0.1:0"]);
    let log = folder.path().join("providers.log");
    let mut command = Command::new(env!("CARGO_BIN_EXE_c5c3"));
    command.args(["providers", "--kubeconfig"]).arg(&server.kubeconfig).stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.stderr(File::create(&log).unwrap()).spawn().unwrap();
    let _providers = Operator { child, log };

    let client = connect(&server.kubeconfig).await;
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("cache.cs.sap.com", "v1alpha1", "Valkey"));
    let valkeys = Api::<DynamicObject>::namespaced_with(client.clone(), "default", &kind);
    let valkey = json!({"apiVersion": "cache.cs.sap.com/v1alpha1", "kind": "Valkey", "metadata": {"name": "larder"},
        "spec": {"replicas": 1}});
    let valkey: DynamicObject = serde_json::from_value(valkey).unwrap();
    soon("the kind is served", async || valkeys.create(&PostParams::default(), &valkey).await.ok()).await;
    let secrets = Api::<Secret>::namespaced(client, "default");
    let made = await_condition(secrets, "valkey-larder-binding", |secret: Option<&Secret>| secret.is_some());
    tokio::time::timeout(Duration::from_mins(2), made).await.expect("in time").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_gets_over_faults_and_nothing_is_left_behind() {
    let (folder, server, cluster) = stage().await;
    let port = cluster.listen().unwrap();
    cluster.inject(Fault::answer(500).to("list", "/secretaggregates"));
    cluster.inject(Fault::answer(409).to("patch", "/secrets"));
    cluster.inject(Fault::lose_answer().to("patch", "/secrets").after(1));
    let operator = Operator::start(&port.kubeconfig(), cluster.namespace(), folder.path().join("operator.log"));
    aggregate(cluster.client()).await;
    complete(cluster.client()).await;

    drop(operator);
    drop(cluster);
    assert_eq!(leftovers(&connect(&server.kubeconfig).await).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_tells_how_it_is_what_it_waits_for_and_what_failed() {
    let (folder, _server, cluster) = stage().await;
    let port = cluster.listen().unwrap();
    // As long as its objects cannot be listed, an operator lives and is not ready.
    cluster.inject(Fault::answer(500).to("list", "/secretaggregates").always());
    let operator = Operator::start(&port.kubeconfig(), cluster.namespace(), folder.path().join("operator.log"));
    assert_eq!(operator.get("/healthz").await, (200, "ok".to_owned()));
    let waiting = (503, "watches are still catching up".to_owned());
    soon("it is not ready", async || (operator.get("/readyz").await == waiting).then_some(())).await;
    assert!(operator.metric(r#"c5c3_watch_errors_total{controller="secretaggregate"}"#).await >= 1);
    cluster.heal();
    soon("the operator is ready", async || (operator.get("/readyz").await.0 == 200).then_some(())).await;

    aggregate(cluster.client()).await;
    let waits = r#"c5c3_waits{controller="secretaggregate",reason="SourceMissing"}"#;
    soon("it waits", async || (operator.metric(waits).await == 1).then_some(())).await;
    cluster.inject(Fault::answer(409).to("patch", "/secrets"));
    complete(cluster.client()).await;
    soon("it waits no more", async || (operator.metric(waits).await == 0).then_some(())).await;
    for step in ["read", "validate", "plan", "apply", "report"] {
        let labels = format!(r#"{{controller="secretaggregate",step="{step}"}}"#);
        assert!(operator.metric(&format!("c5c3_reconcile_duration_seconds_count{labels}")).await >= 1);
    }
    let failed = r#"c5c3_reconcile_errors_total{controller="secretaggregate",step="apply",reason="ApplyFailed"}"#;
    assert_eq!(operator.metric(failed).await, 1);
    let queued = r#"c5c3_queue_depth{controller="secretaggregate"}"#;
    soon("nothing is queued", async || (operator.metric(queued).await == 0).then_some(())).await;

    let line = operator.logged("the failure", |line| line["reason"] == "ApplyFailed").await;
    assert_eq!((&line["level"], &line["span"]["controller"]), (&json!("WARN"), &json!("secretaggregate")));
    let object = format!("secretaggregate/{}/bundle", cluster.namespace());
    assert_eq!((&line["span"]["object"], line["span"]["id"].as_str().unwrap().len()), (&json!(object), 8));
    let log = std::fs::read_to_string(&operator.log).unwrap();
    assert!(!log.contains("open-sesame") && !log.contains("b3Blbi1zZXNhbWU"), "a secret is in the log");
}
