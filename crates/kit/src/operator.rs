//! An operator: controllers that share a name, a leader and a process.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use c5c3_api::Problems;
use futures::FutureExt;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::DynamicObject;
use kube::{Client, Resource};
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::access::Access;
use crate::controller::{self, Controller};
use crate::error::Error;
use crate::http::{PendingStart, Readiness, Unhealthy};
use crate::leader::{Candidate, Election};
use crate::metrics::Metrics;
use crate::object::{KindRef, Ref, is_not_found, said};
use crate::preview::{self, Assumed, Preview};
use crate::run::{RunOptions, run};

/// How an operator runs.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// How its controllers run.
    pub options: RunOptions,
    /// How its leader is elected; it leads without asking when absent.
    pub election: Option<Election>,
}

/// What a controller needs to start.
#[derive(Clone)]
struct Start {
    manager: &'static str,
    client: Client,
    options: RunOptions,
    metrics: Metrics,
    stop: CancellationToken,
    readiness: Readiness,
}

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Starts a controller, and drops what says that it is broken once it works again.
type Starter = Arc<dyn Fn(Start, Option<Unhealthy>) -> Running + Send + Sync>;

/// What a controller finds wrong with an object by itself.
type Review = Box<dyn Fn(&Value) -> Problems + Send + Sync>;

/// What an object leads to.
type Previewer = Box<dyn Fn(Client, DynamicObject, Assumed) -> Previewing + Send + Sync>;

type Previewing = Pin<Box<dyn Future<Output = Result<Preview, Error>> + Send>>;

/// How soon a controller is started again that panicked outside a reconcile.
const RESTART_AFTER: Duration = Duration::from_secs(10);

/// How often a rival is looked for again.
const RIVAL_INTERVAL: Duration = Duration::from_secs(10);

/// What work of an operator has that is no controller of a kind; see [`Operator::task`].
pub struct Task {
    /// Its client.
    pub client: Client,
    /// How the operator's controllers run.
    pub options: RunOptions,
    /// Its metrics.
    pub metrics: Metrics,
    /// When to stop.
    pub stop: CancellationToken,
    pending: Option<(PendingStart, Option<Unhealthy>)>,
}

impl Task {
    /// Says that it knows its objects and works: the process is not ready before.
    pub fn started(&mut self) {
        self.pending = None;
    }
}

/// A webhook of an operator about kinds that are not ours, as an API server is told of it.
#[derive(Clone, Debug)]
pub struct Hook {
    /// Whether it changes objects, or judges them.
    pub mutating: bool,
    /// Its path.
    pub path: &'static str,
    /// Which requests it is asked about: `rules` of a webhook configuration.
    pub rules: Value,
    /// `sideEffects` of it.
    pub side_effects: &'static str,
    /// For how many seconds a request waits for it. It is ignored then: none of ours may block the kinds of others.
    pub timeout_seconds: u8,
}

/// Makes the routes that answer the hooks.
type Routes = Box<dyn Fn(Client) -> Router + Send + Sync>;

/// Controllers that share a name, a leader and a process.
pub struct Operator {
    name: &'static str,
    kinds: Vec<(String, String)>,
    access: Access,
    controllers: Vec<Starter>,
    /// One for each of the kinds.
    reviews: Vec<Review>,
    /// One for each of the kinds.
    previewers: Vec<Previewer>,
    collectors: Vec<Collector>,
    rivals: Vec<Ref>,
    hooks: Vec<Hook>,
    routes: Option<Routes>,
}

/// Adds metrics to a registry.
type Collector = Box<dyn Fn(&mut Registry) + Send + Sync>;

