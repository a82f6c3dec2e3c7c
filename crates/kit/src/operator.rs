//! An operator: controllers that share a name, a leader and a process.

use std::pin::Pin;

use kube::{Client, Resource};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::access::Access;
use crate::controller::Controller;
use crate::http::Readiness;
use crate::leader::{Candidate, Election};
use crate::metrics::Metrics;
use crate::run::{Pace, run};

/// How an operator runs.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// How its controllers run.
    pub pace: Pace,
    /// How its leader is elected; it leads without asking when absent.
    pub election: Option<Election>,
}

/// What a controller needs to start.
#[derive(Clone)]
struct Start {
    manager: &'static str,
    client: Client,
    pace: Pace,
    metrics: Metrics,
    stop: CancellationToken,
    readiness: Readiness,
}

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Controllers that share a name, a leader and a process.
pub struct Operator {
    name: &'static str,
    kinds: Vec<(String, String)>,
    access: Access,
    controllers: Vec<Box<dyn Fn(Start) -> Running + Send + Sync>>,
}

impl Operator {
    /// An operator without controllers. Its name is its field manager and the value of its ownership label: it must
    /// never change.
    pub fn new(name: &'static str) -> Self {
        Self { name, kinds: Vec::new(), access: Access::default(), controllers: Vec::new() }
    }

    /// Adds a controller; `make` is called each time it starts, which is once per leadership.
    pub fn controller<C: Controller>(mut self, make: impl Fn() -> C + Send + Sync + 'static) -> Self
    where
        <C::Kind as Resource>::Scope: 'static,
    {
        self.access.extend(Access::of(&make()));
        self.kinds.push((C::Kind::api_version(&()).into_owned(), C::Kind::kind(&()).into_owned()));
        self.controllers.push(Box::new(move |start: Start| {
            let controller = make();
            let expected = start.readiness.expect();
            Box::pin(async move {
                let synced = move || drop(expected);
                run(controller, start.manager, start.client, start.pace, start.metrics, start.stop, synced).await;
            })
        }));
        self
    }

    /// The operator's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// `apiVersion` and `kind` of each kind that it looks after.
    pub fn kinds(&self) -> &[(String, String)] {
        &self.kinds
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
        let work = |stop: CancellationToken| {
            let start = Start {
                manager: self.name,
                client: client.clone(),
                pace: settings.pace.clone(),
                metrics: metrics.clone(),
                stop,
                readiness: readiness.clone(),
            };
            // Each in a task of its own, so that a controller that computes does not keep the lease from being renewed. The
            // set aborts them when it is dropped, as it is when the lease is lost.
            let mut running: JoinSet<()> =
                self.controllers.iter().map(|controller| controller(start.clone())).collect();
            async move {
                while let Some(ended) = running.join_next().await {
                    if let Err(error) = ended
                        && error.is_panic()
                    {
                        tracing::error!(%error, "a controller ended; the others go on");
                    }
                }
            }
        };
        match settings.election.clone() {
            Some(election) => {
                let candidate = Candidate::new(client.clone(), election);
                candidate.lead(stop, |leads| metrics.leads(self.name, leads), work).await;
            }
            None => work(stop).await,
        }
    }
}
