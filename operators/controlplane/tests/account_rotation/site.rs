//! A cluster with the operator of rotations, a service whose account is rotated, and a server that takes every account.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use c5c3_api::c5c3::CredentialRotation;
use c5c3_api::ext::rook::CephClient;
use c5c3_api::ext::{mariadb, rabbitmq};
use c5c3_kit::http::Readiness;
use c5c3_kit::metrics::Metrics;
use c5c3_kit::run::RunOptions;
use c5c3_kit::{Operator, Settings};
use c5c3_operator_cinder::BlockStorage;
use c5c3_operator_placement::Inventory;
use c5c3_service::Service;
use c5c3_stage::{Stage, World};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, Resource, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// An account on a server: its name and its password.
pub(crate) type Account = (String, String);

/// What the accounts are on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Server {
    Database,
    Broker,
    Ceph,
}

pub(crate) struct Site<S> {
    pub(crate) stage: Stage<S>,
    pub(crate) server: Server,
    /// The rotation, and the Secret that the service reads.
    pub(crate) rotation: &'static str,
    pub(crate) target: &'static str,
    /// The operator of the service.
    pub(crate) service: fn(bool) -> Operator,
    /// Whether the service has had its account on the server.
    pub(crate) is_used: AtomicBool,
}

impl Site<Inventory> {
    /// A Placement whose account on MariaDB is rotated.
    pub(crate) async fn with_a_database() -> Self {
        let site = Self {
            stage: stage(c5c3_operator_placement::operator, "placement-db-credentials").await,
            server: Server::Database,
            rotation: "placement-database-rotation",
            target: "placement-db-credentials",
            service: c5c3_operator_placement::operator,
            is_used: AtomicBool::new(false),
        };
        site.rotate("placement", "databaseAccount").await;
        site
    }
}

impl Site<BlockStorage> {
    /// A Cinder whose account on RabbitMQ is rotated.
    pub(crate) async fn with_a_broker() -> Self {
        let site = Self {
            stage: stage(c5c3_operator_cinder::operator, "cinder-rabbitmq-credentials").await,
            server: Server::Broker,
            rotation: "cinder-broker-rotation",
            target: "cinder-rabbitmq-credentials",
            service: c5c3_operator_cinder::operator,
            is_used: AtomicBool::new(false),
        };
        site.rotate("cinder", "brokerAccount").await;
        site
    }
}

/// Everything that the service needs but the Secret with its account, and the service `gate`.
async fn stage<S: Service>(operator: fn(bool) -> Operator, target: &str) -> Stage<S>
where
    S::Kind: Resource<Scope = NamespaceResourceScope>,
{
    let stage = Stage::set(operator, &World::<S>::with_all(Vec::new()).without(target)).await;
    install(&stage, "CredentialRotation").await;
    stage.create(&World::<S>::object(&json!({}))).await;
    stage
}

/// Installs a kind of `c5c3.io`.
pub(crate) async fn install<S>(stage: &Stage<S>, kind: &str) {
    stage.cluster.install(&c5c3_api::find("c5c3.io/v1alpha1", kind).unwrap().crd()).await.unwrap();
}

