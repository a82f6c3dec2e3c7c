//! A server of somebody's, which may not be there: a Job that needs it asks first, and fails at once with what is wrong.
//!
//! Clients of databases try for minutes before they say anything, and then say it in the midst of a trace. The pod asks,
//! not the operator: what matters is what the service can reach.

use c5c3_kit::Child;
use k8s_openapi::api::core::v1::Container;
use serde_json::json;

use crate::pod::container;

/// The program that asks: `ask.py HOST PORT`.
const ASK: &str = include_str!("ask.py");

/// How it ends when there is no answer: `EX_UNAVAILABLE` of sysexits.
const UNAVAILABLE: i32 = 69;

/// A server that has to answer before a Job does anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    /// What it is, in one word.
    pub what: &'static str,
    /// Host.
    pub host: String,
    /// Port.
    pub port: i32,
    /// The field that names it.
    pub field: &'static str,
}

impl Outside {
    fn container_name(&self) -> String {
        format!("reach-{}", self.what)
    }

    /// The container that asks. What it says last becomes the pod's status.
    pub(crate) fn container(&self, image: &str, python: &str) -> Container {
        let port = self.port.to_string();
        let asks = container(&self.container_name(), image, &[python, "-c", ASK, &self.host, &port], &[]);
        Container { termination_message_policy: Some("FallbackToLogsOnError".into()), ..asks }
    }

    /// Fails the Job with the first pod that gets no answer, and says what the Job needs.
    pub(crate) fn explain(&self, job: Child) -> Child {
        let mut job = job
            .because(format!("it needs the {} at {}:{}, which {} names", self.what, self.host, self.port, self.field));
        job.object.data["spec"]["podFailurePolicy"] = json!({"rules": [{
            "action": "FailJob",
            "onExitCodes": {"containerName": self.container_name(), "operator": "In", "values": [UNAVAILABLE]},
        }]});
        job
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
