//! A cluster with the operator and a Keystone, and what tests do with them.

use std::time::Duration;

use c5c3_harness::{Limited, TestCluster};
use c5c3_kit::Settings;
use c5c3_kit::http::Readiness;
use c5c3_kit::metrics::Metrics;
use c5c3_kit::run::RunOptions;
use c5c3_openstack::{Clients, Limits, Options};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::events::v1::Event;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, ObjectMeta};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::keystone::{Keystone, PASSWORD};

pub(crate) struct Site {
    pub(crate) cluster: TestCluster,
    pub(crate) keystone: Keystone,
    pub(crate) metrics: Metrics,
    settings: c5c3_operator_orc::Settings,
    /// How long a call and what it is repeated for may take.
    whole: Duration,
    task: JoinHandle<()>,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.task.abort();
    }
}

const GROUP: &str = "openstack.k-orc.cloud/v1alpha1";

fn resource(kind: &str) -> ApiResource {
    let crd = c5c3_api::find(GROUP, kind).unwrap().crd();
    ApiResource {
        group: "openstack.k-orc.cloud".into(),
        version: "v1alpha1".into(),
        api_version: GROUP.into(),
        kind: kind.into(),
        plural: crd.spec.names.plural,
    }
}

/// The kinds that are alike.
pub(crate) const KINDS: &[&str] = &["Domain", "Project", "Role", "Group", "Service", "Endpoint", "User"];

impl Site {
    /// A cluster with the operator, a Keystone, and the Secret `clouds`.
    pub(crate) async fn open() -> Self {
        Self::open_with(c5c3_operator_orc::Settings::default()).await
    }

    /// The same, with an operator that works like this.
    pub(crate) async fn open_with(settings: c5c3_operator_orc::Settings) -> Self {
        let cluster = TestCluster::start().await.unwrap();
        for kind in KINDS.iter().chain(&["RoleAssignment", "ApplicationCredential"]) {
            cluster.install(&c5c3_api::find(GROUP, kind).unwrap().crd()).await.unwrap();
        }
        let keystone = Keystone::start().await;
        let metrics = Metrics::default();
        let whole = Duration::from_secs(2);
        let task = start((cluster.client(), None), &metrics, (SHORT, whole), &settings);
        let site = Self { cluster, keystone, metrics, settings, whole, task };
        site.secret("clouds", "clouds.yaml", &site.keystone.clouds(PASSWORD)).await;
        site
    }

    pub(crate) async fn kill(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }

    pub(crate) fn restart(&mut self) {
        self.restart_sharing(SHORT);
    }

    /// Starts the operator with lists that answer for this long.
    pub(crate) fn restart_sharing(&mut self, period: Duration) {
        let everywhere = (self.cluster.client(), None);
        self.task = start(everywhere, &self.metrics, (period, self.whole), &self.settings);
    }

    /// Starts the operator again, with the rights that it asks for and no others.
    pub(crate) async fn restart_limited(&mut self) -> Limited {
        self.kill().await;
        let clients = Clients::new(Options::default());
        let operator = c5c3_operator_orc::with_settings(clients, SHORT, self.settings.clone());
        let (access, namespace) = (operator.access(), self.cluster.namespace().to_owned());
        let limited = self.cluster.limited("few-rights", &namespace, access.in_namespaces(), access.in_cluster());
        let limited = limited.await.unwrap();
        let inside = (limited.client.clone(), Some(namespace));
        self.task = start(inside, &self.metrics, (SHORT, self.whole), &self.settings);
        limited
    }

    /// Starts the operator again, as one that waits for answers for longer than a test takes.
    pub(crate) async fn restart_patient(&mut self) {
        self.kill().await;
        self.whole = Duration::from_mins(2);
        self.restart();
    }

    pub(crate) async fn secret(&self, name: &str, key: &str, value: &str) {
        let secrets = self.secrets();
        let secret = json!({"metadata": {"name": name}, "stringData": {key: value}});
        if secrets.get_opt(name).await.unwrap().is_some() {
            secrets.patch(name, &PatchParams::default(), &Patch::Merge(secret)).await.unwrap();
        } else {
            secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
        }
    }

    pub(crate) fn api(&self, kind: &str) -> Api<DynamicObject> {
        Api::default_namespaced_with(self.cluster.client(), &resource(kind))
    }

    /// Creates a managed object.
    pub(crate) async fn managed(&self, kind: &str, name: &str, fields: Value) {
        self.create(kind, name, json!({"resource": fields})).await.unwrap();
    }

    /// Creates an import.
    pub(crate) async fn import(&self, kind: &str, name: &str, import: Value) {
        self.create(kind, name, json!({"managementPolicy": "unmanaged", "import": import})).await.unwrap();
    }

    pub(crate) async fn create(&self, kind: &str, name: &str, mut spec: Value) -> Result<DynamicObject, kube::Error> {
        if spec["cloudCredentialsRef"].is_null() {
            spec["cloudCredentialsRef"] = json!({"secretName": "clouds", "cloudName": "orchard"});
        }
        let mut object = DynamicObject::new(name, &resource(kind));
        object.data = json!({ "spec": spec });
        self.api(kind).create(&PostParams::default(), &object).await
    }

