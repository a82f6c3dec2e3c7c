//! Requests and answers.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use futures::stream;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::{Notify, broadcast};

use super::faults::{Fault, Faults};
use super::store::{Key, Store, merge};

/// A write that reached the API.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// `PATCH apply`, `PATCH merge`, `POST`, `PUT` or `DELETE`.
    pub method: String,
    /// The path, with the query's `fieldManager` and `force` and nothing else of it.
    pub path: String,
    /// What was sent.
    pub body: Value,
    /// The status that was answered.
    pub code: u16,
}

/// An API in memory.
#[derive(Clone)]
pub struct FakeApi {
    store: Arc<Store>,
    faults: Arc<Faults>,
    writes: Arc<Mutex<Vec<Write>>>,
    reads: Arc<Mutex<Vec<String>>>,
    drop_watches: broadcast::Sender<()>,
    written: Arc<Notify>,
}

impl Default for FakeApi {
    fn default() -> Self {
        Self {
            store: Arc::default(),
            faults: Arc::default(),
            writes: Arc::default(),
            reads: Arc::default(),
            drop_watches: broadcast::channel(16).0,
            written: Arc::default(),
        }
    }
}

impl FakeApi {
    /// A client of this API.
    pub fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let api = api.clone();
            async move { Ok::<_, Infallible>(api.answer(request).await) }
        });
        Client::new(service, "default")
    }

    /// Lets a request fail.
    pub fn fail(&self, fault: Fault) {
        self.faults.add(fault);
    }

    /// Ends every watch that is open; clients open new ones.
    pub fn drop_watches(&self) {
        let _ = self.drop_watches.send(());
    }

    /// Writes an object as a user would, without recording it.
    pub fn put(&self, object: &Value) -> Value {
        let key = key_of(object);
        let mut next = self.store.get(&key).unwrap_or_else(|| json!({"metadata": {}}));
        merge(&mut next, object);
        // A user's spec replaces the old one.
        if let Some(spec) = object.get("spec") {
            next["spec"] = spec.clone();
        }
        self.store.put(&key, next)
    }

    /// Deletes an object as a user would.
    pub fn delete(&self, object: &Value) {
        self.store.delete(&key_of(object));
    }

    /// The object of that `apiVersion`, `kind`, `namespace` and `name`.
    pub fn get(&self, object: &Value) -> Option<Value> {
        self.store.get(&key_of(object))
    }

    /// All objects of a kind, in every namespace.
    pub fn all(&self, api_version: &str, kind: &str) -> Vec<Value> {
        let kind = key_of(&json!({"apiVersion": api_version, "kind": kind})).kind;
        self.store.list(|key, _| key.kind == kind).0
    }

    /// The resourceVersion of the last change.
    pub fn version(&self) -> u64 {
        self.store.list(|_, _| false).1
    }

    /// The writes since the last call.
    pub fn take_writes(&self) -> Vec<Write> {
        std::mem::take(&mut *self.writes.lock().expect("no one panics with the lock"))
    }

    /// The reads since the last call: `GET` or `WATCH`, the path, and the selectors of the query.
    pub fn take_reads(&self) -> Vec<String> {
        std::mem::take(&mut *self.reads.lock().expect("no one panics with the lock"))
    }

    /// Waits until `is_so` holds; looks after each write.
    pub async fn wait_until(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let waiting = async {
            loop {
                let written = self.written.notified();
                if is_so(self) {
                    return;
                }
                // Writes by `put` and `delete` are not notified: they come from the test itself.
                tokio::select! {
                    () = written => {}
                    () = tokio::time::sleep(std::time::Duration::from_millis(5)) => {}
                }
            }
        };
        let limit = std::time::Duration::from_mins(1);
        assert!(
            tokio::time::timeout(limit, waiting).await.is_ok(),
            "waited in vain: {what}; writes so far: {:#?}",
            self.take_writes()
        );
    }

    async fn answer(&self, request: Request<kube::client::Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().to_owned();
        let query = parts.uri.query().unwrap_or_default().to_owned();
        let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let is_watch = query.contains("watch=true");
        let method = if is_watch { "WATCH" } else { parts.method.as_str() };
        if parts.method == Method::GET {
            let selectors: Vec<&str> = query.split('&').filter(|part| part.contains("Selector=")).collect();
            let read = format!("{method} {path}?{}", selectors.join("&"));
            let read = read.trim_end_matches('?').to_owned();
            self.reads.lock().expect("no one panics with the lock").push(read);
        }
        if is_watch && self.faults.strike(method, &path).is_none() {
            return self.watch(&path, &query);
        }
        let content_type = parts.headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let fault = if is_watch { Some(500) } else { self.faults.strike(method, &path) };
        let (code, answer) = match fault {
            // An API that does not know a kind.
            Some(404) => (404, status(404, "the server could not find the requested resource")),
            Some(code) => (code, status(code, "fault injected")),
            None => self.serve(&parts.method, &path, &query, content_type, &body),
        };
        if parts.method != Method::GET {
            let method = match content_type {
                "application/apply-patch+yaml" => "PATCH apply".to_owned(),
                "application/merge-patch+json" => "PATCH merge".to_owned(),
                _ => parts.method.to_string(),
            };
            let manager: Vec<&str> =
                query.split('&').filter(|part| part.starts_with("fieldManager") || part.starts_with("force")).collect();
            let path = if manager.is_empty() { path } else { format!("{path}?{}", manager.join("&")) };
            self.writes.lock().expect("no one panics with the lock").push(Write { method, path, body, code });
            self.written.notify_waiters();
        }
        reply(code, &answer)
    }

    fn serve(&self, method: &Method, path: &str, query: &str, content_type: &str, body: &Value) -> (u16, Value) {
        let target = Target::parse(path);
        let Some(key) = target.key() else {
            return match *method {
                Method::GET => (200, self.list(&target, query)),
                Method::POST => {
                    let name = body["metadata"]["name"].as_str().unwrap_or("generated").to_owned();
                    let key = Key { kind: target.kind, namespace: target.namespace, name };
                    match self.store.get(&key) {
                        Some(_) => (409, status(409, "already exists")),
                        None => (201, self.store.put(&key, body.clone())),
                    }
                }
                _ => (405, status(405, "not served")),
            };
        };
        let found = self.store.get(&key);
        match (method, found) {
            (&Method::GET, Some(object)) => (200, object),
            (&Method::DELETE, Some(object)) => {
                let wanted = body["preconditions"]["uid"].as_str();
                if wanted.is_some_and(|uid| object["metadata"]["uid"] != uid) {
                    return (409, status(409, "the uid differs"));
                }
                (200, self.store.delete(&key).unwrap_or_default())
            }
            (&Method::PUT, Some(object)) if stale(&object, body) => (409, status(409, "the object has been modified")),
            (&Method::PUT, Some(_)) => (200, self.store.put(&key, body.clone())),
            (&Method::PATCH, Some(object)) if stale(&object, body) => {
                (409, status(409, "the object has been modified"))
            }
            (&Method::PATCH, found) if found.is_some() || content_type == "application/apply-patch+yaml" => {
                if found.is_none() && target.subresource.is_some() {
                    return (404, status(404, "not found"));
                }
                let mut object = found.unwrap_or_else(|| json!({"metadata": {}}));
                if target.subresource.is_some() {
                    apply_status(&mut object, &body["status"], manager(query));
                } else {
                    merge(&mut object, body);
                }
                (200, self.store.put(&key, object))
            }
            _ => (404, status(404, "not found")),
        }
    }

    fn list(&self, target: &Target, query: &str) -> Value {
        let (items, version) = self.store.list(|key, object| target.covers(key) && selects(query, object));
        json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": version.to_string()}, "items": items})
    }

    fn watch(&self, path: &str, query: &str) -> Response<Body> {
        let (target, query) = (Target::parse(path), query.to_owned());
        let since: u64 = query
            .split('&')
            .find_map(|part| part.strip_prefix("resourceVersion="))
            .and_then(|version| version.parse().ok())
            .unwrap_or(0);
        let (missed, receiver) = self.store.changes();
        let state = (missed.into_iter(), receiver, self.drop_watches.subscribe(), target, query);
        let events = stream::unfold(state, move |(mut missed, mut receiver, mut dropped, target, query)| async move {
            loop {
                let change = if let Some(change) = missed.next() {
                    change
                } else {
                    tokio::select! {
                        change = receiver.recv() => change.ok()?,
                        _ = dropped.recv() => return None,
                    }
                };
                if target.covers(&change.key) && selects(&query, &change.object) && version(&change.object) > since {
                    let line = format!("{}\n", json!({"type": change.what, "object": change.object}));
                    let frame = Ok::<_, Infallible>(http_body::Frame::data(line.into()));
                    return Some((frame, (missed, receiver, dropped, target, query)));
                }
            }
        });
        Response::new(Body::new(StreamBody::new(events)))
    }
}

