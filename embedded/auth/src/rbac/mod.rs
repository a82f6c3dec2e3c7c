//! Role-based access control: rules, who holds them, and what may be handed on.

mod aggregation;
mod attributes;
pub mod bootstrap;
mod escalation;
mod policy;
mod rule;

pub use aggregation::aggregate;
pub use attributes::Attributes;
pub use escalation::{check_binding, check_role, covers};
pub use policy::{Decision, MalformedPolicy, Policy, RulesOf};
pub use rule::Rule;

/// API group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";

#[cfg(test)]
mod tests;
