//! Pipelines as data, and what makes of them something that runs.

use crate::filters::Filter;
use crate::params::Params;
use crate::request::{Domain, Request};
use crate::steps::{self, Kind, Role};
use crate::weighers::Weigher;

/// What happens when a step cannot judge a host, because data about it is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// The host stays as if the step were not there; a weigher counts it among the worst.
    Open,
    /// A filter leaves the host out; a weigher fails the decision.
    Closed,
}

impl OnFailure {
    /// A filter that cannot judge must not let anything through; a weigher only gives an order.
    pub fn default_of(role: Role) -> Self {
        match role {
            Role::Filter => Self::Closed,
            // A host that a detector cannot judge is left as it is.
            Role::Weigher | Role::Detector => Self::Open,
        }
    }
}

/// One step, as it was written down.
#[derive(Clone, Debug, PartialEq)]
pub struct StepSpec {
    /// Name of the step, or one of its other names.
    pub name: String,
    /// How much a weigher counts; a negative number turns its order around.
    pub multiplier: f64,
    /// What happens when it cannot judge; by its role when absent.
    pub on_failure: Option<OnFailure>,
    /// Its parameters.
    pub params: Params,
}

impl StepSpec {
    /// A step as it comes.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), multiplier: 1.0, on_failure: None, params: Params::default() }
    }

    /// Counts so much.
    pub fn multiplier(self, multiplier: f64) -> Self {
        Self { multiplier, ..self }
    }

    /// Fails so.
    pub fn on_failure(self, on_failure: OnFailure) -> Self {
        Self { on_failure: Some(on_failure), ..self }
    }
}

/// A pipeline, as it was written down.
#[derive(Clone, Debug, PartialEq)]
pub struct PipelineSpec {
    /// Its name.
    pub name: String,
    /// Whose requests it answers.
    pub domain: Domain,
    /// Its filters, in order.
    pub filters: Vec<StepSpec>,
    /// Its weighers, in order.
    pub weighers: Vec<StepSpec>,
    /// Whether decisions are recorded.
    pub records: bool,
}

impl PipelineSpec {
    /// A pipeline without steps: it keeps the order of the asking service.
    pub fn new(name: impl Into<String>, domain: Domain) -> Self {
        let (filters, weighers) = (Vec::new(), Vec::new());
        Self { name: name.into(), domain, filters, weighers, records: true }
    }

    /// With these filters.
    pub fn filters<'a>(self, names: impl IntoIterator<Item = &'a str>) -> Self {
        Self { filters: names.into_iter().map(StepSpec::new).collect(), ..self }
    }

    /// With one more weigher.
    pub fn weigher(mut self, name: &str, multiplier: f64) -> Self {
        self.weighers.push(StepSpec::new(name).multiplier(multiplier));
        self
    }
}

/// What is wrong with a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineProblem {
    /// Where: `filters[2].name`.
    pub path: String,
    /// What is there.
    pub what: String,
    /// What to write instead.
    pub fix: String,
}

#[derive(Debug)]
pub(crate) struct FilterStep {
    pub name: &'static str,
    pub filter: Filter,
    pub on_failure: OnFailure,
    pub params: Params,
}

#[derive(Debug)]
pub(crate) struct WeigherStep {
    pub name: &'static str,
    pub weigher: Weigher,
    pub multiplier: f64,
    pub on_failure: OnFailure,
    pub params: Params,
}

/// A pipeline that runs: every name in it is known, every parameter has its type.
#[derive(Debug)]
pub struct Pipeline {
    pub(crate) name: String,
    pub(crate) domain: Domain,
    pub(crate) filters: Vec<FilterStep>,
    pub(crate) weighers: Vec<WeigherStep>,
    /// Whether decisions are recorded.
    pub records: bool,
}

