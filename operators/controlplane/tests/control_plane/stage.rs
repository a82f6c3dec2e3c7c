//! A cluster with a small ControlPlane on it, and an operator; the test plays everybody else.

use std::time::Duration;

use c5c3_contracts::{Contract, Genuine};
use c5c3_harness::{Limited, TestCluster};
use c5c3_kit::http::Readiness;
use c5c3_kit::leader::Election;
use c5c3_kit::metrics::Metrics;
use c5c3_kit::run::RunOptions;
use c5c3_kit::{Controller, KindRef, Ref, Settings, access};
use c5c3_operator_controlplane::operator;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// A cluster with the kinds that a small ControlPlane needs, and an operator on it.
pub(crate) struct Stage {
    pub(crate) cluster: TestCluster,
    pub(crate) client: Client,
    pub(crate) metrics: Metrics,
    pub(crate) operator: JoinHandle<()>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.operator.abort();
    }
}

impl Stage {
    pub(crate) async fn set() -> Self {
        let cluster = furnished().await;
        let (client, metrics) = (cluster.client(), Metrics::default());
        let operator = start(&client, &metrics, None);
        Self { cluster, client, metrics, operator }
    }

    /// The same with an operator that may do what it says it needs, in the test's own namespace, and nothing else.
    pub(crate) async fn limited() -> (Self, Limited) {
        let cluster = furnished().await;
        let (home, access) = (cluster.namespace().to_owned(), operator(false).access().clone());
        let (mut inside, outside) = (access.in_namespaces(), access.in_cluster());
        inside.extend(access::lease("leader"));
        let limited = cluster.limited("few-rights", &home, inside, outside).await.unwrap();
        let (client, metrics) = (cluster.client(), Metrics::default());
        let operator = start(&limited.client, &metrics, Some(home));
        (Self { cluster, client, metrics, operator }, limited)
    }

    /// Kills the operator, as a machine does that loses its power, and starts another.
    pub(crate) fn kill(&mut self) {
        self.operator.abort();
        self.operator = start(&self.client, &self.metrics, None);
    }

    /// Ends the operator: nothing is reconciled until another one is started.
    pub(crate) async fn stop(&mut self) {
        self.operator.abort();
        let _ = (&mut self.operator).await;
    }

