//! A Hypervisor: what is known of its host, and what follows from it. Every step of its life is one pure function here; the parts
//! are in the modules below.

mod maintenance;
mod membership;
mod offboarding;
mod onboarding;
mod ready;
mod view;

use std::sync::Arc;
use std::time::Duration;

use c5c3_api::hypervisor::{Eviction, Hypervisor};
use c5c3_kit::condition::ConditionState;
use c5c3_kit::report::Outcome;
use c5c3_kit::{
    Controller, Farewell, Inputs, KindRef, Plan, Question as AnyQuestion, Ref, RemoteHandle, Step, Summary, Verdict,
    Wait,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::access;
use crate::cloud::{Cloud, rights};
use crate::elsewhere;
use crate::left_alone::left_alone;
use crate::settings::Settings;
use crate::unsupported;
use view::View;

/// The controller of Hypervisors.
pub(crate) struct Hosts {
    settings: Arc<Settings>,
    cloud: Arc<Cloud>,
}

impl Hosts {
    pub(crate) fn new(settings: Arc<Settings>, cloud: Arc<Cloud>) -> Self {
        Self { settings, cloud }
    }

    /// What is known, or what is waited for.
    fn view<'a>(&'a self, inputs: &'a Inputs<Hypervisor>) -> Result<View<'a>, Wait> {
        View::new(&self.settings, inputs)
    }
}

impl Controller for Hosts {
    type Kind = Hypervisor;
    type Valid = ();
    const NAME: &'static str = "hypervisor";
    const CONDITIONS: &'static [&'static str] = &[
        "Onboarding",
        "HypervisorDisabled",
        "Evicting",
        "TraitsUpdated",
        "AggregatesUpdated",
        "AgentPodsEvicted",
        "Offboarded",
        "Terminating",
        "Tainted",
        unsupported::CONDITION,
    ];
    const SUMMARY: &'static [&'static str] = &["Ready"];
    const FINALIZER: Option<&'static str> = Some("hypervisor.c5c3.io/offboarding");

    /// The conditions of others that decide something here.
    fn trigger(&self, object: &kube::api::DynamicObject) -> Option<String> {
        Some(elsewhere::statuses(object, &["HaEnabled", "LibVirtConnection"]))
    }

    fn children(&self) -> Vec<KindRef> {
        vec![KindRef::of::<Eviction>()]
    }

    fn observes(&self) -> Vec<KindRef> {
        vec![KindRef::of::<Eviction>()]
    }

    fn reads(&self) -> Vec<KindRef> {
        vec![KindRef::of::<Secret>()]
    }

    fn needs(&self, _: &Inputs<Hypervisor>) -> Vec<Ref> {
        let smoke = self.settings.smoke.as_ref().and_then(|smoke| smoke.cloud.as_ref());
        [&self.settings.cloud].into_iter().chain(smoke).map(access::secret).collect()
    }

    fn remote_in(&self, client: &Client) -> Option<RemoteHandle> {
        self.cloud.connect(client);
        Some(RemoteHandle::new(self.cloud.clone()))
    }

    fn rights(&self) -> Vec<(KindRef, &'static str, &'static [&'static str])> {
        rights()
    }

    fn questions(&self, inputs: &Inputs<Hypervisor>) -> Vec<AnyQuestion> {
        view::questions(&self.settings, inputs)
    }

    fn validate(&self, inputs: &Inputs<Hypervisor>) -> Verdict<()> {
        match access::read(inputs, &self.settings.cloud) {
            Ok(_) => Verdict::Valid(()),
            Err(wait) => Verdict::Wait(vec![wait]),
        }
    }

    fn plan(&self, (): &(), inputs: &Inputs<Hypervisor>) -> Plan {
        let plan = Plan::new().resync(Some(self.settings.resync));
        let plan = match self.view(inputs) {
            Ok(view) => decide(&view, plan),
            // Nothing new is known: conditions and children stay as they are.
            Err(wait) => plan.step(Step::new("Onboarding").node("nova", []).undecided([wait])).keep_known(inputs),
        };
        plan.step(unsupported::step(&inputs.object))
    }

    fn summary(&self, state: Summary<'_>) -> Vec<ConditionState> {
        match state.outcome {
            Outcome::Applied(_, plan) | Outcome::Paused(_, plan) => {
                let stated = plan.conditions.iter().find(|stated| stated.condition == "Ready");
                let is_new = c5c3_kit::condition::find(state.before, "Ready").is_none();
                stated.cloned().or_else(|| is_new.then(|| state.ready())).into_iter().collect()
            }
            _ => vec![state.ready()],
        }
    }

    fn farewell(&self, inputs: &Inputs<Hypervisor>) -> Farewell {
        // Without a credential there is no cloud that the host could leave.
        if access::read(inputs, &self.settings.cloud).is_err() || left_alone(&inputs.object).is_some() {
            return Farewell::new();
        }
        match self.view(inputs) {
            Ok(view) => offboarding::farewell(&view),
            Err(wait) => {
                Farewell::new().wait(wait).leaves(format!("the compute service of {}", inputs.object.name_any()))
            }
        }
    }
}

