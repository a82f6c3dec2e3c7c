//! A Keystone, Nova, Placement, Glance and Neutron in memory, on a port of this machine, as far as hypervisors need them: they keep
//! state, refuse what the real ones refuse, and fail as a test tells them to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::sync::Notify;

#[derive(Default)]
pub(crate) struct World {
    pub(crate) services: BTreeMap<String, Value>,
    pub(crate) computes: BTreeMap<String, Value>,
    pub(crate) aggregates: BTreeMap<i64, Value>,
    pub(crate) servers: BTreeMap<String, Value>,
    pub(crate) migrations: Vec<Value>,
    pub(crate) providers: BTreeMap<String, Value>,
    pub(crate) traits: BTreeSet<String>,
    /// Ids of servers whose migrations Nova does not accept.
    pub(crate) refuses: BTreeSet<String>,
    /// Ids of servers whose migrations fail after they were accepted.
    pub(crate) fails: BTreeSet<String>,
    /// Ids of servers whose migrations never end.
    pub(crate) hangs: BTreeSet<String>,
    /// What new servers say on their consoles; their names when absent.
    pub(crate) console: Option<String>,
    /// Calls that change something.
    pub(crate) log: Vec<String>,
    /// All calls.
    pub(crate) calls: usize,
    /// Whether a call that changes something is never answered.
    pub(crate) silent: bool,
    next: i64,
}

#[derive(Clone)]
pub(crate) struct OpenStack {
    url: String,
    inner: Arc<Mutex<World>>,
    /// Told of every call that changed something.
    pub(crate) changed: Arc<Notify>,
}

impl OpenStack {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let cloud = Self { url, inner: Arc::default(), changed: Arc::default() };
        let app = Router::new().fallback(answer).with_state(cloud.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        cloud
    }

    pub(crate) fn clouds(&self) -> String {
        format!(
            "clouds:\n  orchard:\n    interface: public\n    region_name: south\n    auth:\n      auth_url: {}/identity/v3\n      \
             username: admin\n      password: plum\n      project_name: admin\n      user_domain_name: Default\n      \
             project_domain_name: Default\n",
            self.url
        )
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.inner.lock().unwrap()
    }

    /// A nova-compute registers itself: a service, a hypervisor and a resource provider.
    pub(crate) fn register(&self, host: &str) {
        self.world().register(host);
    }

    pub(crate) fn aggregate(&self, name: &str, zone: Option<&str>) {
        let mut world = self.world();
        let id = world.number();
        let metadata = zone.map_or_else(|| json!({}), |zone| json!({"availability_zone": zone}));
        let aggregate = json!({"id": id, "uuid": uuid(id), "name": name, "hosts": [], "metadata": metadata});
        world.aggregates.insert(id, aggregate);
    }

    pub(crate) fn aggregates_of(&self, host: &str) -> Vec<String> {
        let world = self.world();
        let has = |one: &&Value| one["hosts"].as_array().unwrap().contains(&json!(host));
        world.aggregates.values().filter(has).map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn server(&self, id: &str, host: &str, status: &str) {
        let mut world = self.world();
        let server = json!({"id": id, "name": format!("vm-{id}"), "status": status, "OS-EXT-STS:task_state": null,
            "OS-EXT-SRV-ATTR:host": host, "flavor": {"ram": 2048}, "created": "2026-01-01T00:00:00Z"});
        let provider = world.computes[host]["id"].as_str().unwrap().to_owned();
        world.providers.get_mut(&provider).unwrap()["allocations"][id] = json!({"resources": {"VCPU": 1}});
        world.servers.insert(id.into(), server);
    }

    /// How many calls that changed something began like this.
    pub(crate) fn count(&self, call: &str) -> usize {
        self.world().log.iter().filter(|logged| logged.contains(call)).count()
    }
}

pub(crate) fn uuid(number: i64) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

fn now() -> String {
    // As Nova writes it: UTC, without saying so.
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6f").to_string()
}

fn reply(status: u16, body: &Value) -> Response {
    let headers = [("x-openstack-request-id", "req-7")];
    (StatusCode::from_u16(status).unwrap(), headers, body.to_string()).into_response()
}

fn error(status: u16, message: &str) -> Response {
    reply(status, &json!({"error": {"code": status, "message": message}}))
}

async fn answer(State(cloud): State<OpenStack>, method: Method, uri: Uri, body: Bytes) -> Response {
    let path: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
    let query: Vec<(String, String)> =
        form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    if path.last() == Some(&"tokens") {
        return cloud.token();
    }
    let changes = method != Method::GET && body.get("os-getConsoleOutput").is_none();
    let (response, silent) = {
        let mut world = cloud.world();
        world.calls += 1;
        if changes {
            let what = body.as_object().and_then(|body| body.keys().next().cloned()).unwrap_or_default();
            world.log.push(format!("{method} /{} {what}", path.join("/")));
        }
        (world.answer(method.as_str(), &path, &query, &body), world.silent && changes)
    };
    if changes {
        cloud.changed.notify_one();
    }
    if silent {
        // The operator is killed before it hears of it.
        std::future::pending::<()>().await;
    }
    response
}

impl OpenStack {
    fn token(&self) -> Response {
        let services = [("compute", "compute"), ("placement", "placement"), ("image", "image"), ("network", "network")];
        let catalog: Vec<Value> = services
            .iter()
            .map(|(kind, path)| {
                json!({"type": kind, "name": kind, "id": kind, "endpoints": [{"id": kind, "interface": "public",
                    "region": "south", "region_id": "south", "url": format!("{}/{path}", self.url)}]})
            })
            .collect();
        let token = json!({"token": {
            "user": {"id": "u0", "name": "admin", "domain": {"id": "default", "name": "Default"}},
            "project": {"id": "p0", "name": "admin", "domain": {"id": "default", "name": "Default"}},
            "issued_at": "2030-03-01T10:00:00.000000Z", "expires_at": "2060-03-01T11:00:00.000000Z", "catalog": catalog,
        }});
        let mut reply = reply(201, &token);
        reply.headers_mut().insert("x-subject-token", "token-1".parse().unwrap());
        reply
    }
}

impl World {
    fn number(&mut self) -> i64 {
        self.next += 1;
        self.next
    }

