//! StatefulSets: pods with names, an order and volumes that stay theirs.

mod decide;
mod identity;
mod status;
mod steps;
#[cfg(test)]
mod tests;
mod volumes;

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, PodTemplateSpec};
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use kube::core::Selector;
use kube::runtime::{Controller, watcher};

use crate::claims;
use crate::context::Context;
use crate::error::Error;
use crate::history;
use crate::owners::is_going;
use crate::queue::{self, Again};
use crate::watched::live;

/// Where a revision keeps the hash of its template.
const HASH: &str = "controller.kubernetes.io/hash";

/// A template of a set, and the name that its pods carry.
#[derive(Clone, Debug)]
struct Version {
    name: String,
    template: PodTemplateSpec,
}

impl Version {
    fn of(revision: &ControllerRevision) -> Result<Self, serde_json::Error> {
        Ok(Self { name: revision.name_any(), template: history::template(revision)? })
    }
}

/// Runs the controller.
pub(crate) async fn run(context: Context) {
    let controller = Controller::new(Api::<StatefulSet>::all(context.client.clone()), watcher::Config::default());
    let triggers = claims::concerned(&context.pods, controller.store(), selector_of);
    queue::run(controller.reconcile_on(triggers), context, reconcile).await;
}

fn selector_of(set: &StatefulSet) -> Option<Selector> {
    let selector = Selector::try_from(set.spec.as_ref()?.selector.clone()).ok()?;
    Some(selector).filter(|selector| !selector.selects_all())
}

fn spec(set: &StatefulSet) -> StatefulSetSpec {
    set.spec.clone().unwrap_or_default()
}

async fn reconcile(set: Arc<StatefulSet>, context: Context) -> Result<Again, Error> {
    let client = &context.client;
    let Some(set) = live(client, set.as_ref()).await? else { return Ok(None) };
    let Some(selector) = selector_of(&set).filter(|_| !is_going(&set.metadata)) else { return Ok(None) };
    // A pod of another name may match, and is none of ours: it has no place in the order.
    let is_member = |pod: &Pod| identity::ordinal(&set, pod).is_some();
    let pods = claims::claimed(client, &context.pods, &set, &selector, is_member).await?;
    let revisions = history::list(client, &set, &selector).await?;
    let reported = set.status.clone().unwrap_or_default();
    let mut collisions = Some(reported.collision_count.unwrap_or(0));
    let update = history::ensure(client, &set, &spec(&set).template, HASH, &revisions, &mut collisions).await?;
    let current = revisions.iter().find(|revision| Some(revision.name_any()) == reported.current_revision);
    let current = current.unwrap_or(&update);
    let seen = decide::Seen {
        set: &set,
        current: &Version::of(current)?,
        update: &Version::of(&update)?,
        pods: &pods,
        claims: &volumes(&context, &set).await?,
        collisions,
        now: Timestamp::now(),
    };
    let again = steps::take(&context, &set, decide::plan(&seen)).await?;
    let alive: HashSet<String> = [current.name_any(), update.name_any()].into_iter().collect();
    let used: HashSet<&String> = pods.iter().filter_map(|pod| pod.labels().get(identity::REVISION)).collect();
    let is_alive = |revision: &ControllerRevision| {
        let name = revision.name_any();
        alive.contains(&name) || used.contains(&name)
    };
    let limit = spec(&set).revision_history_limit.unwrap_or(10);
    let surplus = history::surplus(&revisions, is_alive, limit);
    history::delete(client, &set, surplus.iter().map(ResourceExt::name_any).collect()).await?;
    Ok(again)
}

/// The claims beside a set that has some of its own.
async fn volumes(context: &Context, set: &StatefulSet) -> Result<Vec<PersistentVolumeClaim>, kube::Error> {
    if spec(set).volume_claim_templates.is_none_or(|templates| templates.is_empty()) {
        return Ok(Vec::new());
    }
    let api = Api::namespaced(context.client.clone(), &set.namespace().unwrap_or_default());
    Ok(api.list(&ListParams::default()).await?.items)
}
