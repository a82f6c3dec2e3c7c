//! Taking the steps of a plan, and reporting.

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::ResourceExt;
use kube::api::PostParams;

use super::backoff::Backoff;
use super::decide::Plan;
use super::eligible;
use crate::context::Context;
use crate::error::Error;
use crate::pods;
use crate::queue::Again;
use crate::watched::Namespaced;

/// At most so many pods are created or deleted at once, as upstream has it.
const BURST: usize = 250;

/// Does what is planned. What is to be reported is, also when a step fails.
pub(super) async fn take(
    context: &Context,
    set: &DaemonSet,
    hash: &str,
    plan: Plan,
    backoff: &Backoff,
) -> Result<Again, Error> {
    for (pod, node) in &plan.ended {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        if pods::phase(pod) == "Failed" {
            backoff.failed(set, node, Timestamp::now());
            let message = format!("Found failed daemon pod {namespace}/{name} on node {node}, will try to kill it");
            context.events.warning(set, "FailedDaemonPod", message).await;
        } else {
            let message =
                format!("Found succeeded daemon pod {namespace}/{name} on node {node}, will try to delete it");
            context.events.normal(set, "SucceededDaemonPod", message).await;
        }
    }
    let made = pods::slowly(plan.create.len().min(BURST), |index| {
        let pod = eligible::pod(set, hash, &plan.create[index]);
        async move { pods::create(context, set, &pod).await }
    })
    .await;
    let deleted = join_all(plan.delete.iter().take(BURST).map(|pod| pods::delete(context, set, pod))).await;
    if set.status.as_ref() != Some(&plan.status) {
        let reported = DaemonSet { status: Some(plan.status), ..set.clone() };
        set.api(&context.client).replace_status(&set.name_any(), &PostParams::default(), &reported).await?;
    }
    made?;
    deleted.into_iter().collect::<Result<(), _>>()?;
    Ok(plan.again)
}
