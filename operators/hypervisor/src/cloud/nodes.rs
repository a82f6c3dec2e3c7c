//! Nodes and the pods of agents on them, through the API of the cluster.

use c5c3_api::ovs::OVSNode;
use c5c3_kit::remote::{Class, Failure};
use k8s_openapi::api::core::v1::{Node, Pod, Toleration};
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Error, ResourceExt};
use serde_json::json;

use super::{Agents, Cloud};
use crate::NAME;

/// The taint of a node whose host leaves Nova.
pub(crate) const TAINT: &str = "hypervisor.c5c3.io/offboarding";

fn failure(error: &Error) -> Failure {
    match error {
        Error::Api(status) if matches!(status.code, 401 | 403) => {
            Failure::new(Class::Unauthorized, "Forbidden", status.message.clone())
        }
        other => Failure::new(Class::Unreachable, "Unavailable", other.to_string()),
    }
}

impl Cloud {
    /// The pods of agents on a node, and whether it has the taint.
    pub(super) async fn agents(&self, node: &str) -> Result<Agents, Failure> {
        let client = self.cluster()?;
        let params = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let mut names = Vec::new();
        for namespace in &self.settings.agent_namespaces {
            let pods = Api::<Pod>::namespaced(client.clone(), namespace).list(&params).await;
            let pods = pods.map_err(|error| failure(&error))?;
            let is_left = |pod: &&Pod| !has_ended(pod) && !tolerates(pod);
            names.extend(pods.iter().filter(is_left).map(|pod| format!("{namespace}/{}", pod.name_any())));
        }
        names.sort();
        let found = Api::<Node>::all(client).get_opt(node).await.map_err(|error| failure(&error))?;
        let gone = found.is_none();
        let taints = found.and_then(|found| found.spec?.taints).unwrap_or_default();
        Ok(Agents { pods: names, tainted: taints.iter().any(|taint| taint.key == TAINT), gone })
    }

    /// The bridges on a node. The agent of Open vSwitch reports them in an OVSNode of the node's name.
    pub(super) async fn bridges(&self, node: &str) -> Result<Option<Vec<String>>, Failure> {
        let reports: Api<OVSNode> = Api::namespaced(self.cluster()?, &self.settings.ovs_namespace);
        let found = reports.get_opt(node).await.map_err(|error| failure(&error))?;
        let status = found.and_then(|found| found.status);
        Ok(status.map(|status| status.bridges.into_iter().map(|bridge| bridge.name).collect()))
    }

    /// Adds or removes the taint. The list of taints is one value, so that the version that was read is the basis of the change.
    pub(super) async fn taint(&self, node: &str, wanted: bool) -> Result<(), Failure> {
        let nodes: Api<Node> = Api::all(self.cluster()?);
        let Some(found) = nodes.get_opt(node).await.map_err(|error| failure(&error))? else { return Ok(()) };
        let mut taints = found.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        let is_there = taints.iter().any(|taint| taint.key == TAINT);
        if is_there == wanted {
            return Ok(());
        }
        taints.retain(|taint| taint.key != TAINT);
        let mut taints = serde_json::to_value(&taints).unwrap_or_default();
        if let Some(taints) = taints.as_array_mut().filter(|_| wanted) {
            taints.push(json!({"key": TAINT, "effect": "NoExecute"}));
        }
        let patch = json!({"metadata": {"resourceVersion": found.resource_version()}, "spec": {"taints": taints}});
        let params = PatchParams { field_manager: Some(NAME.to_owned()), ..PatchParams::default() };
        match nodes.patch(node, &params, &Patch::Merge(&patch)).await {
            Ok(_) => Ok(()),
            Err(Error::Api(status)) if status.code == 404 => Ok(()),
            Err(Error::Api(status)) if status.code == 409 => {
                Err(Failure::new(Class::Refused, "Conflict", "the node was changed meanwhile"))
            }
            Err(error) => Err(failure(&error)),
        }
    }
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn tolerates(pod: &Pod) -> bool {
    let all = pod.spec.iter().flat_map(|spec| spec.tolerations.iter().flatten());
    let mut lasting = all.filter(|toleration| toleration.toleration_seconds.is_none());
    lasting.any(|toleration: &Toleration| {
        let exists = toleration.operator.as_deref() == Some("Exists");
        let key = toleration.key.as_deref().unwrap_or_default();
        let effect = toleration.effect.as_deref().unwrap_or_default();
        (key == TAINT || (key.is_empty() && exists)) && (effect.is_empty() || effect == "NoExecute")
    })
}
