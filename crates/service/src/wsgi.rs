//! A WSGI application under uWSGI: its settings, its entry point, its container.
//!
//! Beside the application a small process checks what the service cannot do without; see [`crate::health`]. It decides whether a
//! pod is ready, and never whether it is restarted: a pod without a database leaves the Service, and comes back with the
//! database. A pod that is busy stays ready, for the others would be busier without it.

use std::fmt::Write as _;

use c5c3_api::blocks::{LogFormat, Resources};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, ExecAction, HTTPGetAction, Lifecycle, LifecycleHandler, Probe, TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::health;
use crate::pod::{container, resources};

/// How many threads each process has, unless a service or a spec says otherwise.
pub const THREADS: i32 = 4;
/// How many processes each pod has.
pub const PROCESSES: i32 = 2;

/// How long a pod of a worker, or of an API with short requests, that is to end may take for it: at first it goes on serving until no client connects any more (`drain.py`
/// says for how long at most), then requests that are under way are finished.
pub const GRACE_SECONDS: i64 = 60;

/// The name of its container.
pub const CONTAINER: &str = "api";

/// How long those requests may take.
const MERCY_SECONDS: i64 = 20;

/// How long they may take where bodies are of any length, such as images.
const UPLOAD_SECONDS: i64 = 3600;

/// How long a client may send nothing in the middle of such a body.
const UPLOAD_PAUSE_SECONDS: i32 = 120;

/// The largest piece of such a body that a client may send at once: clients choose it, and one of 1 MiB would be refused.
const UPLOAD_PIECE_BYTES: i32 = 64 << 20;

/// The longest that a request may take, unless a service or a spec says otherwise; a worker that is stuck is replaced after it.
pub const HARAKIRI_SECONDS: i32 = 60;

/// How requests are logged: nothing of a query, which may hold a secret. The last word is the id that the service gave the request,
/// which its own logs and its answer have.
const ACCESS_TEXT: &str = "%(addr) \"%(method) %(var.PATH_INFO)\" %(status) %(rsize) %(msecs)ms %(var.C5C3_REQUEST_ID)";
const ACCESS_JSON: &str = "{\"time\":\"%(ltime)\",\"client\":\"%(addr)\",\"method\":\"%(method)\",\"path\":\"%(var.PATH_INFO)\",\"status\":%(status),\"bytes\":%(rsize),\"milliseconds\":%(msecs),\"request\":\"%(var.C5C3_REQUEST_ID)\"}";

/// Keeps the id of a request from the header of its answer, for the log.
const REQUEST_ID: &str = "collect-header = X-Openstack-Request-Id C5C3_REQUEST_ID";

/// A WSGI application.
#[derive(Clone, Debug)]
pub struct Wsgi {
    /// The component that it is: `api`, or the name of another one, which the names of its files have.
    pub name: &'static str,
    /// The service, whose image has it in `/opt/<service>`.
    pub service: &'static str,
    /// The application, as `module:attribute`.
    pub application: &'static str,
    /// The port that it is served at.
    pub port: i32,
    /// A path that it answers without a token.
    pub path: &'static str,
    /// Where its files are mounted.
    pub folder: &'static str,
    /// How many processes serve it.
    pub processes: i32,
    /// How many threads each of them has.
    pub threads: i32,
    /// The longest that a request may take, in seconds; 0 for any time.
    pub harakiri: i32,
    /// Whether bodies are of any length, and requests with them take as long as their clients do.
    pub uploads: bool,
    /// What the application finds in `sys.argv`.
    pub arguments: &'static [&'static str],
    /// Settings of uWSGI that the application looks for, as lines of `uwsgi.ini`.
    pub settings: &'static [&'static str],
    /// Commands that are run every so many minutes beside the application.
    pub every: Vec<(i32, String)>,
    /// Whether requests are logged, and how.
    pub access_log: Option<LogFormat>,
    /// What is called before it is loaded: `{"call": "module:function", "args": [...]}`.
    pub hooks: Vec<Value>,
    /// What is called after it is loaded and before it serves, as `module:function`.
    pub warm: &'static [&'static str],
    /// Whether a sidecar of the pod terminates TLS for it.
    pub tls: bool,
}