    pub(crate) fn register(&mut self, host: &str) {
        let (service, compute) = (uuid(self.number()), uuid(self.number()));
        let seen = json!({"id": service, "host": host, "binary": "nova-compute", "status": "disabled", "state": "up",
            "forced_down": false, "disabled_reason": "new", "zone": "nova"});
        self.services.insert(host.into(), seen);
        let seen = json!({"id": compute, "hypervisor_hostname": host, "service": {"id": service, "host": host}});
        self.computes.insert(host.into(), seen);
        let provider = json!({"generation": 1, "traits": ["HW_CPU_X86_AVX2"], "allocations": {}});
        self.providers.insert(compute, provider);
    }

    fn answer(&mut self, method: &str, path: &[&str], query: &[(String, String)], body: &Value) -> Response {
        let get = |key: &str| query.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
        match (method, path) {
            ("GET", ["compute", "os-services"]) => listed("services", self.services.values()),
            ("GET", ["compute", "os-hypervisors", "detail"]) => listed("hypervisors", self.computes.values()),
            ("GET", ["compute", "os-aggregates"]) => listed("aggregates", self.aggregates.values()),
            ("PUT", ["compute", "os-services", id]) => self.change_service(id, body),
            ("DELETE", ["compute", "os-services", id]) => self.delete_service(id),
            ("POST", ["compute", "os-aggregates", id, "action"]) => self.aggregate_action(id, body),
            ("GET", ["compute", "servers", "detail"]) => {
                let name = get("name").map(|name| name.trim_matches(['^', '$']).to_owned());
                let host = get("host");
                let is_it = |one: &&Value| {
                    name.as_ref().is_none_or(|name| one["name"] == name.as_str())
                        && host.is_none_or(|host| one["OS-EXT-SRV-ATTR:host"] == host)
                };
                listed("servers", self.servers.values().filter(is_it))
            }
            ("GET", ["compute", "servers", id]) => match self.servers.get(*id) {
                Some(server) => reply(200, &json!({ "server": server })),
                None => error(404, "no such server"),
            },
            ("POST", ["compute", "servers"]) => self.boot(&body["server"]),
            ("DELETE", ["compute", "servers", id]) => {
                self.remove_server(id);
                StatusCode::NO_CONTENT.into_response()
            }
            ("POST", ["compute", "servers", id, "action"]) => self.action(id, body),
            ("GET", ["compute", "servers", id, "os-instance-actions"]) => {
                let failed = self.fails.contains(*id);
                let action =
                    json!({"request_id": "req-9", "action": "live-migration", "message": failed.then_some("Error")});
                reply(200, &json!({"instanceActions": [action]}))
            }
            ("GET", ["compute", "servers", _, "os-instance-actions", _]) => {
                let events = json!([{"event": "compute_live_migration", "result": "Error", "details": "the CPU is another one"}]);
                reply(200, &json!({"instanceAction": {"action": "live-migration", "events": events}}))
            }
            ("DELETE", ["compute", "servers", _, "migrations", id]) => {
                for one in
                    self.migrations.iter_mut().filter(|one| id.parse() == Ok(one["id"].as_i64().unwrap_or_default()))
                {
                    one["status"] = "cancelled".into();
                    one["updated_at"] = now().into();
                }
                StatusCode::ACCEPTED.into_response()
            }
            ("GET", ["compute", "os-migrations"]) => {
                self.work();
                let host = get("host").unwrap_or_default().to_owned();
                let is_it =
                    |one: &&Value| one["source_compute"] == host.as_str() || one["dest_compute"] == host.as_str();
                listed("migrations", self.migrations.iter().filter(is_it))
            }
            ("GET", ["compute", "flavors", "detail"]) => {
                listed("flavors", [json!({"id": "f1", "name": "tiny"})].iter())
            }
            ("GET", ["image", .., "images"]) => listed("images", [json!({"id": "i1", "name": "cirros"})].iter()),
            ("GET", ["network", .., "networks"]) => listed("networks", [json!({"id": "n1", "name": "lab"})].iter()),
            (_, ["placement", rest @ ..]) => self.placement(method, rest, body),
            _ => error(404, &format!("there is no {method} {path:?}")),
        }
    }

