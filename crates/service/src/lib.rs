//! The layer that OpenStack services stand on. A service is a description here, not a program: an operator says as data which
//! databases, brokers, components and migrations its service has ([`Service`]), and one controller ([`ServiceController`]) does the rest.
//!
//! ```text
//!  object ─► parts        the image, the components, the addresses: nothing is decided
//!         ─► backing services  accounts, addresses, credentials, policies; or all that is missing
//!         ─► upgrade      which way to the wanted version, or why there is none
//!         ─► service_plan     the graph of steps: record, secrets, database, messaging, config, schema, components, health
//!                └─► database, messaging, identity, cache, workload, api, wsgi, job, migrations, network, tls: their objects
//! ```
//!
//! It knows OpenStack and knows no service by name, but for the lists of each release: versions ([`release`]), options and
//! policies ([`ReleaseOptions`]).

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod accounts_in_use;
mod ahead;
pub mod api;
pub mod backing_services;
pub mod backup;
pub mod cache;
pub mod component;
pub mod config;
mod controller;
pub mod coordination;
mod credential_in_use;
pub mod database;
pub mod dependencies;
pub mod external_server;
mod extra_config;
pub mod health;
pub mod identity;
pub mod image;
pub mod instance;
pub mod job;
pub mod messaging;
pub mod migrations;
mod nearest;
pub mod network;
mod operations;
pub mod parts;
pub mod pipeline;
pub mod pod;
pub mod policy;
pub mod rbd;
pub mod record;
pub mod release;
pub mod release_options;
mod report;
pub mod rotated_account;
pub mod service;
pub mod service_plan;
pub mod tls;
pub mod upgrade;
mod url;
pub mod workload;
pub mod wsgi;

pub use backing_services::BackingServices;
pub use component::Component;
pub use controller::{ServiceController, Valid};
pub use instance::Instance;
pub use release_options::ReleaseOptions;
pub use service::{CatalogEntry, Description, OwnSteps, Service};
pub use service_plan::ServicePlan;
