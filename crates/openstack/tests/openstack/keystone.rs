//! A scripted Keystone on a port of this machine. It issues tokens with a catalog that names itself for every service,
//! answers the other calls with replies that a test scripts, and records what it was asked.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

pub const TOKENS: &str = "/v3/auth/tokens";

/// A request that arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: Method,
    pub path: String,
    pub query: String,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Seen {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Reply {
    /// Text is sent as it is, everything else as JSON.
    pub fn new(status: u16, body: impl Into<Value>) -> Self {
        let body = match body.into() {
            Value::String(text) => text,
            other => other.to_string(),
        };
        Self { status, headers: vec![("x-openstack-request-id", "req-7".into())], body }
    }

    /// No answer: the connection ends.
    pub fn broken() -> Self {
        Self { status: 0, headers: Vec::new(), body: String::new() }
    }

    /// An error in Keystone's shape.
    pub fn error(status: u16, message: &str) -> Self {
        Self::new(status, json!({ "error": { "code": status, "message": message, "title": "Error" } }))
    }

    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub fn without_headers(mut self) -> Self {
        self.headers.clear();
        self
    }
}

#[derive(Clone)]
struct Endpoint {
    service: String,
    interface: String,
    region: String,
    url: String,
}

struct State {
    url: String,
    replies: Mutex<HashMap<(Method, String), VecDeque<Reply>>>,
    /// The endpoints of the catalog.
    endpoints: Mutex<Vec<Endpoint>>,
    revoked: Mutex<HashSet<String>>,
    seen: Mutex<Vec<Seen>>,
    count: watch::Sender<usize>,
    /// A permit is taken by each authentication before it is answered.
    gate: Semaphore,
}

pub struct Keystone {
    state: Arc<State>,
}

impl Keystone {
    pub async fn start() -> Self {
        Self::serve(None).await
    }

    pub async fn start_with_tls(config: rustls::ServerConfig) -> Self {
        Self::serve(Some(TlsAcceptor::from(Arc::new(config)))).await
    }

    async fn serve(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let state = Arc::new(State {
            url: url.clone(),
            replies: Mutex::default(),
            endpoints: Mutex::default(),
            revoked: Mutex::default(),
            seen: Mutex::default(),
            count: watch::channel(0).0,
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
        });
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (state, tls) = (Arc::clone(&shared), tls.clone());
                let service = service_fn(move |request| answer(Arc::clone(&state), request));
                tokio::spawn(async move {
                    let server = auto::Builder::new(TokioExecutor::new());
                    // A client that closes its connection or refuses the certificate is part of the tests.
                    if let Some(tls) = tls {
                        let Ok(stream) = tls.accept(stream).await else { return };
                        let _ = server.serve_connection(TokioIo::new(stream), service).await;
                    } else {
                        let _ = server.serve_connection(TokioIo::new(stream), service).await;
                    }
                });
            }
        });
        let keystone = Self { state };
        keystone.register_at("identity", "internal", "south", &url);
        keystone
    }

    pub fn url(&self) -> &str {
        &self.state.url
    }

    /// Scripts the replies to a call; the last one is given from then on.
    pub fn on(&self, method: Method, path: &str, replies: impl IntoIterator<Item = Reply>) -> &Self {
        let replies = replies.into_iter().collect();
        self.state.replies.lock().unwrap().insert((method, path.into()), replies);
        self
    }

    /// Adds an endpoint to the catalog of further tokens. Its URL ends in `/interface/region`.
    pub fn register(&self, service: &str, interface: &str, region: &str) -> &Self {
        self.register_at(service, interface, region, &format!("{}/{interface}/{region}", self.url()))
    }

    /// Adds an endpoint elsewhere.
    pub fn register_at(&self, service: &str, interface: &str, region: &str, url: &str) -> &Self {
        let (service, interface) = (service.into(), interface.into());
        let endpoint = Endpoint { service, interface, region: region.into(), url: url.into() };
        self.state.endpoints.lock().unwrap().push(endpoint);
        self
    }

    /// Removes the endpoints of a service from the catalog of further tokens.
    pub fn unregister(&self, service: &str) {
        self.state.endpoints.lock().unwrap().retain(|endpoint| endpoint.service != service);
    }

    /// Lets every call with this token fail with 401.
    pub fn revoke(&self, token: &str) {
        self.state.revoked.lock().unwrap().insert(token.into());
    }

    /// Holds the answers to authentications until `release`.
    pub fn hold(&self) {
        self.state.gate.forget_permits(Semaphore::MAX_PERMITS);
    }

    pub fn release(&self) {
        self.state.gate.add_permits(1000);
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().unwrap().clone()
    }

    /// The requests to a path.
    pub fn requests(&self, path: &str) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.path == path).collect()
    }

    /// Waits until this many requests have arrived.
    pub async fn reached(&self, count: usize) {
        self.state.count.subscribe().wait_for(|seen| *seen >= count).await.unwrap();
    }
}

async fn answer(state: Arc<State>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, std::io::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let seen = Seen {
        method: head.method,
        path: head.uri.path().into(),
        query: head.uri.query().unwrap_or_default().into(),
        headers: head.headers,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    };
    state.seen.lock().unwrap().push(seen.clone());
    state.count.send_modify(|count| *count += 1);
    let reply = if seen.path == TOKENS {
        state.gate.acquire().await.unwrap().forget();
        state.scripted(&seen).unwrap_or_else(|| state.issue())
    } else if state.revoked.lock().unwrap().contains(seen.header("x-auth-token")) {
        Reply::error(401, "The request you have made requires authentication.")
    } else {
        state.scripted(&seen).unwrap_or_else(|| Reply::error(404, "nothing is scripted for this call"))
    };
    if reply.status == 0 {
        return Err(std::io::Error::other("the connection ends"));
    }
    let mut response = Response::new(Full::new(Bytes::from(reply.body)));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap();
    for (name, value) in reply.headers {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    Ok(response)
}

impl State {
    fn scripted(&self, seen: &Seen) -> Option<Reply> {
        let mut all = self.replies.lock().unwrap();
        let replies = all.get_mut(&(seen.method.clone(), seen.path.clone()))?;
        if replies.len() > 1 { replies.pop_front() } else { replies.front().cloned() }
    }

    /// A token named after its number, with a life of one hour by a clock that is years behind.
    fn issue(&self) -> Reply {
        let number = self.seen.lock().unwrap().iter().filter(|seen| seen.path == TOKENS).count();
        let catalog: Vec<Value> = self
            .endpoints
            .lock()
            .unwrap()
            .iter()
            .map(|Endpoint { service, interface, region, url }| {
                json!({ "type": service, "name": service, "id": "s1", "endpoints": [
                    { "id": "e1", "interface": interface, "region": region, "region_id": region, "url": url },
                ] })
            })
            .collect();
        let body = json!({ "token": {
            "methods": ["application_credential"],
            "user": { "id": "u1", "name": "gardener", "domain": { "id": "default", "name": "Default" } },
            "project": { "id": "p1", "name": "trees", "domain": { "id": "default", "name": "Default" } },
            "issued_at": "2020-03-01T10:00:00.000000Z",
            "expires_at": "2020-03-01T11:00:00.000000Z",
            "catalog": catalog,
        } });
        Reply::new(201, body).header("x-subject-token", &format!("token-{number}"))
    }
}
