//! A Keystone and a Nova in memory, as far as live migrations need them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

#[derive(Default)]
pub(crate) struct World {
    pub(crate) servers: BTreeMap<String, Value>,
    pub(crate) migrations: Vec<Value>,
    /// The live migrations that were asked for: the server and the target.
    pub(crate) asked: Vec<(String, String)>,
    /// What Nova does with the next ones.
    pub(crate) mood: Mood,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Mood {
    /// It moves the server at the next look.
    #[default]
    Moves,
    /// It moves the server when that is said.
    Takes,
    /// It takes the call, and gives it up.
    Fails,
    /// It says that the target does not fit.
    Refuses,
    /// It takes the call, and never answers it.
    Hangs,
}

#[derive(Clone)]
pub(crate) struct Nova {
    url: String,
    world: Arc<Mutex<World>>,
}

impl Nova {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let nova = Self { url, world: Arc::default() };
        let routes = Router::new().fallback(answer).with_state(nova.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        nova
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// A clouds.yaml for it.
    pub(crate) fn clouds(&self) -> String {
        format!(
            "clouds: {{openstack: {{auth: {{auth_url: \"{}/v3\", username: admin, password: p, project_name: admin, \
             user_domain_name: Default, project_domain_name: Default}}, interface: internal}}}}",
            self.url
        )
    }

    pub(crate) fn add(&self, id: &str, host: &str, memory: u64) {
        let server = json!({"id": id, "name": format!("web-{id}"), "status": "ACTIVE", "tenant_id": "red", "image": "",
            "OS-EXT-STS:task_state": null, "OS-EXT-SRV-ATTR:host": host, "server_groups": [],
            "flavor": {"original_name": "small", "vcpus": 1, "ram": memory, "disk": 1, "ephemeral": 0, "swap": 0, "extra_specs": {}}});
        self.world().servers.insert(id.to_owned(), server);
    }

    pub(crate) fn asked(&self) -> Vec<(String, String)> {
        self.world().asked.clone()
    }
}

impl World {
    /// Ends the migrations that run.
    pub(crate) fn work(&mut self) {
        for one in self.migrations.iter_mut().filter(|one| one["status"] == "running") {
            one["status"] = "completed".into();
            let server = self.servers.get_mut(one["instance_uuid"].as_str().unwrap()).unwrap();
            server["OS-EXT-SRV-ATTR:host"] = one["dest_compute"].clone();
            server["OS-EXT-STS:task_state"] = Value::Null;
        }
    }

    fn migrate(&mut self, id: &str, body: &Value) -> (StatusCode, Value) {
        let said = |status, what: &str| (status, json!({"error": {"message": what}}));
        let target = body["os-migrateLive"]["host"].as_str().unwrap().to_owned();
        let Some(server) = self.servers.get_mut(id) else { return said(StatusCode::NOT_FOUND, "no such server") };
        if !server["OS-EXT-STS:task_state"].is_null() {
            return said(StatusCode::CONFLICT, "the server is busy");
        }
        self.asked.push((id.to_owned(), target.clone()));
        if self.mood == Mood::Refuses {
            return said(StatusCode::BAD_REQUEST, "No valid host was found");
        }
        let fails = self.mood == Mood::Fails;
        if !fails {
            server["OS-EXT-STS:task_state"] = "migrating".into();
        }
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S").to_string();
        self.migrations.push(json!({"id": self.migrations.len() + 1, "instance_uuid": id, "dest_compute": target,
            "source_compute": server["OS-EXT-SRV-ATTR:host"], "status": if fails { "error" } else { "running" },
            "created_at": now, "updated_at": now}));
        (StatusCode::ACCEPTED, Value::Null)
    }

    fn answer(&mut self, method: &str, path: &[&str], query: &str, body: &Value) -> (StatusCode, Value) {
        match (method, path) {
            ("GET", ["servers", "detail"]) => {
                let is_there =
                    |one: &&Value| query.contains(&format!("host={}", one["OS-EXT-SRV-ATTR:host"].as_str().unwrap()));
                (StatusCode::OK, json!({"servers": self.servers.values().filter(is_there).collect::<Vec<_>>()}))
            }
            ("GET", ["servers", id]) => match self.servers.get(*id) {
                Some(server) => (StatusCode::OK, json!({"server": server})),
                None => (StatusCode::NOT_FOUND, json!({"itemNotFound": {"message": "no such server"}})),
            },
            ("GET", ["os-migrations"]) => {
                assert!(query.contains("changes-since="), "all migrations there ever were");
                if self.mood == Mood::Moves {
                    self.work();
                }
                (StatusCode::OK, json!({"migrations": self.migrations}))
            }
            ("POST", ["servers", id, "action"]) => self.migrate(id, body),
            _ => (StatusCode::NOT_FOUND, json!({"itemNotFound": {"message": format!("{method} {path:?}")}})),
        }
    }
}

async fn answer(State(nova): State<Nova>, method: Method, uri: Uri, body: Bytes) -> Response {
    let path: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
    if let ["v3", "auth", "tokens"] = path[..] {
        let endpoint =
            json!({"interface": "internal", "region_id": "r", "region": "r", "url": format!("{}/nova", nova.url)});
        let catalog = json!([{"type": "compute", "name": "nova", "endpoints": [endpoint]}]);
        let token = json!({"token": {"issued_at": "2026-01-31T12:00:00Z", "expires_at": "2060-01-31T18:00:00Z",
            "user": {"id": "user-1a2b", "name": "admin"}, "project": {"id": "project-3c4d", "name": "admin"}, "catalog": catalog}});
        return (StatusCode::CREATED, [("x-subject-token", "token")], axum::Json(token)).into_response();
    }
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let (status, told, hangs) = {
        let mut world = nova.world();
        let (status, told) = world.answer(method.as_str(), &path[1..], uri.query().unwrap_or_default(), &body);
        (status, told, method == Method::POST && world.mood == Mood::Hangs)
    };
    if hangs {
        std::future::pending::<()>().await;
    }
    (status, axum::Json(told)).into_response()
}
