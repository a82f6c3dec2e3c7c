//! A node, as far as it decides who may run there.

use k8s_openapi::api::core::v1::{self, Taint};

use super::Labels;
use super::resources::Resources;

/// A node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its labels: zones, host name, and what else pods ask for.
    pub labels: Labels,
    /// What keeps pods away that do not tolerate it.
    pub taints: Vec<Taint>,
    /// Whether it is cordoned.
    pub is_cordoned: bool,
    /// What it has for pods.
    pub allocatable: Resources,
}

impl Node {
    /// Reads a node. What it has for pods is what it has, if it says nothing else.
    pub fn of(node: v1::Node) -> Self {
        let spec = node.spec.unwrap_or_default();
        let status = node.status.unwrap_or_default();
        Self {
            name: node.metadata.name.unwrap_or_default(),
            labels: node.metadata.labels.unwrap_or_default(),
            taints: spec.taints.unwrap_or_default(),
            is_cordoned: spec.unschedulable.unwrap_or(false),
            allocatable: Resources::of(status.allocatable.as_ref().or(status.capacity.as_ref())),
        }
    }
}
