//! Stopping: a container with its hook and its grace, a pod in its order, and what is left of it.

use std::time::{Duration, Instant};

use futures::future::join_all;

use super::{Failed, Wanted, Worker, lock};
use crate::cgroups;
use crate::cri_config::resources;
use crate::decide::Why;
use crate::hooks;
use crate::memory::Failed as Probe;
use crate::observe::{Container, State};
use crate::pod::{Pod, Role};
use crate::volumes::{self, VolumeError};

/// What is left for a container to end, however long its hook took.
const LEAST: Duration = Duration::from_secs(2);

impl Worker {
    /// Ends one container of a pod that goes on.
    pub(super) async fn stop_one(&self, pod: &Pod, id: &str, why: Why) -> Result<(), Failed> {
        let observed = lock(&self.observed).clone();
        let Some(run) = observed.containers.iter().find(|container| container.id == id) else { return Ok(()) };
        let spec = pod.container(&run.name);
        let (what, probe) = match why {
            Why::Unhealthy(Probe::Liveness) => {
                ("failed liveness probe", spec.and_then(|spec| spec.liveness_probe.as_ref()))
            }
            Why::Unhealthy(Probe::Startup) => {
                ("failed startup probe", spec.and_then(|spec| spec.startup_probe.as_ref()))
            }
            Why::Changed => ("definition changed", None),
        };
        let message = format!("Container {} {what}, will be restarted", run.name);
        self.node.voice.normal(pod, Some(&run.name), "Killing", message);
        let of_probe = probe.and_then(|probe| probe.termination_grace_period_seconds);
        let grace = of_probe.unwrap_or_else(|| pod.grace_period());
        Ok(self.end(pod, run, seconds(grace)).await?)
    }

    /// Ends a container after something else has said why.
    pub(super) async fn kill(&self, pod: &Pod, id: &str, name: &str, why: &str, grace: i64) {
        self.node.voice.normal(pod, Some(name), "Killing", why.to_owned());
        if let Err(error) = self.node.runtime.stop_container(id, seconds(grace)).await {
            tracing::warn!(pod = pod.description(), %error, "a container does not end");
        }
    }

    /// Ends all containers: the main ones together, then the sidecars from the last to the first.
    pub(super) async fn stop_all(&self, pod: &Pod) -> Result<(), Failed> {
        let observed = lock(&self.observed).clone();
        let deadline = Instant::now() + seconds(pod.grace_period());
        let lives = |run: &&Container| !matches!(run.state, State::Exited(_));
        let is_sidecar =
            |run: &&Container| pod.container(&run.name).is_some_and(|spec| pod.role(spec) == Role::Sidecar);
        let (sidecars, others): (Vec<_>, Vec<_>) = observed.containers.iter().filter(lives).partition(is_sidecar);
        let ended = join_all(others.iter().map(|run| self.stop(pod, run, deadline))).await;
        ended.into_iter().collect::<Result<Vec<_>, _>>()?;
        for spec in pod.init_containers().iter().rev() {
            for run in sidecars.iter().filter(|run| run.name == spec.name) {
                self.stop(pod, run, deadline).await?;
            }
        }
        Ok(())
    }

    async fn stop(&self, pod: &Pod, run: &Container, deadline: Instant) -> Result<(), Failed> {
        if run.state == State::Created {
            return Ok(self.discard(&run.id).await?);
        }
        self.node.voice.normal(pod, Some(&run.name), "Killing", format!("Stopping container {}", run.name));
        Ok(self.end(pod, run, deadline.saturating_duration_since(Instant::now())).await?)
    }

    /// Removes a container. One that was about to start when its pod went may run by now: the runtime refuses to remove it
    /// before it is stopped.
    async fn discard(&self, id: &str) -> Result<(), c5c3_cri::CallError> {
        match self.node.runtime.stop_container(id, Duration::ZERO).await {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
        self.node.runtime.remove_container(id).await
    }

    /// Runs the hook, then ends the container; both within the grace.
    async fn end(&self, pod: &Pod, run: &Container, grace: Duration) -> Result<(), c5c3_cri::CallError> {
        let deadline = Instant::now() + grace;
        let spec = pod.container(&run.name);
        let hook = spec.and_then(|spec| spec.lifecycle.as_ref()?.pre_stop.as_ref().map(|hook| (spec, hook)));
        let is_first = lock(&self.memory).pre_stopped.insert(run.id.clone());
        if let (Some((spec, hook)), true, true) = (hook, is_first, run.is_running()) {
            let ips = self.pod_ips(pod);
            let ip = ips.first().map_or("", String::as_str);
            let done = hooks::run(&self.node.runtime, hook, spec, &run.id, ip, Some(grace)).await;
            if let Err(message) = done {
                let told = format!("PreStopHook failed: {message}");
                self.node.voice.warning(pod, Some(&run.name), "FailedPreStopHook", told);
            }
        }
        // As with upstream: who used all of the grace for the hook gets a little more.
        let left = deadline.saturating_duration_since(Instant::now());
        let left = if hook.is_some() { left.max(LEAST) } else { left };
        let stopped = self.node.runtime.stop_container(&run.id, left).await;
        match stopped {
            Err(error) if error.is_not_found() => Ok(()),
            stopped => stopped,
        }
    }

    /// What a pod that is over does not need.
    pub(super) async fn clean_up(&self, pod: &Pod) -> Result<(), Failed> {
        lock(&self.probes).end();
        let (folders, uid) = (self.node.folders.clone(), pod.uid().to_owned());
        let unmounted = tokio::task::spawn_blocking(move || volumes::unmount(&folders, &uid)).await;
        unmounted.unwrap_or_else(|error| Err(VolumeError::at("unmount".as_ref())(std::io::Error::other(error))))?;
        cgroups::remove(&resources::cgroup(&self.node.config.site.cgroup_parent(), pod));
        *lock(&self.volumes) = None;
        lock(&self.memory).is_clean = true;
        self.node.discharge(pod.uid());
        Ok(())
    }

    /// Leaves nothing of a deleted pod.
    pub(super) async fn release(&self, wanted: &Wanted) -> Result<(), Failed> {
        let pod = &wanted.pod;
        let observed = lock(&self.observed).clone();
        for container in &observed.containers {
            self.discard(&container.id).await?;
        }
        for sandbox in &observed.sandboxes {
            // With it end the containers that were being created when the pod went, and were not seen yet.
            self.node.runtime.stop_pod_sandbox(&sandbox.id).await?;
            self.node.runtime.remove_pod_sandbox(&sandbox.id).await?;
        }
        volumes::remove(&self.node.folders, pod.uid())?;
        let logs = self.node.folders.pod_logs(pod);
        if logs.exists() {
            std::fs::remove_dir_all(&logs).map_err(VolumeError::at(&logs))?;
        }
        if !wanted.is_gone {
            self.report.finish(self.node.client.clone(), pod).await;
        }
        Ok(())
    }
}

fn seconds(number: i64) -> Duration {
    Duration::from_secs(u64::try_from(number).unwrap_or(0))
}
