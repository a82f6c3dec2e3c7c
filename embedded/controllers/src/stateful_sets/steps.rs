//! Taking the steps of a plan, and reporting.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::decide::{Plan, Step};
use crate::context::Context;
use crate::error::{Error, is_namespace_going, is_taken};
use crate::pods;
use crate::queue::Again;
use crate::watched::Namespaced;

/// Does what is planned. What is to be reported is, also when a step fails.
pub(super) async fn take(context: &Context, set: &StatefulSet, plan: Plan) -> Result<Again, Error> {
    let mut taken = Ok(());
    for step in plan.steps {
        taken = step_of(context, set, step).await;
        if taken.is_err() {
            break;
        }
    }
    if set.status.as_ref() != Some(&plan.status) {
        let reported = StatefulSet { status: Some(plan.status), ..set.clone() };
        set.api(&context.client).replace_status(&set.name_any(), &PostParams::default(), &reported).await?;
    }
    taken?;
    Ok(plan.again)
}

async fn step_of(context: &Context, set: &StatefulSet, step: Step) -> Result<(), kube::Error> {
    let client = &context.client;
    match step {
        Step::Claim(wanted, pod) => claim(context, set, &wanted, &pod).await,
        Step::Own(claim) => {
            claim.api(client).replace(&claim.name_any(), &PostParams::default(), &claim).await.map(drop)
        }
        Step::Create(pod) => {
            let made = pod.api(client).create(&PostParams::default(), &pod).await;
            // The name is another's, or ours and not seen yet: the next look will tell.
            if made.as_ref().is_err_and(is_taken) {
                return made.map(drop);
            }
            tell(context, set, "create", &pod, made).await
        }
        Step::Label(pod, labels) => {
            let change = json!({"metadata": {"uid": pod.uid(), "labels": labels}});
            let params = PatchParams::default();
            let changed = pod.api(client).patch(&pod.name_any(), &params, &Patch::Merge(change)).await;
            tell(context, set, "update", &pod, changed).await
        }
        Step::Delete(pod) => {
            let removed = pods::remove(client, &pod).await;
            tell(context, set, "delete", &pod, removed).await
        }
    }
}

async fn claim(
    context: &Context,
    set: &StatefulSet,
    claim: &PersistentVolumeClaim,
    pod: &str,
) -> Result<(), kube::Error> {
    let (name, owner) = (claim.name_any(), set.name_any());
    match claim.api(&context.client).create(&PostParams::default(), claim).await {
        Ok(_) => {
            let message = format!("create Claim {name} Pod {pod} in StatefulSet {owner} success");
            context.events.normal(set, "SuccessfulCreate", message).await;
            Ok(())
        }
        Err(error) if is_taken(&error) => Ok(()),
        Err(error) => {
            let why = pods::said(&error);
            let message = format!("create Claim {name} for Pod {pod} in StatefulSet {owner} failed error: {why}");
            context.events.warning(set, "FailedCreate", message).await;
            Err(error)
        }
    }
}

/// Tells what became of a pod.
async fn tell<T>(
    context: &Context,
    set: &StatefulSet,
    verb: &str,
    pod: &Pod,
    result: Result<T, kube::Error>,
) -> Result<(), kube::Error> {
    let (name, owner) = (pod.name_any(), set.name_any());
    let (good, bad) = match verb {
        "create" => ("SuccessfulCreate", "FailedCreate"),
        "delete" => ("SuccessfulDelete", "FailedDelete"),
        _ => ("SuccessfulUpdate", "FailedUpdate"),
    };
    match result {
        Ok(_) => {
            let message = format!("{verb} Pod {name} in StatefulSet {owner} successful");
            context.events.normal(set, good, message).await;
            Ok(())
        }
        // All that there is goes with its namespace.
        Err(error) if is_namespace_going(&error) => Ok(()),
        Err(error) => {
            let message = format!("{verb} Pod {name} in StatefulSet {owner} failed error: {}", pods::said(&error));
            context.events.warning(set, bad, message).await;
            Err(error)
        }
    }
}
