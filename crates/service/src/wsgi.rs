//! A WSGI application under uWSGI: its settings, its entry point, its container.
//!
//! Beside the application a small process says whether the database can be reached. It is what makes a pod ready, and never
//! what ends it: a pod without a database is taken out of the Service, and is there when the database is back. A pod that is
//! busy stays ready, for the others would be busier without it.

use c5c3_api::blocks::Resources;
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, ExecAction, HTTPGetAction, Lifecycle, LifecycleHandler, Probe, TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::pod::{container, resources};

/// How far above the API's port the one is that says whether the database can be reached.
const HEALTH: i32 = 20_000;

/// How long a pod that is to end may take for it: at first it goes on serving until nobody connects any more (`drain.py`
/// says for how long at most), then requests that are under way are finished.
pub const GRACE_SECONDS: i64 = 60;

/// The name of its container.
pub const CONTAINER: &str = "api";

/// How long those requests may take.
const MERCY_SECONDS: i64 = 20;

/// The longest that a request may take; a worker that is stuck is replaced after it.
const HARAKIRI_SECONDS: i32 = 60;

/// A WSGI application.
#[derive(Clone, Debug)]
pub struct Wsgi<'a> {
    /// The service, whose image has it in `/opt/<service>`.
    pub service: &'a str,
    /// The application, as `module:attribute`.
    pub application: &'a str,
    /// The port that it is served at.
    pub port: i32,
    /// A path that it answers without a token.
    pub path: &'a str,
    /// Where its files are mounted.
    pub folder: &'a str,
    /// How many processes serve it.
    pub processes: i32,
    /// How many threads each of them has.
    pub threads: i32,
    /// What is called before it is loaded: `{"call": "module:function", "args": [...]}`.
    pub hooks: Vec<Value>,
    /// What is called after it is loaded and before it serves, as `module:function`.
    pub warm: &'a [&'a str],
    /// Whether somebody else in the pod speaks TLS for it.
    pub tls: bool,
}

impl Wsgi<'_> {
    /// The port that it listens at: a second one, of the pod alone, if somebody else speaks TLS for it.
    pub fn own_port(&self) -> i32 {
        if self.tls { self.port + 10_000 } else { self.port }
    }

    /// The files that its container needs beside the service's own; `database` is what `pymysql.connect` takes.
    pub fn files(&self, database: &Value) -> [(&'static str, SecretString); 6] {
        let scheme = self.tls.then_some("https");
        let entry = json!({"application": self.application, "hooks": self.hooks, "warm": self.warm, "scheme": scheme});
        let health = json!({"database": database, "port": self.port + HEALTH});
        [
            ("uwsgi.ini", self.uwsgi().into()),
            ("entry.py", include_str!("entry.py").into()),
            ("entry.json", entry.to_string().into()),
            ("health.py", include_str!("health.py").into()),
            ("health.json", health.to_string().into()),
            ("drain.py", include_str!("drain.py").into()),
        ]
    }

    fn uwsgi(&self) -> String {
        let Self { folder, processes, threads, .. } = self;
        let host = if self.tls { "127.0.0.1" } else { "" };
        // On SIGTERM requests that are under way are finished. Headers hold tokens of any size.
        format!(
            "[uwsgi]\n\
             http-socket = {host}:{port}\n\
             wsgi-file = {folder}/entry.py\n\
             pythonpath = {folder}\n\
             mule = {folder}/health.py\n\
             master = true\n\
             processes = {processes}\n\
             threads = {threads}\n\
             enable-threads = true\n\
             lazy-apps = true\n\
             need-app = true\n\
             single-interpreter = true\n\
             thunder-lock = true\n\
             die-on-term = true\n\
             hook-master-start = unix_signal:15 gracefully_kill_them_all\n\
             exit-on-reload = true\n\
             worker-reload-mercy = {MERCY_SECONDS}\n\
             harakiri = {HARAKIRI_SECONDS}\n\
             buffer-size = 65535\n\
             http-auto-chunked = true\n\
             http-chunked-input = true\n\
             http-raw-body = true\n\
             add-header = Connection: close\n\
             disable-logging = true\n",
            port = self.own_port(),
        )
    }

    /// Waits before the end until nobody connects any more. uWSGI closes its socket at once when it is told to end, on all
    /// who wait there for a turn.
    fn drain(&self) -> Lifecycle {
        let python = format!("/opt/{}/bin/python", self.service);
        let script = format!("{}/drain.py", self.folder);
        let mut command = vec![python, "-IS".into(), script, self.port.to_string()];
        command.extend((self.own_port() != self.port).then(|| self.own_port().to_string()));
        let exec = ExecAction { command: Some(command) };
        Lifecycle {
            pre_stop: Some(LifecycleHandler { exec: Some(exec), ..LifecycleHandler::default() }),
            ..Lifecycle::default()
        }
    }

    /// The container.
    pub fn container(&self, image: &str, env: &[(&str, &str)], size: Option<&Resources>) -> Container {
        let program = format!("/opt/{}/bin/uwsgi", self.service);
        let settings = format!("{}/uwsgi.ini", self.folder);
        let api = HTTPGetAction {
            path: Some(self.path.into()),
            port: IntOrString::Int(self.port),
            scheme: self.tls.then(|| "HTTPS".into()),
            ..HTTPGetAction::default()
        };
        let health = HTTPGetAction { port: IntOrString::Int(self.port + HEALTH), ..HTTPGetAction::default() };
        let ports =
            vec![ContainerPort { name: Some("api".into()), container_port: self.port, ..ContainerPort::default() }];
        Container {
            ports: Some(ports).filter(|_| !self.tls),
            resources: resources(size),
            // Importing a service takes seconds on a quiet machine and many on a busy one.
            startup_probe: Some(Probe {
                http_get: Some(api),
                period_seconds: Some(1),
                timeout_seconds: Some(5),
                failure_threshold: Some(300),
                ..Probe::default()
            }),
            readiness_probe: Some(Probe {
                http_get: Some(health),
                period_seconds: Some(5),
                timeout_seconds: Some(5),
                failure_threshold: Some(2),
                ..Probe::default()
            }),
            // The listening socket, and not an answer: neither a lost database nor a burst of requests ends a pod.
            liveness_probe: Some(Probe {
                tcp_socket: Some(TCPSocketAction { port: IntOrString::Int(self.port), ..TCPSocketAction::default() }),
                period_seconds: Some(10),
                timeout_seconds: Some(5),
                failure_threshold: Some(6),
                ..Probe::default()
            }),
            lifecycle: Some(self.drain()),
            ..container(CONTAINER, image, &[&program, "--ini", &settings], env)
        }
    }
}
