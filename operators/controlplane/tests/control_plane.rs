//! ControlPlanes on a whole API server, with the genuine definitions of what they are made of. Nobody acts on their
//! children here but the test itself.

use std::path::Path;
use std::time::Duration;

use c5c3_harness::{Fault, Limited, TestCluster};
use c5c3_kit::http::Readiness;
use c5c3_kit::leader::Election;
use c5c3_kit::metrics::Metrics;
use c5c3_kit::run::Pace;
use c5c3_kit::{Controller, KindRef, Ref, Settings, access};
use c5c3_operator_controlplane::operator;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PropagationPolicy};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// A cluster with the kinds that a small ControlPlane needs, and an operator on it.
struct Stage {
    cluster: TestCluster,
    client: Client,
    metrics: Metrics,
    operator: JoinHandle<()>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.operator.abort();
    }
}

impl Stage {
    async fn set() -> Self {
        let cluster = furnished().await;
        let (client, metrics) = (cluster.client(), Metrics::default());
        let operator = start(&client, &metrics, None);
        Self { cluster, client, metrics, operator }
    }

    /// The same with an operator that may do what it says it needs, in the test's own namespace, and nothing else.
    async fn limited() -> (Self, Limited) {
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
    fn kill(&mut self) {
        self.operator.abort();
        self.operator = start(&self.client, &self.metrics, None);
    }

    /// Ends the operator: nobody hears of anything until another one is started.
    async fn stop(&mut self) {
        self.operator.abort();
        let _ = (&mut self.operator).await;
    }

    fn api(&self, namespace: &str, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &resource(kind))
    }

    async fn get(&self, namespace: &str, path: &str) -> Option<DynamicObject> {
        let (kind, name) = path.split_once('/').unwrap();
        self.api(namespace, kind).get_opt(name).await.unwrap()
    }

    async fn apply(&self, namespace: &str, spec: &Value) {
        let object = json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane",
            "metadata": {"name": "lab", "namespace": namespace}, "spec": spec});
        let params = PatchParams::apply("someone").force();
        self.api(namespace, "ControlPlane").patch("lab", &params, &Patch::Apply(object)).await.unwrap();
    }

    /// Waits until something is so.
    async fn until<F: AsyncFn() -> bool>(&self, what: &str, is_so: F) {
        let waiting = async {
            while !is_so().await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "waited in vain: {what}");
    }

    async fn until_there(&self, namespace: &str, path: &str) {
        self.until(&format!("{path} is there"), async || self.get(namespace, path).await.is_some()).await;
    }

    async fn until_gone(&self, namespace: &str, path: &str) {
        self.until(&format!("{path} is gone"), async || self.get(namespace, path).await.is_none()).await;
    }

    async fn condition(&self, namespace: &str, kind: &str) -> Value {
        let plane = self.get(namespace, "ControlPlane/lab").await;
        let status = plane.map(|plane| plane.data["status"].clone()).unwrap_or_default();
        status["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == kind).cloned().unwrap_or_default()
    }

    async fn until_reason(&self, namespace: &str, kind: &str, reason: &str) {
        self.until(&format!("{kind} has reason {reason}"), async || {
            self.condition(namespace, kind).await["reason"] == reason
        })
        .await;
    }

    /// Plays the other operators: an object is ready.
    async fn is_ready(&self, namespace: &str, path: &str) {
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
    async fn owned(&self, namespace: &str, path: &str) {
        self.until(&format!("{path} is owned"), async || {
            let found = self.get(namespace, path).await.unwrap();
            found.metadata.owner_references.is_some_and(|owners| !owners.is_empty())
        })
        .await;
    }

    /// Plays the operator of Keystone: its keys go with it.
    async fn plays_keystone(&self, namespace: &str) {
        let keystone = self.get(namespace, "Keystone/keystone").await.unwrap();
        let owner = json!({"apiVersion": "keystone.openstack.c5c3.io/v1alpha1", "kind": "Keystone", "name": "keystone",
            "uid": keystone.metadata.uid, "controller": true, "blockOwnerDeletion": true});
        let keys = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "keystone-fernet-keys", "ownerReferences": [owner]}, "data": {"0": "a2V5"}});
        let params = PatchParams::apply("keystone-operator");
        self.api(namespace, "Secret").patch("keystone-fernet-keys", &params, &Patch::Apply(keys)).await.unwrap();
    }

    /// Everything in a namespace that the operator has made.
    async fn made(&self, namespace: &str) -> Vec<String> {
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

    async fn until_left(&self, namespace: &str, left: &[&str]) {
        self.until(&format!("nothing is left but {left:?}"), async || self.made(namespace).await == left).await;
    }

    async fn password(&self, namespace: &str) -> Option<Vec<u8>> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let secret = secrets.get_opt("mariadb-root-credentials").await.unwrap()?;
        secret.data?.get("password").map(|password| password.0.clone())
    }

    /// A ControlPlane that has come to `Ready`.
    async fn ready(&self, namespace: &str, spec: &Value) {
        self.apply(namespace, spec).await;
        for part in ["MariaDB/mariadb", "StatefulSet/memcached", "Keystone/keystone"] {
            self.is_ready(namespace, part).await;
        }
        self.until_reason(namespace, "Ready", "AllServicesReady").await;
    }
}

