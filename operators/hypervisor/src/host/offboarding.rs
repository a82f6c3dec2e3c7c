//! Offboarding: the host is empty, then out of its aggregates, then its service, its allocations and its resource provider are
//! deleted. Each is asked for again before the next.

use c5c3_api::blocks::ConditionStatus;
use c5c3_kit::condition::ConditionState;
use c5c3_kit::{Call, Farewell, Ref, Step, Wait};
use k8s_openapi::api::core::v1::Node;

use super::maintenance::EvictionState;
use super::onboarding::Onboarding;
use super::view::View;
use crate::cloud::Deed;

/// How far a host is out of Nova.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    NotAsked,
    Leaving,
    Gone,
}

/// The host on its way out.
pub(super) struct Leaving {
    pub(super) agents: Step,
    pub(super) step: Step,
    pub(super) condition: ConditionState,
    pub(super) state: State,
    pub(super) again: bool,
}

fn said(status: ConditionStatus, reason: &str, message: impl Into<String>) -> ConditionState {
    ConditionState { condition: "Offboarded".into(), status, reason: reason.into(), message: message.into() }
}

/// What comes next: a call, a wait, or nothing because Nova and Placement know nothing of the host any more.
enum Next {
    Calls(Vec<Call>),
    Waits(Box<Wait>),
    Gone,
}

fn held(view: &View<'_>, now: String, remedy: String, reason: &'static str) -> Next {
    let wait = Wait::on(&Ref::cluster::<Node>(&view.name)).condition("is empty").now(now).look_at(remedy);
    Next::Waits(Box::new(wait.failed(reason)))
}

/// The next thing to delete, of a host that nobody uses. A host that is being terminated leaves its aggregates in a step of its own,
/// which comes before.
fn next(view: &View<'_>, leaves_aggregates: bool) -> Next {
    let guests = match view.guests() {
        Ok(guests) => guests,
        Err(wait) => return Next::Waits(Box::new(wait)),
    };
    if !guests.servers.is_empty() {
        let names: Vec<String> = guests.servers.iter().map(|one| format!("{} ({})", one.name, one.id)).collect();
        let now = format!("still has {} servers: {}", names.len(), names.join(", "));
        return held(view, now, format!("c5c3 drain {}", view.name), "HostNotEmpty");
    }
    if let Some(moving) = guests.migrations.iter().find(|one| one.is_active() || one.is_unconfirmed()) {
        let now = format!("migration {} of server {} has not ended", moving.id, moving.instance_uuid);
        return held(view, now, "openstack server migration list".into(), "MigrationRunning");
    }
    if let Some(service) = &view.host.service {
        let removals: Vec<Call> = view
            .member_of()
            .filter(|_| leaves_aggregates)
            .map(|one| {
                let (host, name) = (view.name.clone(), one.name.clone());
                view.call(Deed::RemoveHost { host, aggregate: one.id, name }, "the host leaves Nova")
            })
            .collect();
        if !removals.is_empty() {
            return Next::Calls(removals);
        }
        let deed = Deed::DeleteService { host: view.name.clone(), service: service.id.clone() };
        return Next::Calls(vec![view.call(deed, "the host leaves Nova, and has no servers")]);
    }
    let consumers = match view.consumers() {
        Ok(None) => return Next::Gone,
        Ok(Some(consumers)) => consumers,
        Err(wait) => return Next::Waits(Box::new(wait)),
    };
    if !consumers.servers.is_empty() {
        let now = format!("servers hold resources of it: {}", consumers.servers.join(", "));
        return held(view, now, "nova-manage placement audit".into(), "AllocationsLeft");
    }
    if !consumers.orphans.is_empty() {
        let delete = |consumer: &String| {
            view.call(Deed::DeleteAllocations { consumer: consumer.clone() }, "Nova has no server of that id")
        };
        return Next::Calls(consumers.orphans.iter().map(delete).collect());
    }
    let provider = view.provider().unwrap_or_default();
    Next::Calls(vec![view.call(Deed::DeleteProvider { provider }, "a host of the same name could not be added again")])
}

/// Takes a host out of Nova that is being terminated.
pub(super) fn decide(view: &View<'_>, onboarding: &Onboarding, eviction: &EvictionState) -> Leaving {
    let agents = Step::new("AgentPodsEvicted").node("agents", ["eviction"]);
    let step = Step::new("Offboarded").node("offboarding", ["agents", "aggregates"]);
    let left_alone = view.left_alone();
    if !view.is_terminating() || left_alone.is_some() {
        let message = left_alone.map_or("the host is not being terminated", |why| why.now);
        let reason = left_alone.map_or("NotAsked", |why| why.reason);
        let condition = said(ConditionStatus::False, reason, message);
        let agents = agents.childless().reasons("NotAsked", "NotAsked").done(message);
        return Leaving { agents, step: step.childless(), condition, state: State::NotAsked, again: false };
    }
    let leaving = |agents: Step, step: Step, message: String| {
        let condition = said(ConditionStatus::False, "Offboarding", message);
        Leaving { agents, step, condition, state: State::Leaving, again: true }
    };
    let pending = |message: &str| {
        Wait::on(&Ref::cluster::<Node>(&view.name))
            .condition("is drained")
            .now(message.to_owned())
            .with_reason("NotDrained")
    };
    if onboarding.phase.is_in_progress() {
        let message = "waits until onboarding has ended";
        return leaving(agents.undecided([pending(message)]), step.undecided([pending(message)]), message.into());
    }
    if eviction.evicted != Some(true) {
        let message = if eviction.failed {
            format!("held back, because the drain failed: {}", eviction.condition.message)
        } else {
            "waits until all instances have left".to_owned()
        };
        return leaving(agents.undecided([pending(&message)]), step.undecided([pending(&message)]), message);
    }
    let left = match view.agents() {
        Ok(left) => left,
        Err(wait) => return leaving(agents.undecided([wait.clone()]), step.undecided([wait]), "unknown".into()),
    };
    let agents = if left.pods.is_empty() && (left.tainted || left.gone) {
        agents.childless().reasons("NoAgentPods", "AgentPodsRunning").done("no agents' pods are on the node")
    } else {
        let deed = Deed::Taint { node: view.name.clone() };
        let wait = Wait::on(&Ref::cluster::<Node>(&view.name))
            .condition("has no agents' pods")
            .now(format!("still has {}", left.pods.join(", ")))
            .because("nova-compute would register the host again")
            .with_reason("AgentPodsRunning");
        if left.tainted {
            agents.childless().wait(wait)
        } else {
            agents.call(view.call(deed, "its agents' pods have to go"))
        }
    };
    match next(view, false) {
        Next::Gone => {
            let condition =
                said(ConditionStatus::True, "Offboarded", "Nova and Placement do not know the host any more");
            Leaving { agents, step: step.childless(), condition, state: State::Gone, again: false }
        }
        Next::Waits(wait) => {
            let message = wait.message(None);
            leaving(agents, step.undecided([*wait]), message)
        }
        Next::Calls(calls) => {
            let message = calls.first().map(Call::title).unwrap_or_default();
            leaving(agents, calls.into_iter().fold(step, Step::call), message)
        }
    }
}

/// The same when the object is deleted: by the garbage collector, because its node is gone, or by a person.
pub(super) fn farewell(view: &View<'_>) -> Farewell {
    let leaves = || Farewell::new().leaves(format!("the compute service and the resource provider of {}", view.name));
    match next(view, true) {
        Next::Gone => Farewell::new(),
        Next::Waits(wait) => leaves().wait(*wait),
        Next::Calls(calls) => calls.into_iter().fold(leaves(), Farewell::call),
    }
}
