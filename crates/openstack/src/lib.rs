//! The OpenStack calls that operators make: one client for all services.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use c5c3_openstack::identity::UserFilter;
//! use c5c3_openstack::{Access, Clients, Options, Request};
//!
//! let clients = Clients::new(Options::default());
//! let client = clients.client(&Access::parse("clouds: ...", "orchard", None)?)?;
//! let users = client.users().list(&UserFilter { name: Some("nova".into()), ..UserFilter::default() }).await?;
//! let servers = Request::get("compute", ["servers"]).query("all_tenants", "1").microversion("2.95");
//! let servers: Vec<serde_json::Value> = client.list(&servers, "servers").await?;
//! # Ok(())
//! # }
//! ```
//!
//! - **Tokens**: a credential has one token, which is reused until half of its life has passed. One authentication at a
//!   time is in flight, and all callers that wait for it share its outcome. A token that a service refuses is renewed
//!   once. While Keystone is unavailable, a token that is still valid stays in use. [`Clients`] gives equal credentials
//!   the same client.
//! - **Endpoints** come from the catalog of the token, by service type, interface and region.
//! - **Retries**: at most three tries within 30 s, with jitter, and with the time of `Retry-After`. Every method is retried
//!   when the service has not worked on the request: no connection, 429, 503. Idempotent methods are also retried after
//!   500, 502, 504 and a broken connection. Every other status is an answer.
//! - **Errors** have one variant for each thing that a caller does differently, with the service's message and request
//!   id. They contain no secret, also where a service echoes one.
//! - **Metrics**: `openstack_api_request_duration_seconds{service,method,code}`, one observation for each request.
//!
//! Keystone's resources are typed in [`identity`]; calls to other services are [`Request`]s with structs of the caller.
//! `openstack_sdk` is not used: it brings aws-lc, a terminal dialogue and about forty more crates into every operator.
//! This client adds no crate to those that the Kubernetes client has.

mod access;
mod catalog;
mod client;
mod clients;
mod clock;
mod cloud;
pub mod clouds;
pub mod compute;
mod error;
pub mod identity;
mod message;
mod metrics;
mod pages;
mod request;
mod retry;
mod token;
mod transport;

pub use access::Access;
pub use client::{Client, Options};
pub use clients::Clients;
pub use clock::{Clock, SystemClock};
pub use cloud::{Cloud, Credential, Interface, Named, Scope};
pub use clouds::CloudError;
pub use error::{Error, Failure};
pub use metrics::Metrics;
pub use request::{Request, Response};
pub use token::Subject;
pub use transport::Limits;
