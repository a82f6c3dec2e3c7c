//! The conditions of a pod: what has come true of it, and when.

use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Facts;
use crate::pod::Role;

/// A condition's answer: true, or the reason and the message why not (or, with a reason, why yes).
struct Answer {
    is_true: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

const YES: Answer = Answer { is_true: true, reason: None, message: None };

fn no(reason: &'static str, message: String) -> Answer {
    Answer { is_true: false, reason: Some(reason), message: Some(message) }
}

/// The node's conditions; those of others are as they were.
pub(super) fn conditions(facts: &Facts<'_>, status: &PodStatus, old: Vec<PodCondition>) -> Vec<PodCondition> {
    let containers_ready = containers_ready(facts, status);
    let ready = ready(facts, &containers_ready, &old);
    let answers = [
        ("PodReadyToStartContainers", has_network(facts, status)),
        ("Initialized", initialized(facts, status)),
        ("Ready", ready),
        ("ContainersReady", containers_ready),
        // A pod that is here has been given a node, be it by who made it.
        ("PodScheduled", YES),
    ];
    let mut conditions = old;
    for (name, answer) in answers {
        let value = if answer.is_true { "True" } else { "False" };
        let known = conditions.iter().position(|condition| condition.type_ == name);
        let told = facts.last.and_then(|last| last.conditions.as_ref()).into_iter().flatten();
        let mut told = told.filter(|told| told.type_ == name);
        let since = told.next().or(known.map(|at| &conditions[at])).filter(|known| known.status == value);
        let condition = PodCondition {
            type_: name.to_owned(),
            observed_generation: facts.pod.generation(),
            status: value.to_owned(),
            reason: answer.reason.map(str::to_owned),
            message: answer.message,
            last_transition_time: since.map_or(Some(Time(facts.now)), |known| known.last_transition_time.clone()),
            ..PodCondition::default()
        };
        match known {
            Some(at) => conditions[at] = condition,
            None => conditions.push(condition),
        }
    }
    conditions
}

fn has_network(facts: &Facts<'_>, status: &PodStatus) -> Answer {
    let is_true = facts.observed.sandbox().is_some() && status.pod_ip.is_some();
    Answer { is_true, reason: None, message: None }
}

fn initialized(facts: &Facts<'_>, status: &PodStatus) -> Answer {
    if status.phase.as_deref() == Some("Succeeded") {
        return Answer { reason: Some("PodCompleted"), ..YES };
    }
    let statuses = status.init_container_statuses.as_deref().unwrap_or_default();
    // Once the main containers run, it stays true while init containers are forgotten or sidecars restart.
    let mains = status.container_statuses.as_deref().unwrap_or_default();
    if mains.iter().any(|main| main.container_id.is_some()) {
        return YES;
    }
    let pending: Vec<&str> = facts
        .pod
        .init_containers()
        .iter()
        .zip(statuses)
        .filter(|(spec, status)| match facts.pod.role(spec) {
            Role::Sidecar => status.started != Some(true),
            _ => !status.ready,
        })
        .map(|(spec, _)| spec.name.as_str())
        .collect();
    if pending.is_empty() {
        return YES;
    }
    no("ContainersNotInitialized", format!("containers with incomplete status: [{}]", pending.join(" ")))
}

fn containers_ready(facts: &Facts<'_>, status: &PodStatus) -> Answer {
    match status.phase.as_deref() {
        Some("Succeeded") => return no("PodCompleted", String::new()),
        Some("Failed") => return no("PodFailed", String::new()),
        _ => {}
    }
    let sidecars = facts.pod.init_containers().iter().zip(status.init_container_statuses.iter().flatten());
    let sidecars = sidecars.filter(|(spec, _)| facts.pod.role(spec) == Role::Sidecar).map(|(_, status)| status);
    let mains = status.container_statuses.iter().flatten();
    let unready = |status: &&ContainerStatus| !status.ready;
    let names: Vec<&str> = sidecars.chain(mains).filter(unready).map(|status| status.name.as_str()).collect();
    if names.is_empty() {
        return YES;
    }
    no("ContainersNotReady", format!("containers with unready status: [{}]", names.join(" ")))
}

fn ready(facts: &Facts<'_>, containers: &Answer, conditions: &[PodCondition]) -> Answer {
    if !containers.is_true {
        return Answer { message: containers.message.clone(), ..*containers };
    }
    let gates = facts.pod.spec().readiness_gates.as_deref().unwrap_or_default();
    let problems: Vec<String> = gates
        .iter()
        .filter_map(|gate| {
            let name = &gate.condition_type;
            let known = conditions.iter().find(|condition| condition.type_ == *name);
            match known.map(|condition| condition.status.as_str()) {
                Some("True") => None,
                Some(other) => {
                    Some(format!("the status of pod readiness gate \"{name}\" is not \"True\", but {other}"))
                }
                None => Some(format!("corresponding condition of pod readiness gate \"{name}\" does not exist.")),
            }
        })
        .collect();
    if problems.is_empty() { YES } else { no("ReadinessGatesNotReady", problems.join(", ")) }
}
