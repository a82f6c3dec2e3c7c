//! Commands to a Ceph cluster, run in the pod of a monitor that is ready: as Rook runs `ceph`, but not in a pod of its own.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::{Api, AttachParams, ListParams};
use kube::{Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::failure::Error;
use crate::pods::is_ready;

/// How long a command may take. Ceph's own patience with monitors that do not answer is 300 s.
const PATIENCE: Duration = Duration::from_secs(45);

/// The same limit for `ceph` itself, while it looks for a monitor.
const CONNECT: [&str; 2] = ["--connect-timeout", "10"];

/// What a program says that finds nothing by that name (ENOENT).
pub(super) const NOT_FOUND: i32 = 2;

/// Runs the command that it gets, with its own standard input decoded: a stream of an exec has no end that a program could
/// wait for, so that one line holds all of it.
const WITH_INPUT: &str = r#"IFS= read -r line; printf %s "$line" | base64 -d | "$@""#;

/// A command. What it is given may be a key, and is not shown.
#[derive(Clone, PartialEq)]
pub(super) struct Command {
    arguments: Vec<String>,
    input: Option<String>,
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.arguments.join(" "))
    }
}

impl Command {
    /// A command of any program.
    pub(super) fn of<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Self {
        Self { arguments: arguments.into_iter().map(str::to_owned).collect(), input: None }
    }

    /// A command of `ceph` that answers in JSON.
    pub(super) fn ceph<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Self {
        Self::of(["ceph"].into_iter().chain(CONNECT).chain(["--format", "json"]).chain(arguments))
    }

    /// With something to read.
    pub(super) fn with_input(self, input: String) -> Self {
        Self { input: Some(input), ..self }
    }

    fn line(&self) -> Vec<String> {
        if self.input.is_none() {
            return self.arguments.clone();
        }
        let shell = ["sh", "-c", WITH_INPUT, "with-input"].map(str::to_owned);
        shell.into_iter().chain(self.arguments.iter().cloned()).collect()
    }
}

/// What a command said.
pub(super) struct Output {
    pub(super) code: i32,
    pub(super) said: String,
    complained: String,
}

/// The monitors of a cluster that are ready.
pub(super) struct Ceph {
    client: Client,
    namespace: String,
    pods: Vec<String>,
}

impl Ceph {
    /// The cluster of a namespace; none while no monitor is ready.
    pub(super) async fn of(client: &Client, namespace: &str) -> Result<Option<Self>, Error> {
        let pods = Api::<Pod>::namespaced(client.clone(), namespace);
        let mons = ListParams::default().labels("app=rook-ceph-mon");
        let mons = pods.list(&mons).await.map_err(Error::api("list the pods of monitors"))?;
        let mut pods: Vec<String> = mons.iter().filter(|pod| is_ready(pod)).map(ResourceExt::name_any).collect();
        pods.sort();
        Ok((!pods.is_empty()).then(|| Self { client: client.clone(), namespace: namespace.to_owned(), pods }))
    }

    /// Runs a command where a monitor is; of several, the first that can run it.
    pub(super) async fn output(&self, command: &Command) -> Result<Output, Error> {
        let mut last = None;
        for pod in &self.pods {
            match tokio::time::timeout(PATIENCE, self.run(pod, command)).await {
                Ok(Ok(output)) => return Ok(output),
                Ok(Err(error)) => last = Some(error),
                Err(_) => {
                    let said = format!("no answer within {} s", PATIENCE.as_secs());
                    last = Some(Error::Command { command: format!("{command:?}"), said });
                }
            }
        }
        Err(last.unwrap_or_else(|| Error::Missing("no monitor is ready".into())))
    }

    /// Runs a command that must succeed.
    pub(super) async fn run_command(&self, command: &Command) -> Result<String, Error> {
        let output = self.output(command).await?;
        if output.code == 0 { Ok(output.said) } else { Err(output.failure(command)) }
    }

    /// Runs commands, one after the other.
    pub(super) async fn run_all(&self, commands: &[Command]) -> Result<(), Error> {
        for command in commands {
            self.run_command(command).await?;
        }
        Ok(())
    }

