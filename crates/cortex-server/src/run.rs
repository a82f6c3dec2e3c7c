//! The process: watches, leadership, the API, the recorder, the descheduler.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use c5c3_api::cortex::Decision;
use c5c3_cortex::Domain;
use c5c3_kit::http::{PendingStart, Readiness};
use c5c3_kit::leader::{Candidate, Election};
use c5c3_kit::metrics::Metrics;
use c5c3_kit::webhook::{Certificates, serve_routes};
use jiff::Timestamp;
use kube::{Api, Client};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::api::routes;
use crate::descheduling::{Descheduler, Settings as DeschedulingSettings};
use crate::metrics::SchedulerMetrics;
use crate::names::Names;
use crate::recorder::{self, Bounds};
use crate::state::{Made, State};
use crate::token::Tokens;
use crate::watches;

/// How the scheduler runs.
pub struct Settings {
    /// Namespace of the Pipelines and Decisions.
    pub namespace: String,
    /// Folder with `tls.crt` and `tls.key`; without one only loopback is listened on.
    pub certificates: Option<PathBuf>,
    /// Whether tokens may pass the network in the clear.
    pub plaintext: bool,
    /// The services whose requests are answered.
    pub domains: Vec<Domain>,
    /// File with the bearer tokens, one a line.
    pub tokens: PathBuf,
    /// How the one that decides is elected; only where no other copy runs it may be absent.
    pub election: Option<Election>,
    /// How long room is promised to a workload that does not arrive.
    pub promise: Duration,
    /// How many Decisions are kept.
    pub decisions: usize,
    /// For how long Decisions are kept.
    pub decision_age: Duration,
    /// How Deschedulings are carried out.
    pub descheduling: DeschedulingSettings,
}

/// Why the scheduler does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A token would pass the network in the clear.
    #[error(
        "{0} is reached over the network, and tokens must not pass it in the clear; give a certificate, listen on loopback, or \
         allow it with --plaintext"
    )]
    Plaintext(SocketAddr),
    /// The address cannot be served on, or the certificate cannot be read.
    #[error("cannot serve the scheduler's API: {0}")]
    Serve(#[source] std::io::Error),
}

/// Answers on `listener` until `stop`.
pub async fn run(
    client: Client,
    listener: TcpListener,
    settings: Settings,
    metrics: Metrics,
    readiness: Readiness,
    stop: CancellationToken,
) -> Result<(), Error> {
    let address = listener.local_addr().map_err(Error::Serve)?;
    if settings.certificates.is_none() && !settings.plaintext && !address.ip().is_loopback() {
        return Err(Error::Plaintext(address));
    }
    let (state, decisions) =
        State::new(settings.promise, Tokens::in_file(&settings.tokens), SchedulerMetrics::new(&metrics));
    let starting = readiness.add_pending();
    let (hypervisors, pipelines) = (CancellationToken::new(), CancellationToken::new());
    let watching = [
        tokio::spawn(watches::hypervisors(client.clone(), state.clone(), metrics.clone(), hypervisors.clone())),
        tokio::spawn(watches::pipelines(
            client.clone(),
            settings.namespace.clone(),
            state.clone(),
            metrics.clone(),
            pipelines.clone(),
        )),
    ];
    let listed = async move {
        hypervisors.cancelled().await;
        pipelines.cancelled().await;
    };
    let leading = Leading {
        api: Api::namespaced(client.clone(), &settings.namespace),
        state: state.clone(),
        decisions: Arc::new(tokio::sync::Mutex::new(decisions)),
        pending: Arc::new(Mutex::new(Some(starting))),
        readiness,
        bounds: Bounds { most: settings.decisions, age: settings.decision_age },
        promise: settings.promise,
        descheduler: Descheduler::new(&client, &settings.namespace, &state, settings.descheduling.clone()),
        names: Names::new(&client, &settings.namespace, &state.unnamed, &settings.descheduling),
    };
    let election = settings.election.clone();
    let lead = async {
        tokio::select! {
            () = listed => {}
            () = stop.cancelled() => return,
        }
        match election {
            Some(election) => {
                let work = |stop| Box::pin(leading.clone().work(stop));
                Candidate::new(client, election).lead(stop.clone(), |leads| leading.turned(leads), work).await;
            }
            None => Box::pin(leading.clone().work(stop.clone())).await,
        }
    };
    let certificates = settings.certificates;
    let served = async {
        let routes = routes(state.clone(), &settings.domains);
        if let Some(folder) = certificates {
            return serve_routes(listener, routes, Certificates::in_folder(folder), stop.clone()).await;
        }
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        axum::serve(listener, routes).with_graceful_shutdown(stop.clone().cancelled_owned()).await
    };
    let domains: Vec<&str> = settings.domains.iter().map(|domain| domain.as_str()).collect();
    tracing::info!(%address, domains = domains.join(","), "serving /scheduler/DOMAIN/external");
    // A server that cannot start ends everything; one that was stopped waits for what is still to be written down.
    let ended = tokio::try_join!(served, async {
        lead.await;
        Ok(())
    });
    watching.iter().for_each(tokio::task::JoinHandle::abort);
    ended.map(|_| ()).map_err(Error::Serve)
}

/// What the leader does, and what changes when another one leads.
#[derive(Clone)]
struct Leading {
    api: Api<Decision>,
    state: State,
    decisions: Arc<tokio::sync::Mutex<mpsc::Receiver<Made>>>,
    pending: Arc<Mutex<Option<PendingStart>>>,
    readiness: Readiness,
    bounds: Bounds,
    promise: Duration,
    descheduler: Descheduler,
    names: Names,
}

impl Leading {
    /// A standby is not ready, so that no Service sends requests to it.
    fn turned(&self, leads: bool) {
        if leads {
            return;
        }
        self.state.set_leads(false);
        self.pending.lock().expect("no one panics with the lock").get_or_insert_with(|| self.readiness.add_pending());
    }

    /// Reads what the leader before has promised, then decides, writes down, and has servers moved.
    async fn work(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            match recorder::restore(&self.api, &self.state, self.promise).await {
                Ok(count) => {
                    tracing::info!(count, "deciding; room that was promised before is kept");
                    break;
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot read what was promised before; nothing is decided until then");
                    tokio::select! {
                        () = tokio::time::sleep(Duration::from_secs(2)) => {}
                        () = stop.cancelled() => return,
                    }
                }
            }
        }
        self.state.set_leads(true);
        self.pending.lock().expect("no one panics with the lock").take();
        let mut decisions = self.decisions.lock().await;
        let written =
            recorder::write_down(&self.api, &self.state, &mut decisions, self.bounds, Timestamp::now, stop.clone());
        tokio::join!(written, self.names.work(stop.clone()), self.descheduler.work(stop));
        self.state.set_leads(false);
    }
}
