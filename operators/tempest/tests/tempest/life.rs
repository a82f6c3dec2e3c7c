//! Tempests on a whole API server. The controllers of CronJobs and Jobs are the test's own: they make what Kubernetes' would.

use std::time::Duration;

use c5c3_api::blocks::Condition as Told;
use c5c3_api::openstack::{Keystone, RUN_NOW, Tempest, TempestOutcome, TempestResults};
use c5c3_harness::TestCluster;
use c5c3_kit::Settings;
use c5c3_kit::http::Readiness;
use c5c3_kit::metrics::Metrics;
use c5c3_kit::run::RunOptions;
use c5c3_operator_tempest::{CREDENTIAL, operator};
use c5c3_stage::Mortal;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{Condition, await_condition};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_mins(2);
const TOLD: &str =
    r#"{"passed":7,"failed":1,"skipped":1,"total":9,"duration":60,"failures":["tempest.api.identity.a"]}"#;

/// More changes than any run makes.
const MOST_DEATHS: usize = 50;

struct Stage {
    cluster: TestCluster,
    client: Client,
    running: Option<JoinHandle<()>>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.running.iter().for_each(JoinHandle::abort);
    }
}

fn typed<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

impl Stage {
    /// A cluster with a credential, and without an operator.
    async fn set() -> Self {
        let cluster = TestCluster::in_process().await.unwrap();
        for (version, kind) in
            [("tempest.openstack.c5c3.io/v1alpha1", "Tempest"), ("keystone.openstack.c5c3.io/v1alpha1", "Keystone")]
        {
            cluster.install(&c5c3_api::find(version, kind).unwrap().crd()).await.unwrap();
        }
        cluster.namespace_named("cloud").await.unwrap();
        let stage = Self { client: cluster.client(), cluster, running: None };
        let credential = json!({"metadata": {"name": CREDENTIAL},
            "stringData": {"application_credential_id": "a1b2", "application_credential_secret": "app$ecret"}});
        stage.create::<Secret>(credential).await;
        stage
    }

    async fn operated() -> Self {
        let mut stage = Self::set().await;
        stage.operate(stage.client.clone(), None);
        stage
    }

    fn operate(&mut self, client: Client, namespace: Option<String>) {
        let (debounce, first_retry) = (Duration::ZERO, Duration::from_millis(5));
        let options = RunOptions { namespace, debounce, first_retry, ..RunOptions::default() };
        let settings = Settings { options, election: None };
        self.running = Some(tokio::spawn(async move {
            let (metrics, readiness) = (Metrics::default(), Readiness::default());
            operator(false).run(client, settings, metrics, readiness, CancellationToken::new()).await;
        }));
    }

