//! Deployments: one ReplicaSet per template that there was, and the pods moved from the old ones to the new.

mod decide;
mod progress;
mod revisions;
mod scaling;
mod steps;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use kube::core::Selector;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{Controller, watcher};
use kube::{Client, ResourceExt};

use crate::claims;
use crate::context::Context;
use crate::error::Error;
use crate::owners::{controller, controller_ref};
use crate::pods;
use crate::queue::{self, Again};
use crate::watched::{Change, live};

/// What the ReplicaSets and pods of a template are told apart by.
pub(super) const TEMPLATE_HASH: &str = "pod-template-hash";

/// Runs the controller.
pub(crate) async fn run(context: Context) {
    let controller = Controller::new(Api::<Deployment>::all(context.client.clone()), watcher::Config::default());
    let sets = claims::concerned(&context.replica_sets, controller.store(), selector_of);
    let replica_sets = context.replica_sets.store();
    let pods = context.pods.concerning(move |change| ended(change, &replica_sets));
    queue::run(controller.reconcile_on(sets).reconcile_on(pods), context, reconcile).await;
}

fn selector_of(deployment: &Deployment) -> Option<Selector> {
    let selector = Selector::try_from(deployment.spec.as_ref()?.selector.clone()).ok()?;
    Some(selector).filter(|selector| !selector.selects_all())
}

/// Whose pod has ended: one that recreates its pods waits for the last of the old ones.
fn ended(change: &Change<Pod>, sets: &Store<ReplicaSet>) -> Option<ObjectRef<Deployment>> {
    if change.now.as_ref().is_some_and(|pod| !pods::is_finished(pod)) {
        return None;
    }
    let pod = change.versions().last()?;
    let set = sets.get(&controller_ref::<ReplicaSet>(&pod.metadata)?)?;
    controller_ref(&set.metadata)
}

async fn reconcile(deployment: Arc<Deployment>, context: Context) -> Result<Again, Error> {
    let Some(deployment) = live(&context.client, deployment.as_ref()).await? else { return Ok(None) };
    let Some(selector) = selector_of(&deployment) else {
        let message = "This deployment is selecting all pods. A non-empty selector is required.";
        context.events.warning(&deployment, "SelectingAll", message.into()).await;
        return Ok(None);
    };
    let sets =
        claims::claimed(&context.client, &context.replica_sets, &deployment, &selector, |_: &ReplicaSet| true).await?;
    let running = running(&context.client, &deployment, &selector, &sets).await?;
    let plan = decide::plan(&deployment, sets, &running, Timestamp::now())?;
    steps::take(&context, &deployment, plan).await
}

/// The uids of the ReplicaSets that have pods which have not ended. Only one that recreates its pods cares.
async fn running(
    client: &Client,
    deployment: &Deployment,
    selector: &Selector,
    sets: &[ReplicaSet],
) -> Result<HashSet<String>, kube::Error> {
    if !scaling::recreates(deployment) {
        return Ok(HashSet::new());
    }
    let api = Api::<Pod>::namespaced(client.clone(), &deployment.namespace().unwrap_or_default());
    let pods = api.list(&ListParams::default().labels_from(selector)).await?;
    let alive = pods.items.iter().filter(|pod| !pods::is_finished(pod));
    let owners = alive.filter_map(|pod| controller(&pod.metadata)).map(|owner| owner.uid.clone());
    Ok(owners.filter(|owner| sets.iter().any(|set| set.metadata.uid.as_ref() == Some(owner))).collect())
}
