//! The catalog, the users and their credentials, with K-ORC's operator and a Keystone in memory. The test plays the operators of
//! Keystone and of Placement.

use std::time::Duration;

use c5c3_kit::Settings;
use c5c3_kit::http::Readiness;
use c5c3_kit::metrics::Metrics;
use c5c3_kit::run::RunOptions;
use c5c3_openstack::{Clients, Options};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::keystone::{Keystone, PASSWORD};
use crate::stage::{Stage, with_deep_stack};

/// A stage with K-ORC's operator and the Keystone that the ControlPlane uses.
pub(crate) struct Cloud {
    pub(crate) stage: Stage,
    pub(crate) keystone: Keystone,
    orc: JoinHandle<()>,
}

impl Drop for Cloud {
    fn drop(&mut self) {
        self.orc.abort();
    }
}

impl Cloud {
    pub(crate) async fn open() -> Self {
        let stage = Stage::set().await;
        let install = async |version: &str, kind: &str| {
            stage.cluster.install(&c5c3_api::find(version, kind).unwrap().crd()).await.unwrap();
        };
        for kind in ["Domain", "Project", "Role", "Group", "User", "Service", "Endpoint", "RoleAssignment"] {
            install("openstack.k-orc.cloud/v1alpha1", kind).await;
        }
        install("openstack.k-orc.cloud/v1alpha1", "ApplicationCredential").await;
        install("glance.openstack.c5c3.io/v1alpha1", "Glance").await;
        install("placement.openstack.c5c3.io/v1alpha1", "Placement").await;
        let keystone = Keystone::start().await;
        for role in ["admin", "service", "member", "reader"] {
            keystone.put("roles", json!({"id": format!("role-{role}"), "name": role}));
        }
        keystone.put("projects", json!({"id": "p0", "name": "admin", "domain_id": "default", "enabled": true}));
        let orc = orc(&stage);
        Self { stage, keystone, orc }
    }

    pub(crate) fn home(&self) -> &str {
        self.stage.cluster.namespace()
    }

    pub(crate) fn spec(&self) -> Value {
        let admin = json!({"passwordSecretRef": {"name": "boss", "key": "word"}});
        json!({
            "deletionPolicy": "Delete",
            "global": {"region": "south"},
            "services": {"keystone": {"publicEndpoint": self.keystone.url()}, "placement": {}},
            "identity": {"keystone": {"bootstrap": {"adminUser": admin}}},
        })
    }

    /// Applies the ControlPlane, and plays everything up to Keystone.
    async fn start(&self) {
        self.start_with(&self.spec()).await;
    }