    pub(crate) fn api(&self, namespace: &str, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &resource(kind))
    }

    pub(crate) async fn get(&self, namespace: &str, path: &str) -> Option<DynamicObject> {
        let (kind, name) = path.split_once('/').unwrap();
        self.api(namespace, kind).get_opt(name).await.unwrap()
    }

    pub(crate) async fn apply(&self, namespace: &str, spec: &Value) {
        let object = json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane",
            "metadata": {"name": "lab", "namespace": namespace}, "spec": spec});
        let params = PatchParams::apply("someone").force();
        self.api(namespace, "ControlPlane").patch("lab", &params, &Patch::Apply(object)).await.unwrap();
    }

    /// Waits until something is so.
    pub(crate) async fn until<F: AsyncFn() -> bool>(&self, what: &str, is_so: F) {
        let waiting = async {
            while !is_so().await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "waited in vain: {what}");
    }

    pub(crate) async fn until_there(&self, namespace: &str, path: &str) {
        self.until(&format!("{path} is there"), async || self.get(namespace, path).await.is_some()).await;
    }

    pub(crate) async fn until_gone(&self, namespace: &str, path: &str) {
        self.until(&format!("{path} is gone"), async || self.get(namespace, path).await.is_none()).await;
    }

    pub(crate) async fn condition(&self, namespace: &str, kind: &str) -> Value {
        let plane = self.get(namespace, "ControlPlane/lab").await;
        let status = plane.map(|plane| plane.data["status"].clone()).unwrap_or_default();
        status["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == kind).cloned().unwrap_or_default()
    }

    pub(crate) async fn until_reason(&self, namespace: &str, kind: &str, reason: &str) {
        self.until(&format!("{kind} has reason {reason}"), async || {
            self.condition(namespace, kind).await["reason"] == reason
        })
        .await;
    }

    /// Plays the other operators: an object is ready.
    pub(crate) async fn is_ready(&self, namespace: &str, path: &str) {
        let (kind, name) = path.split_once('/').unwrap();
        let now = "2026-01-01T00:00:00Z";
        self.until(&format!("{path} can be made ready"), async || {
            let Some(found) = self.get(namespace, path).await else { return false };
            let generation = found.metadata.generation;
            let yes = |kind: &str| {
                json!({"type": kind, "status": "True", "reason": "Done", "message": "", "lastTransitionTime": now})
            };
            let status = match kind {
                "StatefulSet" => {
                    let replicas = &found.data["spec"]["replicas"];
                    json!({"observedGeneration": generation, "replicas": replicas, "updatedReplicas": replicas,
                           "availableReplicas": replicas, "readyReplicas": replicas})
                }
                "RabbitmqCluster" => json!({"observedGeneration": generation, "conditions":
                    [yes("AllReplicasReady"), yes("ClusterAvailable"), yes("ReconcileSuccess"), yes("NoWarnings")]}),
                "Valkey" => json!({"observedGeneration": generation, "state": "Ready"}),
                _ => json!({"conditions": [yes("Ready")]}),
            };
            let patch = Patch::Merge(json!({ "status": status }));
            self.api(namespace, kind).patch_status(name, &PatchParams::default(), &patch).await.is_ok()
        })
        .await;
    }

    /// Waits until an object goes with its owner.
    pub(crate) async fn owned(&self, namespace: &str, path: &str) {
        self.until(&format!("{path} is owned"), async || {
            let found = self.get(namespace, path).await.unwrap();
            found.metadata.owner_references.is_some_and(|owners| !owners.is_empty())
        })
        .await;
    }

    /// Plays the operator of Keystone: its keys go with it.
    pub(crate) async fn plays_keystone(&self, namespace: &str) {
        let keystone = self.get(namespace, "Keystone/keystone").await.unwrap();
        let owner = json!({"apiVersion": "keystone.openstack.c5c3.io/v1alpha1", "kind": "Keystone", "name": "keystone",
            "uid": keystone.metadata.uid, "controller": true, "blockOwnerDeletion": true});
        let keys = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "keystone-fernet-keys", "ownerReferences": [owner]}, "data": {"0": "a2V5"}});
        let params = PatchParams::apply("keystone-operator");
        self.api(namespace, "Secret").patch("keystone-fernet-keys", &params, &Patch::Apply(keys)).await.unwrap();
    }

    /// Everything in a namespace that the operator has made.
    pub(crate) async fn made(&self, namespace: &str) -> Vec<String> {
        let mut made = Vec::new();
        let ours = ListParams::default().labels("app.kubernetes.io/managed-by=controlplane-operator");
        for kind in operator_children() {
            let api = Api::<DynamicObject>::namespaced_with(self.client.clone(), namespace, &kind.resource);
            // A kind that is not installed has no objects.
            for object in api.list(&ours).await.map(|list| list.items).unwrap_or_default() {
                made.push(Ref::of(&kind.resource, &object.metadata).short());
            }
        }
        made.sort();
        made
    }

    pub(crate) async fn until_left(&self, namespace: &str, left: &[&str]) {
        self.until(&format!("nothing is left but {left:?}"), async || self.made(namespace).await == left).await;
    }

    pub(crate) async fn password(&self, namespace: &str) -> Option<Vec<u8>> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let secret = secrets.get_opt("mariadb-root-credentials").await.unwrap()?;
        secret.data?.get("password").map(|password| password.0.clone())
    }

    /// A ControlPlane that has come to `Ready`.
    pub(crate) async fn ready(&self, namespace: &str, spec: &Value) {
        self.apply(namespace, spec).await;
        for part in ["MariaDB/mariadb", "StatefulSet/memcached", "Keystone/keystone"] {
            self.is_ready(namespace, part).await;
        }
        self.until_reason(namespace, "Ready", "AllServicesReady").await;
    }
}

