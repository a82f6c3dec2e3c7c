//! Pipeline: the steps of a decision, of which filters leave hosts out and weighers put the rest in order; or detectors, which
//! find hosts that carry too much.

use std::collections::BTreeMap;

use c5c3_cortex as engine;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Problem;
use crate::blocks::{self, Condition, Duration};
use crate::catalog::{Rules, problem};

/// A pipeline of the scheduler. One that is called like its domain (`nova`, `cinder`, `manila`) answers the requests that name no other.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "cortex.c5c3.io",
    version = "v1alpha1",
    kind = "Pipeline",
    plural = "pipelines",
    namespaced,
    status = "PipelineStatus",
    derive = "PartialEq",
    shortname = "ctxpl",
    category = "c5c3",
    printcolumn(name = "Domain", type_ = "string", json_path = ".spec.schedulingDomain"),
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].message",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.type) || self.type != 'detector' || has(self.detectors) && size(self.detectors) > 0")
        .message("is of type detector without detectors; list at least one, or set type to filter-weigher"),
    validation = Rule::new("!has(self.type) || self.type != 'detector' || (!has(self.filters) || size(self.filters) == 0) && (!has(self.weighers) || size(self.weighers) == 0)")
        .message("is of type detector and has filters or weighers; remove them: targets are chosen by the pipeline that answers Nova"),
    validation = Rule::new("has(self.type) && self.type == 'detector' || (!has(self.detectors) || size(self.detectors) == 0) && !has(self.descheduling)")
        .message("has detectors or descheduling, which only a pipeline of type detector has; set type to detector, or remove them")
)]
pub struct PipelineSpec {
    /// What kind of pipeline it is.
    #[serde(default)]
    pub r#type: PipelineType,
    /// Whose requests it answers.
    pub scheduling_domain: SchedulingDomain,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// Whether each decision is written as a Decision.
    #[serde(default = "blocks::yes")]
    pub create_decisions: bool,
    /// The filters, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub filters: Vec<PipelineFilter>,
    /// The weighers. What each says is spread over 0 to 1, multiplied, and added to the weights of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub weighers: Vec<PipelineWeigher>,
    /// The detectors of a pipeline of that type, each by itself: a host that one of them finds has servers moved off it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub detectors: Vec<PipelineDetector>,
    /// What is done about hosts that detectors find; proposals only when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descheduling: Option<PipelineDescheduling>,
}

/// What kind of pipeline it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PipelineType {
    /// It filters and weighs hosts.
    #[default]
    FilterWeigher,
    /// It finds hosts that carry too much.
    Detector,
}

/// Whose requests are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SchedulingDomain {
    /// Nova's, for servers.
    Nova,
    /// Cinder's, for volumes.
    Cinder,
    /// Manila's, for shares.
    Manila,
}

impl From<SchedulingDomain> for engine::Domain {
    fn from(domain: SchedulingDomain) -> Self {
        match domain {
            SchedulingDomain::Nova => Self::Nova,
            SchedulingDomain::Cinder => Self::Cinder,
            SchedulingDomain::Manila => Self::Manila,
        }
    }
}

impl From<engine::Domain> for SchedulingDomain {
    fn from(domain: engine::Domain) -> Self {
        match domain {
            engine::Domain::Nova => Self::Nova,
            engine::Domain::Cinder => Self::Cinder,
            engine::Domain::Manila => Self::Manila,
        }
    }
}

/// What happens when a step cannot judge a host, because data about it is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnFailure {
    /// The host stays; a weigher counts it among the worst.
    Open,
    /// A filter leaves the host out; a weigher fails the decision.
    Closed,
}

/// A filter of a pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineFilter {
    /// Name of the filter, such as `filter_has_enough_capacity`, or Nova's name for it, such as `AvailabilityZoneFilter`.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z][A-Za-z0-9_]*$"))]
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// What happens when it cannot judge a host; `Closed` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// Its parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
    pub params: Vec<StepParam>,
}

/// A weigher of a pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineWeigher {
    /// Name of the weigher, such as `kvm_binpack`, or Nova's name for it, such as `RAMWeigher`.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z][A-Za-z0-9_]*$"))]
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// How much it counts beside the others; a negative number turns its order around.
    #[serde(default = "one")]
    #[schemars(range(min = -1_000_000.0, max = 1_000_000.0))]
    pub multiplier: f64,
    /// What happens when it cannot judge a host; `Open` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// Its parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
    pub params: Vec<StepParam>,
}

/// A detector of a pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineDetector {
    /// Name of the detector, such as `avoid_high_memory_pct`.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z][A-Za-z0-9_]*$"))]
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// Its parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
    pub params: Vec<StepParam>,
}

/// What is done about hosts that carry too much.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineDescheduling {
    /// Whether migrations are only proposed, as Descheduling objects; with `false` they are done.
    #[serde(default = "blocks::yes")]
    pub dry_run: bool,
    /// How many migrations of this pipeline are proposed, and how many of all Deschedulings it lets run, at a time.
    #[serde(default = "one_at_a_time")]
    #[schemars(range(min = 1, max = 100))]
    pub max_migrations: u32,
    /// How long a server that was moved, or that could not be, is left where it is.
    #[serde(default = "one_hour")]
    pub cooldown: Duration,
}

