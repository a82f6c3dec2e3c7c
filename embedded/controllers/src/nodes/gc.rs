//! Pods that no one ends: those of nodes that are gone or given up, those that never had one, and too many that are over.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Preconditions};
use kube::runtime::reflector::{ObjectRef, Store};
use serde_json::json;

use super::health::ready;
use super::taints::OUT_OF_SERVICE;
use crate::context::Context;
use crate::error::{Error, is_gone};
use crate::queue::Again;
use crate::watched::live;
use crate::{owners, pods, queue};

/// Since when nodes have been missing that pods are on.
type Missing = Arc<Mutex<HashMap<String, Timestamp>>>;

/// What is to become of a pod.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Keep,
    /// It may be over; look again after this.
    Wait(Duration),
    Delete(&'static str),
}

/// Collects such pods until the context says stop.
pub(super) async fn run(context: Context) {
    let nodes = context.nodes.store();
    let known = context.pods.store();
    let of_nodes = context.nodes.concerning(move |change| {
        let matters = |node: &Node| change.now.is_none() || is_out_of_service(node);
        let name = change.versions().last().filter(|node| matters(node)).map(|node| node.name_any());
        let on = |pod: &Arc<Pod>| name.is_some() && node_of(pod) == name.as_deref();
        known.state().iter().filter(|pod| on(pod)).map(|pod| ObjectRef::from_obj(pod.as_ref())).collect::<Vec<_>>()
    });
    let missing = Missing::default();
    let controller = context.pods.controller().reconcile_on(of_nodes);
    let collect = queue::run(controller, context.clone(), move |pod, context| {
        reconcile(pod, context, nodes.clone(), missing.clone())
    });
    tokio::join!(collect, thin_out(context.clone()));
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

fn is_out_of_service(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    ready(node) != "True" && taints.into_iter().any(|taint| taint.key == OUT_OF_SERVICE)
}

/// What is to become of a pod, given its node if that is there, and how long it has not been.
fn fate(pod: &Pod, node: Option<&Node>, missing: Duration, quarantine: Duration) -> Fate {
    let going = owners::is_going(&pod.metadata);
    match (node_of(pod), node) {
        (None, _) if going => Fate::Delete("PodGC: pod was never scheduled"),
        (Some(_), Some(node)) if going && is_out_of_service(node) => Fate::Delete("PodGC: node out of service"),
        (None, _) | (Some(_), Some(_)) => Fate::Keep,
        (Some(_), None) if missing < quarantine => Fate::Wait(quarantine.saturating_sub(missing)),
        (Some(_), None) => Fate::Delete("PodGC: node no longer exists"),
    }
}

async fn reconcile(pod: Arc<Pod>, context: Context, nodes: Store<Node>, missing: Missing) -> Result<Again, Error> {
    let name = node_of(&pod).unwrap_or_default();
    let known = nodes.get(&ObjectRef::new(name));
    let now = Timestamp::now();
    let since = {
        let mut missing = missing.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_some() || name.is_empty() {
            missing.remove(name);
            now
        } else {
            *missing.entry(name.to_owned()).or_insert(now)
        }
    };
    let gone = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    match fate(&pod, known.as_deref(), gone, context.options.orphan_quarantine) {
        Fate::Keep => return Ok(None),
        Fate::Wait(left) => return Ok(Some(left)),
        Fate::Delete(_) => {}
    }
    // Once more with what is true now, before anything is lost.
    let Some(pod) = live(&context.client, pod.as_ref()).await? else { return Ok(None) };
    let node = match node_of(&pod) {
        Some(name) => Api::<Node>::all(context.client.clone()).get_opt(name).await?,
        None => None,
    };
    if let Fate::Delete(why) = fate(&pod, node.as_ref(), gone, context.options.orphan_quarantine) {
        end(&context, &pod, why).await?;
    }
    Ok(None)
}

/// Says of a pod that it has failed, and deletes it without waiting for a node.
async fn end(context: &Context, pod: &Pod, why: &str) -> Result<(), Error> {
    if !pods::is_finished(pod) {
        super::disrupt(context, pod, "DeletionByPodGC", why, Some("Failed")).await?;
    }
    let api = Api::<Pod>::namespaced(context.client.clone(), &pod.namespace().unwrap_or_default());
    let preconditions = Some(Preconditions { uid: pod.uid(), resource_version: None });
    let how = DeleteParams { preconditions, ..DeleteParams::default().grace_period(0) };
    match api.delete(&pod.name_any(), &how).await {
        Err(error) if !is_gone(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Deletes the oldest pods that are over, when there are more than may be kept.
async fn thin_out(context: Context) {
    let (mut changes, known) = (std::pin::pin!(context.pods.changes()), context.pods.store());
    while let Some(Some(change)) = context.stop.run_until_cancelled(changes.next()).await {
        if !change.now.as_ref().is_some_and(|pod| pods::is_finished(pod)) {
            continue;
        }
        let over: Vec<Arc<Pod>> = known
            .state()
            .into_iter()
            .filter(|pod| pods::is_finished(pod) && !owners::is_going(&pod.metadata))
            .collect();
        for pod in surplus(over, context.options.finished_pods) {
            if let Err(error) = pods::remove(&context.client, &pod).await {
                tracing::warn!(pod = pod.name_any(), %error, "a pod that is over stays");
            }
        }
    }
}

/// The oldest of them, beyond so many.
fn surplus(mut over: Vec<Arc<Pod>>, limit: usize) -> Vec<Arc<Pod>> {
    let count = over.len().saturating_sub(limit);
    if count > 0 {
        over.sort_by_key(|pod| (pod.metadata.creation_timestamp.clone(), pod.name_any()));
    }
    over.truncate(count);
    over
}

/// The status that says of a pod why it is deleted.
pub(super) fn disruption(
    pod: &Pod,
    (reason, message): (&str, &str),
    phase: Option<&str>,
    now: Timestamp,
) -> serde_json::Value {
    let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message,
                           "observedGeneration": pod.metadata.generation,
                           "lastTransitionTime": k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now)});
    let mut status = json!({"conditions": [condition]});
    if let Some(phase) = phase {
        status["phase"] = phase.into();
    }
    json!({"status": status})
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::testing::of;

    fn pod(node: Option<&str>, going: bool) -> Pod {
        let deleted = going.then_some("2024-05-01T10:00:00Z");
        of(
            json!({"metadata": {"name": "p", "deletionTimestamp": deleted}, "spec": {"nodeName": node, "containers": []}}),
        )
    }

    fn node(ready: &str, taints: Value) -> Node {
        let mut node = json!({"status": {"conditions": [{"type": "Ready", "status": ready}]}, "spec": {}});
        node["spec"]["taints"] = taints;
        of(node)
    }

    #[test]
    fn a_pod_is_deleted_when_nobody_else_will() {
        let out = json!([{"key": OUT_OF_SERVICE, "effect": "NoExecute"}]);
        let quarantine = Duration::from_secs(40);
        let table = vec![
            (pod(None, false), None, 0, Fate::Keep),
            (pod(None, true), None, 0, Fate::Delete("PodGC: pod was never scheduled")),
            (pod(Some("n"), true), Some(node("True", json!([]))), 0, Fate::Keep),
            (pod(Some("n"), true), Some(node("Unknown", out.clone())), 0, Fate::Delete("PodGC: node out of service")),
            (pod(Some("n"), false), Some(node("Unknown", out.clone())), 0, Fate::Keep),
            (pod(Some("n"), true), Some(node("True", out)), 0, Fate::Keep),
            (pod(Some("n"), false), None, 10, Fate::Wait(Duration::from_secs(30))),
            (pod(Some("n"), false), None, 40, Fate::Delete("PodGC: node no longer exists")),
        ];
        for (pod, node, missing, expected) in table {
            assert_eq!(fate(&pod, node.as_ref(), Duration::from_secs(missing), quarantine), expected);
        }
    }

    #[test]
    fn a_pod_says_why_it_is_deleted_and_which_generation_of_it() {
        let pod: Pod = of(json!({"metadata": {"name": "p", "generation": 7}}));
        let patch = disruption(&pod, ("DeletionByPodGC", "its node is gone"), Some("Failed"), Timestamp::UNIX_EPOCH);
        let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
            "message": "its node is gone", "observedGeneration": 7, "lastTransitionTime": "1970-01-01T00:00:00Z"});
        assert_eq!(patch["status"], json!({"phase": "Failed", "conditions": [condition]}));
    }

    #[test]
    fn the_oldest_of_too_many_go() {
        let made = |second: i64| {
            let pod: Pod = of(json!({"metadata": {"name": second.to_string(),
                "creationTimestamp": Timestamp::from_second(second).unwrap()}}));
            Arc::new(pod)
        };
        let names =
            |limit| surplus([3, 1, 2].map(made).into(), limit).iter().map(|pod| pod.name_any()).collect::<Vec<_>>();
        assert_eq!(names(2), ["1"]);
        assert!(names(3).is_empty());
    }
}
