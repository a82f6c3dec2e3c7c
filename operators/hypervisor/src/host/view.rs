//! What is known of a host: its object, and what Nova, Placement and the cluster answered.

use c5c3_api::blocks::{Condition, ConditionStatus};
use c5c3_api::hypervisor::{Hypervisor, HypervisorStatus, Maintenance};
use c5c3_kit::{Call, Inputs, Question as AnyQuestion, Wait};
use c5c3_openstack::Access;
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::access;
use crate::cloud::nova::{Aggregate, Traits};
use crate::cloud::{Agents, Answer, Ask, Booted, Cloud, Consumers, Deed, Guests, HostSeen, Order, Question};
use crate::left_alone::{LeftAlone, left_alone};
use crate::node::{INTERNAL_IP, LEAVING};
use crate::settings::Settings;

/// How far a host has come on its way into Nova.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Initial,
    Testing,
    Handover,
    Succeeded,
    Aborted,
}

impl Phase {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Initial => "Initial",
            Self::Testing => "Testing",
            Self::Handover => "Handover",
            Self::Succeeded => "Succeeded",
            Self::Aborted => "Aborted",
        }
    }

    pub(super) fn is_in_progress(self) -> bool {
        matches!(self, Self::Initial | Self::Testing | Self::Handover)
    }

    fn parse(name: &str) -> Option<Self> {
        let all = [Self::Initial, Self::Testing, Self::Handover, Self::Succeeded, Self::Aborted];
        all.into_iter().find(|phase| phase.name() == name)
    }
}

/// What is known of a host.
pub(super) struct View<'a> {
    pub(super) settings: &'a Settings,
    pub(super) inputs: &'a Inputs<Hypervisor>,
    pub(super) name: String,
    pub(super) access: Access,
    pub(super) before: HypervisorStatus,
    pub(super) host: &'a HostSeen,
}

impl<'a> View<'a> {
    /// What is known, if Nova has answered for the host.
    pub(super) fn new(settings: &'a Settings, inputs: &'a Inputs<Hypervisor>) -> Result<Self, Wait> {
        let access = access::read(inputs, &settings.cloud)?;
        let name = inputs.object.name_any();
        let question = Question { access: access.clone(), ask: Ask::Host(name.clone()) };
        let Answer::Host(host) = inputs.answered::<Cloud>(&question)? else { unreachable!("asked for a host") };
        let before = inputs.object.status.clone().unwrap_or_default();
        Ok(Self { settings, inputs, name, access, before, host })
    }

    pub(super) fn object(&self) -> &'a Hypervisor {
        &self.inputs.object
    }

    pub(super) fn now(&self) -> Timestamp {
        self.inputs.now
    }

    pub(super) fn maintenance(&self) -> Maintenance {
        self.object().spec.maintenance
    }

    pub(super) fn is_terminating(&self) -> bool {
        self.maintenance() == Maintenance::Termination
    }

    /// Why the operator leaves the host alone; none if it may act.
    pub(super) fn left_alone(&self) -> Option<LeftAlone> {
        left_alone(self.object())
    }

    pub(super) fn node_is_leaving(&self) -> bool {
        self.object().annotations().get(LEAVING).is_some_and(|value| value == "true")
    }

    pub(super) fn condition(&self, name: &str) -> Option<&Condition> {
        self.before.conditions.iter().find(|condition| condition.r#type == name)
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        self.condition(name).is_some_and(|condition| condition.status == ConditionStatus::True)
    }

    /// The phase that was written last.
    pub(super) fn phase_before(&self) -> Option<Phase> {
        Phase::parse(self.condition("Onboarding")?.reason.as_deref()?)
    }

    /// The id of the hypervisor and resource provider; the last one that was known after it is gone from Nova.
    pub(super) fn provider(&self) -> Option<String> {
        self.host.compute.as_ref().map(|compute| compute.id.clone()).or_else(|| self.before.hypervisor_id.clone())
    }

    pub(super) fn member_of(&self) -> impl Iterator<Item = &'a Aggregate> {
        self.host.aggregates.all.iter().filter(|aggregate| aggregate.hosts.contains(&self.name))
    }

    pub(super) fn aggregate(&self, name: &str) -> Option<&'a Aggregate> {
        self.host.aggregates.all.iter().find(|aggregate| aggregate.name == name)
    }

    /// The name of the smoke server, which is also its host name: of the object, so that one of before is not taken for it.
    pub(super) fn smoke_name(&self) -> String {
        smoke_name(self.object())
    }

    /// The credential of the smoke server's project.
    pub(super) fn smoke_access(&self) -> Result<Access, Wait> {
        smoke_access(self.settings, self.inputs)
    }

    pub(super) fn call(&self, deed: Deed, because: impl Into<String>) -> Call {
        Call::to::<Cloud>(Order { access: self.access.clone(), deed }, because)
    }

    fn answered(&self, access: &Access, ask: Ask) -> Result<&'a Answer, Wait> {
        self.inputs.answered::<Cloud>(&Question { access: access.clone(), ask })
    }

    pub(super) fn guests(&self) -> Result<&'a Guests, Wait> {
        let ask = Ask::Guests { host: self.name.clone(), drain: String::new() };
        match self.answered(&self.access, ask)? {
            Answer::Guests(guests) => Ok(guests),
            _ => unreachable!("asked for guests"),
        }
    }

    pub(super) fn traits(&self) -> Result<Option<&'a Traits>, Wait> {
        let Some(provider) = self.provider() else { return Ok(None) };
        match self.answered(&self.access, Ask::Traits(provider))? {
            Answer::Traits(traits) => Ok(traits.as_ref()),
            _ => unreachable!("asked for traits"),
        }
    }

    pub(super) fn consumers(&self) -> Result<Option<&'a Consumers>, Wait> {
        let Some(provider) = self.provider() else { return Ok(None) };
        match self.answered(&self.access, Ask::Consumers(provider))? {
            Answer::Consumers(consumers) => Ok(consumers.as_ref()),
            _ => unreachable!("asked for consumers"),
        }
    }

    pub(super) fn smoke(&self) -> Result<&'a [Booted], Wait> {
        match self.answered(&self.smoke_access()?, Ask::Smoke(self.smoke_name()))? {
            Answer::Smoke(booted) => Ok(booted),
            _ => unreachable!("asked for the smoke server"),
        }
    }

    pub(super) fn agents(&self) -> Result<&'a Agents, Wait> {
        match self.answered(&self.access, Ask::Agents(self.name.clone()))? {
            Answer::Agents(agents) => Ok(agents),
            _ => unreachable!("asked for agents"),
        }
    }

    pub(super) fn bridges(&self) -> Result<Option<&'a [String]>, Wait> {
        match self.answered(&self.access, Ask::Bridges(self.name.clone()))? {
            Answer::Bridges(bridges) => Ok(bridges.as_deref()),
            _ => unreachable!("asked for bridges"),
        }
    }

    /// The fields of the status that are the operator's.
    pub(super) fn status(&self, traits: &[String], evicted: Option<bool>) -> Vec<(&'static str, Value)> {
        let mut aggregates: Vec<Value> =
            self.member_of().map(|one| json!({"name": one.name, "uuid": one.uuid, "metadata": one.metadata})).collect();
        for aggregate in &mut aggregates {
            if let Some(fields) = aggregate.as_object_mut() {
                fields.retain(|_, value| !value.is_null() && value.as_object().is_none_or(|map| !map.is_empty()));
            }
        }
        aggregates.sort_by_key(|aggregate| aggregate["name"].to_string());
        let service = self.host.service.as_ref().map(|service| service.id.clone());
        let fields = [
            ("hypervisorId", json!(self.provider())),
            ("serviceId", json!(service.or_else(|| self.before.service_id.clone()))),
            ("internalIp", json!(self.object().annotations().get(INTERNAL_IP))),
            ("aggregates", json!(aggregates)),
            ("traits", json!(traits)),
            ("evicted", json!(evicted)),
        ];
        let is_said = |value: &Value| !value.is_null() && value.as_array().is_none_or(|all| !all.is_empty());
        fields.into_iter().filter(|(_, value)| is_said(value)).collect()
    }
}