    /// The same with this spec.
    pub(crate) async fn start_with(&self, spec: &Value) {
        let (stage, home) = (&self.stage, self.home());
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "boss"},
            "stringData": {"word": PASSWORD}});
        let params = PatchParams::apply("someone");
        stage.api(home, "Secret").patch("boss", &params, &Patch::Apply(secret)).await.unwrap();
        stage.apply(home, spec).await;
        for part in ["MariaDB/mariadb", "StatefulSet/memcached", "Keystone/keystone"] {
            stage.is_ready(home, part).await;
        }
        let status = Patch::Merge(json!({"status": {"endpoint": self.keystone.url()}}));
        stage.api(home, "Keystone").patch_status("keystone", &PatchParams::default(), &status).await.unwrap();
    }

    /// Makes the operator look at the ControlPlane.
    async fn touch(&self, annotation: &str, value: &str) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {annotation: value}}}));
        self.stage.api(self.home(), "ControlPlane").patch("lab", &PatchParams::default(), &patch).await.unwrap();
    }

    /// The regions of the endpoints, all once.
    fn regions(&self) -> Vec<Value> {
        let mut all: Vec<Value> =
            self.keystone.all("endpoints").iter().map(|endpoint| endpoint["region_id"].clone()).collect();
        all.dedup();
        all
    }

    /// How a Secret with a clouds.yaml signs in; null before there is one.
    async fn clouds(&self, secret: &str) -> Value {
        let secrets: Api<Secret> = Api::namespaced(self.stage.client.clone(), self.home());
        let data = secrets.get_opt(secret).await.unwrap().and_then(|secret| secret.data).unwrap_or_default();
        let file = data.get("clouds.yaml").map(|file| serde_json::from_slice::<Value>(&file.0).unwrap());
        file.map(|file| file["clouds"]["openstack"].clone()).unwrap_or_default()
    }

    pub(crate) fn users(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.keystone.all("users").iter().map(|user| user["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }
}

fn orc(stage: &Stage) -> JoinHandle<()> {
    let (first_retry, last_retry) = (Duration::from_millis(20), Duration::from_millis(200));
    let options = RunOptions { debounce: Duration::ZERO, first_retry, last_retry, ..RunOptions::default() };
    let client = stage.client.clone();
    tokio::spawn(async move {
        let operator = c5c3_operator_orc::with(Clients::new(Options::default()), Duration::from_millis(50));
        let settings = Settings { options, election: None };
        operator.run(client, settings, Metrics::default(), Readiness::default(), CancellationToken::new()).await;
    })
}

#[test]
fn a_service_is_in_the_catalog_with_its_region_has_a_user_and_starts_with_its_credential() {
    with_deep_stack(async {
        let cloud = Cloud::open().await;
        let (stage, home, keystone) = (&cloud.stage, cloud.home(), &cloud.keystone);
        cloud.start().await;
        stage.until("both endpoints are in the region", async || cloud.regions() == [json!("south")]).await;
        let urls: Vec<(Value, Value)> =
            keystone.all("endpoints").into_iter().map(|one| (one["interface"].clone(), one["url"].clone())).collect();
        let internal = format!("http://placement.{home}.svc.cluster.local:8778");
        assert_eq!(urls.len(), 2);
        assert!(urls.iter().all(|(_, url)| *url == json!(internal)), "{urls:?}");

        stage.until("the users are there", async || cloud.users() == ["k-orc", "placement"]).await;
        stage.until("they have their roles", async || keystone.all("role_assignments").len() == 4).await;
        stage.until_there(home, "Placement/placement").await;
        assert_eq!(keystone.all("application_credentials").len(), 2, "it starts with its credential");
        stage
            .until("the operator itself signs in with a credential", async || {
                let clouds = cloud.clouds("k-orc-clouds-yaml").await;
                clouds["auth_type"] == "v3applicationcredential"
                    && clouds["auth"]["application_credential_secret"].is_string()
                    && clouds["auth"].get("password").is_none()
            })
            .await;
        stage.is_ready(home, "Placement/placement").await;
        stage.until_reason(home, "Ready", "AllServicesReady").await;
        for condition in ["KORCReady", "CredentialsReady"] {
            assert_eq!(stage.condition(home, condition).await["status"], "True", "{condition}");
        }
        stage
            .until("the status names the users", async || {
                let status = stage.get(home, "ControlPlane/lab").await.unwrap().data["status"]["identity"].clone();
                status["phase"] == "Ready" && status["serviceUsers"][0]["userID"].is_string()
            })
            .await;

        // A region that is changed by hand comes back.
        for mut endpoint in keystone.all("endpoints") {
            endpoint["region_id"] = "north".into();
            keystone.put("endpoints", endpoint);
        }
        cloud.touch("someone.example.org/look", "1").await;
        stage.until("both endpoints are back in the region", async || cloud.regions() == [json!("south")]).await;

        // Nothing of it is left in Keystone but the project.
        stage.api(home, "ControlPlane").delete("lab", &DeleteParams::default()).await.unwrap();
        stage.until_gone(home, "ControlPlane/lab").await;
        for kind in ["application_credentials", "users", "services", "endpoints", "role_assignments"] {
            let left = keystone.all(kind);
            // The scripted Keystone keeps the assignment that a real one deletes with its user.
            assert!(left.is_empty() || kind == "role_assignments", "{kind}: {left:?}");
        }
        assert!(keystone.all("projects").iter().any(|project| project["name"] == "service"));
    });
}

#[test]
fn a_user_of_another_owner_is_adopted_only_when_told() {
    with_deep_stack(async {
        let cloud = Cloud::open().await;
        let (stage, home) = (&cloud.stage, cloud.home());
        cloud.keystone.put(
            "users",
            json!({"id": "foreign", "name": "placement", "domain_id": "default", "enabled": true,
            "description": "made by hand"}),
        );
        cloud.start().await;
        stage.until_reason(home, "CredentialsReady", "ForeignUser").await;
        let message = stage.condition(home, "CredentialsReady").await["message"].as_str().unwrap().to_owned();
        assert!(message.contains("already has a user placement (id foreign)"), "{message}");
        assert!(message.contains("c5c3.io/adopt-users=placement"), "{message}");
        assert!(stage.get(home, "User/placement-service-user").await.is_none());
        stage.until_there(home, "User/k-orc-service-user").await;

        cloud.touch("c5c3.io/adopt-users", "placement").await;
        stage
            .until("it is adopted", async || {
                let user = stage.get(home, "User/placement-service-user").await;
                user.is_some_and(|user| user.data["status"]["id"] == "foreign")
            })
            .await;
    });
}
