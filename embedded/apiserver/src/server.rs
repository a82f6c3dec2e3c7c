//! The server: its state, and what becomes of a request.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use axum::body::Body;
use bytes::Bytes;
use c5c3_auth::rbac::Policy;
use c5c3_auth::{Authenticator, Pki, UserInfo};
use c5c3_kinds::Verb;
use c5c3_store::{Entry, Options, Store};
use http::request::Parts;
use http::{Response, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::access::Permitted;
use crate::call::{Call, Warnings};
use crate::config::{Config, Storage};
use crate::controllers;
use crate::documents;
use crate::in_flight::InFlight;
use crate::metrics::Metrics;
use crate::object::{meta, of_entry};
use crate::path::Asked;
use crate::quotas;
use crate::registry::{Registry, Served};
use crate::reply::warn;
use crate::services::Allocations;
use crate::status::{ApiError, Reason};
use crate::verbs;

/// The largest body that is taken, as a real server's.
pub(crate) const LARGEST_BODY: usize = 3 * 1024 * 1024;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store does not open.
    #[error("cannot open the store: {0}")]
    Store(#[from] c5c3_store::OpenError),
    /// The keys and certificates cannot be made or read.
    #[error("cannot set up keys and certificates: {0}")]
    Pki(#[from] c5c3_auth::PkiError),
    /// The objects that every cluster has cannot be written.
    #[error("cannot write what every cluster has: {0}")]
    Bootstrap(String),
}

/// Opens a server's storage and its keys.
fn open(config: &Config) -> Result<(Store, Arc<Pki>), StartError> {
    let now = Timestamp::now();
    let names = config.names(Allocations::new(config.service_range).first());
    let (store, pki) = match &config.storage {
        Storage::Memory => (Store::in_memory(Options::default()), Pki::in_memory(&names, now)?),
        Storage::Folder(folder) => {
            let store = Store::open(&folder.join("store"), Options::default())?;
            (store, Pki::open(&folder.join("pki"), &names, now)?)
        }
    };
    Ok((store, Arc::new(pki.with_server_life(config.certificate_life, now)?)))
}

/// A Kubernetes API.
pub struct Server {
    config: Config,
    store: Store,
    pki: Arc<Pki>,
    authenticator: Authenticator,
    registry: RwLock<Arc<Registry>>,
    policy: RwLock<Policy>,
    allocations: Allocations,
    turn: quotas::Turn,
    metrics: Metrics,
    in_flight: InFlight,
    break_watches: watch::Sender<u64>,
    published: OnceLock<SocketAddr>,
    stop: CancellationToken,
}

impl Server {
    /// Starts a server. It answers [`Server::handle`] at once; controllers work until [`Server::stop`].
    pub async fn start(config: Config) -> Result<Arc<Self>, StartError> {
        let (store, pki) = open(&config)?;
        Self::start_on(config, store, pki).await
    }

    async fn start_on(config: Config, store: Store, pki: Arc<Pki>) -> Result<Arc<Self>, StartError> {
        let server = Arc::new(Self {
            authenticator: Authenticator::new(&pki),
            registry: RwLock::new(Arc::new(Registry::builtin())),
            policy: RwLock::default(),
            allocations: Allocations::new(config.service_range),
            turn: quotas::Turn::default(),
            metrics: Metrics::default(),
            in_flight: InFlight::default(),
            break_watches: watch::channel(0).0,
            published: OnceLock::new(),
            stop: CancellationToken::new(),
            config,
            store,
            pki,
        });
        server.load();
        controllers::bootstrap(&server).await.map_err(|error| StartError::Bootstrap(error.message))?;
        controllers::start(&server);
        Ok(server)
    }

    /// Stops the controllers and ends every watch.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.break_watches.send_modify(|count| *count += 1);
        self.store.clone().close().await;
    }

    /// Stops this server and starts another in its place: on the same storage, with the same keys.
    pub async fn restart(&self) -> Result<Arc<Self>, StartError> {
        self.stop().await;
        let (store, pki) = match self.config.storage {
            Storage::Memory => (self.store.copy_in_memory(), self.pki.clone()),
            Storage::Folder(_) => open(&self.config)?,
        };
        Self::start_on(self.config.clone(), store, pki).await
    }

    /// The server's keys and certificates.
    pub fn pki(&self) -> &Pki {
        &self.pki
    }

    pub(crate) fn authenticator(&self) -> &Authenticator {
        &self.authenticator
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Whose turn it is to use what quotas leave.
    pub(crate) fn turn(&self) -> &quotas::Turn {
        &self.turn
    }

    /// The requests that are being served.
    pub(crate) fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    /// What is counted.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The addresses and ports that Services have.
    pub(crate) fn allocations(&self) -> &Allocations {
        &self.allocations
    }

    /// The address at which pods reach the server, if it is not where it listens.
    pub(crate) fn advertised(&self) -> Option<IpAddr> {
        self.config.advertise
    }

    /// The address and port at which others find the server, once they are published.
    pub(crate) fn published(&self) -> Option<SocketAddr> {
        self.published.get().copied()
    }

    pub(crate) fn set_published(&self, address: SocketAddr) {
        // A server listens once; a second listener of the same server does not move it.
        let _ = self.published.set(address);
    }

    /// How long events are kept after they were written last.
    pub(crate) fn event_ttl(&self) -> Duration {
        self.config.event_ttl
    }

    /// How long the server's certificate lasts.
    pub(crate) fn certificate_life(&self) -> Duration {
        self.config.certificate_life
    }

    /// Whether requests are passed on to servers on the loopback addresses.
    pub(crate) fn reaches_loopback(&self) -> bool {
        self.config.reaches_loopback
    }

    pub(crate) fn stopped(&self) -> CancellationToken {
        self.stop.clone()
    }

    pub(crate) fn watch_breaker(&self) -> watch::Receiver<u64> {
        self.break_watches.subscribe()
    }

    /// What is served now.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs `work` with the policy.
    pub(crate) fn with_policy<T>(&self, work: impl FnOnce(&Policy) -> T) -> T {
        work(&self.policy.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads what is stored of definitions and policy.
    fn load(&self) {
        self.reload_registry();
        let registry = self.registry();
        for plural in ["roles", "clusterroles", "rolebindings", "clusterrolebindings"] {
            if let Some(served) = registry.find("rbac.authorization.k8s.io", "v1", plural) {
                for entry in self.store.list(&served.prefix(None)).iter() {
                    if let Ok(object) = of_entry(&served.resource, entry) {
                        self.learn(&served, &object);
                    }
                }
            }
        }
        if let Some(services) = registry.find("", "v1", "services") {
            let stored = self.store.list(&services.prefix(None));
            let services = stored.iter().filter_map(|entry| of_entry(&services.resource, entry).ok());
            services.for_each(|service| self.allocations.learn(&service));
        }
    }

    /// Serves the definitions that are stored now.
    pub(crate) fn reload_registry(&self) {
        // Read under the lock: of two that reload at once, the later one must not have read the older definitions.
        let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        let before = registry.clone();
        let Some(served) = before.find("apiextensions.k8s.io", "v1", "customresourcedefinitions") else { return };
        let resources = |entry: &Entry| {
            let definition = of_entry(&served.resource, entry).ok().filter(controllers::is_served);
            definition.map(|definition| c5c3_kinds::custom(&definition)).unwrap_or_default()
        };
        *registry = Arc::new(before.with_definitions(self.store.list(&served.prefix(None)).iter(), resources));
    }

    /// Goes by what is stored of a rule. Read under the lock: of two writers, the one that gets here last may have
    /// written first, and must not bring back rules that the other has revoked.
    fn learn(&self, served: &Served, object: &Value) {
        let mut policy = self.policy.write().unwrap_or_else(PoisonError::into_inner);
        let (namespace, name) = (meta(object, "namespace"), meta(object, "name"));
        let key = served.key(Some(namespace).filter(|namespace| !namespace.is_empty()), name);
        let stored = self.store.get(&key).map(|entry| of_entry(&served.resource, &entry));
        let set = match &stored {
            Some(Ok(object)) => policy.set(object).map_err(|error| error.to_string()),
            Some(Err(error)) => Err(error.message.clone()),
            None => return policy.remove(&served.resource.kind, namespace, name),
        };
        if let Err(error) = set {
            policy.remove(&served.resource.kind, namespace, name);
            tracing::warn!(error, "a rule cannot be read, and allows nothing");
        }
    }

    /// Takes note of a write, before it is acknowledged to the client: the next request goes by it.
    pub(crate) fn written(&self, served: &Served, object: &Value) {
        match served.resource.group.as_str() {
            "rbac.authorization.k8s.io" => self.learn(served, object),
            "apiextensions.k8s.io" => self.reload_registry(),
            "" if served.resource.kind == "Service" => self.settle(served, object),
            _ => {}
        }
    }

    /// What a Service had that is gone is free for others.
    fn settle(&self, served: &Served, service: &Value) {
        let key = served.key(Some(meta(service, "namespace")), meta(service, "name"));
        let stored = self.store.get(&key).and_then(|entry| of_entry(&served.resource, &entry).ok());
        self.allocations.settle(service, stored.as_ref());
    }

    /// Refuses a revision that has not happened.
    pub(crate) fn not_in_the_future(&self, revision: u64) -> Result<(), ApiError> {
        let current = self.store.revision();
        if revision <= current {
            return Ok(());
        }
        let message = format!("Timeout: Too large resource version: {revision}, current: {current}");
        // Clients know the case by its cause, and list again.
        let details =
            json!({"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]});
        let error = ApiError::new(StatusCode::GATEWAY_TIMEOUT, Reason::Timeout, message);
        Err(ApiError { retry_after: Some(1), details, ..error })
    }

    /// Serves one request.
    pub async fn handle(self: &Arc<Self>, parts: Parts, body: Bytes, user: UserInfo) -> Response<Body> {
        match self.answer(parts, body, user).await {
            Ok(response) => response,
            Err(error) => error.into(),
        }
    }

    async fn answer(
        self: &Arc<Self>,
        mut parts: Parts,
        body: Bytes,
        user: UserInfo,
    ) -> Result<Response<Body>, ApiError> {
        if body.len() > LARGEST_BODY {
            let message = format!("Request entity too large: limit is {LARGEST_BODY}");
            return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, Reason::RequestEntityTooLarge, message));
        }
        let Permitted { verb, asked, query, user } = self.permit(&parts, user)?;
        match asked {
            Asked::Path => {
                let path = parts.uri.path().to_owned();
                documents::serve(self, &parts.method, &path, &query, &parts.headers)
            }
            Asked::Resource(target) => {
                let served = self.registry().target(&target).ok_or_else(ApiError::no_such_path)?;
                if served.resource.namespaced
                    && target.namespace.is_none()
                    && !matches!(verb, Some(Verb::List | Verb::Watch))
                    && target.name.is_some()
                {
                    return Err(ApiError::no_such_path());
                }
                let warnings = Warnings::default();
                let connection = c5c3_relay::client_side(&mut parts);
                let Parts { method, uri, headers, .. } = parts;
                let server = self;
                let call =
                    Call { server, served, target, query, uri, headers, body, connection, user, warnings: &warnings };
                let (began, asked) = (Instant::now(), call.target.clone());
                let mut response = verbs::serve(call, &method).await.unwrap_or_else(Response::from);
                self.metrics.count(verb, &asked, response.status(), began.elapsed());
                warn(&mut response, &warnings.take());
                Ok(response)
            }
        }
    }
}

#[cfg(test)]
mod tests;