impl<S: Service> Site<S>
where
    S::Kind: Resource<Scope = NamespaceResourceScope>,
{
    /// A rotation of the service's account, whose old ones are deleted at once.
    async fn rotate(&self, account: &str, kind: &str) {
        let (version, consumer) = (S::Kind::api_version(&()), S::Kind::kind(&()));
        let rotation = json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "CredentialRotation",
            "metadata": {"name": self.rotation, "namespace": "cloud"},
            "spec": {"targetServiceUser": account, "rotationType": kind, "gracePeriodDays": 0,
                "schedule": {"intervalDays": 90, "preRotationDays": 7},
                "consumers": [{"apiVersion": version, "kind": consumer, "name": "gate"}]}});
        self.stage.create(&rotation).await;
    }

    /// Starts the operators.
    pub(crate) fn operate(&self, client: &Client) -> [JoinHandle<()>; 2] {
        // The users of Ceph are in the namespace of Rook.
        let namespace = (self.server != Server::Ceph).then(|| "cloud".to_owned());
        let operators = [c5c3_operator_controlplane::operator(false), (self.service)(false)];
        operators.map(|operator| run(operator, client.clone(), namespace.clone()))
    }

    pub(crate) fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.stage.client.clone(), "cloud")
    }

    pub(crate) async fn request(&self, value: &str) {
        let patch = json!({"metadata": {"annotations": {c5c3_operator_controlplane::ROTATE: value}}});
        let (api, params) = (self.api::<CredentialRotation>(), PatchParams::default());
        api.patch(self.rotation, &params, &Patch::Merge(patch)).await.unwrap();
    }

    /// The status of the rotation; null before there is one.
    pub(crate) async fn status(&self) -> Value {
        let rotation = self.api::<CredentialRotation>().get_opt(self.rotation).await.unwrap();
        serde_json::to_value(rotation.and_then(|rotation| rotation.status)).unwrap()
    }

    /// Waits until the account of that version is in use and the only one.
    pub(crate) async fn idle_with(&self, version: i64) {
        let is_idle = async {
            while !is_idle_with(&self.status().await, version) {
                self.let_the_grace_pass().await;
                tokio::task::yield_now().await;
            }
        };
        let in_time = tokio::time::timeout(c5c3_stage::PATIENCE, is_idle).await.is_ok();
        assert!(in_time, "{:#}", self.status().await);
    }

    /// Of an account that is kept for some days these days are over.
    pub(crate) async fn let_the_grace_pass(&self) {
        if self.status().await["phase"] == "Grace" {
            let patch = json!({"status": {"previousCredential": {"revokeAt": "2026-01-01T00:00:00Z"}}});
            let (api, params) = (self.api::<CredentialRotation>(), PatchParams::default());
            api.patch_status(self.rotation, &params, &Patch::Merge(patch)).await.unwrap();
        }
    }

    /// The accounts on the server.
    pub(crate) async fn accounts(&self) -> Vec<Account> {
        let mut found = Vec::new();
        match self.server {
            Server::Database => {
                for user in live(self.api::<mariadb::User>()).await {
                    let spec = serde_json::to_value(&user.spec).unwrap();
                    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                    let password = self.value(&text(&spec["passwordSecretKeyRef"]["name"]), "password").await;
                    found.push((text(&spec["name"]), password.unwrap_or_default()));
                }
            }
            Server::Broker => {
                for user in live(self.api::<rabbitmq::User>()).await {
                    let secret = user.spec.import_credentials_secret.unwrap().name;
                    // The operator of RabbitMQ cannot make an account of a Secret that is not there.
                    found.extend(self.pair(&secret, ["username", "password"]).await);
                }
            }
            Server::Ceph => {
                for user in live(crate::ceph::rooks::<CephClient>(&self.stage.client)).await {
                    let name = user.name_any();
                    found.push((name.clone(), crate::ceph::key(&self.stage.client, &name).await.unwrap_or_default()));
                }
            }
        }
        found
    }

    async fn value(&self, secret: &str, key: &str) -> Option<String> {
        let data = self.api::<Secret>().get_opt(secret).await.unwrap()?.data?;
        String::from_utf8(data.get(key)?.0.clone()).ok()
    }

    /// Two values of a Secret.
    pub(crate) async fn pair(&self, secret: &str, [name, password]: [&str; 2]) -> Option<Account> {
        Some((self.value(secret, name).await?, self.value(secret, password).await?))
    }

    /// The account that the service reads.
    pub(crate) async fn delivered(&self) -> Option<Account> {
        let keys = if self.server == Server::Ceph { ["userID", "key"] } else { ["username", "password"] };
        self.pair(self.target, keys).await
    }

    /// The account that the service reads is on the server with this very password, from the first time that the service had one
    /// there. Before that a database and a broker have none, which the service makes itself.
    pub(crate) async fn is_valid(&self) {
        let Some((name, password)) = self.delivered().await else { return };
        let accounts = self.accounts().await;
        assert!(accounts.len() <= 2, "{}", names(&accounts));
        if let Some((_, own)) = accounts.iter().find(|(account, _)| *account == name) {
            assert!(*own == password, "the service reads {name} with another password than the server has");
            self.is_used.store(true, Ordering::SeqCst);
        } else {
            let is_first = self.server != Server::Ceph && accounts.is_empty() && !self.is_used.load(Ordering::SeqCst);
            assert!(is_first, "the service reads {name}, and the server has {}", names(&accounts));
        }
    }
}

/// The names alone.
pub(crate) fn names(accounts: &[Account]) -> String {
    accounts.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
}

pub(crate) fn is_idle_with(status: &Value, version: i64) -> bool {
    status["phase"] == "Idle" && status["currentCredential"]["version"] == version
}

/// The objects that are not being deleted.
async fn live<K>(api: Api<K>) -> Vec<K>
where
    K: Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let all = api.list(&ListParams::default()).await.unwrap();
    all.into_iter().filter(|object| object.meta().deletion_timestamp.is_none()).collect()
}

fn run(operator: Operator, client: Client, namespace: Option<String>) -> JoinHandle<()> {
    let options = RunOptions {
        namespace,
        debounce: Duration::ZERO,
        first_retry: Duration::from_millis(20),
        last_retry: Duration::from_millis(200),
        ..RunOptions::default()
    };
    tokio::spawn(async move {
        let settings = Settings { options, election: None };
        operator.run(client, settings, Metrics::default(), Readiness::default(), CancellationToken::new()).await;
    })
}