/// A cluster with the kinds that a small ControlPlane needs.
async fn furnished() -> TestCluster {
    let cluster = TestCluster::start().await.unwrap();
    for (version, kind) in [
        ("c5c3.io/v1alpha1", "ControlPlane"),
        ("c5c3.io/v1alpha1", "SecretAggregate"),
        ("keystone.openstack.c5c3.io/v1alpha1", "Keystone"),
    ] {
        cluster.install(&c5c3_api::find(version, kind).unwrap().crd()).await.unwrap();
    }
    for file in [
        "mariadb-operator/k8s.mariadb.com_mariadbs.yaml",
        "rabbitmq-cluster-operator/rabbitmq.com_rabbitmqclusters.yaml",
        "valkey-operator/cache.cs.sap.com_valkeys.yaml",
    ] {
        cluster.install(&genuine(file)).await.unwrap();
    }
    cluster
}

/// Starts an operator: of all namespaces, or of one, where it asks to be the leader.
fn start(client: &Client, metrics: &Metrics, namespace: Option<String>) -> JoinHandle<()> {
    let (client, metrics) = (client.clone(), metrics.clone());
    let (first_retry, last_retry) = (Duration::from_millis(20), Duration::from_secs(1));
    let election = namespace.as_ref().map(|home| Election::new(home, "leader", "someone"));
    let pace = Pace { namespace, first_retry, last_retry, ..Pace::default() };
    let settings = Settings { pace, election };
    tokio::spawn(async move {
        operator(false).run(client, settings, metrics, Readiness::default(), CancellationToken::new()).await;
    })
}

fn operator_children() -> Vec<KindRef> {
    c5c3_operator_controlplane::ControlPlanes.children()
}