/// What a path means: `/apis/GROUP/VERSION/namespaces/NS/PLURAL/NAME/SUBRESOURCE`.
struct Target {
    kind: String,
    namespace: Option<String>,
    name: Option<String>,
    subresource: Option<String>,
}

impl Target {
    fn parse(path: &str) -> Self {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let version = if parts[0] == "api" { 2 } else { 3 };
        let (prefix, rest) = parts.split_at(version.min(parts.len()));
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
            rest => (None, rest),
        };
        let part = |index: usize| rest.get(index).map(|part| (*part).to_owned());
        Self {
            kind: format!("{}/{}", prefix.join("/"), part(0).unwrap_or_default()),
            namespace,
            name: part(1),
            subresource: part(2),
        }
    }

    fn key(&self) -> Option<Key> {
        let name = self.name.clone()?;
        Some(Key { kind: self.kind.clone(), namespace: self.namespace.clone(), name })
    }

    fn covers(&self, key: &Key) -> bool {
        self.kind == key.kind && (self.namespace.is_none() || self.namespace == key.namespace)
    }
}

/// Whether the equality selectors of a query take an object.
fn selects(query: &str, object: &Value) -> bool {
    query.split('&').all(|part| {
        let decoded = part.replace("%3D", "=").replace("%2F", "/").replace("%2C", ",");
        match decoded.split_once('=') {
            Some(("labelSelector", selector)) => selector
                .split(',')
                .filter_map(|one| one.split_once('='))
                .all(|(key, value)| object["metadata"]["labels"][key] == value),
            Some(("fieldSelector", selector)) => match selector.split_once('=') {
                Some(("metadata.name", name)) => object["metadata"]["name"] == name,
                _ => true,
            },
            _ => true,
        }
    })
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok()).unwrap_or(0)
}