impl Wsgi {
    /// The port that it listens at: a second one, of the pod alone, if a sidecar terminates TLS for it.
    pub fn own_port(&self) -> i32 {
        if self.tls { self.port + 10_000 } else { self.port }
    }

    /// A WSGI application with the usual limits.
    pub fn new(service: &'static str, application: &'static str, port: i32) -> Self {
        Self {
            name: CONTAINER,
            service,
            application,
            port,
            path: "/",
            folder: "/etc",
            processes: PROCESSES,
            threads: THREADS,
            harakiri: HARAKIRI_SECONDS,
            uploads: false,
            arguments: &[],
            settings: &[],
            every: Vec::new(),
            access_log: None,
            hooks: Vec::new(),
            warm: &[],
            tls: false,
        }
    }

    /// The same for bodies of any length, and with more threads: each upload holds one.
    pub fn uploads(self) -> Self {
        Self { uploads: true, harakiri: 0, threads: 2 * THREADS, ..self }
    }

    /// How long a pod that is to end may take for it.
    pub(crate) fn grace_seconds(&self) -> i64 {
        GRACE_SECONDS - MERCY_SECONDS + self.mercy_seconds()
    }

    fn mercy_seconds(&self) -> i64 {
        if self.uploads { UPLOAD_SECONDS } else { MERCY_SECONDS }
    }

    /// The port that says whether the pod is ready.
    pub fn health_port(&self) -> i32 {
        self.port + health::PORT_OFFSET
    }

    /// The files that its container needs beside the service's own.
    pub fn files(&self) -> Vec<(String, SecretString)> {
        let scheme = self.tls.then_some("https");
        let entry = json!({"application": self.application, "hooks": self.hooks, "warm": self.warm, "scheme": scheme});
        let settings = self.file("entry", "json");
        let mut program = include_str!("entry.py").replace("entry.json", &settings);
        if self.uploads {
            program.push_str(include_str!("loaded.py"));
        }
        let mut files = vec![
            (self.file("uwsgi", "ini"), self.uwsgi().into()),
            (self.file("entry", "py"), program.into()),
            (settings, entry.to_string().into()),
            ("drain.py".to_owned(), include_str!("drain.py").into()),
        ];
        if self.name != CONTAINER {
            let health = include_str!("health.py").replace("health.json", &self.file("health", "json"));
            files.push((self.file("health", "py"), health.into()));
        }
        files
    }

    /// The name of one of its files: `uwsgi.ini` for the API, `uwsgi-metadata.ini` for another application.
    fn file(&self, base: &str, end: &str) -> String {
        if self.name == CONTAINER { format!("{base}.{end}") } else { format!("{base}-{}.{end}", self.name) }
    }

