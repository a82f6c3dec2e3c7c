//! One attempt of a probe: a command, an HTTP request, a connection, a gRPC call.

use std::time::Duration;

use c5c3_cri::Runtime;
use k8s_openapi::api::core::v1::{Container as Spec, ContainerPort, HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{grpc, http};

/// As much of an output as an event holds well.
const LONGEST_OUTPUT: usize = 1024;

/// Why an attempt was not good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The container says no.
    Failed(String),
    /// It could not be asked.
    Errored(String),
}

/// The run of a container that is probed.
pub(crate) struct Target {
    runtime: Runtime,
    name: String,
    id: String,
    ports: Vec<ContainerPort>,
    pod_ip: String,
}

impl Target {
    pub(crate) fn new(runtime: Runtime, spec: &Spec, id: &str, pod_ip: &str) -> Self {
        Self {
            runtime,
            name: spec.name.clone(),
            id: id.to_owned(),
            ports: spec.ports.clone().unwrap_or_default(),
            pod_ip: pod_ip.to_owned(),
        }
    }

    pub(super) fn container(&self) -> &str {
        &self.name
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) async fn try_once(&self, probe: &Probe) -> Result<(), Failure> {
        let limit = probe.timeout_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(1).max(1);
        let limit = Duration::from_secs(limit);
        if let Some(exec) = &probe.exec {
            return self.exec(exec.command.clone().unwrap_or_default(), limit).await;
        }
        if let Some(get) = &probe.http_get {
            return http_get(self, get, limit).await;
        }
        if let Some(tcp) = &probe.tcp_socket {
            let host = tcp.host.as_deref().filter(|host| !host.is_empty()).unwrap_or(&self.pod_ip);
            return connect(host, self.port(&tcp.port)?, limit).await;
        }
        if let Some(grpc) = &probe.grpc {
            let service = grpc.service.as_deref().unwrap_or_default();
            return grpc::check(&self.pod_ip, grpc.port, service, limit).await;
        }
        Err(Failure::Errored("missing probe handler".to_owned()))
    }

    async fn exec(&self, command: Vec<String>, limit: Duration) -> Result<(), Failure> {
        match self.runtime.exec_sync(&self.id, command.clone(), Some(limit)).await {
            Ok(done) if done.exit_code == 0 => Ok(()),
            Ok(done) => {
                let output = [done.stdout, done.stderr].concat();
                let mut output = String::from_utf8_lossy(&output).into_owned();
                output.truncate(output.floor_char_boundary(LONGEST_OUTPUT));
                Err(Failure::Failed(output))
            }
            Err(error) if error.is_timeout() => {
                Err(Failure::Failed(format!("command timed out: \"{}\" timed out after {limit:?}", command.join(" "))))
            }
            Err(error) => Err(Failure::Errored(format!("rpc error: {error}"))),
        }
    }

    /// The number of a port that may be given by its name.
    pub(crate) fn port(&self, port: &IntOrString) -> Result<u16, Failure> {
        let number = match port {
            IntOrString::Int(number) => Some(*number),
            IntOrString::String(name) => {
                let named = self.ports.iter().find(|port| port.name.as_ref() == Some(name));
                named.map(|port| port.container_port).or_else(|| name.parse().ok())
            }
        };
        number.and_then(|number| u16::try_from(number).ok()).filter(|number| *number > 0).ok_or_else(|| {
            let shown = match port {
                IntOrString::Int(number) => number.to_string(),
                IntOrString::String(name) => name.clone(),
            };
            Failure::Errored(format!("couldn't find port: {shown}"))
        })
    }
}

/// Asks for a page; redirections within the host are followed.
pub(crate) async fn http_get(target: &Target, get: &HTTPGetAction, limit: Duration) -> Result<(), Failure> {
    let scheme = get.scheme.as_deref().unwrap_or("HTTP").to_lowercase();
    let host = get.host.as_deref().filter(|host| !host.is_empty()).unwrap_or(&target.pod_ip);
    let path = get.path.as_deref().unwrap_or("/");
    let request = http::Get {
        is_tls: scheme == "https",
        host: host.to_owned(),
        port: target.port(&get.port)?,
        path: if path.starts_with('/') { path.to_owned() } else { format!("/{path}") },
        headers: get.http_headers.iter().flatten().map(|one| (one.name.clone(), one.value.clone())).collect(),
    };
    let url = format!("{scheme}://{}:{}{}", request.host, request.port, request.path);
    match timeout(limit, http::status(request)).await {
        Ok(Ok(status)) if (200..400).contains(&status) => Ok(()),
        Ok(Ok(status)) => Err(Failure::Failed(format!("HTTP probe failed with statuscode: {status}"))),
        Ok(Err(error)) => Err(Failure::Failed(format!("Get \"{url}\": {error}"))),
        Err(_) => Err(Failure::Failed(format!(
            "Get \"{url}\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        ))),
    }
}

async fn connect(host: &str, port: u16, limit: Duration) -> Result<(), Failure> {
    match timeout(limit, TcpStream::connect((host, port))).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(Failure::Failed(format!("dial tcp {host}:{port}: {error}"))),
        Err(_) => Err(Failure::Failed(format!("dial tcp {host}:{port}: i/o timeout"))),
    }
}
