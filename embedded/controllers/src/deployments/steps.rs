//! Taking the steps of a plan, and reporting.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, PostParams, Preconditions};

use super::decide::{Plan, Step};
use super::progress::{self, PROGRESSING};
use super::revisions::{REVISION, has_template};
use super::scaling::size;
use crate::context::Context;
use crate::error::{Error, is_gone, is_namespace_going, is_taken};
use crate::owners::controlled_by;
use crate::pods::said;
use crate::queue::Again;
use crate::watched::Namespaced;

/// Does what is planned.
pub(super) async fn take(context: &Context, deployment: &Deployment, plan: Plan) -> Result<Again, Error> {
    let sets = Api::<ReplicaSet>::namespaced(context.client.clone(), &deployment.namespace().unwrap_or_default());
    for step in &plan.steps {
        match step {
            Step::Create(set) => {
                if !create(context, deployment, &sets, set).await? {
                    return Ok(None);
                }
            }
            Step::Change { from, to } => {
                sets.replace(&to.name_any(), &PostParams::default(), to).await?;
                tell(context, deployment, to, *from).await;
            }
            Step::Delete(set) => {
                let preconditions = Some(Preconditions { uid: set.uid(), resource_version: set.resource_version() });
                match sets.delete(&set.name_any(), &DeleteParams { preconditions, ..DeleteParams::background() }).await
                {
                    Err(error) if !is_gone(&error) => return Err(error.into()),
                    _ => {}
                }
            }
        }
    }
    report(context, deployment.clone(), &plan).await?;
    Ok(plan.again)
}

/// Creates the new ReplicaSet. False: its namespace is going, and that is that.
async fn create(
    context: &Context,
    deployment: &Deployment,
    sets: &Api<ReplicaSet>,
    set: &ReplicaSet,
) -> Result<bool, Error> {
    let Err(error) = sets.create(&PostParams::default(), set).await else {
        tell(context, deployment, set, 0).await;
        return Ok(true);
    };
    if is_namespace_going(&error) {
        return Ok(false);
    }
    if is_taken(&error) {
        let uid = deployment.uid().unwrap_or_default();
        let found = sets.get_opt(&set.name_any()).await?;
        if found.is_some_and(|found| controlled_by(&found.metadata, &uid) && has_template(deployment, &found)) {
            return Ok(true);
        }
        // Another template has the same hash: count, and make another.
        let mut counted = deployment.clone();
        let collisions = counted.status.get_or_insert_default().collision_count.get_or_insert(0);
        *collisions += 1;
        write_status(context, &counted).await?;
        return Err(error.into());
    }
    let message = format!("Failed to create new replica set {:?}: {}", set.name_any(), said(&error));
    context.events.warning(deployment, "ReplicaSetCreateError", message.clone()).await;
    if progress::deadline(deployment).is_some() {
        let mut failed = deployment.clone();
        let conditions = failed.status.get_or_insert_default().conditions.get_or_insert_default();
        let now = jiff::Timestamp::now();
        let condition = progress::condition(PROGRESSING, "False", "ReplicaSetCreateError", message, now);
        progress::set(conditions, condition);
        if failed != *deployment {
            write_status(context, &failed).await?;
        }
    }
    Err(error.into())
}

/// Tells that a ReplicaSet was resized.
async fn tell(context: &Context, deployment: &Deployment, set: &ReplicaSet, from: i32) {
    let to = size(set);
    if from != to {
        let direction = if to > from { "up" } else { "down" };
        let message = format!("Scaled {direction} replica set {} from {from} to {to}", set.name_any());
        context.events.normal(deployment, "ScalingReplicaSet", message).await;
    }
}

/// Writes the status and the revision, if they are others.
async fn report(context: &Context, mut deployment: Deployment, plan: &Plan) -> Result<(), Error> {
    let known = deployment.annotations().get(REVISION);
    let revised = plan.revision.as_ref().filter(|revision| known != Some(revision));
    if deployment.status.as_ref() == Some(&plan.status) && revised.is_none() {
        return Ok(());
    }
    if let Some(revision) = revised {
        deployment.annotations_mut().insert(REVISION.into(), revision.clone());
    }
    deployment.status = Some(plan.status.clone());
    write_status(context, &deployment).await
}

async fn write_status(context: &Context, deployment: &Deployment) -> Result<(), Error> {
    let api = deployment.api(&context.client);
    api.replace_status(&deployment.name_any(), &PostParams::default(), deployment).await?;
    Ok(())
}
