//! What the runtime says there is of a pod: its sandboxes and containers, newest first.

use std::collections::BTreeMap;
use std::path::Path;

use c5c3_cri::{CallError, Runtime, v1};
use jiff::Timestamp;

use crate::labels;
use crate::last_words;

/// Everything of one pod that the runtime knows.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Observed {
    pub(crate) sandboxes: Vec<Sandbox>,
    pub(crate) containers: Vec<Container>,
}

/// The frame of a pod: its network namespace and the process that holds it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sandbox {
    pub(crate) id: String,
    pub(crate) attempt: u32,
    pub(crate) is_ready: bool,
    pub(crate) created: Timestamp,
    pub(crate) ips: Vec<String>,
}

/// One run of a container.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Container {
    pub(crate) id: String,
    pub(crate) sandbox: String,
    pub(crate) name: String,
    pub(crate) attempt: u32,
    pub(crate) hash: String,
    pub(crate) image: String,
    pub(crate) image_id: String,
    pub(crate) created: Timestamp,
    pub(crate) state: State,
    /// Where its output goes.
    pub(crate) log: String,
}

/// How far a run is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum State {
    Created,
    Running { started: Timestamp },
    Exited(Exit),
    Unknown,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Exit {
    pub(crate) code: i32,
    pub(crate) reason: String,
    pub(crate) message: String,
    /// None if it never got that far.
    pub(crate) started: Option<Timestamp>,
    pub(crate) finished: Timestamp,
}

impl Container {
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    pub(crate) fn exit(&self) -> Option<&Exit> {
        match &self.state {
            State::Exited(exit) => Some(exit),
            _ => None,
        }
    }

    pub(crate) fn has_succeeded(&self) -> bool {
        self.exit().is_some_and(|exit| exit.code == 0)
    }
}

impl Observed {
    /// The sandbox that containers can be started in.
    pub(crate) fn sandbox(&self) -> Option<&Sandbox> {
        self.sandboxes.first().filter(|sandbox| sandbox.is_ready)
    }

    /// The runs of a container, newest first.
    pub(crate) fn runs<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Container> {
        let name = name.to_owned();
        self.containers.iter().filter(move |container| container.name == name)
    }

    /// The latest run of a container.
    pub(crate) fn newest<'a>(&'a self, name: &str) -> Option<&'a Container> {
        self.runs(name).next()
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = &Container> {
        self.containers.iter().filter(|container| container.is_running())
    }
}

