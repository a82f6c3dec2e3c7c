//! Whether the operator may act on a host at all. A host that is left alone keeps what it has: nothing is changed in Nova, in
//! Placement or on its node, and no instance is moved.

use c5c3_api::hypervisor::Hypervisor;
use c5c3_kit::{Ref, Wait};
use kube::ResourceExt;

use crate::node::ROLE_REMOVED;

/// Why a host is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftAlone {
    /// The reason of conditions.
    pub(crate) reason: &'static str,
    /// What is.
    pub now: &'static str,
    /// What a person can do.
    pub remedy: &'static str,
}

/// Asked for by the spec.
const LIFECYCLE: LeftAlone = LeftAlone {
    reason: "LifecycleDisabled",
    now: "spec.lifecycleEnabled is false",
    remedy: "set spec.lifecycleEnabled to true; where the node has the label hypervisor.c5c3.io/lifecycle=disabled, remove that",
};

/// The node is not said to be a hypervisor any more.
pub(crate) const ROLE_LOST: LeftAlone = LeftAlone {
    reason: "NodeRoleRemoved",
    now: "its node has lost the label node-role.kubernetes.io/hypervisor",
    remedy: "put the label back; to give the host up, drain it and set spec.maintenance to termination before it is removed",
};

/// Why the operator leaves a host alone; none if it may act.
pub fn left_alone(object: &Hypervisor) -> Option<LeftAlone> {
    if !object.spec.lifecycle_enabled {
        return Some(LIFECYCLE);
    }
    object.annotations().get(ROLE_REMOVED).is_some_and(|value| value == "true").then_some(ROLE_LOST)
}

impl LeftAlone {
    /// The wait for a person who lets the operator act.
    pub(crate) fn wait(&self, host: &str) -> Wait {
        Wait::on(&Ref::cluster::<Hypervisor>(host))
            .condition("may be acted on")
            .now(format!("is left as it is: {}", self.now))
            .look_at(self.remedy)
            .failed(self.reason)
    }
}