impl Pipeline {
    /// Makes it run, or says everything that is wrong.
    pub fn compile(spec: &PipelineSpec) -> Result<Self, Vec<PipelineProblem>> {
        let (mut filters, mut weighers, mut problems) = (Vec::new(), Vec::new(), Vec::new());
        for (role, field, steps) in
            [(Role::Filter, "filters", &spec.filters), (Role::Weigher, "weighers", &spec.weighers)]
        {
            let mut seen: Vec<&str> = Vec::new();
            for (index, step) in steps.iter().enumerate() {
                let path = format!("{field}[{index}]");
                let Some(info) = steps::find(role, &step.name) else {
                    problems.push(unknown(&path, role, spec.domain, &step.name));
                    continue;
                };
                problems.extend(mistakes(&path, info, step, spec.domain, &seen));
                seen.push(info.name);
                let on_failure = step.on_failure.unwrap_or_else(|| OnFailure::default_of(role));
                let (name, params) = (info.name, step.params.clone());
                match info.kind {
                    Kind::Filter(filter) => filters.push(FilterStep { name, filter, on_failure, params }),
                    Kind::Weigher(weigher) => {
                        let multiplier = step.multiplier;
                        weighers.push(WeigherStep { name, weigher, multiplier, on_failure, params });
                    }
                    // Those of a pipeline of detectors are compiled by themselves.
                    Kind::Detector(_) => {}
                }
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let PipelineSpec { name, domain, records, .. } = spec.clone();
        Ok(Self { name, domain, filters, weighers, records })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whose requests it answers.
    pub fn domain(&self) -> Domain {
        self.domain
    }
}

pub(crate) fn unknown(path: &str, role: Role, domain: Domain, name: &str) -> PipelineProblem {
    let other = Role::ALL.into_iter().find(|other| *other != role && steps::find(*other, name).is_some());
    let fix = match (other, steps::hint(role, domain, name)) {
        (Some(other), _) => format!("it is a {}; list it under {}s", other.as_str(), other.as_str()),
        (None, Some(near)) => format!("did you mean {near}?"),
        (None, None) => format!("docs/cortex.md lists every {}", role.as_str()),
    };
    PipelineProblem { path: format!("{path}.name"), what: format!("no {} is called {name}", role.as_str()), fix }
}

pub(crate) fn mistakes(
    path: &str,
    info: &'static steps::StepInfo,
    step: &StepSpec,
    domain: Domain,
    seen: &[&str],
) -> Vec<PipelineProblem> {
    let mut problems = Vec::new();
    let mut problem = |field: &str, what: String, fix: String| {
        problems.push(PipelineProblem { path: format!("{path}.{field}"), what, fix });
    };
    if !info.domains.contains(&domain) {
        problem("name", format!("{} knows nothing of {domain}", step.name), "remove it".into());
    }
    if seen.contains(&info.name) {
        problem("name", format!("{} is there twice", info.name), "remove one of them".into());
    }
    if !step.multiplier.is_finite() {
        problem("multiplier", "is not a finite number".into(), "write a number such as 1.0".into());
    }
    for (name, value) in &step.params.0 {
        match info.params.iter().find(|(known, _)| known == name) {
            None => {
                let known: Vec<&str> = info.params.iter().map(|(known, _)| *known).collect();
                let fix = if known.is_empty() { "remove it".into() } else { format!("it has {}", known.join(", ")) };
                problem(&format!("params.{name}"), format!("{} has no such parameter", info.name), fix);
            }
            Some((_, wanted)) if !wanted.takes(value) => {
                problem(&format!("params.{name}"), format!("is {}", value.kind()), format!("write {}", wanted.words()));
            }
            Some(_) => {}
        }
    }
    problems
}

/// The filters for KVM, in the order in which they leave out most at least cost.
const KVM: [&str; 15] = [
    "filter_status_conditions",
    "filter_correct_az",
    "filter_host_instructions",
    "filter_image_properties",
    "filter_capabilities",
    "filter_has_requested_traits",
    "filter_external_customer",
    "filter_has_accelerators",
    "filter_instance_group_affinity",
    "filter_instance_group_anti_affinity",
    "filter_has_enough_capacity",
    "filter_allowed_projects",
    "filter_aggregate_metadata",
    "filter_live_migratable",
    "filter_requested_destination",
];

/// The pipelines that are there when nobody wrote any. For volumes they keep the order of the asking service.
pub fn defaults() -> Vec<PipelineSpec> {
    let kvm = |name: &str| PipelineSpec::new(name, Domain::Nova).filters(KVM);
    vec![
        kvm("kvm-general-purpose-load-balancing")
            .weigher("weigher_general_purpose_balancing", 1.0)
            .weigher("kvm_instance_group_soft_affinity", 1.0),
        kvm("kvm-hana-bin-packing").weigher("kvm_binpack", 1.0).weigher("kvm_instance_group_soft_affinity", 1.0),
        PipelineSpec::new("cinder-external-scheduler", Domain::Cinder).filters(["filter_host_instructions"]),
        PipelineSpec::new("manila-external-scheduler", Domain::Manila).filters(["filter_host_instructions"]),
    ]
}

/// The names of pipelines that a request asks for, the first that exists counts.
pub(crate) fn wanted(request: &Request) -> Result<Vec<String>, String> {
    if !request.pipeline.is_empty() {
        return Ok(vec![request.pipeline.clone()]);
    }
    if request.domain != Domain::Nova {
        return Ok(vec![request.domain.to_string(), format!("{}-external-scheduler", request.domain)]);
    }
    let spec = |name: &str| request.flavor.extra_specs.get(name).map(|value| value.to_ascii_lowercase());
    let packed = spec("trait:CUSTOM_HANA_EXCLUSIVE_HOST").is_some_and(|value| value == "required");
    let kind = if packed { "hana-bin-packing" } else { "general-purpose-load-balancing" };
    match spec("capabilities:hypervisor_type").as_deref() {
        Some("vmware vcenter server") => Ok(vec![format!("vmware-{kind}")]),
        None => Ok(own(packed, kind)),
        Some(value) if value.split_whitespace().any(|word| ["qemu", "kvm", "ch"].contains(&word)) => {
            Ok(own(packed, kind))
        }
        Some(other) => {
            Err(format!("no pipeline is for the hypervisor type {other} of the flavor {}", request.flavor.name))
        }
    }
}

/// What an administrator calls `nova` is for all servers of KVM but those that have a pipeline of their own.
fn own(packed: bool, kind: &str) -> Vec<String> {
    let built_in = format!("kvm-{kind}");
    if packed { vec![built_in] } else { vec!["nova".into(), built_in] }
}