fn stale(object: &Value, body: &Value) -> bool {
    body["metadata"]["resourceVersion"].as_str().is_some_and(|wanted| object["metadata"]["resourceVersion"] != wanted)
}

fn key_of(object: &Value) -> Key {
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
    let version = text(&object["apiVersion"]).unwrap_or_default();
    let prefix = if version.contains('/') { "apis" } else { "api" };
    let kind = text(&object["kind"]).unwrap_or_default().to_lowercase();
    Key {
        kind: format!("{prefix}/{version}/{kind}s"),
        namespace: text(&object["metadata"]["namespace"]),
        name: text(&object["metadata"]["name"]).unwrap_or_default(),
    }
}

fn manager(query: &str) -> &str {
    query.split('&').find_map(|part| part.strip_prefix("fieldManager=")).unwrap_or("unknown")
}

/// Server-side apply of a status, as far as operators can tell: what this manager wrote before and no longer writes goes,
/// what others wrote stays.
fn apply_status(object: &mut Value, status: &Value, manager: &str) {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let ours = entries.iter().find(|entry| entry["manager"] == manager);
    for field in ours.and_then(|entry| entry["fieldsV1"]["f:status"].as_object()).into_iter().flatten() {
        let field = field.0.trim_start_matches("f:");
        if field != "conditions" && status.get(field).is_none() {
            object["status"].as_object_mut().map(|status| status.remove(field));
        }
    }
    for (field, value) in status.as_object().into_iter().flatten() {
        if field == "conditions" {
            merge(&mut object["status"], &json!({"conditions": value}));
        } else {
            object["status"][field] = value.clone();
        }
    }
    let owned: serde_json::Map<String, Value> =
        status.as_object().into_iter().flatten().map(|(field, _)| (format!("f:{field}"), json!({}))).collect();
    let mut entries: Vec<Value> = entries.into_iter().filter(|entry| entry["manager"] != manager).collect();
    entries.push(json!({"manager": manager, "operation": "Apply", "subresource": "status",
        "apiVersion": object["apiVersion"], "fieldsType": "FieldsV1", "fieldsV1": {"f:status": owned}}));
    object["metadata"]["managedFields"] = entries.into();
}

fn status(code: u16, message: &str) -> Value {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        500 => "InternalError",
        _ => "Unknown",
    };
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message, "reason": reason})
}

fn reply(code: u16, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string().into_bytes()));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response
}
