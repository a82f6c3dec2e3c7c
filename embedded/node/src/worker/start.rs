//! Starting: the sandbox of a pod, and each of its containers.

use std::time::{Duration, Instant};

use c5c3_cri::v1;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;

use super::{Worker, lock};
use crate::cgroups;
use crate::cri_config::{container as container_config, resources, sandbox as sandbox_config};
use crate::environment::{self, Surroundings};
use crate::hooks;
use crate::images::{self, Need, PullPolicy};
use crate::memory::Hold;
use crate::observe;
use crate::pod::Pod;
use crate::references::Kind;
use crate::upkeep::archives;

/// How long a container that could not be made is left alone.
const HOLD: Duration = Duration::from_secs(10);
/// How long `ErrImagePull` is shown before `ImagePullBackOff`.
const SHOWN: Duration = Duration::from_secs(5);
const FIRST_SANDBOX_HOLD: Duration = Duration::from_secs(1);
const LONGEST_SANDBOX_HOLD: Duration = Duration::from_mins(1);

/// Why a container did not start: what its status says, and how long it is left alone.
struct StartFailure {
    reason: &'static str,
    message: String,
    hold: Duration,
}

impl StartFailure {
    fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), hold: HOLD }
    }
}

impl Worker {
    pub(super) async fn create_sandbox(&self, pod: &Pod, attempt: u32) {
        if attempt > 0 {
            let message = "Pod sandbox changed, it will be killed and re-created.".to_owned();
            self.node.voice.normal(pod, None, "SandboxChanged", message);
        }
        // Volumes may take a while; images that are imported meanwhile need not be waited for then.
        for image in pod.spec().containers.iter().filter_map(|container| container.image.as_deref()) {
            archives::want(&self.node, image);
        }
        if !self.mount_volumes(pod).await {
            return;
        }
        let config = self.sandbox_config(pod, attempt);
        let cgroup = resources::cgroup(&self.node.config.site.cgroup_parent(), pod);
        let made = match cgroups::make(&cgroup, &resources::of_pod(pod)) {
            Ok(()) => {
                let runtime = self.node.runtime.clone();
                let call = async move { runtime.run_pod_sandbox(config, "").await };
                self.calls.carry_through(call).await.map_err(|error| error.to_string())
            }
            Err(error) => Err(format!("cgroup {cgroup}: {error}")),
        };
        match made {
            Ok(_) => lock(&self.memory).pod_hold = None,
            Err(error) => {
                let message = format!("Failed to create pod sandbox: rpc error: {error}");
                self.node.voice.warning(pod, None, "FailedCreatePodSandBox", message);
                self.hold_pod(FIRST_SANDBOX_HOLD, LONGEST_SANDBOX_HOLD, false);
            }
        }
    }

    fn sandbox_config(&self, pod: &Pod, attempt: u32) -> v1::PodSandboxConfig {
        let resolv_conf = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        sandbox_config::config(pod, attempt, &self.node.config, &self.node.folders, &resolv_conf)
    }

    pub(super) async fn start_container(&self, pod: &Pod, name: &str, attempt: u32) {
        let Some(container) = pod.container(name) else { return };
        let started = self.try_start(pod, container, attempt).await;
        let mut memory = lock(&self.memory);
        match started {
            Ok(()) => {
                memory.holds.remove(name);
            }
            Err(failure) => {
                let StartFailure { reason, message, hold } = failure;
                let until = Timestamp::now().checked_add(hold).unwrap_or(Timestamp::MAX);
                memory.holds.insert(name.to_owned(), Hold { reason, message, until, ends_with_change: true });
            }
        }
    }

    async fn try_start(&self, pod: &Pod, container: &Container, attempt: u32) -> Result<(), StartFailure> {
        if lock(&self.volumes).is_none() && !self.mount_volumes(pod).await {
            return Err(StartFailure { hold: Duration::ZERO, ..StartFailure::new("ContainerCreating", "") });
        }
        let observed = lock(&self.observed).clone();
        let Some(sandbox) = observed.sandbox() else {
            return Err(StartFailure { hold: Duration::ZERO, ..StartFailure::new("ContainerCreating", "") });
        };
        let now = Timestamp::now();
        if let Some(exit) = observed.newest(&container.name).and_then(observe::Container::exit) {
            lock(&self.memory).crashes.tried(&container.name, exit.finished, now);
        }
        let sandbox_config = self.sandbox_config(pod, sandbox.attempt);
        let image = self.ensure_image(pod, container, &sandbox_config).await?;
        let config = self.container_config(pod, container, attempt, &image).await.inspect_err(|failure| {
            let message = format!("Error: {}", failure.message);
            self.node.voice.warning(pod, Some(&container.name), "Failed", message);
        })?;
        let id = self.create(pod, container, &sandbox.id, config, sandbox_config).await?;
        self.node.voice.normal(pod, Some(&container.name), "Created", format!("Created container: {}", container.name));
        let (runtime, made) = (self.node.runtime.clone(), id.clone());
        let call = async move { runtime.start_container(&made).await };
        if let Err(error) = self.calls.carry_through(call).await {
            self.node.voice.warning(pod, Some(&container.name), "Failed", format!("Error: {}", error.reason));
            return Err(StartFailure {
                hold: FIRST_SANDBOX_HOLD,
                ..StartFailure::new("RunContainerError", error.reason)
            });
        }
        self.node.voice.normal(pod, Some(&container.name), "Started", format!("Started container {}", container.name));
        self.post_start(pod, container, &id).await
    }

