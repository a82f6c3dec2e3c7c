//! How the pods of a component are sized and placed.

use std::collections::BTreeMap;

use c5c3_schema::Problem;
use k8s_openapi::api::core::v1::{Affinity, Toleration, TopologySpreadConstraint};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::{ObjectName, Quantity, Replicas};
use crate::catalog::problem;

/// CPU and memory of a pod's main container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// What is set aside for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub requests: BTreeMap<String, Quantity>,
    /// What it may use at most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub limits: BTreeMap<String, Quantity>,
}

impl Resources {
    /// Requests above their limits, which no pod may have. `path` is where the resources are.
    pub(crate) fn problems(&self, path: &str) -> Vec<Problem> {
        let amount = |quantity: &Quantity| super::quantity::bytes(quantity.as_str()).unwrap_or_default();
        let above = self.requests.iter().filter_map(|(name, request)| {
            let limit = self.limits.get(name).filter(|limit| amount(request) > amount(limit))?;
            let what = format!("is {}, which is more than the limit, {}", request.as_str(), limit.as_str());
            Some(problem(format!("{path}.requests.{name}"), what, "lower it, or raise the limit"))
        });
        above.collect()
    }
}

/// The nodes that pods are scheduled to. The fields are those of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Scheduling {
    /// Labels that a node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that are tolerated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub tolerations: Vec<Toleration>,
    /// Attraction to nodes and pods, and repulsion from them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// How pods spread over zones and nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// Priority of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<ObjectName>,
}

/// One component of a service: how many pods, how large, where.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// How many pods; each component has its own default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Replicas>,
    /// CPU and memory of each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// The nodes that they are scheduled to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
}
