//! Pipelines and Hypervisors, folded into the scheduler as they change. An object that does not parse stalls nothing.

use std::collections::HashSet;

use c5c3_api::blocks::{Condition, ConditionStatus};
use c5c3_api::cortex::{Pipeline, PipelineType};
use c5c3_api::hypervisor::Hypervisor;
use c5c3_cortex::Domain;
use c5c3_kit::metrics::Metrics;
use c5c3_kit::resilient_watch::{Watched, watch};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::descheduling::{DETECTING, Detecting};
use crate::hosts::host;
use crate::recorder::MANAGER;
use crate::state::State;

const CONTROLLER: &str = "cortex-scheduler";

/// Follows the Hypervisors. `listed` is cancelled when all of them are known.
pub(crate) async fn hypervisors(client: Client, state: State, metrics: Metrics, listed: CancellationToken) {
    let api = Api::<DynamicObject>::all_with(client, &ApiResource::erase::<Hypervisor>(&()));
    let watched = Watched { listed, ..Watched::new(CONTROLLER, "Hypervisor", &metrics) };
    let mut events = watch(api, watcher::Config::default(), watched).boxed();
    let mut seen = HashSet::new();
    while let Some(event) = events.next().await {
        match event {
            Event::Init => seen.clear(),
            Event::InitApply(object) => {
                seen.insert(object.name_any());
                take_host(&state, object);
            }
            Event::Apply(object) => take_host(&state, object),
            Event::Delete(object) => state.write().remove_host(Domain::Nova, &object.name_any()),
            Event::InitDone => {
                let known = |host: &c5c3_cortex::Host| host.name.clone();
                let names: Vec<String> =
                    state.read().hosts(Domain::Nova).map(|all| all.iter().map(known).collect()).unwrap_or_default();
                for gone in names.iter().filter(|name| !seen.contains(*name)) {
                    state.write().remove_host(Domain::Nova, gone);
                }
            }
        }
        state.metrics.knows(&state.read());
    }
}

/// A host that is not understood is unknown: filters that fail closed leave it out.
fn take_host(state: &State, object: DynamicObject) {
    let name = object.name_any();
    match object.try_parse::<Hypervisor>() {
        Ok(hypervisor) => state.write().put_host(Domain::Nova, host(&hypervisor)),
        Err(error) => {
            tracing::warn!(%error, hypervisor = name, "cannot read a Hypervisor; its host is unknown");
            state.write().remove_host(Domain::Nova, &name);
        }
    }
}

/// Follows the Pipelines of a namespace, and says of each whether it is ready.
pub(crate) async fn pipelines(
    client: Client,
    namespace: String,
    state: State,
    metrics: Metrics,
    listed: CancellationToken,
) {
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, &ApiResource::erase::<Pipeline>(&()));
    let typed = Api::<Pipeline>::namespaced(client, &namespace);
    let watched = Watched { listed, ..Watched::new(CONTROLLER, "Pipeline", &metrics) };
    let mut events = watch(api, watcher::Config::default(), watched).boxed();
    let (mut seen, mut ours) = (HashSet::new(), HashSet::new());
    while let Some(event) = events.next().await {
        match event {
            Event::Init => seen.clear(),
            Event::InitApply(object) | Event::Apply(object) => {
                seen.insert(object.name_any());
                ours.insert(object.name_any());
                take_pipeline(&state, &typed, object).await;
            }
            Event::Delete(object) => {
                ours.remove(&object.name_any());
                forget_pipeline(&state, &object.name_any());
                tracing::info!(pipeline = object.name_any(), "a pipeline was removed");
            }
            Event::InitDone => {
                for gone in ours.extract_if(|name| !seen.contains(name)) {
                    forget_pipeline(&state, &gone);
                }
            }
        }
    }
}

fn forget_pipeline(state: &State, name: &str) {
    state.write().remove_pipeline(name);
    state.remove_detecting(name);
}