    fn uwsgi(&self) -> String {
        let Self { folder, processes, threads, harakiri, .. } = self;
        let logs = match self.access_log {
            None => "disable-logging = true".to_owned(),
            Some(LogFormat::Text) => format!("{REQUEST_ID}\nlog-format = {ACCESS_TEXT}"),
            Some(LogFormat::Json) => format!("{REQUEST_ID}\nlog-format = {ACCESS_JSON}"),
        };
        let mut more = String::new();
        if *harakiri > 0 {
            let _ = writeln!(more, "harakiri = {harakiri}");
        }
        if self.uploads {
            let _ = writeln!(more, "socket-timeout = {UPLOAD_PAUSE_SECONDS}");
            let _ = writeln!(more, "chunked-input-timeout = {UPLOAD_PAUSE_SECONDS}");
            let _ = writeln!(more, "chunked-input-limit = {UPLOAD_PIECE_BYTES}");
        }
        for argument in self.arguments {
            let _ = writeln!(more, "pyargv = {argument}");
        }
        for setting in self.settings {
            let _ = writeln!(more, "{setting}");
        }
        for (minutes, command) in &self.every {
            let _ = writeln!(more, "cron2 = minute=-{minutes},unique=1 {command}");
        }
        let mercy = self.mercy_seconds();
        let host = if self.tls { "127.0.0.1" } else { "" };
        // On SIGTERM requests that are under way are finished. Headers hold tokens of any size.
        format!(
            "[uwsgi]\n\
             http-socket = {host}:{port}\n\
             wsgi-file = {folder}/{entry}\n\
             pythonpath = {folder}\n\
             mule = {folder}/{health}\n\
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
             worker-reload-mercy = {mercy}\n\
             {more}\
             buffer-size = 65535\n\
             http-auto-chunked = true\n\
             http-chunked-input = true\n\
             http-raw-body = true\n\
             add-header = Connection: close\n\
             {logs}\n",
            port = self.own_port(),
            entry = self.file("entry", "py"),
            health = self.file("health", "py"),
        )
    }

    /// Waits before the end until no client connects any more. uWSGI closes its socket at once when it is told to end, on all
    /// who wait there for a turn.
    fn drain(&self) -> Lifecycle {
        let python = format!("/opt/{}/bin/python", self.service);
        let script = format!("{}/drain.py", self.folder);
        let mut command = vec![python, "-IS".into(), script, self.port.to_string()];
        command.extend((self.own_port() != self.port).then(|| self.own_port().to_string()));
        if self.uploads {
            // `loaded.py` looks for the mark. Where nothing is uploaded, a pod has a minute in any case.
            let mark = ["sh", "-c", r#"touch /run/draining; exec "$@""#, "drain"];
            command.splice(0..0, mark.map(ToOwned::to_owned));
        }
        let exec = ExecAction { command: Some(command) };
        Lifecycle {
            pre_stop: Some(LifecycleHandler { exec: Some(exec), ..LifecycleHandler::default() }),
            ..Lifecycle::default()
        }
    }

    /// The container.
    pub fn container(&self, image: &str, env: &[(&str, &str)], size: Option<&Resources>) -> Container {
        let program = format!("/opt/{}/bin/uwsgi", self.service);
        let settings = format!("{}/{}", self.folder, self.file("uwsgi", "ini"));
        let api = HTTPGetAction {
            path: Some(self.path.into()),
            port: IntOrString::Int(self.port),
            scheme: self.tls.then(|| "HTTPS".into()),
            ..HTTPGetAction::default()
        };
        let health = |path: &str| HTTPGetAction {
            path: Some(path.into()),
            port: IntOrString::Int(self.health_port()),
            ..HTTPGetAction::default()
        };
        // With TLS the application listens on the loopback alone, so that the process beside it is asked.
        let (alive, listens) = if self.tls {
            (Some(health(health::LIVE_PATH)), None)
        } else {
            let port = IntOrString::Int(self.port);
            (None, Some(TCPSocketAction { port, ..TCPSocketAction::default() }))
        };
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
            // Patient: to take a slow pod out gives its load to the others, which are as slow, and a pod alone then refuses everybody.
            readiness_probe: Some(Probe {
                http_get: Some(health(health::READY_PATH)),
                period_seconds: Some(5),
                timeout_seconds: Some(12),
                failure_threshold: Some(3),
                ..Probe::default()
            }),
            // The listening socket, and not an answer: neither a lost database nor a burst of requests ends a pod.
            liveness_probe: Some(Probe {
                http_get: alive,
                tcp_socket: listens,
                period_seconds: Some(10),
                timeout_seconds: Some(5),
                failure_threshold: Some(6),
                ..Probe::default()
            }),
            lifecycle: Some(self.drain()),
            ..container(self.name, image, &[&program, "--ini", &settings], env)
        }
    }
}