    async fn create(
        &self,
        pod: &Pod,
        container: &Container,
        sandbox: &str,
        config: v1::ContainerConfig,
        sandbox_config: v1::PodSandboxConfig,
    ) -> Result<String, StartFailure> {
        let created = self.node.runtime.create_container(sandbox, config, sandbox_config).await;
        created.map_err(|error| {
            self.node.voice.warning(pod, Some(&container.name), "Failed", format!("Error: {}", error.reason));
            StartFailure::new("CreateContainerError", error.reason)
        })
    }

    async fn post_start(&self, pod: &Pod, container: &Container, id: &str) -> Result<(), StartFailure> {
        let hook = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.as_ref());
        let Some(hook) = hook else { return Ok(()) };
        // The API sees that it runs, which is true while the hook does its work.
        self.bell.ring();
        let ips = self.pod_ips(pod);
        let ip = ips.first().map_or("", String::as_str);
        let Err(message) = hooks::run(&self.node.runtime, hook, container, id, ip, None).await else { return Ok(()) };
        let told = format!("PostStartHook failed: {message}");
        self.node.voice.warning(pod, Some(&container.name), "FailedPostStartHook", told);
        self.kill(pod, id, &container.name, "FailedPostStartHook", pod.grace_period()).await;
        Err(StartFailure { hold: Duration::ZERO, ..StartFailure::new("PostStartHookError", message) })
    }

    async fn container_config(
        &self,
        pod: &Pod,
        container: &Container,
        attempt: u32,
        image: &v1::Image,
    ) -> Result<v1::ContainerConfig, StartFailure> {
        let bad = |error: &dyn std::fmt::Display| StartFailure::new("CreateContainerConfigError", error.to_string());
        let environment = self.environment(pod, container).await.map_err(|error| bad(&error))?;
        let mounts = self.container_mounts(pod, container, attempt, &environment).map_err(|error| bad(&error))?;
        let target = self.target(pod, container)?;
        let memory = self.node.machine.memory;
        let inputs = container_config::Inputs { pod, container, attempt, image, environment, mounts, target, memory };
        container_config::config(inputs, &self.node.folders).map_err(|error| bad(&error))
    }

    /// The container whose processes an ephemeral container shares, which has to run.
    fn target(&self, pod: &Pod, container: &Container) -> Result<Option<String>, StartFailure> {
        let Some(name) = pod.target_of(container) else { return Ok(None) };
        let observed = lock(&self.observed).clone();
        let running = observed.newest(name).filter(|run| run.is_running()).map(|run| run.id.clone());
        let missing =
            || StartFailure::new("CreateContainerConfigError", format!("unable to find target container {name}"));
        running.map(Some).ok_or_else(missing)
    }

    async fn environment(
        &self,
        pod: &Pod,
        container: &Container,
    ) -> Result<Vec<(String, String)>, environment::EnvironmentError> {
        for (kind, name) in environment::references(container) {
            self.references.hold(kind, &name).await;
        }
        // Without an answer of the API there are no Services, rather than no container.
        let _ = tokio::time::timeout(HOLD, self.node.services.wait_until_ready()).await;
        let services: Vec<_> = self.node.services.state().iter().map(|service| (**service).clone()).collect();
        let ips = self.pod_ips(pod);
        let around = Surroundings { pod, node: &self.node.facts, pod_ips: &ips, services: &services };
        environment::environment(&around, container, &|kind, name| self.references.get(kind, name))
    }

    /// The image, fetched if it has to be.
    async fn ensure_image(
        &self,
        pod: &Pod,
        container: &Container,
        sandbox: &v1::PodSandboxConfig,
    ) -> Result<v1::Image, StartFailure> {
        let (name, voice) = (Some(container.name.as_str()), &self.node.voice);
        let image = container.image.as_deref().unwrap_or_default();
        if !images::is_valid(image) {
            let message = format!(
                "Failed to apply default image tag \"{image}\": couldn't parse image name \"{image}\": invalid \
                 reference format"
            );
            voice.warning(pod, name, "InspectFailed", message.clone());
            voice.warning(pod, name, "Failed", "Error: InvalidImageName".to_owned());
            return Err(StartFailure::new("InvalidImageName", message));
        }
        let inspect = |error: c5c3_cri::CallError| StartFailure::new("ImageInspectError", error.reason);
        let mut there = self.node.runtime.image_status(image).await.map_err(inspect)?;
        // What is about to be imported need not be fetched.
        while there.is_none() && archives::next(&self.node, image).await {
            there = self.node.runtime.image_status(image).await.map_err(inspect)?;
        }
        match images::need(PullPolicy::of(container), there.is_some()) {
            Need::Nothing => {
                let message = format!("Container image \"{image}\" already present on machine");
                voice.normal(pod, name, "Pulled", message);
            }
            Need::Impossible => {
                let message = format!("Container image \"{image}\" is not present with pull policy of Never");
                voice.warning(pod, name, "ErrImageNeverPull", message.clone());
                voice.warning(pod, name, "Failed", "Error: ErrImageNeverPull".to_owned());
                return Err(StartFailure::new("ErrImageNeverPull", message));
            }
            Need::Pull => self.pull(pod, container, image, sandbox).await?,
        }
        let found = self.node.runtime.image_status(image).await.map_err(inspect)?;
        found.ok_or_else(|| StartFailure::new("ImageInspectError", format!("image \"{image}\" vanished")))
    }

    async fn pull(
        &self,
        pod: &Pod,
        container: &Container,
        image: &str,
        sandbox: &v1::PodSandboxConfig,
    ) -> Result<(), StartFailure> {
        let (name, voice) = (Some(container.name.as_str()), &self.node.voice);
        if let Some((delay, error)) = self.pull_wait(image) {
            let message = format!("Back-off pulling image \"{image}\"");
            voice.normal(pod, name, "BackOff", message.clone());
            voice.warning(pod, name, "Failed", "Error: ImagePullBackOff".to_owned());
            let message = format!("{message}: ErrImagePull: {error}");
            return Err(StartFailure { hold: delay, ..StartFailure::new("ImagePullBackOff", message) });
        }
        voice.normal(pod, name, "Pulling", format!("Pulling image \"{image}\""));
        let begun = Instant::now();
        let credentials = self.credentials(pod).await;
        match images::pull(&self.node.runtime, image, sandbox, &credentials).await {
            Ok(pulled) => {
                lock(&self.memory).pulls.forget(image);
                let size = self.node.runtime.image_status(&pulled).await.ok().flatten().map_or(0, |image| image.size);
                let took = images::short(begun.elapsed());
                let message = format!(
                    "Successfully pulled image \"{image}\" in {took} ({took} including waiting). Image size: {size} bytes."
                );
                voice.normal(pod, name, "Pulled", message);
                Ok(())
            }
            Err(error) => {
                let message = format!("Failed to pull image \"{image}\": {}", error.reason);
                voice.warning(pod, name, "Failed", message);
                voice.warning(pod, name, "Failed", "Error: ErrImagePull".to_owned());
                let mut memory = lock(&self.memory);
                let now = Timestamp::now();
                memory.pulls.tried(image, now, now);
                memory.failed_pulls.insert(image.to_owned(), (now, error.reason.clone()));
                Err(StartFailure { hold: SHOWN, ..StartFailure::new("ErrImagePull", error.reason) })
            }
        }
    }

    /// How long a pull that failed has to wait, and why it failed.
    fn pull_wait(&self, image: &str) -> Option<(Duration, String)> {
        let memory = lock(&self.memory);
        let (failed, error) = memory.failed_pulls.get(image)?;
        let now = Timestamp::now();
        let wait = memory.pulls.wait(image, *failed, now)?;
        Some((Duration::try_from(wait.until.duration_since(now)).unwrap_or_default(), error.clone()))
    }

    async fn credentials(&self, pod: &Pod) -> images::Credentials {
        let mut secrets = Vec::new();
        for secret in pod.spec().image_pull_secrets.iter().flatten() {
            self.references.hold(Kind::Secret, &secret.name).await;
            // One that is not there is passed over, as upstream does.
            secrets.extend(self.references.get(Kind::Secret, &secret.name).ok().flatten());
        }
        images::credentials(&secrets)
    }
}
