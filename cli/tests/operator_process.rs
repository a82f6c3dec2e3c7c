//! An operator as a process of its own, on a server that is another, with faults on the wire between them.

mod server;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use c5c3_harness::{Fault, TestCluster, leftovers};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DynamicObject, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::await_condition;
use serde_json::json;
use server::Apiserver;

/// An operator that runs. Dropping it kills it.
struct Operator(Child);

impl Operator {
    fn start(kubeconfig: &std::path::Path, namespace: &str) -> Self {
        let args = ["operator", "controlplane", "--no-leader-election", "--metrics-address", "127.0.0.1:0"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_c5c3"));
        command.args(args).args(["--namespace", namespace]).env("KUBECONFIG", kubeconfig);
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn connect(kubeconfig: &std::path::Path) -> kube::Client {
    let config = Kubeconfig::read_from(kubeconfig).unwrap();
    kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap().try_into().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_gets_over_faults_and_nothing_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let server = Apiserver::start(folder.path(), &["--in-memory", "--listen", "127.0.0.1:0"]);
    let cluster = TestCluster::on(&server.kubeconfig).await.unwrap();
    cluster.install(c5c3_api::find("c5c3.io/v1alpha1", "SecretAggregate").unwrap().crd()).await.unwrap();
    let port = cluster.listen().unwrap();
    cluster.inject(Fault::answer(500).to("list", "/secretaggregates"));
    cluster.inject(Fault::answer(409).to("patch", "/secrets"));
    cluster.inject(Fault::lose_answer().to("patch", "/secrets").after(1));
    let operator = Operator::start(&port.kubeconfig(), cluster.namespace());

    let secrets = Api::<Secret>::default_namespaced(cluster.client());
    let source = json!({"metadata": {"name": "db-root"}, "stringData": {"password": "one"}});
    secrets.create(&PostParams::default(), &serde_json::from_value(source).unwrap()).await.unwrap();
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("c5c3.io", "v1alpha1", "SecretAggregate"));
    let aggregate = json!({
        "apiVersion": "c5c3.io/v1alpha1", "kind": "SecretAggregate", "metadata": {"name": "bundle"},
        "spec": {"sources": [{"secretRef": {"name": "db-root"}, "keys": ["password"]}], "target": {"name": "all"}},
    });
    let aggregates = Api::<DynamicObject>::default_namespaced_with(cluster.client(), &kind);
    aggregates.create(&PostParams::default(), &serde_json::from_value(aggregate).unwrap()).await.unwrap();
    let made = await_condition(secrets.clone(), "all", |secret: Option<&Secret>| secret.is_some());
    tokio::time::timeout(Duration::from_mins(2), made).await.expect("in time").unwrap();

    drop(operator);
    drop(cluster);
    assert_eq!(leftovers(&connect(&server.kubeconfig).await).await.unwrap(), []);
}