fn genuine(file: &str) -> CustomResourceDefinition {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/crds").join(file);
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn resource(kind: &str) -> ApiResource {
    let (group, version) = match kind {
        "ControlPlane" => ("c5c3.io", "v1alpha1"),
        "Keystone" => ("keystone.openstack.c5c3.io", "v1alpha1"),
        "MariaDB" => ("k8s.mariadb.com", "v1alpha1"),
        "RabbitmqCluster" => ("rabbitmq.com", "v1beta1"),
        "Valkey" => ("cache.cs.sap.com", "v1alpha1"),
        "StatefulSet" => ("apps", "v1"),
        _ => ("", "v1"),
    };
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

fn small() -> Value {
    json!({"services": {"keystone": {}}})
}

#[tokio::test]
async fn keystone_starts_when_what_it_needs_is_ready_and_waits_for_nothing_else() {
    let stage = Stage::set().await;
    let home = stage.cluster.namespace();
    let spec = json!({"infrastructure": {"rabbitmq": {}, "valkey": {}}, "services": {"keystone": {}}});
    stage.apply(home, &spec).await;
    for part in ["MariaDB/mariadb", "RabbitmqCluster/rabbitmq", "Valkey/valkey", "StatefulSet/memcached"] {
        stage.until_there(home, part).await;
    }
    stage.until_reason(home, "KeystoneReady", "Blocked").await;
    let blocked = stage.condition(home, "KeystoneReady").await;
    assert_eq!(blocked["message"], "keystone starts when mariadb and memcached are ready");
    stage.is_ready(home, "MariaDB/mariadb").await;
    stage.is_ready(home, "StatefulSet/memcached").await;
    stage.until_there(home, "Keystone/keystone").await;
    assert_eq!(
        stage.condition(home, "InfrastructureReady").await["status"],
        "False",
        "the others are still waited for"
    );
    for part in ["Keystone/keystone", "RabbitmqCluster/rabbitmq", "Valkey/valkey"] {
        stage.is_ready(home, part).await;
    }
    stage.until_reason(home, "Ready", "AllServicesReady").await;
    stage
        .until("the status says so too", async || {
            let status = stage.get(home, "ControlPlane/lab").await.unwrap().data["status"].clone();
            status["phase"] == "Ready" && status["services"]["keystone"]["ready"] == true
        })
        .await;
}

#[tokio::test]
async fn an_unchanged_control_plane_makes_no_write() {
    let stage = Stage::set().await;
    let home = stage.cluster.namespace();
    stage.ready(home, &small()).await;
    let versions = async || {
        let mut versions = Vec::new();
        for kind in ["ControlPlane", "MariaDB", "StatefulSet", "Keystone", "Secret", "Service"] {
            for object in stage.api(home, kind).list(&ListParams::default()).await.unwrap() {
                versions.push((kind, object.metadata.name, object.metadata.resource_version));
            }
        }
        versions
    };
    let reports = || stage.metrics.text().lines().find(|line| line.contains(REPORTS)).map(ToOwned::to_owned);
    // What is under way for the last change ends first.
    stage
        .until("it has come to rest", async || {
            let before = reports();
            tokio::time::sleep(Duration::from_millis(500)).await;
            before == reports()
        })
        .await;
    let (then, counted) = (versions().await, reports());
    // A child that is touched by someone starts a reconcile of its owner.
    let touch = Patch::Merge(json!({"metadata": {"annotations": {"someone.example.org/was-here": "yes"}}}));
    stage.api(home, "Service").patch("memcached", &PatchParams::default(), &touch).await.unwrap();
    stage.until("it was looked at again", async || reports() != counted).await;
    let changed: Vec<_> = versions().await.into_iter().filter(|version| !then.contains(version)).collect();
    assert_eq!(changed.len(), 1, "only what was touched: {changed:?}");
}

const REPORTS: &str = r#"count{controller="controlplane",step="report"}"#;

#[tokio::test]
async fn faults_and_a_killed_operator_delay_a_control_plane_and_change_no_password() {
    let mut stage = Stage::set().await;
    let home = stage.cluster.namespace().to_owned();
    stage.cluster.inject(Fault::lose_answer().to("create", "/secrets"));
    stage.cluster.inject(Fault::answer(500).to("patch", "/mariadbs").times(2));
    stage.cluster.inject(Fault::answer(409).to("patch", "/controlplanes/lab/status").times(2));
    stage.apply(&home, &small()).await;
    stage.until_there(&home, "MariaDB/mariadb").await;
    let password = stage.password(&home).await.unwrap();
    assert_eq!(password.len(), 32);
    stage.kill();
    stage.cluster.drop_watches();
    stage.cluster.inject(Fault::answer(500).to("patch", "/statefulsets").times(2));
    stage.is_ready(&home, "MariaDB/mariadb").await;
    stage.is_ready(&home, "StatefulSet/memcached").await;
    stage.until_there(&home, "Keystone/keystone").await;
    stage.kill();
    stage.is_ready(&home, "Keystone/keystone").await;
    stage.until_reason(&home, "Ready", "AllServicesReady").await;
    assert_eq!(stage.password(&home).await, Some(password));
}

#[tokio::test]
async fn a_root_password_that_is_lost_is_asked_for_and_not_made_up_again() {
    let mut stage = Stage::set().await;
    let home = stage.cluster.namespace().to_owned();
    stage.ready(&home, &small()).await;
    let made = stage.get(&home, "Secret/mariadb-root-credentials").await.unwrap();
    let secrets = stage.api(&home, "Secret");
    secrets.delete("mariadb-root-credentials", &DeleteParams::default()).await.unwrap();
    stage.until_reason(&home, "InfrastructureReady", "RootPasswordLost").await;
    let message = stage.condition(&home, "InfrastructureReady").await["message"].as_str().unwrap().to_owned();
    assert!(message.contains("restore secret/mariadb-root-credentials from a backup"), "{message}");
    stage.kill();
    stage.apply(&home, &json!({"services": {"keystone": {}}, "infrastructure": {"memcached": {"replicas": 1}}})).await;
    stage
        .until("the rest goes on", async || {
            stage.get(&home, "StatefulSet/memcached").await.unwrap().data["spec"]["replicas"] == 1
        })
        .await;
    assert_eq!(stage.password(&home).await, None, "servers would not take another one");

    // As someone writes it who has the value and nothing else.
    let restored = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mariadb-root-credentials"},
        "data": made.data["data"]});
    let params = PatchParams::apply("someone");
    secrets.patch("mariadb-root-credentials", &params, &Patch::Apply(restored)).await.unwrap();
    stage.is_ready(&home, "StatefulSet/memcached").await;
    stage.until_reason(&home, "Ready", "AllServicesReady").await;
}

