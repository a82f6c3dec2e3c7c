//! An Eviction: every instance leaves a host, a few at a time; what cannot leave is named with its reason.
//!
//! Nova is the memory of a drain. Which instances move, how often each was tried and what became of it is read from Nova's records of
//! migrations, so that an operator that was killed after any call goes on, and starts nothing twice.

mod instance;

use std::sync::Arc;
use std::time::Duration;

use c5c3_api::blocks::ConditionStatus;
use c5c3_api::hypervisor::{Eviction, EvictionInstance, EvictionInstanceState, Hypervisor};
use c5c3_kit::condition::ConditionState;
use c5c3_kit::report::Outcome;
use c5c3_kit::{
    Call, Controller, Farewell, Inputs, KindRef, Plan, Question as AnyQuestion, Ref, RemoteHandle, Step, Summary,
    Verdict, Wait,
};
use c5c3_openstack::Access;
use k8s_openapi::api::core::v1::Secret;
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::access;
use crate::cloud::{Answer, Ask, Cloud, Deed, Guests, HostSeen, Order, Question};
use crate::left_alone::{LeftAlone, left_alone};
use crate::settings::Settings;

/// How the reason begins of a service that an Eviction disabled itself.
const MARK: &str = "c5c3 eviction";

/// How often is looked whether instances came after the end.
const LATE: Duration = Duration::from_mins(1);

/// The controller of Evictions.
pub(crate) struct Evictions {
    settings: Arc<Settings>,
    cloud: Arc<Cloud>,
}

impl Evictions {
    pub(crate) fn new(settings: Arc<Settings>, cloud: Arc<Cloud>) -> Self {
        Self { settings, cloud }
    }
}

/// What is known of a drain.
struct View<'a> {
    settings: &'a Settings,
    eviction: &'a Eviction,
    access: Access,
    host: &'a HostSeen,
    guests: Option<&'a Guests>,
    now: jiff::Timestamp,
}

impl<'a> View<'a> {
    fn new(settings: &'a Settings, inputs: &'a Inputs<Eviction>) -> Result<Self, Wait> {
        let access = access::read(inputs, &settings.cloud)?;
        let [host, guests] = asks(&inputs.object).map(|ask| Question { access: access.clone(), ask });
        let Answer::Host(host) = inputs.answered::<Cloud>(&host)? else { unreachable!("asked for a host") };
        let guests = match inputs.answered::<Cloud>(&guests)? {
            Answer::Guests(guests) => Some(guests),
            _ => None,
        };
        Ok(Self { settings, eviction: &inputs.object, access, host, guests, now: inputs.now })
    }

    fn host_name(&self) -> &str {
        self.eviction.spec.hypervisor.as_str()
    }

    fn drain(&self) -> String {
        self.eviction.uid().unwrap_or_default()
    }

    fn call(&self, deed: Deed, because: impl Into<String>) -> Call {
        Call::to::<Cloud>(Order { access: self.access.clone(), deed }, because)
    }

    fn before(&self, id: &str) -> Option<&'a EvictionInstance> {
        self.eviction.status.as_ref()?.instances.iter().find(|one| one.id == id)
    }
}

fn asks(eviction: &Eviction) -> [Ask; 2] {
    let host = eviction.spec.hypervisor.to_string();
    [Ask::Host(host.clone()), Ask::Guests { host, drain: eviction.uid().unwrap_or_default() }]
}