impl Operator {
    /// An operator without controllers. Its name is its field manager and the value of its ownership label: it must
    /// never change.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            kinds: Vec::new(),
            access: Access::default(),
            controllers: Vec::new(),
            reviews: Vec::new(),
            previewers: Vec::new(),
            collectors: Vec::new(),
            rivals: Vec::new(),
            hooks: Vec::new(),
            routes: None,
        }
    }

    /// Does not start while this Deployment is there and has replicas: it looks after the same objects.
    pub fn rival(mut self, namespace: &str, name: &str) -> Self {
        self.access.read_named(&KindRef::of::<Deployment>(), name);
        self.rivals.push(Ref::namespaced::<Deployment>(namespace, name));
        self
    }

    /// Adds metrics of a library that its controllers use, such as those of a client.
    pub fn metrics(mut self, add: impl Fn(&mut Registry) + Send + Sync + 'static) -> Self {
        self.collectors.push(Box::new(add));
        self
    }

    /// Adds a controller; `make` is called each time it starts, which is once per leadership.
    pub fn controller<C: Controller>(mut self, make: impl Fn() -> C + Send + Sync + 'static) -> Self
    where
        <C::Kind as Resource>::Scope: 'static,
    {
        let make = Arc::new(make);
        self.access.extend(Access::of(&make()));
        self.kinds.push((C::Kind::api_version(&()).into_owned(), C::Kind::kind(&()).into_owned()));
        let reviewer = make();
        self.reviews.push(Box::new(move |object| controller::review(&reviewer, object)));
        let (again, manager) = (make.clone(), self.name);
        self.previewers.push(Box::new(move |client, object, assumed| {
            Box::pin(preview::preview(again(), manager, client, object, assumed))
        }));
        self.controllers.push(Arc::new(move |start: Start, broken: Option<Unhealthy>| {
            let controller = make();
            let expected = start.readiness.add_pending();
            Box::pin(async move {
                let synced = move || drop((expected, broken));
                run(controller, start.manager, start.client, start.options, start.metrics, start.stop, synced).await;
            })
        }));
        self
    }

    /// Adds work that is no controller of a kind of ours, and what it has to be allowed. It is started once per leadership, and
    /// again after a panic; it ends with [`Task::stop`].
    pub fn task<F>(mut self, access: Access, run: impl Fn(Task) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.access.extend(access);
        self.controllers.push(Arc::new(move |start: Start, broken: Option<Unhealthy>| {
            let pending = Some((start.readiness.add_pending(), broken));
            let Start { client, options, metrics, stop, .. } = start;
            Box::pin(run(Task { client, options, metrics, stop, pending }))
        }));
        self
    }

    /// Adds webhooks about kinds that are not ours. `routes` answers them, in every process and not in the leader's only.
    pub fn webhooks(mut self, hooks: Vec<Hook>, routes: impl Fn(Client) -> Router + Send + Sync + 'static) -> Self {
        self.hooks = hooks;
        self.routes = Some(Box::new(routes));
        self
    }

    /// Its webhooks about kinds that are not ours.
    pub fn hooks(&self) -> &[Hook] {
        &self.hooks
    }

    /// What answers them.
    pub fn webhook_routes(&self, client: &Client) -> Router {
        self.routes.as_ref().map(|routes| routes(client.clone())).unwrap_or_default()
    }

    /// The operator's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// `apiVersion` and `kind` of each kind that it looks after.
    pub fn kinds(&self) -> &[(String, String)] {
        &self.kinds
    }

    /// What it would refuse of an object, whatever the cluster holds; nothing of a kind that it does not look after. The rules
    /// of the kind itself are not among it.
    pub fn review(&self, object: &Value) -> Problems {
        let is_it = |(version, kind): &(String, String)| {
            object["apiVersion"] == version.as_str() && object["kind"] == kind.as_str()
        };
        let found = self.kinds.iter().position(is_it);
        found.map(|index| (self.reviews[index])(object)).unwrap_or_default()
    }

    /// What an object leads to in a cluster, in which nothing is written; none of a kind that it does not look after. Objects
    /// that are `assumed` are taken in the place of those that are there.
    pub async fn preview(
        &self,
        client: &Client,
        object: &DynamicObject,
        assumed: &Assumed,
    ) -> Option<Result<Preview, Error>> {
        let types = object.types.as_ref()?;
        let index =
            self.kinds.iter().position(|(version, kind)| *version == types.api_version && *kind == types.kind)?;
        Some((self.previewers[index])(client.clone(), object.clone(), assumed.clone()).await)
    }

    /// What it has to be allowed.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Runs the operator until `stop`.
    pub async fn run(
        &self,
        client: Client,
        settings: Settings,
        metrics: Metrics,
        readiness: Readiness,
        stop: CancellationToken,
    ) {
        for collector in &self.collectors {
            metrics.register(collector);
        }
        if !self.is_alone(&client, &readiness, &stop).await {
            return;
        }
        let work = |stop: CancellationToken| {
            let start = Start {
                manager: self.name,
                client: client.clone(),
                options: settings.options.clone(),
                metrics: metrics.clone(),
                stop,
                readiness: readiness.clone(),
            };
            // Each in a task of its own, so that a controller that computes does not keep the lease from being renewed. The
            // set aborts them when it is dropped, as it is when the lease is lost.
            let mut running: JoinSet<()> =
                self.controllers.iter().map(|controller| keep_running(controller.clone(), start.clone())).collect();
            async move { while running.join_next().await.is_some() {} }
        };
        match settings.election.clone() {
            Some(election) => {
                let candidate = Candidate::new(client.clone(), election);
                // A pod that has never led says so: an alert on operators without a leader needs the series.
                metrics.set_leader(self.name, false);
                candidate.lead(stop, |leads| metrics.set_leader(self.name, leads), work).await;
            }
            None => work(stop).await,
        }
    }
}