#[tokio::test]
async fn a_root_password_that_no_server_knows_yet_is_made_up_again() {
    let mut stage = Stage::set().await;
    let home = stage.cluster.namespace().to_owned();
    stage.cluster.inject(Fault::answer(500).to("patch", "/mariadbs").always());
    stage.apply(&home, &small()).await;
    stage.until_there(&home, "Secret/mariadb-root-credentials").await;
    let first = stage.password(&home).await;
    // The operator dies between the two, and the first is lost.
    stage.kill();
    stage.api(&home, "Secret").delete("mariadb-root-credentials", &DeleteParams::default()).await.unwrap();
    stage.until("there is another one", async || stage.password(&home).await.is_some()).await;
    assert_ne!(stage.password(&home).await, first);
    stage.cluster.heal();
    stage.ready(&home, &small()).await;
}

#[tokio::test]
async fn a_control_plane_goes_in_reverse_order_and_leaves_its_data() {
    let stage = Stage::set().await;
    let home = stage.cluster.namespace();
    stage.ready(home, &small()).await;
    let password = stage.password(home).await;
    let hold = Patch::Merge(json!({"metadata": {"finalizers": ["someone.example.org/hold"]}}));
    stage.api(home, "Keystone").patch("keystone", &PatchParams::default(), &hold).await.unwrap();
    stage.api(home, "ControlPlane").delete("lab", &DeleteParams::default()).await.unwrap();
    stage.until_reason(home, "Ready", "Deleting").await;
    assert!(stage.get(home, "MariaDB/mariadb").await.is_some(), "the database outlives who writes to it");
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    stage.api(home, "Keystone").patch("keystone", &PatchParams::default(), &release).await.unwrap();
    stage.until_gone(home, "MariaDB/mariadb").await;
    stage.until_gone(home, "ControlPlane/lab").await;
    let accounts = ["keystone-admin-credentials", "keystone-db-credentials", "mariadb-root-credentials"];
    let kept = accounts.map(|name| format!("secret/{name}"));
    stage.until_left(home, &kept.each_ref().map(String::as_str)).await;
    assert_eq!(stage.password(home).await, password, "what opens the data stays with it");
    // Another one of the same name goes on with it.
    stage.ready(home, &small()).await;
    assert_eq!(stage.password(home).await, password);
}

#[tokio::test]
async fn a_control_plane_that_is_deleted_alone_leaves_all_that_it_made() {
    let stage = Stage::set().await;
    let home = stage.cluster.namespace();
    stage.ready(home, &small()).await;
    let made = stage.made(home).await;
    let alone = DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    stage.api(home, "ControlPlane").delete("lab", &alone).await.unwrap();
    stage.until_gone(home, "ControlPlane/lab").await;
    for part in ["Keystone/keystone", "MariaDB/mariadb", "StatefulSet/memcached"] {
        let left = stage.get(home, part).await.unwrap_or_else(|| panic!("{part} is gone")).metadata;
        assert_eq!(left.deletion_timestamp, None, "{part} goes");
        assert!(left.owner_references.is_none_or(|owners| owners.is_empty()), "{part} has an owner");
    }
    assert_eq!(stage.made(home).await, made);
}

