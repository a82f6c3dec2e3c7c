//! The status of a pod, as the API shows it: from what the runtime says, what the probes say and what was there before.

mod conditions;
mod containers;
mod phase;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{HostIP, PodIP, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::decide::deadline;
use crate::memory::{Memory, Verdict};
use crate::observe::Observed;
use crate::pod::Pod;
pub(crate) use containers::container_id;

/// Everything that a status is made from.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) observed: &'a Observed,
    pub(crate) memory: &'a Memory,
    /// What this function said before, which the API may not show yet.
    pub(crate) last: Option<&'a PodStatus>,
    /// Messages of the containers that wait for their restart.
    pub(crate) crash_loops: &'a BTreeMap<String, String>,
    /// Nothing will start any more.
    pub(crate) is_ending: bool,
    /// The node's address.
    pub(crate) host_ip: &'a str,
    pub(crate) now: Timestamp,
}

impl Facts<'_> {
    /// Nothing will start any more, and nothing runs.
    fn has_ended(&self) -> bool {
        self.is_ending && self.observed.running().next().is_none()
    }
}

/// The status that the pod should have.
pub(crate) fn status(facts: Facts<'_>) -> PodStatus {
    let old = facts.pod.status().cloned().unwrap_or_default();
    if facts.pod.is_over() && facts.has_ended() {
        // What is over stays as it ended.
        return old;
    }
    let mut new = PodStatus {
        observed_generation: facts.pod.generation(),
        start_time: old.start_time.or_else(|| facts.last?.start_time.clone()).or(Some(Time(facts.now))),
        host_ip: Some(facts.host_ip.to_owned()),
        host_ips: Some(vec![HostIP { ip: facts.host_ip.to_owned() }]),
        qos_class: old.qos_class,
        ..PodStatus::default()
    };
    let ips = pod_ips(&facts);
    new.pod_ip = ips.first().cloned();
    new.pod_ips = (!ips.is_empty()).then(|| ips.into_iter().map(|ip| PodIP { ip }).collect());
    new.container_statuses = Some(containers::statuses(&facts, facts.pod.main_containers()));
    let inits = facts.pod.init_containers();
    new.init_container_statuses = (!inits.is_empty()).then(|| containers::statuses(&facts, inits));
    let ephemeral = facts.pod.ephemeral_containers();
    new.ephemeral_container_statuses = (!ephemeral.is_empty()).then(|| containers::ephemeral(&facts, ephemeral));
    new.phase = Some(phase::phase(&facts, &new).to_owned());
    if let Some(verdict) = verdict(&facts).filter(|_| facts.has_ended()) {
        new.phase = Some("Failed".to_owned());
        (new.reason, new.message) = (Some(verdict.reason), Some(verdict.message));
    }
    if facts.pod.is_over() {
        (new.phase, new.reason, new.message) = (old.phase, old.reason, old.message);
    }
    new.conditions = Some(conditions::conditions(&facts, &new, old.conditions.unwrap_or_default()));
    new
}

/// Why the node ends the pod, if it does.
fn verdict(facts: &Facts<'_>) -> Option<Verdict> {
    let is_late = deadline(facts.pod).is_some_and(|at| at <= facts.now);
    let late = is_late.then(|| Verdict {
        reason: "DeadlineExceeded".to_owned(),
        message: "Pod was active on the node longer than the specified deadline".to_owned(),
    });
    facts.memory.verdict.clone().or(late)
}

/// The sandbox's addresses, the node's for a pod in the node's network. A pod that has ended keeps the one it had.
fn pod_ips(facts: &Facts<'_>) -> Vec<String> {
    let sandbox = facts.observed.sandbox();
    if facts.pod.is_host_network() {
        return sandbox.map(|_| facts.host_ip.to_owned()).or_else(|| known_ip(facts)).into_iter().collect();
    }
    match sandbox {
        Some(sandbox) if !sandbox.ips.is_empty() => sandbox.ips.clone(),
        _ => known_ip(facts).into_iter().collect(),
    }
}

fn known_ip(facts: &Facts<'_>) -> Option<String> {
    let known = facts.pod.status().and_then(|status| status.pod_ip.clone());
    known.filter(|_| facts.is_ending || facts.pod.is_over())
}
