//! What a pod checks of the servers that its service cannot do without: databases and message brokers.
//!
//! `health.py` runs beside a WSGI application and answers over HTTP; in the pod of a worker it runs once per probe.

use k8s_openapi::api::core::v1::{ExecAction, Probe, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::wsgi::Wsgi;

/// How far above the API's port the one of `health.py` is.
pub const PORT_OFFSET: i32 = 20_000;

/// The path that says whether the pod can serve.
pub const READY_PATH: &str = "/";
/// The path of the service's own report.
pub(crate) const REPORT_PATH: &str = "/report";
/// The path that says whether the application listens.
pub const LIVE_PATH: &str = "/alive";

/// A server that a pod must reach to be ready.
#[derive(Clone, Debug)]
pub enum Check {
    /// A database, as `pymysql.connect` takes it.
    Database(Value),
    /// One of these addresses must accept connections: a message broker's nodes.
    AnyOf(Vec<(String, i32)>),
}

impl Check {
    fn json(&self) -> Value {
        match self {
            Self::Database(connection) => json!({ "database": connection }),
            Self::AnyOf(addresses) => json!({ "anyOf": addresses }),
        }
    }
}

/// The file of a component's settings; that of the API without a name.
pub(crate) fn settings(component: Option<&str>) -> String {
    component.map_or_else(|| "health.json".to_owned(), |component| format!("health-{component}.json"))
}

/// The settings: what is checked, and for a web application where it answers, where the application listens, which Ceph pools
/// it is asked about, and what the service's own report needs to know.
pub(crate) fn content(checks: &[Check], wsgi: Option<&Wsgi>, pools: &[Value], report: Option<Value>) -> SecretString {
    let checks: Vec<Value> = checks.iter().map(Check::json).collect();
    let (port, application) = (wsgi.map(Wsgi::health_port), wsgi.map(Wsgi::own_port));
    let mut settings = json!({"checks": checks, "port": port, "application": application});
    if let Some(wsgi) = wsgi.filter(|_| !pools.is_empty() || report.is_some()) {
        settings["python"] = format!("/opt/{}/bin/python", wsgi.service).into();
        if !pools.is_empty() {
            settings["pools"] = pools.into();
        }
        if let Some(report) = report {
            settings["report"] = report;
        }
    }
    settings.to_string().into()
}

/// The readiness of a pod without a port.
pub(crate) fn probe(python: &str, folder: &str, component: &str) -> Probe {
    let settings = settings(Some(component));
    let command = vec![python.to_owned(), format!("{folder}/health.py"), "once".into(), settings];
    Probe {
        exec: Some(ExecAction { command: Some(command) }),
        // An interpreter is started for each of them.
        period_seconds: Some(30),
        timeout_seconds: Some(10),
        failure_threshold: Some(2),
        ..Probe::default()
    }
}

/// Whether something listens at a port of a pod, asked every so many seconds.
pub(crate) fn listens(port: i32, period_seconds: i32, failure_threshold: i32) -> Probe {
    Probe {
        tcp_socket: Some(TCPSocketAction { port: IntOrString::Int(port), host: None }),
        period_seconds: Some(period_seconds),
        timeout_seconds: Some(5),
        failure_threshold: Some(failure_threshold),
        ..Probe::default()
    }
}
