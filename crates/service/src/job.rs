//! Jobs that a service needs once: for its database, for its first objects.

use std::collections::BTreeMap;

use c5c3_api::blocks::{Resources, Scheduling};
use c5c3_kit::{Child, job};
use k8s_openapi::api::core::v1::Container;
use serde_json::{Value, json};

use crate::external_server::ExternalServer;
use crate::instance::Instance;
use crate::pod::{Mount, Pod, Shared, container, resources};

/// How often a Job tries before it has failed.
const TRIES: i32 = 4;

/// How long a Job may take in all; what takes longer has hung.
const DEADLINE_SECONDS: i64 = 6 * 3600;

/// Label of all pods of Jobs, by which their NetworkPolicy selects them.
pub const JOB_POD: (&str, &str) = ("c5c3.io/job-pod", "true");

/// A command of a Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The program and its arguments.
    pub args: Vec<String>,
    /// The highest exit status that counts as success.
    pub tolerates: i32,
}

impl Command {
    /// A command that succeeds with exit status 0 alone.
    pub fn new(args: &[&str]) -> Self {
        Self { args: args.iter().map(|arg| (*arg).to_owned()).collect(), tolerates: 0 }
    }

    /// Takes an exit status up to this for success: warnings of `upgrade check`.
    pub fn tolerating(self, status: i32) -> Self {
        Self { tolerates: status, ..self }
    }

    /// The arguments of a container; `python` runs those that tolerate something.
    fn container_args(&self, python: &str) -> Vec<String> {
        const RUN: &str = "import subprocess, sys; status = subprocess.call(sys.argv[2:]); sys.exit(0 if 0 <= status <= int(sys.argv[1]) else max(status, 1))";
        if self.tolerates == 0 {
            return self.args.clone();
        }
        let before = [python.to_owned(), "-c".into(), RUN.into(), self.tolerates.to_string()];
        before.into_iter().chain(self.args.clone()).collect()
    }
}

/// Something that is run once, by one command after another.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// Whose.
    pub instance: &'a Instance,
    /// What it is called, such as `db-sync`.
    pub what: &'a str,
    /// The image.
    pub image: &'a str,
    /// The commands. Each starts when the one before it has succeeded.
    pub commands: &'a [Command],
    /// Servers that have to answer before them.
    pub servers: Vec<ExternalServer>,
    /// The environment of all of them.
    pub env: &'a [(&'a str, &'a str)],
    /// Its folders.
    pub mounts: Vec<Mount>,
    /// What all pods of the instance have in common.
    pub shared: &'a Shared,
    /// What each of its containers asks for.
    pub resources: Option<&'a Resources>,
    /// Where its pod goes.
    pub scheduling: Option<&'a Scheduling>,
    /// What it depends on beside image and commands: with another value it is run again. What is not named here, such as a
    /// label or a certificate's folder, is no reason to run it again.
    pub identity: Value,
    /// Jobs of one group never run at the same time.
    pub group: Option<&'static str>,
}

impl Run<'_> {
    /// The Job.
    pub fn child(self) -> Child {
        let python = format!("/opt/{}/bin/python", self.instance.service);
        let mut containers: Vec<Container> = self
            .commands
            .iter()
            .enumerate()
            .map(|(index, command)| {
                let last = index + 1 == self.commands.len();
                let name = if last { self.what.to_owned() } else { format!("{}-{}", self.what, index + 1) };
                let args = command.container_args(&python);
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                Container {
                    resources: resources(self.resources),
                    // The last lines become the pod's status, so that they can be quoted.
                    termination_message_policy: Some("FallbackToLogsOnError".into()),
                    ..container(&name, self.image, &args, self.env)
                }
            })
            .collect();
        let main = containers.pop().into_iter().collect();
        let asks = self.servers.iter().map(|server| server.container(self.image, &python, self.resources));
        containers.splice(0..0, asks.collect::<Vec<_>>());
        let commands: Vec<&[String]> = self.commands.iter().map(|command| command.args.as_slice()).collect();
        let identity = json!({"image": self.image, "commands": commands, "inputs": self.identity});
        let pod = Pod {
            instance: self.instance,
            component: self.what,
            shared: self.shared,
            containers: main,
            init_containers: containers,
            mounts: self.mounts,
            scheduling: self.scheduling,
            service_account: None,
            annotations: BTreeMap::new(),
        };
        let mut template = pod.template();
        if let Some(spec) = &mut template.spec {
            spec.restart_policy = Some("Never".into());
        }
        if let Some(metadata) = &mut template.metadata {
            metadata.labels.get_or_insert_default().insert(JOB_POD.0.into(), JOB_POD.1.into());
        }
        let base = self.instance.named(self.what);
        let mut child = job::run_once(&self.instance.namespace, &base, &identity, template, TRIES);
        child.object.metadata.labels.get_or_insert_default().extend(self.instance.labels(self.what));
        // What changes a schema is not cut short, however long it takes.
        if self.group.is_none() {
            child.object.data["spec"]["activeDeadlineSeconds"] = DEADLINE_SECONDS.into();
        }
        let child = match self.group {
            Some(group) => child.job_group(group),
            None => child,
        };
        ExternalServer::explain(&self.servers, child)
    }
}

/// Fails a Job with the first pod in which a container ends with this status: another attempt would end in the same way, and the
/// reason is reported only when the Job has failed.
pub fn fail_at_once(mut job: Child, container: &str, status: i32) -> Child {
    let on = json!({"containerName": container, "operator": "In", "values": [status]});
    let rule = json!({"action": "FailJob", "onExitCodes": on});
    let policy = &mut job.object.data["spec"]["podFailurePolicy"];
    match policy["rules"].as_array_mut() {
        Some(rules) => rules.push(rule),
        None => *policy = json!({ "rules": [rule] }),
    }
    job
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(image: &str, label: &str, identity: &Value) -> String {
        let instance = Instance { service: "kestrel", name: "gate".into(), namespace: "cloud".into() };
        let commands = [Command::new(&["kestrel-manage", "db", "sync"])];
        let shared = Shared { pull_secrets: vec![label.into()], ..Shared::default() };
        let run = Run {
            instance: &instance,
            what: "db-sync",
            image,
            commands: &commands,
            servers: Vec::new(),
            env: &[],
            mounts: Vec::new(),
            shared: &shared,
            resources: None,
            scheduling: None,
            identity: identity.clone(),
            group: None,
        };
        run.child().reference().name
    }

    #[test]
    fn a_job_is_run_again_for_another_image_or_input_and_for_nothing_else() {
        let once = name("kestrel:1", "a", &json!({"schema": "x"}));
        assert_eq!(once, name("kestrel:1", "b", &json!({"schema": "x"})));
        assert_ne!(once, name("kestrel:2", "a", &json!({"schema": "x"})));
        assert_ne!(once, name("kestrel:1", "a", &json!({"schema": "y"})));
    }

    #[test]
    fn warnings_can_be_tolerated() {
        let check = Command::new(&["kestrel-status", "upgrade", "check"]).tolerating(1);
        let args = check.container_args("python");
        assert_eq!(args[0], "python");
        assert_eq!(args[3..], ["1", "kestrel-status", "upgrade", "check"]);
    }
}
