//! A cluster with both operators, a Keystone with the user heron, and a service that signs in as heron.

use std::time::Duration;

use c5c3_api::c5c3::CredentialRotation;
use c5c3_api::openstack::Placement;
use c5c3_harness::TestCluster;
use c5c3_kit::Settings;
use c5c3_kit::http::Readiness;
use c5c3_kit::metrics::Metrics;
use c5c3_kit::run::RunOptions;
use c5c3_openstack::{Clients, Limits, Options};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::await_condition;
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::keystone::{Keystone, PASSWORD};

/// The Secret that the service reads.
pub(crate) const TARGET: &str = "heron-keystone-credentials";

pub(crate) struct Site {
    pub(crate) cluster: TestCluster,
    pub(crate) keystone: Keystone,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

const ORC: &str = "openstack.k-orc.cloud/v1alpha1";
const ORC_KINDS: [&str; 9] =
    ["Domain", "Project", "Role", "Group", "Service", "Endpoint", "User", "RoleAssignment", "ApplicationCredential"];

impl Site {
    /// Everything but the operator of rotations.
    pub(crate) async fn open() -> Self {
        let cluster = TestCluster::in_process().await.unwrap();
        for kind in ORC_KINDS {
            cluster.install(&c5c3_api::find(ORC, kind).unwrap().crd()).await.unwrap();
        }
        for (version, kind) in
            [("c5c3.io/v1alpha1", "CredentialRotation"), ("placement.openstack.c5c3.io/v1alpha1", "Placement")]
        {
            cluster.install(&c5c3_api::find(version, kind).unwrap().crd()).await.unwrap();
        }
        let keystone = Keystone::start().await;
        let clients = Clients::new(options());
        let operator = c5c3_operator_orc::with(clients, Duration::from_millis(50));
        let orc = run(operator, cluster.client(), None);
        let site = Self { cluster, keystone, tasks: vec![orc] };
        site.create::<Secret>(
            json!({"metadata": {"name": "clouds"}, "stringData": {"clouds.yaml": site.keystone.clouds(PASSWORD)}}),
        )
        .await;
        site.create::<Secret>(json!({"metadata": {"name": "heron-password"}, "stringData": {"password": PASSWORD}}))
            .await;
        site.orc("Project", "service-project", json!({"name": "service"})).await;
        let heron = json!({"name": "heron", "passwordRef": "heron-password", "defaultProjectRef": "service-project"});
        site.orc("User", "heron-service-user", heron).await;
        site
    }

    async fn orc(&self, kind: &str, name: &str, resource: Value) {
        let mut object = DynamicObject::new(name, &orc(kind));
        object.data = json!({"spec": {
            "cloudCredentialsRef": {"secretName": "clouds", "cloudName": "orchard"}, "resource": resource,
        }});
        self.orcs(kind).create(&PostParams::default(), &object).await.unwrap();
    }

    pub(crate) fn orcs(&self, kind: &str) -> Api<DynamicObject> {
        Api::default_namespaced_with(self.cluster.client(), &orc(kind))
    }

    pub(crate) fn api<K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>>(&self) -> Api<K> {
        Api::default_namespaced(self.cluster.client())
    }

    pub(crate) async fn create<K>(&self, object: Value)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + Serialize
            + DeserializeOwned,
    {
        let object: K = serde_json::from_value(object).unwrap();
        self.api::<K>().create(&PostParams::default(), &object).await.unwrap();
    }

    /// A rotation of heron's credentials, whose old ones are revoked at once.
    pub(crate) async fn rotate(&self, consumers: Value) {
        self.create::<CredentialRotation>(json!({
            "apiVersion": "c5c3.io/v1alpha1", "kind": "CredentialRotation", "metadata": {"name": "heron-rotation"},
            "spec": {"targetServiceUser": "heron-service-user", "rotationType": "applicationCredential",
                "schedule": {"intervalDays": 90, "preRotationDays": 7}, "gracePeriodDays": 0, "consumers": consumers},
        }))
        .await;
    }

    pub(crate) async fn request(&self, value: &str) {
        let patch = json!({"metadata": {"annotations": {c5c3_operator_controlplane::ROTATE: value}}});
        let (api, params) = (self.api::<CredentialRotation>(), PatchParams::default());
        api.patch("heron-rotation", &params, &Patch::Merge(patch)).await.unwrap();
    }

    /// Starts the operator of rotations.
    pub(crate) fn start(&mut self) {
        self.tasks.push(operator(self.cluster.client()));
    }