impl Controller for Evictions {
    type Kind = Eviction;
    type Valid = ();
    const NAME: &'static str = "eviction";
    const CONDITIONS: &'static [&'static str] =
        &["HypervisorDisabled", "PreflightChecksSucceeded", "MigratingInstance", "HypervisorReEnabled"];
    const SUMMARY: &'static [&'static str] = &["Evicting"];
    const FINALIZER: Option<&'static str> = Some("hypervisor.c5c3.io/eviction");

    fn children(&self) -> Vec<KindRef> {
        Vec::new()
    }

    fn reads(&self) -> Vec<KindRef> {
        vec![KindRef::of::<Secret>(), KindRef::of::<Hypervisor>()]
    }

    fn needs(&self, inputs: &Inputs<Eviction>) -> Vec<Ref> {
        vec![access::secret(&self.settings.cloud), host(&inputs.object)]
    }

    fn remote_in(&self, client: &Client) -> Option<RemoteHandle> {
        self.cloud.connect(client);
        Some(RemoteHandle::new(self.cloud.clone()))
    }

    fn questions(&self, inputs: &Inputs<Eviction>) -> Vec<AnyQuestion> {
        let Ok(access) = access::read(inputs, &self.settings.cloud) else { return Vec::new() };
        if hands_off(inputs).is_some() && inputs.object.metadata.deletion_timestamp.is_none() {
            return Vec::new();
        }
        let asks = asks(&inputs.object).into_iter().map(|ask| Question { access: access.clone(), ask });
        asks.map(AnyQuestion::to::<Cloud>).collect()
    }

    fn validate(&self, inputs: &Inputs<Eviction>) -> Verdict<()> {
        match access::read(inputs, &self.settings.cloud) {
            Ok(_) => Verdict::Valid(()),
            Err(wait) => Verdict::Wait(vec![wait]),
        }
    }

    fn plan(&self, (): &(), inputs: &Inputs<Eviction>) -> Plan {
        if let Some(why) = hands_off(inputs) {
            let message = format!("the host is not drained: {}", why.now);
            let plan = undecided(inputs, why.wait(inputs.object.spec.hypervisor.as_str()));
            return instead(plan, state("Evicting", False, why.reason, message));
        }
        match View::new(&self.settings, inputs) {
            Ok(view) => decide(&view),
            Err(wait) => undecided(inputs, wait),
        }
    }

    fn summary(&self, state: Summary<'_>) -> Vec<ConditionState> {
        match state.outcome {
            Outcome::Applied(_, plan) | Outcome::Paused(_, plan) => {
                let stated = plan.conditions.iter().find(|stated| stated.condition == "Evicting").cloned();
                stated.into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// An Eviction that disabled the service itself enables it again.
    fn farewell(&self, inputs: &Inputs<Eviction>) -> Farewell {
        if access::read(inputs, &self.settings.cloud).is_err() {
            return Farewell::new();
        }
        let leaves = format!("the compute service of {}, disabled", inputs.object.spec.hypervisor);
        match View::new(&self.settings, inputs) {
            Err(wait) => Farewell::new().wait(wait).leaves(leaves),
            Ok(view) => match view.host.service.as_ref().filter(|service| {
                !service.is_enabled()
                    && service.disabled_reason.as_deref().is_some_and(|why| why.starts_with(&mark(view.eviction)))
            }) {
                Some(service) => {
                    let (host, service) = (view.host_name().to_owned(), service.id.clone());
                    let deed = Deed::Enable { host, service, disabled_by: Some(mark(view.eviction)) };
                    Farewell::new().call(view.call(deed, "the eviction that disabled it is deleted")).leaves(leaves)
                }
                None => Farewell::new(),
            },
        }
    }
}

/// The Hypervisor of the host.
fn host(eviction: &Eviction) -> Ref {
    Ref::cluster::<Hypervisor>(eviction.spec.hypervisor.as_str())
}

/// Why the host is not drained, whoever asks for it. A host without a Hypervisor is no one's to leave alone.
fn hands_off(inputs: &Inputs<Eviction>) -> Option<LeftAlone> {
    inputs.typed::<Hypervisor>(&host(&inputs.object)).ok().and_then(|host| left_alone(&host))
}

/// Says this in place of what was said before.
fn instead(mut plan: Plan, stated: ConditionState) -> Plan {
    plan.conditions.retain(|before| before.condition != stated.condition);
    plan.condition(stated)
}

fn mark(eviction: &Eviction) -> String {
    format!("{MARK} {}:", eviction.name_any())
}

/// Nova does not answer: what was said stays.
fn undecided(inputs: &Inputs<Eviction>, wait: Wait) -> Plan {
    let status = inputs.object.status.clone().unwrap_or_default();
    let mut plan = Plan::new().step(Step::new("MigratingInstance").undecided([wait]));
    for one in &status.conditions {
        plan = plan.condition(ConditionState {
            condition: one.r#type.clone(),
            status: one.status,
            reason: one.reason.clone().unwrap_or_default(),
            message: one.message.clone().unwrap_or_default(),
        });
    }
    let kept = json!({"instances": status.instances, "outstandingInstances": status.outstanding_instances,
        "outstandingRamMb": status.outstanding_ram_mb, "hypervisorServiceId": status.hypervisor_service_id,
        "started": status.started, "finished": status.finished});
    kept.as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| !value.is_null())
        .fold(plan, |plan, (field, value)| plan.status(field, value.clone()))
}

fn state(condition: &str, status: ConditionStatus, reason: &str, message: impl Into<String>) -> ConditionState {
    ConditionState { condition: condition.into(), status, reason: reason.into(), message: message.into() }
}

use ConditionStatus::{False, True};

/// The whole plan of a drain.
fn decide(view: &View<'_>) -> Plan {
    let plan = Plan::new().condition(state("HypervisorReEnabled", False, "NotYet", "the eviction exists still"));
    let Some(service) = &view.host.service else {
        let plan = plan
            .condition(state("HypervisorDisabled", True, "NoService", "Nova has no compute service of the host"))
            .condition(state("PreflightChecksSucceeded", True, "Succeeded", "there is nothing to move"))
            .condition(state("MigratingInstance", False, "Succeeded", ""))
            .condition(state("Evicting", False, "Succeeded", "Nova has no compute service of the host"));
        return with_times(view, plan, true).resync(Some(LATE)).step(Step::new("MigratingInstance").childless());
    };
    let step = Step::new("MigratingInstance");
    if service.is_enabled() {
        let reason: String =
            format!("{} {}", mark(view.eviction), view.eviction.spec.reason).chars().take(255).collect();
        let deed = Deed::Disable { host: service.host.clone(), service: service.id.clone(), reason };
        return plan
            .condition(state("HypervisorDisabled", False, "Enabled", "the compute service is disabled first"))
            .condition(state("PreflightChecksSucceeded", False, "Failed", "the compute service is enabled"))
            .condition(state("MigratingInstance", False, "Waiting", ""))
            .condition(state("Evicting", True, "Running", "disables the compute service"))
            .step(step.call(view.call(deed, "instances would come while others leave")));
    }
    let why = service.disabled_reason.clone().unwrap_or_default();
    let plan = plan.condition(state("HypervisorDisabled", True, "Succeeded", why));
    let drained = instance::decide(view);
    drained.into_plan(view, plan, step)
}

/// When it started and ended. An end that was written stays until instances come back.
fn with_times(view: &View<'_>, plan: Plan, is_over: bool) -> Plan {
    let before = view.eviction.status.as_ref();
    let now = json!(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(view.now));
    let started = before.and_then(|status| status.started.as_ref()).map_or_else(|| now.clone(), |time| json!(time));
    let plan = plan.status("started", started);
    let finished = before.and_then(|status| status.finished.as_ref()).map_or(now, |time| json!(time));
    if is_over { plan.status("finished", finished) } else { plan }
}

/// Whether a state leaves nothing to do.
fn is_settled(one: &EvictionInstance) -> bool {
    matches!(one.state, EvictionInstanceState::Migrated | EvictionInstanceState::NonMigratable)
}
