//! Who runs here: from a pod's name to its containers and their log files, for those who ask the node about them.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Pod as Object;

use crate::bell::Bell;
use crate::observe::{Container, Observed};
use crate::pod::Pod;

/// All pods of the node as their workers last saw them. Cheap to clone.
#[derive(Clone, Default)]
pub struct Directory {
    entries: Arc<Mutex<HashMap<String, Entry>>>,
}

struct Entry {
    pod: Pod,
    observed: Observed,
    /// Wakes the pod's worker.
    bell: Arc<Bell>,
}

/// A container of a pod, as the runtime knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The container's identifier at the runtime.
    pub container: String,
    /// The identifier of its sandbox.
    pub sandbox: String,
    /// Its log file; older parts lie beside it with a time in their name.
    pub log: PathBuf,
    /// Whether it runs now.
    pub is_running: bool,
}

/// Why there is nothing to be found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// There is no such pod on this node.
    #[error("pod \"{0}\" not found")]
    Pod(String),
    /// The pod has no such container.
    #[error("container {container} not found in pod {pod}")]
    Container {
        /// The pod, with its namespace.
        pod: String,
        /// The container.
        container: String,
    },
    /// The container is there, and has never run.
    #[error("container \"{container}\" in pod \"{pod}\" is waiting to start: {reason}")]
    Waiting {
        /// The pod's name.
        pod: String,
        /// The container.
        container: String,
        /// The reason that its status shows.
        reason: String,
    },
    /// The container has not run before.
    #[error("previous terminated container \"{container}\" in pod \"{pod}\" not found")]
    Previous {
        /// The pod's name.
        pod: String,
        /// The container.
        container: String,
    },
    /// The pod has no sandbox.
    #[error("sandbox not found for pod \"{0}\"")]
    Sandbox(String),
}

/// Which run of a container is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    /// The latest.
    Latest,
    /// The one before.
    Previous,
}

impl Directory {
    /// The objects of all pods on this node.
    pub fn pods(&self) -> Vec<Object> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let sorted: BTreeMap<_, _> = entries.values().map(|entry| (name(&entry.pod), &entry.pod)).collect();
        sorted.into_values().map(|pod| pod.object().clone()).collect()
    }

    /// A run of a container.
    pub fn container(&self, namespace: &str, pod: &str, container: &str, run: Run) -> Result<Found, NotFound> {
        self.with(namespace, pod, |entry| {
            let spec = entry.pod.container(container);
            let pod_name = || pod.to_owned();
            if spec.is_none() {
                let pod = format!("{pod}_{namespace}");
                return Err(NotFound::Container { pod, container: container.to_owned() });
            }
            let mut runs = entry.observed.runs(container);
            let latest = runs.next();
            let wanted = if run == Run::Latest { latest } else { runs.next() };
            match (wanted, run) {
                (Some(found), _) => Ok(found_of(found)),
                (None, Run::Previous) => Err(NotFound::Previous { pod: pod_name(), container: container.to_owned() }),
                (None, Run::Latest) => Err(NotFound::Waiting {
                    pod: pod_name(),
                    container: container.to_owned(),
                    reason: waiting_reason(&entry.pod, container),
                }),
            }
        })?
    }

    /// The identifier of a pod's sandbox that is ready.
    pub fn sandbox(&self, namespace: &str, pod: &str) -> Result<String, NotFound> {
        self.with(namespace, pod, |entry| {
            let sandbox = entry.observed.sandbox().map(|sandbox| sandbox.id.clone());
            sandbox.ok_or_else(|| NotFound::Sandbox(format!("{pod}_{namespace}")))
        })?
    }

    fn with<T>(&self, namespace: &str, pod: &str, what: impl FnOnce(&Entry) -> T) -> Result<T, NotFound> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = entries.values().filter(|entry| entry.pod.namespace() == namespace && entry.pod.name() == pod);
        // While a pod is replaced by one of the same name, the one that is not being deleted is meant.
        let first = all.next();
        let found = all.find(|entry| !entry.pod.is_deleted()).or(first);
        found.map(what).ok_or_else(|| NotFound::Pod(pod.to_owned()))
    }

    pub(crate) fn put(&self, pod: &Pod, observed: &Observed, bell: &Arc<Bell>) {
        let entry = Entry { pod: pod.clone(), observed: observed.clone(), bell: Arc::clone(bell) };
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).insert(pod.uid().to_owned(), entry);
    }

    pub(crate) fn remove(&self, uid: &str) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    /// Wakes the worker of the pod that a container or sandbox belongs to; all, if no one knows it.
    pub(crate) fn wake(&self, id: &str) {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let owner = entries.values().find(|entry| entry.has(id));
        match owner {
            Some(entry) => entry.bell.ring(),
            None => entries.values().for_each(|entry| entry.bell.ring()),
        }
    }

    /// Lets all workers look again.
    pub(crate) fn wake_everybody(&self) {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.values().for_each(|entry| entry.bell.ring());
    }

    /// Tells all workers that something they may wait for has come: an image.
    pub(crate) fn announce_change(&self) {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.values().for_each(|entry| entry.bell.ring_for_change());
    }

    /// The containers that run, with their log files.
    pub(crate) fn running(&self) -> Vec<Found> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.values().flat_map(|entry| entry.observed.running().map(found_of).collect::<Vec<_>>()).collect()
    }

    /// Whatever images containers of any state were made from, by name and by identifier.
    pub(crate) fn images(&self) -> Vec<String> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let containers = entries.values().flat_map(|entry| entry.observed.containers.iter());
        let of_containers = containers.flat_map(|container| [container.image.clone(), container.image_id.clone()]);
        let named =
            entries.values().flat_map(|entry| entry.pod.every_container().filter_map(|spec| spec.image.clone()));
        of_containers.chain(named).collect()
    }
}

