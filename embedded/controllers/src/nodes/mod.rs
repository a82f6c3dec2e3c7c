//! Nodes: found silent, tainted, emptied; and the pods that they leave behind.
//!
//! A node's own addresses and its range for pods are the node's to say.

mod gc;
mod health;
mod taints;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod, Taint};
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::reflector::ObjectRef;
use serde_json::json;

use self::taints::Stay;
use crate::context::Context;
use crate::error::{Error, is_gone};
use crate::queue::Again;
use crate::{pods, queue};

/// Where nodes say that they are alive.
const LEASES: &str = "kube-node-lease";

/// When each node was first seen, by uid, for those that never say anything.
type Seen = Arc<Mutex<HashMap<String, Timestamp>>>;

/// Looks after nodes until the context says stop.
pub(crate) async fn run(context: Context) {
    tokio::join!(look_after(context.clone()), gc::run(context.clone()));
}

async fn look_after(context: Context) {
    let nodes = context.nodes.store();
    // A pod that comes to a node which others have to leave may have to leave it, too.
    let of_pods = context.pods.concerning(move |change| {
        let name = change.now.as_ref().and_then(|pod| pod.spec.as_ref()?.node_name.clone());
        let node = name.map(|name| ObjectRef::<Node>::new(&name));
        node.filter(|node| nodes.get(node).is_some_and(|node| !taints::expelling(&node).is_empty()))
    });
    let seen = Seen::default();
    let controller = context.nodes.controller().reconcile_on(of_pods);
    queue::run(controller, context, move |node, context| reconcile(node, context, seen.clone())).await;
}

async fn reconcile(node: Arc<Node>, context: Context, seen: Seen) -> Result<Again, Error> {
    let api = Api::<Node>::all(context.client.clone());
    let uid = node.uid().unwrap_or_default();
    let found = api.get_opt(&node.name_any()).await?;
    let Some(node) = found.filter(|found| found.metadata.uid == node.metadata.uid) else {
        seen.lock().unwrap_or_else(PoisonError::into_inner).remove(&uid);
        return Ok(None);
    };
    let now = Timestamp::now();
    let first = *seen.lock().unwrap_or_else(PoisonError::into_inner).entry(uid).or_insert(now);
    let lease = Api::<Lease>::namespaced(context.client.clone(), LEASES).get_opt(&node.name_any()).await?;
    let heard = health::last_heard(&node, lease.as_ref(), first);
    let left = health::patience(heard, context.options.node_grace, now);
    if left.is_none()
        && let Some(conditions) = health::silenced(&node, now)
    {
        silence(&context, &node, conditions).await?;
        // The change that this is brings us back.
        return Ok(None);
    }
    // A node that never said anything is not ready, but is given time to.
    let told = health::condition(&node, "Ready").is_some();
    if told && let Some(wanted) = taints::wanted(&node, now) {
        taint(&context, &node, wanted).await?;
        return Ok(None);
    }
    let mut again = left;
    if told && health::ready(&node) != "True" {
        unready_pods(&context, &node).await?;
    }
    again = again.into_iter().chain(expel(&context, &node, now).await?).min();
    Ok(again)
}

/// Says that nothing is known of a node.
async fn silence(context: &Context, node: &Node, conditions: Vec<NodeCondition>) -> Result<(), Error> {
    let mut told = node.clone();
    told.status.get_or_insert_default().conditions = Some(conditions);
    let api = Api::<Node>::all(context.client.clone());
    match api.replace_status(&node.name_any(), &PostParams::default(), &told).await {
        Ok(_) => {}
        Err(error) if is_gone(&error) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    let message = format!("Node {} status is now: NodeNotReady", node.name_any());
    context.events.normal(node, "NodeNotReady", message).await;
    Ok(())
}

async fn taint(context: &Context, node: &Node, taints: Vec<Taint>) -> Result<(), Error> {
    let patch = json!({"metadata": {"resourceVersion": node.resource_version()}, "spec": {"taints": taints}});
    let api = Api::<Node>::all(context.client.clone());
    match api.patch(&node.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await {
        Err(error) if !is_gone(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

async fn pods_on(context: &Context, node: &Node) -> Result<Vec<Pod>, Error> {
    let params = ListParams::default().fields(&format!("spec.nodeName={}", node.name_any()));
    Ok(Api::<Pod>::all(context.client.clone()).list(&params).await?.items)
}

/// No one can tell that the pods of a node are ready which is not.
async fn unready_pods(context: &Context, node: &Node) -> Result<(), Error> {
    for pod in pods_on(context, node).await?.iter().filter(|pod| pods::is_ready(pod)) {
        let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::now());
        let ready = json!({"type": "Ready", "status": "False", "lastTransitionTime": now,
                           "observedGeneration": pod.metadata.generation});
        if patch_status(context, pod, json!({"status": {"conditions": [ready]}})).await? {
            context.events.warning(pod, "NodeNotReady", "Node is not ready".into()).await;
        }
    }
    Ok(())
}

/// Deletes the pods that may not stay on a node, and says when to look at the others again.
async fn expel(context: &Context, node: &Node, now: Timestamp) -> Result<Option<Duration>, Error> {
    let taints = taints::expelling(node);
    if taints.is_empty() {
        return Ok(None);
    }
    let mut again: Option<Duration> = None;
    for pod in pods_on(context, node).await?.iter().filter(|pod| pods::is_active(pod)) {
        match taints::stay(pod, &taints, now) {
            Stay::Forever => {}
            Stay::For(left) => again = again.into_iter().chain([left]).min(),
            Stay::Over => {
                let name = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
                let message = format!("Marking for deletion Pod {name}");
                context.events.of("taint-eviction-controller").normal(pod, "TaintManagerEviction", message).await;
                let why = "Taint manager: deleting due to NoExecute taint";
                disrupt(context, pod, "DeletionByTaintManager", why, None).await?;
                pods::remove(&context.client, pod).await?;
            }
        }
    }
    Ok(again)
}

/// Says of a pod why it is about to be deleted.
async fn disrupt(context: &Context, pod: &Pod, reason: &str, why: &str, phase: Option<&str>) -> Result<(), Error> {
    patch_status(context, pod, gc::disruption(pod, (reason, why), phase, Timestamp::now())).await.map(drop)
}

/// Changes the status of this pod. False: it is gone.
async fn patch_status(context: &Context, pod: &Pod, mut patch: serde_json::Value) -> Result<bool, Error> {
    patch["metadata"] = json!({"uid": pod.uid()});
    let api = Api::<Pod>::namespaced(context.client.clone(), &pod.namespace().unwrap_or_default());
    match api.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await {
        Ok(_) => Ok(true),
        Err(error) if is_gone(&error) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
