//! A Nova over HTTP that remembers what was done to it, and a fence that can be held.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use c5c3_openstack::{Client, Cloud, Options, clouds};
use c5c3_operator_ha::{FenceAnswer, FenceRequest, FenceState, Fencer};
use futures::future::BoxFuture;
use http::{Method, StatusCode, Uri};
use serde_json::{Value, json};
use tokio::sync::watch;

#[derive(Clone, Debug)]
pub(crate) struct Guest {
    pub(crate) host: String,
    pub(crate) status: &'static str,
    pub(crate) task: Option<&'static str>,
    pub(crate) evacuations: usize,
    /// The user who stopped it, if one did; Nova itself is none.
    pub(crate) stopped_by: Option<&'static str>,
}

#[derive(Default)]
pub(crate) struct World {
    pub(crate) guests: BTreeMap<String, Guest>,
    /// Forced down, and the reason of those that are disabled.
    pub(crate) services: BTreeMap<String, (bool, Option<String>)>,
    migrations: Vec<(String, String, &'static str)>,
    /// The hosts that are off.
    pub(crate) off: BTreeSet<String>,
    /// Evacuations do not end.
    pub(crate) hold: bool,
    /// The fence does not confirm.
    pub(crate) fence_answers: Option<FenceState>,
    /// How often the servers of a host, or one server, were read.
    pub(crate) reads: usize,
    /// Reboots are accepted and do not bring the server up.
    pub(crate) breaks: bool,
    /// Everything that was done, in order.
    pub(crate) log: Vec<String>,
}

#[derive(Clone)]
pub(crate) struct Fakes {
    world: Arc<Mutex<World>>,
    done: watch::Sender<usize>,
    url: String,
}

impl Fakes {
    pub(crate) async fn start(hosts: &[&str], guests: &[(&str, &str, &'static str)]) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let guest = |(id, host, status): &(&str, &str, &'static str)| {
            ((*id).to_owned(), Guest { host: (*host).to_owned(), status, task: None, evacuations: 0, stopped_by: None })
        };
        let services = hosts.iter().map(|host| ((*host).to_owned(), (false, None))).collect();
        let world = World { guests: guests.iter().map(guest).collect(), services, ..World::default() };
        let fakes = Self { world: Arc::new(Mutex::new(world)), done: watch::Sender::new(0), url };
        let routes = Router::new().fallback(answer).with_state(fakes.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        fakes
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// A client of this Nova.
    pub(crate) fn client(&self) -> Client {
        let text = format!(
            "clouds: {{openstack: {{auth: {{auth_url: \"{}/v3\", username: admin, password: p, project_name: admin, \
             user_domain_name: Default, project_domain_name: Default}}, interface: internal}}}}",
            self.url
        );
        let (cloud, credential): (Cloud, _) = clouds::parse(&text, "openstack", None).unwrap();
        Client::new(cloud, credential, Options::default()).unwrap()
    }

    /// How often something was done, by what begins with this.
    pub(crate) fn count(&self, prefix: &str) -> usize {
        self.world().log.iter().filter(|line| line.starts_with(prefix)).count()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<usize> {
        self.done.subscribe()
    }

    fn record(&self, world: &mut World, what: String) {
        world.log.push(what);
        self.done.send_modify(|count| *count += 1);
    }

    fn nova(&self, method: &Method, path: &[&str], body: &Value) -> Result<Value, (StatusCode, String)> {
        let mut world = self.world();
        match (method, path) {
            (&Method::GET, ["os-services"]) => {
                Ok(json!({"services": world.services.iter().map(service).collect::<Vec<_>>()}))
            }
            (&Method::PUT, ["os-services", id]) => {
                let host = id.trim_start_matches("service-").to_owned();
                self.record(&mut world, format!("service {host} {body}"));
                let entry = world.services.get_mut(&host).unwrap();
                if let Some(down) = body["forced_down"].as_bool() {
                    entry.0 = down;
                }
                match body["status"].as_str() {
                    // The real one waits for an answer of the host.
                    Some("disabled") if !entry.0 => {
                        return Err((StatusCode::GATEWAY_TIMEOUT, "no answer of the host".into()));
                    }
                    Some("disabled") => entry.1 = body["disabled_reason"].as_str().map(Into::into),
                    Some("enabled") => entry.1 = None,
                    _ => {}
                }
                Ok(json!({}))
            }
            (&Method::GET, ["servers", "detail"]) => {
                let shown = json!({"servers": world.guests.iter().map(guest).collect::<Vec<_>>()});
                world.reads += 1;
                if !world.hold {
                    finish(&mut world);
                }
                Ok(shown)
            }
            (&Method::GET, ["servers", id, "os-instance-actions"]) => {
                let action = |guest: &Guest| {
                    let attached = json!({"action": "attach_volume", "user_id": "someone"});
                    json!({"instanceActions": [attached, {"action": "stop", "user_id": guest.stopped_by}]})
                };
                world.guests.get(*id).map(action).ok_or((StatusCode::NOT_FOUND, "no such server".into()))
            }
            (&Method::GET, ["servers", id]) => {
                world.reads += 1;
                let found = world.guests.get_key_value(*id).map(guest);
                found.map(|server| json!({"server": server})).ok_or((StatusCode::NOT_FOUND, "no such server".into()))
            }
            (&Method::GET, ["os-migrations"]) => {
                let one = |(server, source, status): &(String, String, &str)| json!({"instance_uuid": server, "source_compute": source, "status": status});
                Ok(json!({"migrations": world.migrations.iter().map(one).collect::<Vec<_>>()}))
            }
            (&Method::POST, ["servers", id, "action"]) => self.act(&mut world, id, body),
            _ => Err((StatusCode::NOT_IMPLEMENTED, format!("{method} {path:?}"))),
        }
    }

    fn act(&self, world: &mut World, id: &str, body: &Value) -> Result<Value, (StatusCode, String)> {
        let (what, _) = body.as_object().unwrap().iter().next().unwrap();
        self.record(world, format!("{what} {id}"));
        let breaks = world.breaks;
        let World { guests, services, off, migrations, .. } = world;
        let guest = guests.get_mut(id).unwrap();
        let conflict = |why: &str| Err((StatusCode::CONFLICT, why.to_owned()));
        match what.as_str() {
            _ if guest.task.is_some() => return conflict("the server is busy"),
            "evacuate" if !services[&guest.host].0 => return conflict("the compute service is still in use"),
            "evacuate" => {
                assert!(off.contains(&guest.host), "{id} would run twice: {} is on", guest.host);
                guest.task = Some("rebuilding");
                guest.evacuations += 1;
                migrations.push((id.to_owned(), guest.host.clone(), "accepted"));
            }
            "reboot" => {
                assert_eq!(body["reboot"]["type"], "HARD");
                guest.status = if breaks { "SHUTOFF" } else { "ACTIVE" };
            }
            "os-start" if guest.status == "SHUTOFF" => guest.status = "ACTIVE",
            other => return conflict(&format!("{other} of a server that is {}", guest.status)),
        }
        Ok(json!({}))
    }
}

/// Evacuated servers land stopped on the first other host that is on.
fn finish(world: &mut World) {
    let World { guests, services, off, migrations, .. } = world;
    for (id, guest) in guests.iter_mut().filter(|(_, guest)| guest.task == Some("rebuilding")) {
        let target = services.keys().find(|host| **host != guest.host && !off.contains(*host)).unwrap();
        (guest.host, guest.task, guest.status) = (target.clone(), None, "SHUTOFF");
        migrations.iter_mut().filter(|(server, ..)| server == id).for_each(|one| one.2 = "done");
    }
}

fn service((host, (down, reason)): (&String, &(bool, Option<String>))) -> Value {
    let status = if reason.is_some() { "disabled" } else { "enabled" };
    json!({"id": format!("service-{host}"), "host": host, "status": status, "forced_down": down, "disabled_reason": reason})
}

fn guest((id, guest): (&String, &Guest)) -> Value {
    let power = if guest.status == "ACTIVE" { 1 } else { 4 };
    json!({"id": id, "status": guest.status, "OS-EXT-STS:task_state": guest.task, "OS-EXT-STS:power_state": power,
        "OS-EXT-SRV-ATTR:host": guest.host})
}

async fn answer(State(fakes): State<Fakes>, method: Method, uri: Uri, body: Bytes) -> Response {
    let path: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
    let id = [("x-openstack-request-id", "req-1")];
    if let ["v3", "auth", "tokens"] = path[..] {
        let endpoint =
            json!({"interface": "internal", "region_id": "r", "region": "r", "url": format!("{}/nova", fakes.url)});
        let catalog = json!([{"type": "compute", "name": "nova", "endpoints": [endpoint]}]);
        let token = json!({"token": {"issued_at": "2026-01-31T12:00:00Z", "expires_at": "2026-01-31T18:00:00Z",
            "user": {"id": "user-1", "name": "admin"}, "project": {"id": "project-1", "name": "admin"},
            "catalog": catalog}});
        return (StatusCode::CREATED, [("x-subject-token", "token")], Json(token)).into_response();
    }
    let rest = path.iter().skip_while(|part| **part == "nova" || part.starts_with("v2")).copied().collect::<Vec<_>>();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    match fakes.nova(&method, &rest, &body) {
        Ok(done) => (id, Json(done)).into_response(),
        Err((status, message)) => {
            (status, id, Json(json!({"error": {"code": status.as_u16(), "message": message}}))).into_response()
        }
    }
}

impl Fencer for Fakes {
    fn fence<'a>(&'a self, request: &'a FenceRequest) -> BoxFuture<'a, Result<FenceAnswer, String>> {
        let mut world = self.world();
        let state = world.fence_answers.unwrap_or(FenceState::Off);
        if state == FenceState::Off && world.off.insert(request.node.clone()) {
            self.record(&mut world, format!("fence {}", request.node));
        }
        let answer = FenceAnswer { id: request.id.clone(), state, message: "by the test".into() };
        Box::pin(async move { Ok(answer) })
    }
}