/// What has to stay when Nova does not answer.
trait KeepKnown {
    fn keep_known(self, inputs: &Inputs<Hypervisor>) -> Self;
}

impl KeepKnown for Plan {
    fn keep_known(self, inputs: &Inputs<Hypervisor>) -> Self {
        let status = inputs.object.status.clone().unwrap_or_default();
        let onboarding = status.conditions.iter().find(|one| one.r#type == "Onboarding");
        let plan = match onboarding {
            Some(one) => self.condition(ConditionState {
                condition: one.r#type.clone(),
                status: one.status,
                reason: one.reason.clone().unwrap_or_default(),
                message: one.message.clone().unwrap_or_default(),
            }),
            None => self,
        };
        let known = json!({"hypervisorId": status.hypervisor_id, "serviceId": status.service_id, "traits": status.traits,
            "aggregates": status.aggregates, "internalIp": status.internal_ip, "evicted": status.evicted});
        known
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(_, value)| !value.is_null())
            .fold(plan, |plan, (key, value)| plan.status(key, value.clone()))
    }
}

/// The whole plan of a host that Nova has answered for.
fn decide(view: &View<'_>, plan: Plan) -> Plan {
    let onboarding = onboarding::decide(view);
    let traits = membership::traits(view, onboarding.phase);
    let aggregates = membership::aggregates(view, onboarding.phase, traits.is_set);
    let onboarding = onboarding.handed_over(view, traits.is_set, aggregates.is_set);
    let service = maintenance::service(view, &onboarding);
    let eviction = maintenance::eviction(view, &service);
    let leaving = offboarding::decide(view, &onboarding, &eviction);
    let ready = ready::ready(view, &onboarding, &service, &eviction, &leaving);

    // Nova sends no event when the service is up again, and schedulers leave the host out until it is told.
    let is_down = ready.reason == "ServiceDown";
    let again = onboarding.again || leaving.again || service.calls_are_due || is_down;
    let mut plan = plan
        .step(service.step)
        .step(onboarding.step(view))
        .step(traits.step)
        .step(aggregates.step)
        .step(eviction.step)
        .step(leaving.agents)
        .step(leaving.step)
        .condition(onboarding.condition())
        .condition(service.condition)
        .condition(eviction.condition)
        .condition(leaving.condition)
        .condition(ready::terminating(view))
        .condition(ready::tainted(view))
        .condition(ready);
    plan.requeue_after = again.then_some(if onboarding.advanced { Duration::ZERO } else { view.settings.wait });
    for (field, value) in view.status(&traits.names, eviction.evicted) {
        plan = plan.status(field, value);
    }
    plan
}
