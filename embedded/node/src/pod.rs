//! A pod as the node sees it: an object that certainly has a specification, and what is read off it everywhere.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, EphemeralContainer, Pod as Object, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use sha2::{Digest, Sha256};

/// A pod with its specification.
#[derive(Debug, Clone)]
pub(crate) struct Pod {
    object: Arc<Object>,
    /// The ephemeral containers, in the type that the others have.
    ephemeral: Arc<[Container]>,
}

/// What a container is in its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Runs to its end before the next.
    Init,
    /// An init container that stays: a sidecar.
    Sidecar,
    /// What the pod is for.
    Main,
    /// Added to a running pod to debug it: runs once, and neither keeps the pod running nor makes it fail.
    Ephemeral,
}

/// When containers start again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

impl Pod {
    /// None if it has no specification, which no API server would store.
    pub(crate) fn new(object: Arc<Object>) -> Option<Self> {
        let added = object.spec.as_ref()?.ephemeral_containers.iter().flatten();
        let ephemeral = added.map(of_ephemeral).collect();
        Some(Self { object, ephemeral })
    }

    pub(crate) fn object(&self) -> &Object {
        &self.object
    }

    pub(crate) fn spec(&self) -> &PodSpec {
        self.object.spec.as_ref().expect("a pod without a specification is not made into this type")
    }

    pub(crate) fn status(&self) -> Option<&PodStatus> {
        self.object.status.as_ref()
    }

    pub(crate) fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.object.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub(crate) fn uid(&self) -> &str {
        self.object.metadata.uid.as_deref().unwrap_or_default()
    }

    /// The generation of its specification that this is, which the status says it is about.
    pub(crate) fn generation(&self) -> Option<i64> {
        self.object.metadata.generation
    }

    /// `name_namespace(uid)`, as messages have it.
    pub(crate) fn description(&self) -> String {
        format!("{}_{}({})", self.name(), self.namespace(), self.uid())
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    pub(crate) fn phase(&self) -> &str {
        self.status().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
    }

    /// Whether the API says that the pod is over; then it never runs again.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase(), "Succeeded" | "Failed")
    }

    pub(crate) fn qos_class(&self) -> &str {
        self.status().and_then(|status| status.qos_class.as_deref()).unwrap_or("BestEffort")
    }

    pub(crate) fn is_host_network(&self) -> bool {
        self.spec().host_network == Some(true)
    }

    pub(crate) fn restart_policy(&self) -> RestartPolicy {
        match self.spec().restart_policy.as_deref() {
            Some("Never") => RestartPolicy::Never,
            Some("OnFailure") => RestartPolicy::OnFailure,
            _ => RestartPolicy::Always,
        }
    }

    /// How long the containers have to end.
    pub(crate) fn grace_period(&self) -> i64 {
        let of_deletion = self.object.metadata.deletion_grace_period_seconds.filter(|_| self.is_deleted());
        // Zero means at once; a second is what the processes get all the same.
        of_deletion.or(self.spec().termination_grace_period_seconds).unwrap_or(30).max(1)
    }

    pub(crate) fn init_containers(&self) -> &[Container] {
        self.spec().init_containers.as_deref().unwrap_or_default()
    }

    pub(crate) fn main_containers(&self) -> &[Container] {
        &self.spec().containers
    }

    pub(crate) fn ephemeral_containers(&self) -> &[Container] {
        &self.ephemeral
    }

    /// The name of the container whose processes an ephemeral container shares.
    pub(crate) fn target_of(&self, container: &Container) -> Option<&str> {
        let mut added = self.spec().ephemeral_containers.iter().flatten();
        let target = added.find(|added| added.name == container.name)?.target_container_name.as_deref();
        target.filter(|target| !target.is_empty())
    }

    /// The containers that the pod was created with, those that start first first.
    pub(crate) fn containers(&self) -> impl Iterator<Item = &Container> {
        self.init_containers().iter().chain(self.main_containers())
    }

