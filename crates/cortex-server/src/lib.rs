//! Cortex's scheduler as a process: the external scheduler API over the engine of `c5c3-cortex`.
//!
//! ```text
//! Pipelines, Hypervisors ─► watches ─► engine ◄─ POST /scheduler/{nova,cinder,manila}/external
//!                                        ├─► recorder ─► Decisions, the oldest removed ◄─ names, by Nova
//!                                        └─► descheduling ─► Deschedulings ─► live migrations by Nova
//! ```
//!
//! One process decides at a time, whoever holds the lease: what is promised to servers that are being built is in its memory,
//! and two that decide would promise the same room. The next leader reads it back from the Decisions.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod api;
mod descheduling;
mod hosts;
mod metrics;
mod names;
mod recorder;
mod records;
mod run;
mod state;
mod token;
mod watches;

pub use api::routes;
pub use descheduling::Settings as DeschedulingSettings;
pub use hosts::host;
pub use names::NAME as NAME_ANNOTATION;
pub use records::record;
pub use run::{Error, Settings, run};
pub use state::State;
pub use token::Tokens;