#[tokio::test]
async fn a_control_plane_that_is_asked_to_takes_its_data_along() {
    let stage = Stage::set().await;
    let home = stage.cluster.namespace();
    stage.ready(home, &small()).await;
    stage.apply(home, &json!({"deletionPolicy": "Delete", "services": {"keystone": {}}})).await;
    stage
        .until("the volumes are to go", async || {
            let mariadb = stage.get(home, "MariaDB/mariadb").await.unwrap();
            mariadb.data["spec"]["storage"]["pvcRetentionPolicy"]["whenDeleted"] == "Delete"
        })
        .await;
    stage.owned(home, "Secret/mariadb-root-credentials").await;
    stage.api(home, "ControlPlane").delete("lab", &DeleteParams::default()).await.unwrap();
    stage.until_gone(home, "ControlPlane/lab").await;
    stage.until_left(home, &[]).await;
}

#[tokio::test]
async fn data_that_is_to_stay_after_all_stays_though_the_operator_heard_of_it_last() {
    let mut stage = Stage::set().await;
    let home = stage.cluster.namespace().to_owned();
    stage.ready(&home, &json!({"deletionPolicy": "Delete", "services": {"keystone": {}}})).await;
    stage.owned(&home, "Secret/mariadb-root-credentials").await;
    stage.plays_keystone(&home).await;
    stage.stop().await;
    // The release is one that nobody knows: what is said of data holds all the same.
    stage.apply(&home, &json!({"openStackRelease": "2031.1", "services": {"keystone": {}}})).await;
    stage.api(&home, "ControlPlane").delete("lab", &DeleteParams::default()).await.unwrap();
    stage.kill();
    stage
        .until("Keystone is told", async || {
            let keystone = stage.get(&home, "Keystone/keystone").await.unwrap();
            keystone.data["spec"]["deletionPolicy"] == "Retain"
        })
        .await;
    stage.until_reason(&home, "Ready", "Deleting").await;
    let message = stage.condition(&home, "Ready").await["message"].as_str().unwrap().to_owned();
    assert!(message.contains("secret/keystone-fernet-keys: stays when keystone/keystone goes"), "{message}");
    let mariadb = stage.get(&home, "MariaDB/mariadb").await.unwrap();
    assert_eq!(mariadb.data["spec"]["storage"].pointer("/pvcRetentionPolicy/whenDeleted"), None);
    for part in ["Keystone/keystone", "MariaDB/mariadb"] {
        let meta = stage.get(&home, part).await.unwrap().metadata;
        assert_eq!(meta.deletion_timestamp, None, "{part} waits until Keystone's operator has followed");
    }
    let release = Patch::Merge(json!({"metadata": {"ownerReferences": null}}));
    stage.api(&home, "Secret").patch("keystone-fernet-keys", &PatchParams::default(), &release).await.unwrap();
    stage.until_gone(&home, "ControlPlane/lab").await;
    let accounts = ["keystone-admin-credentials", "keystone-db-credentials", "mariadb-root-credentials"];
    let kept = accounts.map(|name| format!("secret/{name}"));
    stage.until_left(&home, &kept.each_ref().map(String::as_str)).await;
    assert!(stage.get(&home, "Secret/keystone-fernet-keys").await.is_some());
}