/// Runs a test with operators that have a larger stack than threads of tests have. An operator calls the API in its own process, which
/// reads the rules of a kind when it sees the first object of it: without optimisation that is 2 MiB, all that a thread has.
pub(crate) fn with_deep_stack(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(1).thread_stack_size(8 << 20).enable_all();
    runtime.build().unwrap().block_on(test);
}

/// A cluster with the kinds that a small ControlPlane needs.
pub(crate) async fn furnished() -> TestCluster {
    let cluster = TestCluster::start().await.unwrap();
    for (version, kind) in [
        ("c5c3.io/v1alpha1", "ControlPlane"),
        ("c5c3.io/v1alpha1", "SecretAggregate"),
        ("c5c3.io/v1alpha1", "CredentialRotation"),
        ("keystone.openstack.c5c3.io/v1alpha1", "Keystone"),
    ] {
        cluster.install(&c5c3_api::find(version, kind).unwrap().crd()).await.unwrap();
    }
    for (group, plural) in
        [("k8s.mariadb.com", "mariadbs"), ("rabbitmq.com", "rabbitmqclusters"), ("cache.cs.sap.com", "valkeys")]
    {
        cluster.install(&foreign(group, plural)).await.unwrap();
    }
    cluster
}

/// Starts an operator: of all namespaces, or of one, where it asks to be the leader.
pub(crate) fn start(client: &Client, metrics: &Metrics, namespace: Option<String>) -> JoinHandle<()> {
    let (client, metrics) = (client.clone(), metrics.clone());
    let (first_retry, last_retry) = (Duration::from_millis(20), Duration::from_secs(1));
    let election = namespace.as_ref().map(|home| Election::new(home, "leader", "someone"));
    let options = RunOptions { namespace, first_retry, last_retry, ..RunOptions::default() };
    let settings = Settings { options, election };
    tokio::spawn(async move {
        operator(false).run(client, settings, metrics, Readiness::default(), CancellationToken::new()).await;
    })
}

pub(crate) fn operator_children() -> Vec<KindRef> {
    c5c3_operator_controlplane::ControlPlanes.children()
}

/// The definition of another project's kind: the genuine one if it is at hand, by the contract otherwise.
pub(crate) fn foreign(group: &str, plural: &str) -> CustomResourceDefinition {
    let genuine = Genuine::find(group, plural).map(|genuine| genuine.definition);
    let definition = genuine.unwrap_or_else(|| Contract::find(group, plural).unwrap().definition());
    serde_json::from_value(definition).unwrap()
}

pub(crate) fn resource(kind: &str) -> ApiResource {
    let (group, version) = match kind {
        "ControlPlane" | "CredentialRotation" => ("c5c3.io", "v1alpha1"),
        "Keystone" => ("keystone.openstack.c5c3.io", "v1alpha1"),
        "MariaDB" => ("k8s.mariadb.com", "v1alpha1"),
        "RabbitmqCluster" => ("rabbitmq.com", "v1beta1"),
        "Valkey" => ("cache.cs.sap.com", "v1alpha1"),
        "StatefulSet" => ("apps", "v1"),
        "CephCluster" | "CephBlockPool" | "CephClient" => ("ceph.rook.io", "v1"),
        "Glance" => ("glance.openstack.c5c3.io", "v1alpha1"),
        "Placement" => ("placement.openstack.c5c3.io", "v1alpha1"),
        "ApplicationCredential" | "Domain" | "Project" | "Role" | "User" | "RoleAssignment" | "Endpoint" => {
            ("openstack.k-orc.cloud", "v1alpha1")
        }
        _ => ("", "v1"),
    };
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

pub(crate) fn small() -> Value {
    json!({"services": {"keystone": {}}})
}
