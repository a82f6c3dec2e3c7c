//! The behaviour of the API, as clients see it: what upstream's conformance specs of the API machinery and of
//! server-side apply ask for, and what operators depend on.

mod access;
mod advertised;
mod another;
mod apply;
mod definitions;
mod documents;
mod fixtures;
mod foreign;
mod garbage;
mod limits;
mod lists;
mod namespaces;
mod objects;
mod pod_security;
mod pods;
mod policies;
mod quotas;
mod runtime;
mod services;
mod start;
mod strictness;
mod subresources;
mod watches;