/// Asks the runtime about one pod. What was seen to have ended is not asked about again.
pub(crate) async fn observe(runtime: &Runtime, uid: &str, before: &Observed) -> Result<Observed, CallError> {
    let label_selector = BTreeMap::from([(labels::POD_UID.to_owned(), uid.to_owned())]);
    let filter = v1::PodSandboxFilter { label_selector: label_selector.clone(), ..Default::default() };
    let mut sandboxes = Vec::new();
    for listed in runtime.list_pod_sandbox(Some(filter)).await? {
        match runtime.pod_sandbox_status(&listed.id).await {
            Ok(status) => sandboxes.push(sandbox(status)),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    let filter = v1::ContainerFilter { label_selector, ..Default::default() };
    let mut containers = Vec::new();
    for listed in runtime.list_containers(Some(filter)).await? {
        let known = before.containers.iter().find(|known| known.id == listed.id && known.exit().is_some());
        if let Some(known) = known {
            containers.push(known.clone());
            continue;
        }
        match runtime.container_status(&listed.id).await {
            Ok(status) => containers.push(container(status, listed.pod_sandbox_id)),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    sandboxes.sort_by_key(|sandbox| std::cmp::Reverse((sandbox.attempt, sandbox.created)));
    containers.sort_by_key(|container| std::cmp::Reverse((container.attempt, container.created)));
    Ok(Observed { sandboxes, containers })
}

fn sandbox(status: v1::PodSandboxStatus) -> Sandbox {
    let network = status.network.unwrap_or_default();
    let further = network.additional_ips.into_iter().map(|further| further.ip);
    Sandbox {
        id: status.id,
        attempt: status.metadata.map_or(0, |metadata| metadata.attempt),
        is_ready: status.state == v1::PodSandboxState::SandboxReady as i32,
        created: time(status.created_at),
        ips: std::iter::once(network.ip).chain(further).filter(|ip| !ip.is_empty()).collect(),
    }
}

fn container(status: v1::ContainerStatus, sandbox: String) -> Container {
    let metadata = status.metadata.clone().unwrap_or_default();
    let label = |name: &str| status.annotations.get(name).cloned().unwrap_or_default();
    let state = match v1::ContainerState::try_from(status.state) {
        Ok(v1::ContainerState::ContainerCreated) => State::Created,
        Ok(v1::ContainerState::ContainerRunning) => State::Running { started: time(status.started_at) },
        Ok(v1::ContainerState::ContainerExited) => State::Exited(exit(&status)),
        _ => State::Unknown,
    };
    Container {
        id: status.id.clone(),
        sandbox,
        name: metadata.name,
        attempt: metadata.attempt,
        hash: label(labels::HASH),
        image: status.image.as_ref().map(|image| image.image.clone()).unwrap_or_default(),
        image_id: status.image_ref.clone(),
        created: time(status.created_at),
        state,
        log: status.log_path,
    }
}

fn exit(status: &v1::ContainerStatus) -> Exit {
    let annotation = |name: &str| status.annotations.get(name).map_or("", String::as_str);
    let path = annotation(labels::TERMINATION_PATH);
    let file = status.mounts.iter().find(|mount| mount.container_path == path).map(|mount| mount.host_path.as_str());
    let log = (annotation(labels::TERMINATION_POLICY) == "FallbackToLogsOnError" && status.exit_code != 0)
        .then_some(Path::new(&status.log_path));
    let said = last_words::read(file.map(Path::new), log);
    Exit {
        code: status.exit_code,
        reason: status.reason.clone(),
        message: if said.is_empty() { status.message.clone() } else { said },
        started: (status.started_at > 0).then(|| time(status.started_at)),
        finished: time(status.finished_at),
    }
}

/// The CRI counts nanoseconds since 1970.
fn time(nanoseconds: i64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(nanoseconds)).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
pub(crate) mod testing {
    //! States of a pod for tests: a line for each.

    use super::*;

    pub(crate) fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).expect("a time")
    }

    pub(crate) fn sandbox(attempt: u32, is_ready: bool) -> Sandbox {
        let ips = vec!["10.124.1.7".to_owned()];
        Sandbox { id: format!("sandbox-{attempt}"), attempt, is_ready, created: at(0), ips }
    }

    pub(crate) fn container(name: &str, attempt: u32, state: State) -> Container {
        let image = "registry.test/app:1".to_owned();
        let spec = k8s_openapi::api::core::v1::Container {
            name: name.to_owned(),
            image: Some(image.clone()),
            ..Default::default()
        };
        Container {
            id: format!("{name}-{attempt}"),
            sandbox: "sandbox-0".to_owned(),
            name: name.to_owned(),
            attempt,
            hash: crate::pod::hash(&spec),
            image,
            image_id: "sha256:1".to_owned(),
            created: at(0),
            state,
            log: format!("{name}/{attempt}.log"),
        }
    }

    pub(crate) fn running(name: &str) -> Container {
        container(name, 0, State::Running { started: at(1) })
    }

    pub(crate) fn exited(name: &str, attempt: u32, code: i32, finished: i64) -> Container {
        let reason = if code == 0 { "Completed" } else { "Error" }.to_owned();
        let exit = Exit { code, reason, message: String::new(), started: Some(at(1)), finished: at(finished) };
        container(name, attempt, State::Exited(exit))
    }

    pub(crate) fn observed(containers: Vec<Container>) -> Observed {
        Observed { sandboxes: vec![sandbox(0, true)], containers }
    }
}