    /// All containers, ephemeral ones included.
    pub(crate) fn every_container(&self) -> impl Iterator<Item = &Container> {
        self.containers().chain(self.ephemeral_containers())
    }

    pub(crate) fn container(&self, name: &str) -> Option<&Container> {
        self.every_container().find(|container| container.name == name)
    }

    pub(crate) fn role(&self, container: &Container) -> Role {
        if self.main_containers().iter().any(|main| main.name == container.name) {
            Role::Main
        } else if self.ephemeral.iter().any(|added| added.name == container.name) {
            Role::Ephemeral
        } else if container.restart_policy.as_deref() == Some("Always") {
            Role::Sidecar
        } else {
            Role::Init
        }
    }

    /// How a reference to a container reads in an event: `spec.containers{app}`.
    pub(crate) fn field_path(&self, container: &str) -> String {
        let is_in = |list: &[Container]| list.iter().any(|one| one.name == container);
        let list = if is_in(self.init_containers()) {
            "initContainers"
        } else if is_in(self.ephemeral_containers()) {
            "ephemeralContainers"
        } else {
            "containers"
        };
        format!("spec.{list}{{{container}}}")
    }
}

/// An ephemeral container in the type of the others. It has no probes, hooks, ports or resources: validation refuses them.
fn of_ephemeral(added: &EphemeralContainer) -> Container {
    let added = added.clone();
    Container {
        name: added.name,
        image: added.image,
        image_pull_policy: added.image_pull_policy,
        command: added.command,
        args: added.args,
        working_dir: added.working_dir,
        env: added.env,
        env_from: added.env_from,
        volume_mounts: added.volume_mounts,
        volume_devices: added.volume_devices,
        security_context: added.security_context,
        stdin: added.stdin,
        stdin_once: added.stdin_once,
        tty: added.tty,
        termination_message_path: added.termination_message_path,
        termination_message_policy: added.termination_message_policy,
        ..Container::default()
    }
}

/// What of a container may change while its pod lives: a running container with another hash is replaced.
pub(crate) fn hash(container: &Container) -> String {
    let digest = Sha256::digest(format!("{}\0{}", container.name, container.image.as_deref().unwrap_or_default()));
    format!("{:08x}", u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]))
}

/// A quantity of a list in thousandths.
pub(crate) fn milli(quantity: Option<&Quantity>) -> Option<i64> {
    c5c3_kinds::Quantity::parse(&quantity?.0).map(c5c3_kinds::Quantity::milli)
}

/// A quantity of a list in units, rounded up.
pub(crate) fn units(quantity: Option<&Quantity>) -> Option<i64> {
    c5c3_kinds::Quantity::parse(&quantity?.0).map(c5c3_kinds::Quantity::units)
}

#[cfg(test)]
pub(crate) mod testing {
    //! Pods for tests, written as YAML would be.

    use serde_json::{Value, json};

    use super::*;

    /// A pod `web` in `shop` with the given specification; `containers` may be left out.
    pub(crate) fn pod(spec: Value) -> Pod {
        pod_with(spec, Value::Null)
    }

    pub(crate) fn pod_with(mut spec: Value, status: Value) -> Pod {
        if spec.get("containers").is_none() {
            spec["containers"] = json!([{"name": "app", "image": "registry.test/app:1"}]);
        }
        let metadata = json!({"name": "web", "namespace": "shop", "uid": "u-1", "generation": 1});
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status});
        let object = serde_json::from_value(object).expect("a pod");
        Pod::new(Arc::new(object)).expect("with a specification")
    }

    /// The same pod, being deleted.
    pub(crate) fn deleted(pod: &Pod, grace: i64) -> Pod {
        let mut object = pod.object().clone();
        object.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        object.metadata.deletion_grace_period_seconds = Some(grace);
        Pod::new(Arc::new(object)).expect("with a specification")
    }
}
