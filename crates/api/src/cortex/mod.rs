//! `cortex.c5c3.io`: the Cortex that gives Nova and Cinder a second opinion on where things go.

mod decision;
mod descheduling;
mod pipeline;
mod service;

pub use decision::{
    Decision, DecisionHistory, DecisionHost, DecisionRemoval, DecisionResources, DecisionSpec, DecisionStatus,
    DecisionStep, PipelineRef,
};
pub use descheduling::{Descheduling, DeschedulingSpec, DeschedulingStatus};
pub use pipeline::{
    OnFailure, Pipeline, PipelineDescheduling, PipelineDetector, PipelineFilter, PipelineSpec, PipelineStatus,
    PipelineType, PipelineWeigher, SchedulingDomain, StepParam,
};
pub use service::{
    Cortex, CortexDatabase, CortexDatasource, CortexDatasources, CortexFilter, CortexPipeline, CortexPipelines,
    CortexSpec, CortexStatus, CortexWeigher,
};