impl Entry {
    fn has(&self, id: &str) -> bool {
        self.observed.containers.iter().any(|container| container.id == id)
            || self.observed.sandboxes.iter().any(|sandbox| sandbox.id == id)
    }
}

fn name(pod: &Pod) -> (String, String, String) {
    (pod.namespace().to_owned(), pod.name().to_owned(), pod.uid().to_owned())
}

fn found_of(container: &Container) -> Found {
    Found {
        container: container.id.clone(),
        sandbox: container.sandbox.clone(),
        log: PathBuf::from(&container.log),
        is_running: container.is_running(),
    }
}

fn waiting_reason(pod: &Pod, container: &str) -> String {
    let status = pod.status();
    let all = status.map(|status| status.container_statuses.iter().chain(&status.init_container_statuses).flatten());
    let found = all.into_iter().flatten().find(|status| status.name == container);
    let reason = found.and_then(|status| status.state.as_ref()?.waiting.as_ref()?.reason.clone());
    reason.unwrap_or_else(|| "ContainerCreating".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::observe::testing::{exited, observed, running};
    use crate::pod::testing::pod;

    #[test]
    fn a_container_is_found_by_its_name_and_run() {
        let directory = Directory::default();
        let mut latest = running("app");
        (latest.id, latest.attempt) = ("app-1".to_owned(), 1);
        let pod = pod(json!({"containers": [{"name": "app"}, {"name": "slow"}]}));
        directory.put(&pod, &observed(vec![latest, exited("app", 0, 1, 5)]), &Arc::default());
        let id = |container, run| directory.container("shop", "web", container, run).map(|found| found.container);
        assert_eq!(id("app", Run::Latest).unwrap(), "app-1");
        assert_eq!(id("app", Run::Previous).unwrap(), "app-0");
        let said = |container, run| id(container, run).unwrap_err().to_string();
        assert_eq!(
            said("slow", Run::Latest),
            "container \"slow\" in pod \"web\" is waiting to start: ContainerCreating"
        );
        assert_eq!(said("slow", Run::Previous), "previous terminated container \"slow\" in pod \"web\" not found");
        assert_eq!(said("none", Run::Latest), "container none not found in pod web_shop");
        assert_eq!(
            directory.container("shop", "none", "app", Run::Latest).unwrap_err().to_string(),
            "pod \"none\" not found"
        );
        assert_eq!(directory.sandbox("shop", "web").unwrap(), "sandbox-0");
        directory.remove("u-1");
        assert!(directory.sandbox("shop", "web").is_err());
    }
}