#[tokio::test]
async fn volumes_that_would_go_against_the_policy_hold_their_server_and_say_how_to_keep_them() {
    let mut stage = Stage::set().await;
    let home = stage.cluster.namespace().to_owned();
    stage.ready(&home, &json!({"deletionPolicy": "Delete", "services": {"keystone": {}}})).await;
    let volumes = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "mariadb"}, "spec": {
        "selector": {"matchLabels": {"part": "x"}}, "serviceName": "x", "replicas": 0,
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
        "template": {"metadata": {"labels": {"part": "x"}}, "spec": {"containers": [{"name": "x", "image": "x"}]}}}});
    let sets = stage.api(&home, "StatefulSet");
    sets.patch("mariadb", &PatchParams::apply("mariadb-operator"), &Patch::Apply(volumes)).await.unwrap();
    stage.stop().await;
    stage.apply(&home, &small()).await;
    stage.api(&home, "ControlPlane").delete("lab", &DeleteParams::default()).await.unwrap();
    stage.kill();
    stage.until_reason(&home, "Ready", "Deleting").await;
    let message = stage.condition(&home, "Ready").await["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("statefulset/mariadb: keeps its volumes") && message.contains("kubectl patch"),
        "{message}"
    );
    assert_eq!(stage.get(&home, "MariaDB/mariadb").await.unwrap().metadata.deletion_timestamp, None);
    let skip = Patch::Merge(json!({"metadata": {"annotations": {"c5c3.io/skip-cleanup": "true"}}}));
    stage.api(&home, "ControlPlane").patch("lab", &PatchParams::default(), &skip).await.unwrap();
    stage.until_gone(&home, "ControlPlane/lab").await;
}

#[tokio::test]
async fn a_database_that_is_down_keeps_nobody_from_hearing_that_data_stays() {
    let stage = Stage::set().await;
    let home = stage.cluster.namespace();
    stage.ready(home, &json!({"deletionPolicy": "Delete", "services": {"keystone": {}}})).await;
    let down = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Down", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    stage.api(home, "MariaDB").patch_status("mariadb", &PatchParams::default(), &Patch::Merge(down)).await.unwrap();
    stage.until_reason(home, "InfrastructureReady", "WaitingForMariaDB").await;
    stage.apply(home, &json!({"services": {"keystone": {"replicas": 5}}})).await;
    stage
        .until("Keystone is told", async || {
            let keystone = stage.get(home, "Keystone/keystone").await.unwrap();
            keystone.data["spec"]["deletionPolicy"] == "Retain"
        })
        .await;
    let keystone = stage.get(home, "Keystone/keystone").await.unwrap();
    assert_eq!(keystone.data["spec"]["replicas"], 3, "other changes wait for the database");
}

#[tokio::test]
async fn a_foreign_object_of_the_same_name_is_left_alone_and_reported() {
    let stage = Stage::set().await;
    let home = stage.cluster.namespace();
    let foreign = json!({"apiVersion": "k8s.mariadb.com/v1alpha1", "kind": "MariaDB",
        "metadata": {"name": "mariadb", "labels": {"app.kubernetes.io/managed-by": "helm"}}, "spec": {"replicas": 1}});
    let params = PatchParams::apply("helm");
    stage.api(home, "MariaDB").patch("mariadb", &params, &Patch::Apply(foreign)).await.unwrap();
    stage.apply(home, &small()).await;
    stage.until_reason(home, "InfrastructureReady", "ForeignObject").await;
    let message = stage.condition(home, "InfrastructureReady").await["message"].as_str().unwrap().to_owned();
    assert!(message.contains("mariadb/mariadb") && message.contains("belongs to helm"), "{message}");
    stage.until_there(home, "StatefulSet/memcached").await;
    stage.api(home, "ControlPlane").delete("lab", &DeleteParams::default()).await.unwrap();
    stage.until_gone(home, "ControlPlane/lab").await;
    let left = stage.get(home, "MariaDB/mariadb").await.unwrap();
    assert_eq!(left.data["spec"]["replicas"], 1);
}

#[tokio::test]
async fn an_operator_with_the_rights_that_it_says_it_needs_is_refused_nothing() {
    let (stage, limited) = Stage::limited().await;
    let home = stage.cluster.namespace();
    let spec = json!({"infrastructure": {"rabbitmq": {}, "valkey": {}}, "services": {"keystone": {}}});
    stage.apply(home, &spec).await;
    for part in ["RabbitmqCluster/rabbitmq", "Valkey/valkey"] {
        stage.is_ready(home, part).await;
    }
    stage.ready(home, &spec).await;
    stage.apply(home, &small()).await;
    stage.until_gone(home, "Valkey/valkey").await;
    stage.api(home, "ControlPlane").delete("lab", &DeleteParams::default()).await.unwrap();
    stage.until_gone(home, "ControlPlane/lab").await;
    assert_eq!(limited.refused(), Vec::<String>::new());
}

