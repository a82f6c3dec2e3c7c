//! DaemonSets: one pod on every node that it may run on.

mod backoff;
mod decide;
mod eligible;
mod rolling;
mod status;
mod steps;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, DaemonSetSpec};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::core::Selector;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{Controller, watcher};
use serde_json::json;

use crate::claims;
use crate::context::Context;
use crate::error::Error;
use crate::history;
use crate::owners::is_going;
use crate::queue::{self, Again};
use crate::watched::{Change, Namespaced, live};
use backoff::Backoff;

/// Where a revision and its pods keep the hash of their template.
const HASH: &str = "controller-revision-hash";

/// Runs the controller.
pub(crate) async fn run(context: Context) {
    let controller = Controller::new(Api::<DaemonSet>::all(context.client.clone()), watcher::Config::default());
    let pods = claims::concerned(&context.pods, controller.store(), selector_of);
    let sets = controller.store();
    let nodes = context.nodes.concerning(move |change| unsettled(change, &sets));
    let backoff = Arc::new(Backoff::default());
    queue::run(controller.reconcile_on(pods).reconcile_on(nodes), context, move |set, context| {
        reconcile(set, context, backoff.clone())
    })
    .await;
}

fn selector_of(set: &DaemonSet) -> Option<Selector> {
    let selector = Selector::try_from(set.spec.as_ref()?.selector.clone()).ok()?;
    Some(selector).filter(|selector| !selector.selects_all())
}

fn spec(set: &DaemonSet) -> DaemonSetSpec {
    set.spec.clone().unwrap_or_default()
}

/// Whom a change of a node concerns: all, if it changes what may run there. That it is alive is no news.
fn unsettled(change: &Change<Node>, sets: &Store<DaemonSet>) -> Vec<ObjectRef<DaemonSet>> {
    let matters = |node: &Arc<Node>| (node.metadata.labels.clone(), node.spec.clone());
    if change.before.as_ref().map(matters) == change.now.as_ref().map(matters) {
        return Vec::new();
    }
    sets.state().iter().map(|set| ObjectRef::from_obj(set.as_ref())).collect()
}

async fn reconcile(set: Arc<DaemonSet>, context: Context, backoff: Arc<Backoff>) -> Result<Again, Error> {
    let client = &context.client;
    let Some(set) = live(client, set.as_ref()).await? else { return Ok(None) };
    if is_going(&set.metadata) {
        return Ok(None);
    }
    let Some(selector) = selector_of(&set) else {
        let message = "This daemon set is selecting all pods. A non-empty selector is required.";
        context.events.warning(&set, "SelectingAll", message.into()).await;
        return Ok(None);
    };
    let mut pods = claims::claimed(client, &context.pods, &set, &selector, |_: &Pod| true).await?;
    let revisions = history::list(client, &set, &selector).await?;
    let mut collisions = set.status.as_ref().and_then(|status| status.collision_count);
    let current = history::ensure(client, &set, &spec(&set).template, HASH, &revisions, &mut collisions).await?;
    // One that someone made by hand may lack it.
    let hash = current.labels().get(HASH).cloned().unwrap_or_else(|| current.name_any());
    merge(&context, &set, &revisions, &current, &hash, &mut pods).await?;
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?.items;
    let seen = decide::Seen { set: &set, hash: &hash, nodes: &nodes, pods: &pods, collisions, now: Timestamp::now() };
    let plan = decide::plan(&seen, &|node| backoff.left(&set, node, seen.now));
    let again = steps::take(&context, &set, &hash, plan, &backoff).await?;
    let used: HashSet<&String> = pods.iter().filter_map(|pod| pod.labels().get(HASH)).collect();
    let is_alive = |revision: &ControllerRevision| {
        revision.name_any() == current.name_any() || revision.labels().get(HASH).is_some_and(|hash| used.contains(hash))
    };
    let surplus = history::surplus(&revisions, is_alive, spec(&set).revision_history_limit.unwrap_or(10));
    history::delete(client, &set, surplus.iter().map(ResourceExt::name_any).collect()).await?;
    Ok(again)
}

/// Of several revisions of one template keeps one, and labels its pods with that one's hash: also those at hand, which
/// would be taken for pods of an older template otherwise, and replaced.
async fn merge(
    context: &Context,
    set: &DaemonSet,
    revisions: &[ControllerRevision],
    current: &ControllerRevision,
    hash: &str,
    pods: &mut [Pod],
) -> Result<(), kube::Error> {
    let duplicates: Vec<&ControllerRevision> = history::duplicates(revisions, current).collect();
    let hashes: HashSet<&String> = duplicates.iter().filter_map(|revision| revision.labels().get(HASH)).collect();
    let is_of_another =
        |pod: &&mut Pod| pod.labels().get(HASH).is_some_and(|label| label != hash && hashes.contains(label));
    for pod in pods.iter_mut().filter(is_of_another) {
        let change = Patch::Merge(json!({"metadata": {"labels": {HASH: hash}}}));
        *pod = pod.api(&context.client).patch(&pod.name_any(), &PatchParams::default(), &change).await?;
    }
    history::delete(&context.client, set, duplicates.into_iter().map(ResourceExt::name_any).collect()).await
}