    /// Has operators reach a state that are killed after each change that they make, and says how many were.
    async fn until_said_by_mortals(&mut self, kind: &'static str, reason: &'static str) -> usize {
        for deaths in 0..MOST_DEATHS {
            let newest = self.api::<Secret>().list(&ListParams::default()).await.unwrap().metadata.resource_version;
            let mortal = Mortal::new(self.client.clone(), newest.unwrap().parse().unwrap());
            self.operate(mortal.client, None);
            let is_over = tokio::select! {
                () = mortal.died.notified() => false,
                _ = self.until_says(kind, reason) => true,
            };
            self.running.take().unwrap().abort();
            if is_over {
                return deaths;
            }
        }
        panic!("{kind} is not {reason} after {MOST_DEATHS} deaths");
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), "cloud")
    }

    async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + DeserializeOwned
            + serde::Serialize
            + Clone
            + std::fmt::Debug,
    {
        self.api::<K>().create(&PostParams::default(), &typed(object)).await.unwrap()
    }

    /// Creates the Tempest `gate`, which signs in at an address.
    async fn tempest(&self, mut spec: Value) {
        spec["keystone"] = json!({"authUrl": "http://id.example.net:5000/v3"});
        let object = json!({"apiVersion": "tempest.openstack.c5c3.io/v1alpha1", "kind": "Tempest",
            "metadata": {"name": "gate"}, "spec": spec});
        self.create::<Tempest>(object).await;
    }

    async fn until<K>(&self, name: &str, what: impl Condition<K>) -> Option<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + DeserializeOwned
            + Clone
            + std::fmt::Debug
            + Send
            + 'static,
    {
        let api = self.api::<K>();
        let found = tokio::time::timeout(PATIENCE, Box::pin(await_condition(api.clone(), name, what))).await;
        let Ok(found) = found else { panic!("{name}: not in time: {:#?}", api.get(name).await.ok()) };
        found.unwrap()
    }

    async fn until_says(&self, kind: &'static str, reason: &'static str) -> Tempest {
        self.until("gate", says(kind, reason)).await.unwrap()
    }

    /// A Job as the controller of CronJobs would make it of `gate`.
    async fn scheduled(&self, name: &str) -> Job {
        let cron: CronJob = self.until("gate", |cron: Option<&CronJob>| cron.is_some()).await.unwrap();
        let template = cron.spec.clone().unwrap().job_template;
        let mut metadata = template.metadata.unwrap();
        metadata.name = Some(name.to_owned());
        metadata.owner_references = Some(vec![cron.controller_owner_ref(&()).unwrap()]);
        self.create(json!({"metadata": metadata, "spec": template.spec})).await
    }

    /// Ends a Job: with a pod that left this message, or by its deadline.
    async fn end(&self, job: &Job, message: Option<&str>) {
        self.end_at(2, job, message).await;
    }

    /// The same, at an hour.
    async fn end_at(&self, hour: u8, job: &Job, message: Option<&str>) {
        let (name, began) = (job.name_any(), format!("2026-01-02T0{hour}:00:00Z"));
        let ended = format!("2026-01-02T0{hour}:01:30Z");
        if let Some(message) = message {
            let template = job.spec.clone().unwrap().template;
            let mut metadata = template.metadata.unwrap();
            metadata.name = Some(format!("{name}-pod"));
            metadata.labels.get_or_insert_default().insert("batch.kubernetes.io/job-name".into(), name.clone());
            metadata.owner_references = Some(vec![job.controller_owner_ref(&()).unwrap()]);
            let pod: Pod = self.create(json!({"metadata": metadata, "spec": template.spec})).await;
            let state = json!({"terminated": {"exitCode": 1, "message": message}});
            let container = json!({"name": "tempest", "image": "tempest", "imageID": "", "ready": false,
                "restartCount": 0, "state": state});
            self.patch_status::<Pod>(&pod.name_any(), &json!({"phase": "Failed", "containerStatuses": [container]}))
                .await;
        }
        let reason = if message.is_some() { "BackoffLimitExceeded" } else { "DeadlineExceeded" };
        let condition = |kind: &str| {
            json!({"type": kind, "status": "True", "reason": reason, "message": "so it ended",
                "lastTransitionTime": ended, "lastProbeTime": ended})
        };
        let status = json!({"startTime": began, "failed": 1, "uncountedTerminatedPods": {},
            "conditions": [condition("FailureTarget"), condition("Failed")]});
        self.patch_status::<Job>(&name, &status).await;
    }

    async fn patch_status<K>(&self, name: &str, status: &Value)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope> + DeserializeOwned,
    {
        let patch = Patch::Merge(json!({"status": status}));
        self.api::<K>().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    async fn annotate(&self, request: &str) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {RUN_NOW: request}}}));
        self.api::<Tempest>().patch("gate", &PatchParams::default(), &patch).await.unwrap();
    }

    /// The Jobs of requests.
    async fn requested(&self) -> Vec<Job> {
        let params = ListParams::default().labels("c5c3.io/base=gate-run");
        self.api::<Job>().list(&params).await.unwrap().items
    }

    async fn until_requested(&self, count: usize) -> Vec<Job> {
        for _ in 0..1200 {
            let jobs = self.requested().await;
            if jobs.len() == count {
                return jobs;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("there are not {count} Jobs of requests, but {:?}", self.requested().await);
    }
}

fn says(kind: &'static str, reason: &'static str) -> impl Condition<Tempest> {
    move |object: Option<&Tempest>| {
        let conditions = object.and_then(|object| object.status.as_ref()).map(|status| &status.conditions);
        let is_it = |told: &Told| told.r#type == kind && told.reason.as_deref() == Some(reason);
        conditions.is_some_and(|all| all.iter().any(is_it))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduled_run_is_told_in_the_status() {
    let stage = Stage::operated().await;
    stage.tempest(json!({})).await;
    let ready = stage.until_says("Ready", "Ready").await;
    let unknown = ready.status.unwrap().conditions.into_iter().find(|told| told.r#type == "TestsPassed").unwrap();
    assert_eq!(unknown.reason.as_deref(), Some("NoRun"));
    let job = stage.scheduled("gate-29383").await;
    let is_active = |object: Option<&Tempest>| {
        object.and_then(|object| object.status.as_ref()?.active_job.as_deref()) == Some("gate-29383")
    };
    stage.until("gate", is_active).await;
    stage.end(&job, Some(TOLD)).await;
    let status = stage.until_says("TestsPassed", "Failed").await.status.unwrap();
    assert_eq!(status.results, Some(TempestResults { passed: 7, failed: 1, skipped: 1, total: 9 }));
    assert_eq!(status.failures, ["tempest.api.identity.a"]);
    assert_eq!(status.last_duration.map(|took| took.to_string()).as_deref(), Some("1m30s"));
    assert_eq!((status.last_job.as_deref(), status.active_job), (Some("gate-29383"), None));
    let ready = status.conditions.iter().find(|told| told.r#type == "Ready").unwrap();
    assert_eq!(ready.reason.as_deref(), Some("Ready"), "failed tests are no failure of the Tempest");
    let jobs = stage.api::<Job>().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(jobs.len(), 1, "the Job of the CronJob is left to it");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_is_one_run_and_no_scheduled_one_starts_meanwhile() {
    let stage = Stage::operated().await;
    stage.tempest(json!({})).await;
    stage.until_says("Ready", "Ready").await;
    stage.annotate("first").await;
    let job = stage.until_requested(1).await.remove(0);
    let suspended = |is: bool| {
        move |cron: Option<&CronJob>| cron.and_then(|cron| cron.spec.as_ref()?.suspend).unwrap_or_default() == is
    };
    stage.until("gate", suspended(true)).await;
    stage.end(&job, Some(r#"{"passed":2,"total":2}"#)).await;
    stage.until_says("TestsPassed", "Passed").await;
    let handled = |request: &'static str| move |object: Option<&Tempest>| is_handled(object, request);
    stage.until("gate", handled("first")).await;
    stage.until("gate", suspended(false)).await;
    stage.annotate("second").await;
    let second = stage.until_requested(2).await;
    let second = second.iter().find(|other| other.name_any() != job.name_any()).unwrap();
    stage.end_at(3, second, None).await;
    let status = stage.until("gate", handled("second")).await.unwrap().status.unwrap();
    assert_eq!(status.last_outcome, Some(TempestOutcome::TimedOut));
    stage.until_says("TestsPassed", "TimedOut").await;
    assert_eq!(stage.requested().await.len(), 2, "no run is repeated, and the logs of the one before stay");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_one_run_when_operators_are_killed_after_each_change() {
    let mut stage = Stage::set().await;
    stage.tempest(json!({})).await;
    stage.annotate("now").await;
    let deaths = stage.until_said_by_mortals("Ready", "Ready").await;
    assert!(deaths >= 3, "files, a CronJob and a Job, but killed {deaths} times");
    let job = stage.until_requested(1).await.remove(0);
    stage.end(&job, Some(TOLD)).await;
    stage.until_said_by_mortals("TestsPassed", "Failed").await;
    stage.operate(stage.client.clone(), None);
    stage.until("gate", |object: Option<&Tempest>| is_handled(object, "now")).await;
    assert_eq!(stage.requested().await.len(), 1);
    assert_eq!(stage.api::<CronJob>().list(&ListParams::default()).await.unwrap().items.len(), 1);
}

fn is_handled(object: Option<&Tempest>, request: &str) -> bool {
    object.and_then(|object| object.status.as_ref()?.handled_request.as_deref()) == Some(request)
}

#[tokio::test(flavor = "multi_thread")]
async fn tests_wait_for_what_they_depend_on() {
    let stage = Stage::operated().await;
    stage.tempest(json!({"dependsOn": [{"kind": "Keystone", "name": "keystone"}]})).await;
    stage.annotate("now").await;
    stage.until_says("DependenciesReady", "DependencyNotMet").await;
    assert!(stage.api::<CronJob>().list(&ListParams::default()).await.unwrap().items.is_empty());
    assert!(stage.requested().await.is_empty());
    let keystone = json!({"apiVersion": "keystone.openstack.c5c3.io/v1alpha1", "kind": "Keystone",
        "metadata": {"name": "keystone"}, "spec": {}});
    stage.create::<Keystone>(keystone).await;
    let met = json!({"type": "Ready", "status": "True", "reason": "Ready", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1});
    stage.patch_status::<Keystone>("keystone", &json!({"conditions": [met], "observedGeneration": 1})).await;
    stage.until_says("Ready", "Ready").await;
    stage.until_requested(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_with_the_rights_that_it_says_it_needs_is_refused_nothing() {
    let mut stage = Stage::set().await;
    let access = operator(false).access().clone();
    let limited = stage.cluster.limited("few-rights", "cloud", access.in_namespaces(), access.in_cluster());
    let limited = limited.await.unwrap();
    stage.operate(limited.client.clone(), Some("cloud".into()));
    stage.tempest(json!({})).await;
    stage.annotate("now").await;
    stage.until_says("Ready", "Ready").await;
    let job = stage.until_requested(1).await.remove(0);
    stage.end(&job, Some(TOLD)).await;
    stage.until_says("TestsPassed", "Failed").await;
    assert_eq!(limited.refused(), Vec::<String>::new());
    stage.api::<Tempest>().delete("gate", &DeleteParams::background()).await.unwrap();
    stage.until("gate", |cron: Option<&CronJob>| cron.is_none()).await;
}