    /// What a command answers in JSON.
    pub(super) async fn ask<T: DeserializeOwned>(&self, command: &Command) -> Result<T, Error> {
        parse(command, &self.run_command(command).await?)
    }

    /// What a command answers in JSON; none if it finds nothing by that name.
    pub(super) async fn find(&self, command: &Command) -> Result<Option<Value>, Error> {
        let output = self.output(command).await?;
        match output.code {
            0 => parse(command, &output.said).map(Some),
            NOT_FOUND => Ok(None),
            _ => Err(output.failure(command)),
        }
    }

    async fn run(&self, pod: &str, command: &Command) -> Result<Output, Error> {
        let pods = Api::<Pod>::namespaced(self.client.clone(), &self.namespace);
        let params = AttachParams::default().container("mon").stdin(command.input.is_some());
        let failed = |error: String| Error::Command { command: format!("{command:?}"), said: error };
        let about = format!("run a command in pod {}/{pod}", self.namespace);
        let mut process = pods.exec(pod, command.line(), &params).await.map_err(Error::api(about))?;
        let status = process.take_status();
        let (mut out, mut err) = (process.stdout(), process.stderr());
        if let (Some(input), Some(mut stdin)) = (&command.input, process.stdin()) {
            use base64::Engine;
            let line = format!("{}\n", base64::engine::general_purpose::STANDARD.encode(input));
            stdin.write_all(line.as_bytes()).await.map_err(|error| failed(error.to_string()))?;
            stdin.flush().await.map_err(|error| failed(error.to_string()))?;
        }
        let (mut said, mut complained) = (String::new(), String::new());
        let (read, complaints, ended) = tokio::join!(
            async { if let Some(out) = &mut out { out.read_to_string(&mut said).await.map(drop) } else { Ok(()) } },
            async {
                if let Some(err) = &mut err { err.read_to_string(&mut complained).await.map(drop) } else { Ok(()) }
            },
            async { if let Some(status) = status { status.await } else { None } },
        );
        read.and(complaints).map_err(|error| failed(error.to_string()))?;
        let status = ended.ok_or_else(|| failed("the connection to the pod ended before the command".into()))?;
        Ok(Output { code: code(&status), said, complained })
    }
}

impl Output {
    fn failure(&self, command: &Command) -> Error {
        let mut lines = self.complained.lines().filter(|line| !line.trim().is_empty());
        let said = lines.next_back().unwrap_or("it says nothing").to_owned();
        Error::Command { command: format!("{command:?}"), said: format!("exit code {}: {said}", self.code) }
    }
}

fn parse<T: DeserializeOwned>(command: &Command, said: &str) -> Result<T, Error> {
    let said = said.trim();
    let unreadable = |error| Error::Command {
        command: format!("{command:?}"),
        said: format!("its answer is not as expected: {error}"),
    };
    serde_json::from_str(if said.is_empty() { "null" } else { said }).map_err(unreadable)
}

/// The exit code of a command, from the status that an exec ends with.
fn code(status: &Status) -> i32 {
    if status.status.as_deref() == Some("Success") {
        return 0;
    }
    let causes = status.details.iter().flat_map(|details| details.causes.iter().flatten());
    let code =
        causes.filter(|cause| cause.reason.as_deref() == Some("ExitCode")).find_map(|cause| cause.message.as_ref());
    code.and_then(|code| code.parse().ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_command_reads_is_in_no_argument_and_not_shown() {
        let command = Command::ceph(["auth", "import", "-i", "-"]).with_input("[client.x]\n\tkey = hunter2\n".into());
        assert_eq!(format!("{command:?}"), "ceph --connect-timeout 10 --format json auth import -i -");
        assert!(!command.line().join(" ").contains("hunter2"));
        assert_eq!(command.line()[..2], ["sh", "-c"]);
    }

    #[test]
    fn the_exit_code_is_in_the_causes_of_the_status() {
        let status = |value| serde_json::from_value::<Status>(value).unwrap();
        assert_eq!(code(&status(json!({"status": "Success"}))), 0);
        let failed = json!({"status": "Failure", "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": "2"}]}});
        assert_eq!(code(&status(failed)), NOT_FOUND);
        assert_eq!(code(&status(json!({"status": "Failure"}))), 1);
    }
}
