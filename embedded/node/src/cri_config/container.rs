//! A container: its command, environment, mounts, limits and labels.

use std::collections::{BTreeMap, HashMap};

use c5c3_cri::v1;
use k8s_openapi::api::core::v1::{Container, VolumeMount};

use super::{resources, sandbox, security};
use crate::devices;
use crate::environment::expand;
use crate::folders::Folders;
use crate::labels;
use crate::pod::{Pod, hash};

/// Where a container leaves its last words if it does not say where.
const TERMINATION_PATH: &str = "/dev/termination-log";

/// What is known by the time that a container is made.
pub(crate) struct Inputs<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) container: &'a Container,
    pub(crate) attempt: u32,
    pub(crate) image: &'a v1::Image,
    /// In order, with all that names others expanded.
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) mounts: Vec<v1::Mount>,
    /// The identifier of the container whose processes it shares.
    pub(crate) target: Option<String>,
    /// The node's memory, in bytes.
    pub(crate) memory: i64,
}

/// The container as it is to be.
pub(crate) fn config(inputs: Inputs<'_>, folders: &Folders) -> Result<v1::ContainerConfig, security::Root> {
    let Inputs { pod, container, attempt, image, environment, mounts, target, memory } = inputs;
    let known: HashMap<String, String> = environment.iter().cloned().collect();
    let expanded = |list: Option<&Vec<String>>| list.into_iter().flatten().map(|text| expand(text, &known)).collect();
    let mut context = security::context(pod, container, image, &folders.seccomp())?;
    security::share_processes(&mut context, target);
    Ok(v1::ContainerConfig {
        metadata: Some(v1::ContainerMetadata { name: container.name.clone(), attempt }),
        image: Some(v1::ImageSpec {
            image: image.id.clone(),
            user_specified_image: container.image.clone().unwrap_or_default(),
            ..v1::ImageSpec::default()
        }),
        command: expanded(container.command.as_ref()),
        args: expanded(container.args.as_ref()),
        working_dir: container.working_dir.clone().unwrap_or_default(),
        envs: environment.into_iter().map(|(key, value)| v1::KeyValue { key, value }).collect(),
        mounts,
        devices: devices::of(container),
        labels: container_labels(pod, container),
        annotations: annotations(pod, container, attempt),
        log_path: Folders::log_file(&container.name, attempt),
        stdin: container.stdin == Some(true),
        stdin_once: container.stdin_once == Some(true),
        tty: container.tty == Some(true),
        linux: Some(v1::LinuxContainerConfig {
            resources: Some(resources::of_container(pod, container, memory)),
            security_context: Some(context),
        }),
        ..v1::ContainerConfig::default()
    })
}

/// Where in the container its last words are.
pub(crate) fn termination_path(container: &Container) -> &str {
    container.termination_message_path.as_deref().filter(|path| !path.is_empty()).unwrap_or(TERMINATION_PATH)
}

/// How far mounts made on one side are seen on the other.
pub(crate) fn propagation(mount: &VolumeMount) -> i32 {
    let mode = match mount.mount_propagation.as_deref() {
        Some("HostToContainer") => v1::MountPropagation::PropagationHostToContainer,
        Some("Bidirectional") => v1::MountPropagation::PropagationBidirectional,
        _ => v1::MountPropagation::PropagationPrivate,
    };
    mode as i32
}

fn container_labels(pod: &Pod, container: &Container) -> BTreeMap<String, String> {
    let mut labels = sandbox::pod_labels(pod);
    // The pod's own labels stay on its sandbox.
    labels.retain(|name, _| [labels::POD_NAME, labels::POD_NAMESPACE, labels::POD_UID].contains(&name.as_str()));
    labels.insert(labels::CONTAINER_NAME.to_owned(), container.name.clone());
    labels
}

fn annotations(pod: &Pod, container: &Container, attempt: u32) -> BTreeMap<String, String> {
    let policy = container.termination_message_policy.clone().unwrap_or_else(|| "File".to_owned());
    let pairs = [
        (labels::HASH, hash(container)),
        (labels::RESTART_COUNT, attempt.to_string()),
        (labels::TERMINATION_PATH, termination_path(container).to_owned()),
        (labels::TERMINATION_POLICY, policy),
        (labels::GRACE_PERIOD, pod.spec().termination_grace_period_seconds.unwrap_or(30).to_string()),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pod::testing::pod;

    #[test]
    fn commands_see_the_environment_and_a_container_is_found_again_by_its_labels() {
        let pod = pod(json!({"containers": [{"name": "app", "image": "registry.test/app:1", "tty": true,
            "command": ["serve", "--port=$(PORT)"], "args": ["$(NOBODY)", "$$(PORT)"]}]}));
        let image = v1::Image { id: "sha256:1".to_owned(), ..v1::Image::default() };
        let inputs = Inputs {
            pod: &pod,
            container: &pod.main_containers()[0],
            attempt: 3,
            image: &image,
            environment: vec![("PORT".to_owned(), "8080".to_owned())],
            mounts: vec![],
            target: None,
            memory: 1 << 30,
        };
        let made = config(inputs, &Folders::new("/data".as_ref())).unwrap();
        assert_eq!(made.command, ["serve", "--port=8080"]);
        assert_eq!(made.args, ["$(NOBODY)", "$(PORT)"]);
        assert_eq!((made.log_path.as_str(), made.tty), ("app/3.log", true));
        assert_eq!(made.labels[labels::CONTAINER_NAME], "app");
        assert_eq!(made.annotations[labels::TERMINATION_PATH], "/dev/termination-log");
        assert_eq!(made.annotations[labels::RESTART_COUNT], "3");
    }
}