    fn change_service(&mut self, id: &str, body: &Value) -> Response {
        let Some(service) = self.services.values_mut().find(|one| one["id"] == id) else {
            return error(404, "no such service");
        };
        for (key, value) in body.as_object().unwrap() {
            service[key] = value.clone();
        }
        if body["status"] == "enabled" {
            service["disabled_reason"] = Value::Null;
        }
        reply(200, &json!({ "service": service }))
    }

    fn delete_service(&mut self, id: &str) -> Response {
        let Some(host) = self.services.iter().find(|(_, one)| one["id"] == id).map(|(host, _)| host.clone()) else {
            return error(404, "no such service");
        };
        if self.servers.values().any(|one| one["OS-EXT-SRV-ATTR:host"] == host.as_str()) {
            return error(409, "Unable to delete compute service that is hosting instances.");
        }
        self.services.remove(&host);
        self.computes.remove(&host);
        StatusCode::NO_CONTENT.into_response()
    }

    fn aggregate_action(&mut self, id: &str, body: &Value) -> Response {
        let Some(aggregate) = self.aggregates.get_mut(&id.parse().unwrap()) else { return error(404, "no aggregate") };
        let hosts = aggregate["hosts"].as_array_mut().unwrap();
        if let Some(host) = body["add_host"].get("host") {
            if hosts.contains(host) {
                return error(409, "the aggregate already has the host");
            }
            hosts.push(host.clone());
        } else if let Some(host) = body["remove_host"].get("host") {
            if !hosts.contains(host) {
                return error(404, "the aggregate has no such host");
            }
            hosts.retain(|one| one != host);
        }
        reply(200, &json!({ "aggregate": aggregate }))
    }

    fn boot(&mut self, wanted: &Value) -> Response {
        let id = uuid(self.number());
        let (zone, host) = wanted["availability_zone"].as_str().unwrap().split_once(':').unwrap();
        let mut server = json!({"id": id, "name": wanted["name"], "status": "ACTIVE", "OS-EXT-STS:task_state": null,
            "OS-EXT-SRV-ATTR:host": host, "flavor": {"ram": 64}, "created": now() + "Z", "zone": zone});
        if self.fails.contains("smoke") {
            server["status"] = "ERROR".into();
            server["fault"] = json!({"message": "no bootable device"});
        }
        self.servers.insert(id.clone(), server);
        reply(202, &json!({"server": {"id": id}}))
    }

    fn remove_server(&mut self, id: &str) {
        self.servers.remove(id);
        for provider in self.providers.values_mut() {
            provider["allocations"].as_object_mut().unwrap().remove(id);
        }
    }

