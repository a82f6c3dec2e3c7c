//! A Keystone in memory, on a port of this machine: it keeps resources, filters lists, refuses what the real one refuses, and
//! fails as a test tells it to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

pub(crate) const PASSWORD: &str = "open-sesame";

/// Instead of a status: the caller waits for an answer until it gives up.
const NEVER: u16 = 0;

#[derive(Default)]
struct Inner {
    resources: BTreeMap<String, BTreeMap<String, Value>>,
    next: usize,
    faults: Vec<Fault>,
    log: Vec<String>,
}

struct Fault {
    call: String,
    status: u16,
    message: &'static str,
    times: usize,
    /// Whether the call is carried out all the same.
    done: bool,
}

#[derive(Clone)]
pub(crate) struct Keystone {
    url: String,
    inner: Arc<Mutex<Inner>>,
}

impl Keystone {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let keystone = Self { url, inner: Arc::default() };
        let default = json!({"id": "default", "name": "Default", "description": "", "enabled": true});
        keystone.put("domains", default);
        let app = Router::new().fallback(answer).with_state(keystone.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        keystone
    }

    #[allow(dead_code)] // Not every test that includes this file asks for it.
    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    pub(crate) fn clouds(&self, password: &str) -> String {
        format!(
            "clouds:\n  orchard:\n    interface: public\n    region_name: south\n    auth:\n      auth_url: {}/v3\n      \
             username: admin\n      password: {password}\n      project_name: admin\n      user_domain_name: Default\n      \
             project_domain_name: Default\n",
            self.url
        )
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    /// Adds or replaces a resource, behind the operator's back.
    pub(crate) fn put(&self, plural: &str, resource: Value) {
        let id = resource["id"].as_str().unwrap().to_owned();
        self.lock().resources.entry(plural.into()).or_default().insert(id, resource);
    }

    pub(crate) fn remove(&self, plural: &str, id: &str) {
        self.lock().resources.get_mut(plural).unwrap().remove(id);
    }

    /// The resources of a kind but the default domain.
    pub(crate) fn all(&self, plural: &str) -> Vec<Value> {
        let all: Vec<Value> =
            self.lock().resources.get(plural).into_iter().flat_map(|all| all.values().cloned()).collect();
        all.into_iter().filter(|resource| resource["id"] != "default").collect()
    }

    /// Answers calls that begin like this with a status, this many times.
    pub(crate) fn fail(&self, call: &str, status: u16, times: usize) {
        let message = "Keystone is told to fail.";
        self.lock().faults.push(Fault { call: call.into(), status, message, times, done: false });
    }

    /// Answers all calls that begin like this with a status and a message.
    #[allow(dead_code)] // Not every test that includes this file asks for it.
    pub(crate) fn refuse(&self, call: &str, status: u16, message: &'static str) {
        self.lock().faults.push(Fault { call: call.into(), status, message, times: usize::MAX, done: false });
    }

    /// Carries a call out and answers with a status all the same.
    pub(crate) fn lose(&self, call: &str, status: u16) {
        let message = "The answer is lost.";
        self.lock().faults.push(Fault { call: call.into(), status, message, times: 1, done: true });
    }

    /// Carries a call out and never answers it.
    #[allow(dead_code)] // Not every test that includes this file asks for it.
    pub(crate) fn hold(&self, call: &str) {
        self.lose(call, NEVER);
    }

    pub(crate) fn heal(&self) {
        self.lock().faults.clear();
    }

    /// The calls that change something, in their order.
    #[allow(dead_code)] // Not every test that includes this file asks for it.
    pub(crate) fn changes(&self) -> Vec<String> {
        let is_change = |call: &&String| !call.starts_with("GET ") && *call != "POST /auth/tokens";
        self.lock().log.iter().filter(is_change).cloned().collect()
    }

    /// How many calls began like this.
    pub(crate) fn count(&self, call: &str) -> usize {
        self.lock().log.iter().filter(|logged| logged.starts_with(call)).count()
    }
}

fn error(status: u16, message: &str) -> Response {
    let body = json!({"error": {"code": status, "message": message, "title": "Error"}}).to_string();
    let headers = [("x-openstack-request-id", "req-7")];
    (StatusCode::from_u16(status).unwrap(), headers, body).into_response()
}

fn ok(status: u16, body: &Value) -> Response {
    (StatusCode::from_u16(status).unwrap(), [("x-openstack-request-id", "req-7")], body.to_string()).into_response()
}

async fn answer(
    State(keystone): State<Keystone>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let call = format!("{method} {}", uri.path().trim_start_matches("/v3"));
    let fault = {
        let mut inner = keystone.lock();
        inner.log.push(call.clone());
        let found = inner.faults.iter_mut().find(|fault| fault.times > 0 && call.starts_with(&fault.call));
        found.map(|fault| {
            fault.times -= 1;
            (fault.status, fault.message, fault.done)
        })
    };
    if let Some((status, message, false)) = fault {
        return error(status, message);
    }
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let reply = if call == "POST /auth/tokens" {
        keystone.token(&body)
    } else if headers.get("x-auth-token").is_none() {
        error(401, "The request you have made requires authentication.")
    } else {
        keystone.resource(&method, &call, uri.query().unwrap_or_default(), &body)
    };
    match fault {
        Some((NEVER, ..)) => std::future::pending().await,
        Some((status, message, _)) => error(status, message),
        None => reply,
    }
}

impl Keystone {
    fn token(&self, body: &Value) -> Response {
        let identity = &body["auth"]["identity"];
        let by_application = &identity["application_credential"];
        let known = self.all("application_credentials").into_iter().find(|one| one["id"] == by_application["id"]);
        match known {
            None if by_application.is_object() => return error(404, "Could not find Application Credential."),
            Some(known) if known["secret"] == by_application["secret"] => {}
            None if identity["password"]["user"]["password"] == PASSWORD => {}
            None if self.is_user(&identity["password"]["user"]) => {}
            _ => return error(401, "The request you have made requires authentication."),
        }
        let endpoint = json!({"id": "e1", "interface": "public", "region": "south", "region_id": "south",
            "url": format!("{}/v3", self.url)});
        let token = json!({"token": {
            "user": {"id": "u0", "name": "admin", "domain": {"id": "default", "name": "Default"}},
            "project": {"id": "p0", "name": "admin", "domain": {"id": "default", "name": "Default"}},
            "issued_at": "2030-03-01T10:00:00.000000Z", "expires_at": "2030-03-01T11:00:00.000000Z",
            "catalog": [{"type": "identity", "name": "keystone", "id": "s1", "endpoints": [endpoint]}],
        }});
        let mut reply = ok(201, &token);
        reply.headers_mut().insert("x-subject-token", "token-1".parse().unwrap());
        reply
    }