#[tokio::test]
async fn a_part_that_the_api_refuses_holds_up_no_other_and_comes_when_it_is_taken() {
    let stage = Stage::set().await;
    let home = stage.cluster.namespace();
    stage.cluster.inject(Fault::answer(403).to("patch", "/rabbitmqclusters").always());
    let spec = json!({"infrastructure": {"rabbitmq": {}}, "services": {"keystone": {}}});
    stage.apply(home, &spec).await;
    stage.until_reason(home, "InfrastructureReady", "ApplyRefused").await;
    for part in ["MariaDB/mariadb", "StatefulSet/memcached", "Keystone/keystone"] {
        stage.is_ready(home, part).await;
    }
    stage.until("Keystone is ready", async || stage.condition(home, "KeystoneReady").await["status"] == "True").await;
    let status = stage.get(home, "ControlPlane/lab").await.unwrap().data["status"].clone();
    assert_eq!(status["waitingFor"][0]["object"], "rabbitmqcluster/rabbitmq", "{status}");
    stage.cluster.heal();
    stage.is_ready(home, "RabbitmqCluster/rabbitmq").await;
    stage.until_reason(home, "Ready", "AllServicesReady").await;
}

#[tokio::test]
async fn an_upgrade_that_failed_is_taken_back_until_the_database_cannot_follow() {
    let stage = Stage::set().await;
    let home = stage.cluster.namespace();
    let of = |release: &str| json!({"openStackRelease": release, "services": {"keystone": {}}});
    let tag = async |tag: &str| {
        stage
            .until(&format!("Keystone is told of {tag}"), async || {
                stage.get(home, "Keystone/keystone").await.unwrap().data["spec"]["image"]["tag"] == tag
            })
            .await;
    };
    let upgrading = async |phase: &str| {
        let status = json!({"installedRelease": "28.0.0", "targetRelease": "29.0.0", "upgradePhase": phase});
        let (params, patch) = (PatchParams::default(), Patch::Merge(json!({ "status": status })));
        stage.api(home, "Keystone").patch_status("keystone", &params, &patch).await.unwrap();
    };
    stage.ready(home, &of("2025.2")).await;
    stage.apply(home, &of("2026.1")).await;
    tag("29.0.0").await;
    upgrading("Expanding").await;
    stage.apply(home, &of("2025.2")).await;
    tag("28.0.0").await;
    stage.apply(home, &of("2026.1")).await;
    tag("29.0.0").await;
    upgrading("Contracting").await;
    stage.apply(home, &of("2025.2")).await;
    stage.until_reason(home, "Ready", "InvalidSpec").await;
    let message = stage.condition(home, "Ready").await["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("spec.openStackRelease: ") && message.contains("set it to 2026.1"), "{message}");
    tag("29.0.0").await;
}

#[tokio::test]
async fn a_cloud_does_not_move_to_another_server_and_begin_with_nothing() {
    let stage = Stage::set().await;
    let home = stage.cluster.namespace();
    let on = |server: &str| json!({"infrastructure": {"mariadb": {"clusterRef": {"name": server}}}, "services": {"keystone": {}}});
    for server in ["ledger", "journal"] {
        let object = json!({"apiVersion": "k8s.mariadb.com/v1alpha1", "kind": "MariaDB", "metadata": {"name": server},
            "spec": {"storage": {"size": "1Gi"}}});
        stage.api(home, "MariaDB").patch(server, &PatchParams::apply("someone"), &Patch::Apply(object)).await.unwrap();
        stage.is_ready(home, &format!("MariaDB/{server}")).await;
    }
    stage.apply(home, &on("ledger")).await;
    stage.is_ready(home, "StatefulSet/memcached").await;
    stage.is_ready(home, "Keystone/keystone").await;
    stage.until_reason(home, "Ready", "AllServicesReady").await;
    stage.apply(home, &on("journal")).await;
    stage.until_reason(home, "Ready", "InvalidSpec").await;
    let message = stage.condition(home, "Ready").await["message"].as_str().unwrap().to_owned();
    assert!(message.contains("all data would stay on the old one"), "{message}");
    let keystone = stage.get(home, "Keystone/keystone").await.unwrap();
    assert_eq!(keystone.data["spec"]["database"]["clusterRef"]["name"], "ledger");
}

#[tokio::test]
async fn a_part_that_is_switched_off_loses_no_data_while_the_control_plane_stays() {
    let stage = Stage::set().await;
    let home = stage.cluster.namespace();
    stage.ready(home, &json!({"deletionPolicy": "Delete", "services": {"keystone": {}}})).await;
    stage.plays_keystone(home).await;
    let password = stage.password(home).await;
    stage.apply(home, &json!({"deletionPolicy": "Delete", "services": {"keystone": {"enabled": false}}})).await;
    stage.until_reason(home, "Ready", "InvalidSpec").await;
    let message = stage.condition(home, "Ready").await["message"].as_str().unwrap().to_owned();
    assert!(message.contains("set spec.deletionPolicy to Retain first"), "{message}");
    for part in ["Keystone/keystone", "MariaDB/mariadb"] {
        assert_eq!(stage.get(home, part).await.unwrap().metadata.deletion_timestamp, None, "{part}");
    }

    // Both at once: Keystone is told first, and goes when its operator has followed.
    stage.apply(home, &json!({"services": {"keystone": {"enabled": false}}})).await;
    stage
        .until("the keys are waited for", async || {
            let status = stage.get(home, "ControlPlane/lab").await.unwrap().data["status"].clone();
            let waits = status["waitingFor"].as_array().cloned().unwrap_or_default();
            waits.iter().any(|wait| wait["object"] == "secret/keystone-fernet-keys")
        })
        .await;
    assert_eq!(stage.get(home, "Keystone/keystone").await.unwrap().data["spec"]["deletionPolicy"], "Retain");
    let release = Patch::Merge(json!({"metadata": {"ownerReferences": null}}));
    stage.api(home, "Secret").patch("keystone-fernet-keys", &PatchParams::default(), &release).await.unwrap();
    let touch = Patch::Merge(json!({"metadata": {"annotations": {"someone.example.org/was-here": "yes"}}}));
    stage.api(home, "ControlPlane").patch("lab", &PatchParams::default(), &touch).await.unwrap();
    stage.until_gone(home, "Keystone/keystone").await;
    stage.until_gone(home, "MariaDB/mariadb").await;
    stage.ready(home, &small()).await;
    assert_eq!(stage.password(home).await, password, "it goes on where it was");
    assert!(stage.get(home, "Secret/keystone-fernet-keys").await.is_some());
}

#[tokio::test]
async fn two_control_planes_in_two_namespaces_are_side_by_side() {
    let stage = Stage::set().await;
    let (first, second) =
        (stage.cluster.namespace_named("first").await.unwrap(), stage.cluster.namespace_named("second").await.unwrap());
    stage.ready(&first, &small()).await;
    stage.ready(&second, &json!({"services": {"keystone": {"replicas": 1}}})).await;
    assert_ne!(stage.password(&first).await, stage.password(&second).await);
    stage.api(&first, "ControlPlane").delete("lab", &DeleteParams::default()).await.unwrap();
    stage.until_gone(&first, "ControlPlane/lab").await;
    let other = stage.get(&second, "Keystone/keystone").await.unwrap();
    assert_eq!(other.data["spec"]["replicas"], 1);
    assert_eq!(stage.condition(&second, "Ready").await["status"], "True");
}

#[tokio::test]
async fn a_storage_class_that_is_not_there_is_waited_for_and_the_rest_goes_on() {
    let stage = Stage::set().await;
    let home = stage.cluster.namespace();
    let class = stage.cluster.name("gold");
    let spec = json!({"infrastructure": {"mariadb": {"storageClass": class}}, "services": {"keystone": {}}});
    stage.apply(home, &spec).await;
    stage.until_reason(home, "InfrastructureReady", "StorageClassMissing").await;
    stage.until_there(home, "StatefulSet/memcached").await;
    assert!(stage.get(home, "MariaDB/mariadb").await.is_none());
    let storage = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": class},
        "provisioner": "example.org/none"});
    let reference = Ref::cluster::<k8s_openapi::api::storage::v1::StorageClass>(&class);
    let params = PatchParams::apply("someone");
    reference.api(stage.client.clone()).patch(&class, &params, &Patch::Apply(storage)).await.unwrap();
    stage.until_there(home, "MariaDB/mariadb").await;
}