impl Operator {
    /// Waits until no rival runs, and is not ready meanwhile. False if it is to stop.
    async fn is_alone(&self, client: &Client, readiness: &Readiness, stop: &CancellationToken) -> bool {
        let _expected = readiness.add_pending();
        for rival in &self.rivals {
            while self.runs(rival, client).await {
                let (operator, why) = (self.name, "it looks after the same objects; delete it, or scale it to 0");
                tracing::error!(operator, %rival, why, "the operator does not start while this Deployment runs");
                tokio::select! {
                    () = tokio::time::sleep(RIVAL_INTERVAL) => {}
                    () = stop.cancelled() => return false,
                }
            }
        }
        true
    }

    async fn runs(&self, rival: &Ref, client: &Client) -> bool {
        match rival.api(client.clone()).get(&rival.name).await {
            Ok(found) => found.data["spec"]["replicas"] != 0,
            Err(error) if is_not_found(&error) => false,
            Err(error) => {
                tracing::warn!(operator = self.name, %rival, error = said(&error), "cannot see whether it runs");
                false
            }
        }
    }
}

/// Runs a controller until it is stopped, and starts it again after a panic. Panics within a reconcile do not come here.
async fn keep_running(controller: Starter, start: Start) {
    let mut broken = None;
    loop {
        let running = AssertUnwindSafe(controller(start.clone(), broken.take()));
        if running.catch_unwind().await.is_ok() {
            return;
        }
        tracing::error!(operator = start.manager, "a controller panicked and is started again; the others go on");
        broken = Some(start.readiness.mark_unhealthy());
        tokio::select! {
            () = tokio::time::sleep(RESTART_AFTER) => {}
            () = start.stop.cancelled() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;
    use crate::testing::FakeApi;

    #[tokio::test(start_paused = true)]
    async fn a_controller_that_panics_is_unhealthy_until_it_was_started_again() {
        let starts = Arc::new(AtomicUsize::new(0));
        let (counted, readiness) = (starts.clone(), Readiness::default());
        let controller: Starter = Arc::new(move |_, broken| {
            let count = counted.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                assert!(count > 1, "the first two fail");
                drop(broken);
            })
        });
        let start = Start {
            manager: "press-operator",
            client: FakeApi::default().client(),
            options: RunOptions::default(),
            metrics: Metrics::default(),
            stop: CancellationToken::new(),
            readiness: readiness.clone(),
        };
        let task = tokio::spawn(keep_running(controller, start));
        tokio::time::sleep(RESTART_AFTER / 2).await;
        assert!(!readiness.is_healthy());
        task.await.unwrap();
        assert_eq!((starts.load(Ordering::SeqCst), readiness.is_healthy()), (3, true));
    }

    #[tokio::test(start_paused = true)]
    async fn an_operator_does_not_start_while_its_rival_has_replicas() {
        let api = FakeApi::default();
        let rival = |replicas: i32| {
            json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "old-press", "namespace": "mill"}, "spec": {"replicas": replicas}})
        };
        api.put(&rival(1));
        let operator = Operator::new("press-operator").rival("mill", "old-press");
        let (client, readiness, stop) = (api.client(), Readiness::default(), CancellationToken::new());
        let alone = operator.is_alone(&client, &readiness, &stop);
        tokio::pin!(alone);
        assert!(tokio::time::timeout(RIVAL_INTERVAL * 3, &mut alone).await.is_err() && !readiness.is_ready());
        api.put(&rival(0));
        assert!(alone.await && readiness.is_ready());
        let rules = json!(operator.access().in_cluster());
        assert_eq!(rules[0]["resourceNames"], json!(["old-press"]), "{rules}");
    }
}