    /// Starts the operator of rotations with a client of few rights, in this namespace alone.
    pub(crate) fn start_as(&mut self, client: Client) {
        let operator = c5c3_operator_controlplane::with(false, options());
        self.tasks.push(run(operator, client, Some(self.cluster.namespace().to_owned())));
    }

    /// Keeps a Placement that says that it runs with the credential that it reads.
    pub(crate) async fn serve(&mut self) {
        self.placement().await;
        let client = self.cluster.client();
        self.tasks.push(tokio::spawn(async move {
            loop {
                let secrets: Api<Secret> = Api::default_namespaced(client.clone());
                let id = id_of(secrets.get_opt(TARGET).await.unwrap().as_ref());
                if let Some(id) = id {
                    runs_with(&client, &id, true).await;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }));
    }

    pub(crate) async fn placement(&self) {
        self.create::<Placement>(json!({
            "apiVersion": "placement.openstack.c5c3.io/v1alpha1", "kind": "Placement", "metadata": {"name": "placement"},
            "spec": {},
        }))
        .await;
    }

    /// Waits until a rotation is as told.
    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool + Send + Sync) -> Value {
        let api = self.api::<CredentialRotation>();
        let as_value = |object: Option<&CredentialRotation>| serde_json::to_value(object).unwrap();
        let waited = await_condition(api.clone(), "heron-rotation", |object: Option<&CredentialRotation>| {
            is_so(&as_value(object)["status"])
        });
        let Ok(waited) = tokio::time::timeout(Duration::from_mins(1), waited).await else {
            let now = api.get("heron-rotation").await.unwrap();
            panic!("not within 60 s: {what}; {}", serde_json::to_string_pretty(&now.status).unwrap());
        };
        as_value(waited.unwrap().as_ref())["status"].clone()
    }

    pub(crate) async fn idle_with(&self, version: i64) -> Value {
        let is_so = |status: &Value| status["phase"] == "Idle" && status["currentCredential"]["version"] == version;
        self.until(&format!("version {version} is in use"), is_so).await
    }

    /// Watches a rotation until it is ready, and panics if there is nothing to sign in with then.
    pub(crate) fn is_never_ready_before_it_is_delivered(&self) -> JoinHandle<()> {
        let (rotations, secrets) = (self.api::<CredentialRotation>(), self.api::<Secret>());
        tokio::spawn(async move {
            let is_ready = |object: Option<&CredentialRotation>| {
                let conditions = object.and_then(|object| object.status.as_ref()).map(|status| &status.conditions);
                let is_true = |one: &c5c3_api::blocks::Condition| {
                    one.r#type == "Ready" && one.status == c5c3_api::blocks::ConditionStatus::True
                };
                conditions.is_some_and(|all| all.iter().any(is_true))
            };
            await_condition(rotations, "heron-rotation", is_ready).await.unwrap();
            assert!(id_of(secrets.get_opt(TARGET).await.unwrap().as_ref()).is_some(), "ready, and not delivered");
        })
    }

    /// The id that services read.
    pub(crate) async fn delivered(&self) -> Option<String> {
        id_of(self.api::<Secret>().get_opt(TARGET).await.unwrap().as_ref())
    }

    /// The ids in Keystone.
    pub(crate) fn ids(&self) -> Vec<String> {
        let all = self.keystone.all("application_credentials").into_iter();
        all.map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    }
}

fn id_of(secret: Option<&Secret>) -> Option<String> {
    let id = secret?.data.as_ref()?.get("application_credential_id")?;
    String::from_utf8(id.0.clone()).ok()
}

pub(crate) async fn runs_with(client: &Client, id: &str, verified: bool) {
    let api: Api<Placement> = Api::default_namespaced(client.clone());
    let status = json!({"status": {"identity": {"credentialID": id, "verified": verified}}});
    api.patch_status("placement", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

pub(crate) fn consumers() -> Value {
    json!([{"apiVersion": "placement.openstack.c5c3.io/v1alpha1", "kind": "Placement", "name": "placement"}])
}

fn orc(kind: &str) -> ApiResource {
    let plural = c5c3_api::find(ORC, kind).unwrap().crd().spec.names.plural;
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("openstack.k-orc.cloud", "v1alpha1", kind), &plural)
}

fn options() -> Options {
    Options { limits: Limits { whole: Duration::from_secs(2), ..Limits::default() }, ..Options::default() }
}

fn run(operator: c5c3_kit::Operator, client: Client, namespace: Option<String>) -> JoinHandle<()> {
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

/// The operator of rotations.
pub(crate) fn operator(client: Client) -> JoinHandle<()> {
    run(c5c3_operator_controlplane::with(false, options()), client, None)
}