fn smoke_name(object: &Hypervisor) -> String {
    let uid = object.uid().unwrap_or_default();
    let host: String = object.name_any().chars().map(|c| if c == '.' { '-' } else { c }).take(40).collect();
    format!("c5c3-smoke-{host}-{}", uid.split('-').next().unwrap_or_default())
}

fn smoke_access(settings: &Settings, inputs: &Inputs<Hypervisor>) -> Result<Access, Wait> {
    let own = settings.smoke.as_ref().and_then(|smoke| smoke.cloud.as_ref());
    access::read(inputs, own.unwrap_or(&settings.cloud))
}

/// What is asked: of every host little, and more the more there is to do.
pub(super) fn questions(settings: &Settings, inputs: &Inputs<Hypervisor>) -> Vec<AnyQuestion> {
    let Ok(access) = access::read(inputs, &settings.cloud) else { return Vec::new() };
    let object = &inputs.object;
    let mut asks = vec![Ask::Host(object.name_any())];
    let mut smoke = Vec::new();
    if let Ok(view) = View::new(settings, inputs) {
        let (phase, provider) = (view.phase_before(), view.provider());
        let is_leaving = view.is_terminating() || object.metadata.deletion_timestamp.is_some();
        let (spec, is_ours) = (&object.spec, view.left_alone().is_none());
        if is_ours && !is_leaving && matches!(phase, Some(Phase::Handover | Phase::Succeeded)) {
            asks.extend(provider.clone().map(Ask::Traits));
        }
        // Also after an abort: what was begun is cleaned up.
        let was_testing = matches!(phase, Some(Phase::Testing | Phase::Handover | Phase::Aborted));
        if settings.smoke.is_some() && !spec.skip_tests && was_testing {
            smoke.push(Ask::Smoke(smoke_name(object)));
        }
        if !settings.bridges.is_empty() && phase == Some(Phase::Testing) {
            asks.push(Ask::Bridges(object.name_any()));
        }
        if phase == Some(Phase::Initial) && !is_leaving {
            asks.push(Ask::Agents(object.name_any()));
        }
        if is_ours && is_leaving {
            asks.push(Ask::Guests { host: object.name_any(), drain: String::new() });
            asks.push(Ask::Agents(object.name_any()));
            asks.extend(provider.map(Ask::Consumers));
        }
    }
    let own = asks.into_iter().map(|ask| Question { access: access.clone(), ask });
    let of_smoke = smoke_access(settings, inputs).ok();
    let smoke = smoke.into_iter().filter_map(|ask| Some(Question { access: of_smoke.clone()?, ask }));
    own.chain(smoke).map(AnyQuestion::to::<Cloud>).collect()
}
