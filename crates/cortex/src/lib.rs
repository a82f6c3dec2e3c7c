//! Cortex's scheduling engine: which host a workload goes to, and why.
//!
//! Pure: no Kubernetes, no HTTP, no clock. A [`Scheduler`] holds what is known of hosts, the pipelines, and what it has
//! promised to workloads that have not arrived yet. [`Scheduler::decide`] runs a pipeline on a [`Request`] and returns a
//! [`Decision`] that can be put into words. The same state and the same request always give the same decision.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod decision;
mod detectors;
mod explain;
mod filters;
mod host;
mod in_flight;
mod moves;
mod params;
mod pipeline;
mod request;
mod resources;
mod scheduler;
mod shared;
mod steps;
mod weighers;
pub mod wire;

pub use decision::{Decision, FilterResult, RankedHost, Removal, WeigherResult};
pub use detectors::{Detector, Load};
pub use host::{Aggregate, Condition, Host, Inventory, NameSet};
pub use in_flight::{InFlight, Promise};
pub use moves::{Move, Overload, Relocation};
pub use params::{Param, Params};
pub use pipeline::{OnFailure, Pipeline, PipelineProblem, PipelineSpec, StepSpec, defaults};
pub use request::{Candidate, Destination, Domain, Flavor, Group, Intent, Options, Policy, Request};
pub use resources::{Amounts, Resources};
pub use scheduler::{Scheduler, SchedulingError};
pub use shared::Shared;
pub use steps::{Role, StepInfo, find, hint, known};
