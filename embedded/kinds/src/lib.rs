//! What a Kubernetes API server knows of its kinds, built in or defined by CustomResourceDefinitions, and every
//! document by which it describes them to clients. Pure functions and data: nothing here reads, stores or waits.
//!
//! A write of an object goes through these in order; the first and the last are for every kind, the others do nothing
//! to custom resources, whose schemas say it all:
//!
//! | step | by |
//! |---|---|
//! | find the resource | [`find`], [`custom()`] |
//! | unknown fields, types | [`compiled`], or the schema of the definition |
//! | the shape that is stored | [`convert()`] |
//! | defaults, canonical quantities | [`default`] |
//! | what belongs to creation, what an update may not touch | [`prepare_create`], [`prepare_update`], [`prepare_status_update`] |
//! | validation | [`validate()`] |
//!
//! ```
//! use c5c3_kinds::{default, find, validate};
//! use serde_json::json;
//!
//! let services = find("", "v1", "services").expect("services are built in");
//! let mut service = json!({
//!     "metadata": {"name": "oak", "namespace": "grove"},
//!     "spec": {"ports": [{"port": 80}, {"port": 443}]},
//! });
//! default(services, &mut service);
//! assert_eq!(service["spec"]["ports"][0], json!({"port": 80, "protocol": "TCP", "targetPort": 80}));
//! assert_eq!(validate(services, &service, None).to_string(), "\
//! spec.ports[0].name: Required value
//! spec.ports[1].name: Required value");
//! ```
//!
//! The kinds, their schemas and their defaults are those of Kubernetes 1.33. What a real API server does and this does
//! not:
//!
//! - Objects are not decoded into types and encoded again, so an empty `labels: {}` or `args: []` that a client sends
//!   stays, and timestamps stay as written. Quantities do become canonical, and `stringData` becomes `data`.
//! - Validation is that on which tools and the safety of nodes rely, not all there is: affinity terms, metrics, quotas and
//!   volumes that no node mounts are checked for required strings, enumerated values and quantities only.
//! - A schema within a CustomResourceDefinition is open from its second level: a misspelt keyword deep inside is kept.
//! - `autoscaling/v1` keeps what it has no fields for in annotations, as upstream does, but in the shape of `v2`.
//! - JSONPath in printer columns is the common part of it; a definition that uses more is refused.
//! - OpenAPI version 2 is JSON only. Go clients ask for it in protobuf; kubectl does with version 3 when that is refused.
//! - Not there: component statuses, resource claims, and the watch paths of OpenAPI. Mutating admission policies, which
//!   are newer than 1.33, are there as v1.

mod convert;
mod defaults;
pub mod discovery;
mod fields;
mod image;
mod jsonpath;
pub mod limits;
mod openapi;
pub mod pod_security;
mod qos;
mod quantity;
pub mod quota;
mod read;
mod resource;
mod schema;
pub mod selector;
mod service;
mod table;
mod validate;
mod write;

pub use convert::convert;
pub use defaults::{default, initial_status, prepare_create, prepare_status_update, prepare_update};
pub use fields::fields;
pub use openapi::{openapi_v2, openapi_v3, openapi_v3_index};
pub use quantity::Quantity;
pub use resource::{Custom, NameRule, Origin, Resource, ScalePaths, Subresource, VERBS, Verb, builtin, custom, find};
pub use schema::{PROVENANCE, compiled, schema, schema_of_kind};
pub use service::{has_health_port, has_node_ports};
pub use table::{Column, IncludeObject, human_duration, partial, table};
pub use validate::{validate, validate_ephemeral_containers, validate_metadata};