    /// Replaces an object by one with the same spec and nothing else, as `kubectl replace` does with a file.
    pub(crate) async fn replace(&self, kind: &str, name: &str) {
        loop {
            let mut object = self.api(kind).get(name).await.unwrap();
            let resource_version = object.metadata.resource_version.take();
            object.metadata = ObjectMeta { name: Some(name.into()), resource_version, ..ObjectMeta::default() };
            match self.api(kind).replace(name, &PostParams::default(), &object).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                other => return drop(other.unwrap()),
            }
        }
    }

    /// Deletes an object, which may stay for a while.
    pub(crate) async fn delete(&self, kind: &str, name: &str) {
        self.api(kind).delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub(crate) fn secrets(&self) -> Api<Secret> {
        Api::default_namespaced(self.cluster.client())
    }

    /// Waits until the test's own condition is true.
    pub(crate) async fn eventually(&self, what: &str, is_so: impl Fn() -> bool) {
        let wait = async {
            while !is_so() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap_or_else(|_| panic!("not within 30 s: {what}"));
    }

    pub(crate) async fn patch(&self, kind: &str, name: &str, patch: Value) -> Result<DynamicObject, kube::Error> {
        self.api(kind).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await
    }

    /// Waits until an object is as told; none is one that is gone.
    pub(crate) async fn until(
        &self,
        kind: &str,
        name: &str,
        what: &str,
        is_so: impl Fn(Option<&DynamicObject>) -> bool + Send + Sync,
    ) {
        let waited = tokio::time::timeout(Duration::from_secs(30), await_condition(self.api(kind), name, is_so)).await;
        let Ok(waited) = waited else {
            panic!("not within 30 s: {kind} {name} {what}; {:#?}", self.api(kind).get_opt(name).await)
        };
        waited.unwrap();
    }

    /// Waits until both conditions say that all is done for the present generation, and gives the status.
    pub(crate) async fn done(&self, kind: &str, name: &str) -> Value {
        self.said(kind, name, "Progressing", "False", "Success", "OpenStack resource is up to date").await;
        let status = self.status(kind, name).await;
        let available = condition(&status, "Available");
        assert_eq!((&available["status"], &available["reason"]), (&json!("True"), &json!("Success")), "{kind} {name}");
        assert_eq!(available["message"], "OpenStack resource is available");
        status
    }

    /// Waits until a condition says this of the present generation. The message is the beginning of the real one.
    pub(crate) async fn said(
        &self,
        kind: &str,
        name: &str,
        condition_type: &str,
        status: &str,
        reason: &str,
        message: &str,
    ) {
        let what = format!("{condition_type}={status}/{reason}/{message}");
        let is_so = |object: Option<&DynamicObject>| {
            let Some(object) = object else { return false };
            let found = condition(&object.data["status"], condition_type);
            found["status"] == status
                && found["reason"] == reason
                && found["message"].as_str().is_some_and(|text| text.starts_with(message))
                && found["observedGeneration"].as_i64() == object.metadata.generation
        };
        self.until(kind, name, &what, is_so).await;
    }

    pub(crate) async fn status(&self, kind: &str, name: &str) -> Value {
        self.api(kind).get(name).await.unwrap().data["status"].clone()
    }

    pub(crate) async fn gone(&self, kind: &str, name: &str) {
        self.until(kind, name, "is gone", |object| object.is_none()).await;
    }

    /// Waits for an event about an object, and gives its note.
    pub(crate) async fn event(&self, name: &str, reason: &str) -> String {
        let events: Api<Event> = Api::default_namespaced(self.cluster.client());
        let look = async {
            loop {
                let all = events.list(&ListParams::default()).await.unwrap();
                let is_it = |event: &Event| {
                    let about = event.regarding.as_ref().and_then(|about| about.name.as_deref());
                    event.reason.as_deref() == Some(reason) && about == Some(name)
                };
                if let Some(event) = all.items.into_iter().find(is_it) {
                    return event.note.unwrap_or_default();
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), look)
            .await
            .unwrap_or_else(|_| panic!("no event {reason} of {name}"))
    }
}

/// How long lists answer for all objects, so that tests see soon what they change in Keystone.
const SHORT: Duration = Duration::from_millis(50);

/// Starts the operator as a client, in one namespace or in all.
fn start(
    (client, namespace): (Client, Option<String>),
    metrics: &Metrics,
    (period, whole): (Duration, Duration),
    settings: &c5c3_operator_orc::Settings,
) -> JoinHandle<()> {
    let options = RunOptions {
        namespace,
        debounce: Duration::ZERO,
        first_retry: Duration::from_millis(20),
        last_retry: Duration::from_millis(200),
        ..RunOptions::default()
    };
    let (metrics, own) = (metrics.clone(), settings.clone());
    let limits = Limits { whole, ..Limits::default() };
    let clients = Clients::new(Options { limits, ..Options::default() });
    tokio::spawn(async move {
        let operator = c5c3_operator_orc::with_settings(clients, period, own);
        let settings = Settings { options, election: None };
        operator.run(client, settings, metrics, Readiness::default(), CancellationToken::new()).await;
    })
}

pub(crate) fn condition(status: &Value, condition_type: &str) -> Value {
    let all = status["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|found| found["type"] == condition_type).unwrap_or_default()
}