    fn action(&mut self, id: &str, body: &Value) -> Response {
        let Some(server) = self.servers.get(id).cloned() else { return error(404, "no such server") };
        let name = server["name"].as_str().unwrap().to_owned();
        if body.get("os-getConsoleOutput").is_some() {
            let text = self.console.clone().unwrap_or_else(|| format!("cirros\n{name} login: "));
            return reply(200, &json!({ "output": text }));
        }
        if body.get("confirmResize").is_some() {
            let Some(one) =
                self.migrations.iter_mut().find(|one| one["instance_uuid"] == id && one["status"] == "finished")
            else {
                return error(409, "the server is not in VERIFY_RESIZE");
            };
            one["status"] = "confirmed".into();
            self.servers.get_mut(id).unwrap()["status"] = "SHUTOFF".into();
            return StatusCode::NO_CONTENT.into_response();
        }
        let live = body.get("os-migrateLive").is_some();
        let status = server["status"].as_str().unwrap();
        if (live && !["ACTIVE", "PAUSED"].contains(&status)) || (!live && !["ACTIVE", "SHUTOFF"].contains(&status)) {
            return error(409, &format!("cannot migrate while it is in vm_state {status}"));
        }
        if live && body["os-migrateLive"]["block_migration"] != "auto" {
            return error(400, "block_migration must be auto here: disks are local");
        }
        if self.refuses.contains(id) {
            return error(400, "No valid host was found. There are not enough hosts available.");
        }
        let source = server["OS-EXT-SRV-ATTR:host"].as_str().unwrap().to_owned();
        let takes = |one: &&Value| one["host"] != source.as_str() && one["status"] == "enabled" && one["state"] == "up";
        let destination = self.services.values().find(takes).map(|one| one["host"].clone());
        let number = self.number();
        let failed = self.fails.contains(id) || destination.is_none();
        let kind = if live { "live-migration" } else { "migration" };
        self.migrations.push(json!({"id": number, "uuid": uuid(number), "instance_uuid": id, "source_compute": source,
            "dest_compute": destination, "status": if failed { "error" } else { "running" }, "migration_type": kind,
            "created_at": now(), "updated_at": now()}));
        StatusCode::ACCEPTED.into_response()
    }

    /// Ends what runs, one step with each look at it.
    fn work(&mut self) {
        for one in self.migrations.iter_mut().filter(|one| one["status"] == "running") {
            let id = one["instance_uuid"].as_str().unwrap().to_owned();
            if self.hangs.contains(&id) {
                continue;
            }
            let live = one["migration_type"] == "live-migration";
            one["status"] = if live { "completed" } else { "finished" }.into();
            let server = self.servers.get_mut(&id).unwrap();
            server["OS-EXT-SRV-ATTR:host"] = one["dest_compute"].clone();
            if !live {
                server["status"] = "VERIFY_RESIZE".into();
            }
            for provider in self.providers.values_mut() {
                provider["allocations"].as_object_mut().unwrap().remove(&id);
            }
        }
    }

    fn placement(&mut self, method: &str, path: &[&str], body: &Value) -> Response {
        match (method, path) {
            ("GET", ["traits", name]) if self.traits.contains(*name) => StatusCode::NO_CONTENT.into_response(),
            ("PUT", ["traits", name]) => {
                self.traits.insert((*name).to_owned());
                StatusCode::CREATED.into_response()
            }
            ("DELETE", ["allocations", id]) => {
                for provider in self.providers.values_mut() {
                    provider["allocations"].as_object_mut().unwrap().remove(*id);
                }
                StatusCode::NO_CONTENT.into_response()
            }
            (_, ["resource_providers", id, rest @ ..]) => {
                let Some(provider) = self.providers.get_mut(*id) else {
                    return error(404, "no such resource provider");
                };
                match (method, rest) {
                    ("GET", ["traits"]) => reply(
                        200,
                        &json!({"traits": provider["traits"], "resource_provider_generation": provider["generation"]}),
                    ),
                    ("PUT", ["traits"]) if body["resource_provider_generation"] != provider["generation"] => {
                        error(409, "the generation is another one")
                    }
                    ("PUT", ["traits"]) => {
                        let is_unknown = |name: &&Value| {
                            let name = name.as_str().unwrap();
                            name.starts_with("CUSTOM_") && !self.traits.contains(name)
                        };
                        if let Some(name) = body["traits"].as_array().unwrap().iter().find(is_unknown) {
                            return error(400, &format!("No such trait {name}"));
                        }
                        provider["traits"] = body["traits"].clone();
                        provider["generation"] = (provider["generation"].as_i64().unwrap() + 1).into();
                        reply(
                            200,
                            &json!({"traits": provider["traits"], "resource_provider_generation": provider["generation"]}),
                        )
                    }
                    ("GET", ["allocations"]) => reply(
                        200,
                        &json!({"allocations": provider["allocations"], "resource_provider_generation": provider["generation"]}),
                    ),
                    ("DELETE", []) if provider["allocations"].as_object().unwrap().is_empty() => {
                        self.providers.remove(*id);
                        StatusCode::NO_CONTENT.into_response()
                    }
                    ("DELETE", []) => error(409, "the provider has allocations"),
                    _ => error(404, "no such path"),
                }
            }
            _ => error(404, "no such path"),
        }
    }
}

fn listed<'a>(key: &str, all: impl Iterator<Item = &'a Value>) -> Response {
    reply(200, &json!({ key: all.collect::<Vec<_>>() }))
}
