//! The Pipeline objects of a Cortex: one for each service that asks and whose steps the spec lists. Without a list the scheduler's
//! built-in pipelines answer.

use c5c3_api::Problem;
use c5c3_api::cortex::{
    Cortex, CortexFilter, CortexPipeline, CortexPipelines, CortexWeigher, Pipeline, PipelineFilter, PipelineSpec,
    PipelineType, PipelineWeigher, SchedulingDomain,
};
use c5c3_cortex as engine;
use c5c3_kit::{Child, Step, Wait};
use c5c3_service::Instance;

use crate::scheduler::COMPONENT;
use crate::{PIPELINES, own};

/// The services that the spec has Cortex decide for, with their steps.
pub(crate) fn enabled(cortex: &Cortex) -> Vec<(engine::Domain, CortexPipeline)> {
    let pipelines = cortex.spec.pipelines.clone().unwrap_or_default();
    let all = [(engine::Domain::Nova, pipelines.nova), (engine::Domain::Cinder, pipelines.cinder)];
    let enabled = all.into_iter().filter_map(|(domain, pipeline)| Some((domain, pipeline?)));
    enabled.filter(|(_, pipeline)| pipeline.enabled).collect()
}

/// Whether a pipeline has steps of its own, and so an object.
pub(crate) fn is_written(pipeline: &CortexPipeline) -> bool {
    !pipeline.filters.is_empty() || !pipeline.weighers.is_empty()
}

pub(crate) fn step(cortex: &Cortex, instance: &Instance) -> Step {
    let step = Step::new(PIPELINES).node("pipelines", []).reasons("PipelinesReady", "WaitingForPipeline");
    let problems: Vec<Problem> = cortex.spec.pipelines.iter().flat_map(CortexPipelines::problems).collect();
    if !problems.is_empty() {
        return step.undecided(problems.iter().map(|problem| wrong(instance, problem)));
    }
    let enabled = enabled(cortex);
    let names: Vec<&str> = enabled.iter().map(|(domain, _)| domain.as_str()).collect();
    let done = match names.as_slice() {
        [] => "no service asks: spec.pipelines enables none".to_owned(),
        names => format!("the scheduler decides for {}{}", names.join(" and "), unasked(&enabled)),
    };
    let written = enabled.iter().filter(|(_, pipeline)| is_written(pipeline));
    let children: Vec<Child> = written.map(|(domain, pipeline)| child(instance, *domain, pipeline)).collect();
    let step = if children.is_empty() { step.childless() } else { step.children(children) };
    step.done(done)
}

/// Of the services that are answered, those whose images have nothing that asks. Somebody's own client may: so this is no mistake.
fn unasked(enabled: &[(engine::Domain, CortexPipeline)]) -> &'static str {
    if !enabled.iter().any(|(domain, _)| *domain == engine::Domain::Cinder) {
        return "";
    }
    "; Cinder has no client for it, so that its own scheduler alone places volumes until one calls \
     /scheduler/cinder/external; leave spec.pipelines.cinder out if none does"
}

/// A step that no scheduler knows. What was there before stays, and goes on answering.
fn wrong(instance: &Instance, problem: &Problem) -> Wait {
    Wait::on(&own(instance))
        .condition("has steps that the scheduler knows")
        .now(format!("has a mistake at {}: {}", problem.path, problem.what))
        .because("requests are answered as before")
        .look_at(problem.fix.clone())
        .failed("StepsInvalid")
}

/// The object, which is called like its service, so that it answers all of that service's requests.
fn child(instance: &Instance, domain: engine::Domain, pipeline: &CortexPipeline) -> Child {
    let own = built_in(domain);
    let filters = if pipeline.filters.is_empty() { own.filters } else { specs(&pipeline.filters, filter) };
    let weighers = if pipeline.weighers.is_empty() { own.weighers } else { specs(&pipeline.weighers, weigher) };
    let spec = PipelineSpec {
        r#type: PipelineType::FilterWeigher,
        scheduling_domain: SchedulingDomain::from(domain),
        description: Some(format!("spec.pipelines.{domain} of the Cortex {}", instance.name)),
        create_decisions: true,
        filters: filters
            .into_iter()
            .map(|step| PipelineFilter { name: step.name, description: None, on_failure: None, params: Vec::new() })
            .collect(),
        weighers: weighers
            .into_iter()
            .map(|step| PipelineWeigher {
                name: step.name,
                description: None,
                multiplier: step.multiplier,
                on_failure: None,
                params: Vec::new(),
            })
            .collect(),
        detectors: Vec::new(),
        descheduling: None,
    };
    let mut object = Pipeline::new(domain.as_str(), spec);
    object.metadata = instance.meta(domain.as_str(), COMPONENT);
    Child::new(&object)
        .because("the scheduler says whether it knows all steps")
        .on_conflict(format!("delete or rename it, or remove the steps of spec.pipelines.{domain}, so that it answers"))
}

fn specs<T>(steps: &[T], spec: fn(&T) -> engine::StepSpec) -> Vec<engine::StepSpec> {
    steps.iter().map(spec).collect()
}

fn filter(filter: &CortexFilter) -> engine::StepSpec {
    engine::StepSpec::new(&filter.name)
}

fn weigher(weigher: &CortexWeigher) -> engine::StepSpec {
    engine::StepSpec::new(&weigher.name).multiplier(weigher.weight)
}

/// The steps that a service's requests meet when none are written: for servers, those that balance load.
fn built_in(domain: engine::Domain) -> engine::PipelineSpec {
    let own = engine::defaults().into_iter().find(|pipeline| pipeline.domain == domain);
    own.unwrap_or_else(|| engine::PipelineSpec::new(domain.as_str(), domain))
}