impl Default for PipelineDescheduling {
    fn default() -> Self {
        Self { dry_run: true, max_migrations: one_at_a_time(), cooldown: one_hour() }
    }
}

fn one_at_a_time() -> u32 {
    1
}

fn one_hour() -> Duration {
    Duration::new("1h").expect("1h is a duration")
}

fn one() -> f64 {
    1.0
}

/// A parameter of a step, with one value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepParam {
    /// Name of the parameter.
    #[schemars(length(min = 1, max = 128))]
    pub key: String,
    /// The value, if it is a string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub string_value: Option<String>,
    /// The value, if it is a boolean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bool_value: Option<bool>,
    /// The value, if it is an integer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub int_value: Option<i32>,
    /// The value, if it is a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub float_value: Option<f64>,
    /// The value, if it is a list of strings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024), inner(length(max = 253)))]
    pub string_list_value: Option<Vec<String>>,
    /// The value, if it is a number for each of some names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 64))]
    pub float_map_value: Option<BTreeMap<String, f64>>,
}

impl StepParam {
    /// The values that are set.
    fn values(&self) -> Vec<engine::Param> {
        let number = self.float_value.or_else(|| self.int_value.map(f64::from));
        [
            self.string_value.clone().map(engine::Param::Text),
            self.bool_value.map(engine::Param::Switch),
            number.map(engine::Param::Number),
            self.string_list_value.clone().map(engine::Param::List),
            self.float_map_value.clone().map(engine::Param::Weights),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// What the scheduler observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineStatus {
    /// Ready: it answers requests, or judges hosts, as it is written here. AllStepsReady: the scheduler knows all of its steps.
    /// Detecting: which hosts carry too much, and what comes of it; or why that is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation that the status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

fn params(params: &[StepParam]) -> engine::Params {
    let each = params.iter().filter_map(|param| Some((param.key.clone(), param.values().into_iter().next()?)));
    engine::Params(each.collect())
}

impl PipelineSpec {
    /// The pipeline as the engine takes it.
    pub fn engine(&self, name: &str) -> engine::PipelineSpec {
        let on_failure = |how: Option<OnFailure>| {
            how.map(|how| match how {
                OnFailure::Open => engine::OnFailure::Open,
                OnFailure::Closed => engine::OnFailure::Closed,
            })
        };
        engine::PipelineSpec {
            name: name.to_owned(),
            domain: self.scheduling_domain.into(),
            filters: self
                .filters
                .iter()
                .map(|filter| engine::StepSpec {
                    name: filter.name.clone(),
                    multiplier: 1.0,
                    on_failure: on_failure(filter.on_failure),
                    params: params(&filter.params),
                })
                .collect(),
            weighers: self
                .weighers
                .iter()
                .map(|weigher| engine::StepSpec {
                    name: weigher.name.clone(),
                    multiplier: weigher.multiplier,
                    on_failure: on_failure(weigher.on_failure),
                    params: params(&weigher.params),
                })
                .collect(),
            records: self.create_decisions,
        }
    }

    /// Its detectors as they run, or everything that is wrong with them.
    pub fn compile_detectors(&self) -> Result<Vec<engine::Detector>, Vec<engine::PipelineProblem>> {
        let specs: Vec<engine::StepSpec> = self
            .detectors
            .iter()
            .map(|one| engine::StepSpec { params: params(&one.params), ..engine::StepSpec::new(&one.name) })
            .collect();
        engine::Detector::compile(&specs, self.scheduling_domain.into())
    }

    /// Everything that is wrong with its steps.
    pub fn step_problems(&self) -> Vec<Problem> {
        let lists = self.filters.iter().map(|filter| &filter.params).enumerate().map(|(i, p)| ("filters", i, p));
        let lists = lists.chain(self.weighers.iter().map(|w| &w.params).enumerate().map(|(i, p)| ("weighers", i, p)));
        let all = lists.chain(self.detectors.iter().map(|d| &d.params).enumerate().map(|(i, p)| ("detectors", i, p)));
        let mut problems: Vec<Problem> = all
            .flat_map(|(field, index, params)| {
                params.iter().enumerate().filter(|(_, param)| param.values().len() != 1).map(move |(at, param)| {
                    let what = format!("has {} values", param.values().len());
                    problem(format!("spec.{field}[{index}].params[{at}]"), what, "set exactly one value")
                })
            })
            .collect();
        let compiled = engine::Pipeline::compile(&self.engine("pipeline"));
        let wrong = compiled.err().into_iter().chain(self.compile_detectors().err()).flatten();
        problems.extend(wrong.map(|wrong| problem(format!("spec.{}", wrong.path), wrong.what, wrong.fix)));
        problems
    }
}

impl Rules for Pipeline {
    fn problems(&self) -> Vec<Problem> {
        self.spec.step_problems()
    }
}
