//! An external server, which may be unreachable: a Job that needs it connects first, and fails at once with the reason.
//!
//! Database clients retry for minutes before they report anything, and then in the middle of a stack trace. The pod
//! connects, not the operator: what matters is what the service can egress.

use c5c3_api::blocks::Resources;
use c5c3_kit::Child;
use k8s_openapi::api::core::v1::Container;

use crate::job::fail_at_once;
use crate::pod::{container, resources};

/// The program that asks: `ask.py HOST PORT`.
const ASK: &str = include_str!("ask.py");

/// How it ends when there is no answer: `EX_UNAVAILABLE` of sysexits.
const UNAVAILABLE: i32 = 69;

/// A server that has to answer before a Job does anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalServer {
    /// What it is, in one word.
    pub what: &'static str,
    /// Which one it is among those of a service.
    pub name: String,
    /// Host.
    pub host: String,
    /// Port.
    pub port: i32,
    /// The field that names it.
    pub field: String,
}

impl ExternalServer {
    fn container_name(&self) -> String {
        format!("reach-{}", self.name)
    }

    /// The container that connects. What it prints last becomes the pod's status.
    pub(crate) fn container(&self, image: &str, python: &str, size: Option<&Resources>) -> Container {
        let port = self.port.to_string();
        let asks = container(&self.container_name(), image, &[python, "-c", ASK, &self.host, &port], &[]);
        Container {
            termination_message_policy: Some("FallbackToLogsOnError".into()),
            resources: resources(size),
            ..asks
        }
    }

    /// Fails the Job with the first pod that cannot connect, and says what the Job needs.
    pub(crate) fn explain(servers: &[Self], job: Child) -> Child {
        if servers.is_empty() {
            return job;
        }
        let needs = |server: &Self| {
            format!("the {} at {}:{}, which {} names", server.what, server.host, server.port, server.field)
        };
        let needed: Vec<String> = servers.iter().map(needs).collect();
        let job = servers.iter().fold(job, |job, server| fail_at_once(job, &server.container_name(), UNAVAILABLE));
        job.because(format!("it needs {}", needed.join(" and ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_ends_as_the_job_expects() {
        assert!(ASK.contains(&format!("sys.exit({UNAVAILABLE})")));
    }
}