    /// Whether a user that was created has this id or name, and this password.
    fn is_user(&self, user: &Value) -> bool {
        let is_it = |one: &Value| {
            (one["id"] == user["id"] || one["name"] == user["name"]) && one["password"] == user["password"]
        };
        user["password"].is_string() && self.all("users").iter().any(is_it)
    }

    fn resource(&self, method: &Method, call: &str, query: &str, body: &Value) -> Response {
        let path: Vec<&str> = call.split(' ').nth(1).unwrap().trim_matches('/').split('/').collect();
        if let [scope @ ("projects" | "domains"), target, actor @ ("users" | "groups"), who, "roles", role] = path[..] {
            return self.grant(method, [scope, target, actor, who, role]);
        }
        let (plural, id) = match path[..] {
            ["users", _, "application_credentials"] => ("application_credentials".to_owned(), None),
            ["users", _, "application_credentials", id] => ("application_credentials".to_owned(), Some(id.to_owned())),
            _ => (path[0].to_owned(), path.get(1).map(|id| (*id).to_owned())),
        };
        let singular = plural.trim_end_matches('s').to_owned();
        let mut inner = self.lock();
        let Inner { resources, next, .. } = &mut *inner;
        let all = resources.entry(plural.clone()).or_default();
        match (method.as_str(), id) {
            ("GET", None) => {
                let query: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
                let found: Vec<&Value> = all.values().filter(|resource| matches(&plural, resource, &query)).collect();
                ok(200, &json!({ plural: found, "links": {"next": null} }))
            }
            ("POST", None) => {
                let fields = body[&singular].as_object().cloned().unwrap_or_default();
                let resource = new(&plural, next, fields);
                let is_same =
                    |other: &&Value| other["name"] == resource["name"] && other["domain_id"] == resource["domain_id"];
                if !["services", "endpoints"].contains(&plural.as_str()) && all.values().any(|other| is_same(&other)) {
                    return error(409, "Conflict occurred attempting to store: it is not unique.");
                }
                all.insert(resource["id"].as_str().unwrap().to_owned(), resource.clone());
                ok(201, &json!({ singular: resource }))
            }
            (method, Some(id)) => {
                let Some(resource) = all.get_mut(&id) else {
                    return error(404, &format!("Could not find {singular}."));
                };
                match method {
                    "GET" => ok(200, &json!({ singular: resource })),
                    "PATCH" => {
                        let fields = body[&singular].as_object().cloned().unwrap_or_default();
                        resource.as_object_mut().unwrap().extend(fields);
                        ok(200, &json!({ singular: resource }))
                    }
                    "DELETE" if plural == "domains" && resource["enabled"] == true => {
                        error(403, "Cannot delete a domain that is enabled, please disable it first.")
                    }
                    "DELETE" => {
                        all.remove(&id);
                        StatusCode::NO_CONTENT.into_response()
                    }
                    _ => error(405, "no"),
                }
            }
            _ => error(405, "no"),
        }
    }
}

impl Keystone {
    fn grant(&self, method: &Method, [scope, target, actor, who, role]: [&str; 5]) -> Response {
        let path = format!("{scope}/{target}/{actor}/{who}/roles/{role}");
        let mut inner = self.lock();
        let all = inner.resources.entry("role_assignments".into()).or_default();
        let singular = |plural: &str| plural.trim_end_matches('s').to_owned();
        match method.as_str() {
            "PUT" => {
                let grant = json!({"id": path, "role": {"id": role}, singular(actor): {"id": who},
                    "scope": {singular(scope): {"id": target}}});
                all.insert(path, grant);
                StatusCode::NO_CONTENT.into_response()
            }
            "DELETE" if all.remove(&path).is_some() => StatusCode::NO_CONTENT.into_response(),
            _ => error(404, "Could not find role assignment."),
        }
    }
}

fn new(plural: &str, next: &mut usize, fields: Map<String, Value>) -> Value {
    *next += 1;
    let mut resource = json!({"id": format!("{:032x}", *next), "enabled": true, "description": ""});
    match plural {
        "projects" => resource["tags"] = json!([]),
        "application_credentials" => resource["project_id"] = "p0".into(),
        "services" => resource["description"] = Value::Null,
        _ => {}
    }
    if ["projects", "users", "groups"].contains(&plural) {
        resource["domain_id"] = "default".into();
    }
    if ["roles", "groups"].contains(&plural) {
        resource.as_object_mut().unwrap().remove("enabled");
    }
    resource.as_object_mut().unwrap().extend(fields);
    resource
}

fn matches(plural: &str, resource: &Value, query: &[(String, String)]) -> bool {
    let has_domain = query.iter().any(|(key, _)| key == "domain_id");
    if plural == "roles" && !has_domain && resource["domain_id"].is_string() {
        return false;
    }
    query.iter().all(|(key, value)| {
        let has = |tag: &str| resource["tags"].as_array().is_some_and(|tags| tags.contains(&json!(tag)));
        match key.as_str() {
            "tags" => value.split(',').all(has),
            "tags-any" => value.split(',').any(has),
            "not-tags" => !value.split(',').all(has),
            "not-tags-any" => !value.split(',').any(has),
            "enabled" => resource["enabled"] == (value == "true"),
            key if key.contains('.') => resource.pointer(&format!("/{}", key.replace('.', "/"))) == Some(&json!(value)),
            key => resource[key] == value.as_str(),
        }
    })
}