/// What compiles for the rules of its kind compiles here: it is the same function.
fn put_pipeline(state: &State, name: &str, pipeline: &Pipeline) {
    let spec = &pipeline.spec;
    if spec.r#type == PipelineType::FilterWeigher {
        let _ = state.write().put_pipeline(&spec.engine(name));
        state.remove_detecting(name);
        return;
    }
    state.write().remove_pipeline(name);
    let descheduling = spec.descheduling.clone().unwrap_or_default();
    let detectors = spec.compile_detectors().unwrap_or_default();
    state.put_detecting(name, Detecting { detectors, descheduling, generation: pipeline.metadata.generation });
}

async fn take_pipeline(state: &State, api: &Api<Pipeline>, object: DynamicObject) {
    let name = object.name_any();
    let pipeline = match object.try_parse::<Pipeline>() {
        Ok(pipeline) => pipeline,
        Err(error) => {
            tracing::warn!(%error, pipeline = name, "cannot read a Pipeline; what it was before goes on");
            return;
        }
    };
    let problems = pipeline.spec.step_problems();
    if problems.is_empty() {
        put_pipeline(state, &name, &pipeline);
        if pipeline.spec.r#type == PipelineType::FilterWeigher {
            end_detecting(api, &pipeline).await;
        }
    }
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let conditions = conditions(&pipeline, &problems);
    if conditions.is_empty() {
        return;
    }
    let status = json!({
        "apiVersion": "cortex.c5c3.io/v1alpha1", "kind": "Pipeline",
        "status": {"conditions": conditions, "observedGeneration": pipeline.metadata.generation},
    });
    let apply = PatchParams::apply(MANAGER).force();
    if let Err(error) = api.patch_status(&name, &apply, &Patch::Apply(&status)).await {
        tracing::warn!(%error, pipeline = name, "cannot write the status of a Pipeline");
    }
}

/// Takes back what was said of a pipeline while it was one of detectors.
async fn end_detecting(api: &Api<Pipeline>, pipeline: &Pipeline) {
    let mut conditions = pipeline.status.iter().flat_map(|status| &status.conditions);
    if !conditions.any(|one| one.r#type == "Detecting") {
        return;
    }
    let name = pipeline.name_any();
    let nothing = json!({"apiVersion": "cortex.c5c3.io/v1alpha1", "kind": "Pipeline", "status": {}});
    let apply = PatchParams::apply(DETECTING).force();
    if let Err(error) = api.patch_status(&name, &apply, &Patch::Apply(&nothing)).await {
        tracing::warn!(%error, pipeline = name, "cannot take back what its detectors found");
    }
}

/// The conditions to write; none if they are there already. A standby writes them, too: it says the same.
fn conditions(pipeline: &Pipeline, problems: &[String]) -> Vec<Condition> {
    let (status, reason, message) = if problems.is_empty() {
        let does = match pipeline.spec.r#type {
            PipelineType::FilterWeigher => "it answers requests as it is written here",
            PipelineType::Detector => "hosts are judged as it is written here",
        };
        (ConditionStatus::True, "PipelineReady", does.to_owned())
    } else {
        let what = problems.join("; ");
        let goes_on = match pipeline.spec.r#type {
            PipelineType::FilterWeigher => "requests are answered as before",
            PipelineType::Detector => "hosts are judged as before",
        };
        (ConditionStatus::False, "StepsInvalid", format!("{what} ({goes_on})"))
    };
    let before = pipeline.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let find = |kind: &str| before.iter().find(|one| one.r#type == kind);
    let unchanged = |kind: &&str| {
        find(kind).is_some_and(|one| {
            one.status == status
                && one.message.as_ref() == Some(&message)
                && one.observed_generation == pipeline.metadata.generation
        })
    };
    let kinds = ["Ready", "AllStepsReady"];
    if kinds.iter().all(unchanged) {
        return Vec::new();
    }
    let since =
        |kind: &str| find(kind).filter(|one| one.status == status).and_then(|one| one.last_transition_time.clone());
    kinds
        .map(|kind| Condition {
            r#type: kind.into(),
            status,
            reason: Some(reason.into()),
            message: Some(message.clone()),
            last_transition_time: since(kind).or_else(|| Some(Time(Timestamp::now()))),
            observed_generation: pipeline.metadata.generation,
        })
        .into()
}
