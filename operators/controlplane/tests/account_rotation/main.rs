//! Rotations of database accounts with the real operator of Placement, on an API server with a MariaDB that takes every account.

#[path = "../credential_rotation/mortal.rs"]
mod mortal;

use std::time::Duration;

use c5c3_api::c5c3::CredentialRotation;
use c5c3_api::ext::mariadb::User;
use c5c3_kit::http::Readiness;
use c5c3_kit::metrics::Metrics;
use c5c3_kit::run::RunOptions;
use c5c3_kit::{Operator, Settings};
use c5c3_operator_placement::Inventory;
use c5c3_stage::{Stage, World};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use mortal::Mortal;

const TARGET: &str = "placement-db-credentials";
const NAME: &str = "placement-database-rotation";

struct Site(Stage<Inventory>);

impl Site {
    async fn open() -> Self {
        let world = World::<Inventory>::with_all(Vec::new()).without(TARGET);
        let stage = Stage::set(c5c3_operator_placement::operator, &world).await;
        let kind = c5c3_api::find("c5c3.io/v1alpha1", "CredentialRotation").unwrap();
        stage.cluster.install(&kind.crd()).await.unwrap();
        stage.create(&World::<Inventory>::object(&json!({}))).await;
        let consumer =
            json!({"apiVersion": "placement.openstack.c5c3.io/v1alpha1", "kind": "Placement", "name": "gate"});
        let rotation = json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "CredentialRotation",
            "metadata": {"name": NAME, "namespace": "cloud"},
            "spec": {"targetServiceUser": "placement", "rotationType": "databaseAccount", "gracePeriodDays": 0,
                "schedule": {"intervalDays": 90, "preRotationDays": 7}, "consumers": [consumer]}});
        stage.create(&rotation).await;
        Self(stage)
    }

    fn api<K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.0.client.clone(), "cloud")
    }

    async fn request(&self, value: &str) {
        let patch = json!({"metadata": {"annotations": {c5c3_operator_controlplane::ROTATE: value}}});
        self.api::<CredentialRotation>().patch(NAME, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    async fn status(&self) -> Value {
        let rotation = self.api::<CredentialRotation>().get(NAME).await.unwrap();
        serde_json::to_value(rotation.status).unwrap()
    }

    /// Waits until the account of that version is in use and the only one.
    async fn idle_with(&self, version: i64) {
        let is_idle = async {
            loop {
                let status = self.status().await;
                if status["phase"] == "Idle" && status["currentCredential"]["version"] == version {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        let in_time = tokio::time::timeout(c5c3_stage::PATIENCE, is_idle).await.is_ok();
        assert!(in_time, "{:#}", self.status().await);
    }

    /// The accounts on the server: names, and the Secrets of their passwords.
    async fn accounts(&self) -> Vec<(String, String)> {
        let users = self.api::<User>().list(&ListParams::default()).await.unwrap();
        let all = users.into_iter().filter(|user| user.metadata.deletion_timestamp.is_none());
        all.map(|user| {
            let spec = serde_json::to_value(&user.spec).unwrap();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            (text(&spec["name"]), text(&spec["passwordSecretKeyRef"]["name"]))
        })
        .collect()
    }

    async fn secret(&self, name: &str) -> Option<(String, String)> {
        let data = self.api::<Secret>().get_opt(name).await.unwrap()?.data?;
        let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
        Some((text("username")?, text("password")?))
    }

    /// The account that the service reads is on the server with this very password, as soon as the service has run.
    async fn is_valid(&self) {
        let Some(delivered) = self.secret(TARGET).await else { return };
        let accounts = self.accounts().await;
        assert!(accounts.len() <= 2, "{accounts:?}");
        if let Some((_, secret)) = accounts.iter().find(|(username, _)| *username == delivered.0) {
            let own = self.secret(secret).await;
            assert_eq!(
                own.as_ref(),
                Some(&delivered),
                "the service reads {}, and the server has {secret}",
                delivered.0
            );
        } else {
            assert!(accounts.is_empty(), "the service reads {}, and the server has {accounts:?}", delivered.0);
        }
    }
}

fn run(operator: Operator, client: Client) -> JoinHandle<()> {
    let options = RunOptions {
        namespace: Some("cloud".into()),
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

fn both(client: &Client) -> [JoinHandle<()>; 2] {
    [
        run(c5c3_operator_controlplane::operator(false), client.clone()),
        run(c5c3_operator_placement::operator(false), client.clone()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn two_accounts_alternate_and_the_old_one_leaves_the_server() {
    let site = Site::open().await;
    let operators = both(&site.0.client);
    site.idle_with(1).await;
    site.0.until_ready().await;
    assert_eq!(site.accounts().await, [("placement".to_owned(), "placement-db-account-v1".to_owned())]);
    let first = site.secret(TARGET).await.unwrap();
    for (version, username) in [(2, "placement-b"), (3, "placement")] {
        site.request(&version.to_string()).await;
        site.idle_with(version).await;
        let now = site.secret(TARGET).await.unwrap();
        assert_eq!(now.0, username);
        assert_ne!(now.1, first.1);
        assert_eq!(site.accounts().await, [(username.to_owned(), format!("placement-db-account-v{version}"))]);
        site.is_valid().await;
    }
    let left = async {
        loop {
            let secrets = site.api::<Secret>().list(&ListParams::default()).await.unwrap();
            let names = secrets.iter().map(ResourceExt::name_any).filter(|name| name.contains("db-account"));
            if names.eq(["placement-db-account-v3"]) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(c5c3_stage::PATIENCE, left).await.expect("the Secrets of old accounts go");
    let status = site.status().await;
    assert_eq!(status["currentCredential"]["id"], "placement");
    assert_eq!(status["currentCredential"]["expiresAt"], Value::Null, "an account does not expire");
    for task in operators {
        task.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_secret_of_the_account_in_use_is_restored_with_the_same_password() {
    let site = Site::open().await;
    let operators = both(&site.0.client);
    site.idle_with(1).await;
    let before = site.secret(TARGET).await.unwrap();
    site.api::<Secret>().delete("placement-db-account-v1", &kube::api::DeleteParams::default()).await.unwrap();
    let restored = async {
        while site.secret("placement-db-account-v1").await.is_none() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(c5c3_stage::PATIENCE, restored).await.unwrap();
    assert_eq!(site.secret("placement-db-account-v1").await, Some(before));
    for task in operators {
        task.abort();
    }
}

/// Lets both operators live for so many writes. They are killed when one is about to make another, or nothing is left to do.
async fn live(site: &Site, writes: usize) -> bool {
    let mortal = Mortal::new(site.0.client.clone(), "cloud", writes);
    let operators = both(&mortal.client);
    let died = tokio::time::timeout(Duration::from_secs(2), mortal.died.notified()).await.is_ok();
    for operator in operators {
        operator.abort();
        let _ = operator.await;
    }
    died
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_that_are_killed_between_any_two_writes_end_with_exactly_one_valid_account() {
    let site = Site::open().await;
    let (mut kills, mut version) = (0, 0);
    while kills < 50 {
        version += 1;
        if version > 1 {
            site.request(&version.to_string()).await;
        }
        let (mut writes, mut phase) = (1, None);
        loop {
            kills += usize::from(live(&site, writes).await);
            site.is_valid().await;
            let status = site.status().await;
            if status["phase"] == "Idle" && status["currentCredential"]["version"] == version {
                break;
            }
            // A new process applies everything again, so it has to live longer to get further.
            let now = Some(status["phase"].clone());
            writes = if now == phase { writes + 3 } else { writes.div_ceil(2) };
            phase = now;
            assert!(writes < 200, "{status:#}");
        }
    }
    assert!(version > 1, "an account was replaced");
    eprintln!("{kills} kills in {version} rotations");
    let operators = both(&site.0.client);
    site.0.until_ready().await;
    assert_eq!(site.accounts().await.len(), 1);
    site.is_valid().await;
    for task in operators {
        task.abort();
    }
    nothing_secret_is_said(&site).await;
}

async fn nothing_secret_is_said(site: &Site) {
    let mut said = site.status().await.to_string();
    said += &serde_json::to_string(&site.api::<Event>().list(&ListParams::default()).await.unwrap().items).unwrap();
    said += &serde_json::to_string(&site.api::<ConfigMap>().list(&ListParams::default()).await.unwrap().items).unwrap();
    let kind = kube::core::ApiResource::erase::<k8s_openapi::api::batch::v1::Job>(&());
    let jobs: Api<DynamicObject> = Api::namespaced_with(site.0.client.clone(), "cloud", &kind);
    said += &serde_json::to_string(&jobs.list(&ListParams::default()).await.unwrap().items).unwrap();
    let (_, password) = site.secret(TARGET).await.unwrap();
    assert!(!said.contains(&password), "a password is said");
}
