//! `cortex.c5c3.io`: the Cortex that gives Nova and Cinder a second opinion on where things go.

mod decision;
mod pipeline;
mod service;

pub use decision::{
    Decision, DecisionHistory, DecisionHost, DecisionRemoval, DecisionResources, DecisionSpec, DecisionStatus,
    DecisionStep, PipelineRef,
};
pub use pipeline::{
    OnFailure, Pipeline, PipelineFilter, PipelineSpec, PipelineStatus, PipelineType, PipelineWeigher, SchedulingDomain,
    StepParam,
};
pub use service::{
    Cortex, CortexDatabase, CortexDatasource, CortexDatasources, CortexFilter, CortexPipeline, CortexPipelines,
    CortexSpec, CortexStatus, CortexWeigher,
};
