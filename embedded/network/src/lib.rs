//! The network of the embedded node: Services and NetworkPolicies as nftables rule sets, and the DNS server.
//!
//! - [`services`] is what kube-proxy is: it sends connections for a Service's addresses to its endpoints.
//! - [`balancers`] gives addresses to Services of type LoadBalancer.
//! - [`policies`] decides which connections the pods of one node may make and take.
//! - [`dns`] answers for the cluster's domain, and asks the machine's resolvers about everything else.
//!
//! Each watches the API and folds what it sees by a pure function into a rule set or a zone; only what changed is
//! written. Rules live in a table of our own per purpose and network namespace. They stay when the process ends, so that
//! connections outlive it; `remove` takes them away.
//!
//! Pods are expected to be routed, one link each, by the node's namespace (the `ptp` plugin of CNI): a bridge that
//! switches between two pods of one node would hide their traffic from these rules wherever `br_netfilter` is missing.
//!
//! IPv4 only. Rules are written by `nft`, entered by `nsenter`; `conntrack` ends UDP flows to endpoints that are gone, and
//! without it they linger until they time out.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod access;
pub mod balancers;
pub mod dns;
mod mirror;
mod namespace;
pub mod policies;
mod ranges;
mod ruleset;
pub mod services;
mod table;

pub use namespace::{CommandError, Namespace};
pub use ruleset::Ruleset;
pub use table::remove;
