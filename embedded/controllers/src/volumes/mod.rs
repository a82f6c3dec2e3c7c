//! Claims and volumes: bound to each other, made as folders of this machine, kept while they are used, taken back after.

mod binding;
mod claims;
mod ephemeral;
mod local_path;
mod phases;
mod protection;
mod read;
mod reclaim;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams};
use kube::core::ObjectMeta;
use kube::runtime::reflector::{ObjectRef, Store};

use crate::context::Context;
use crate::error::{Error, is_taken};
use crate::watched::{Change, Watched};
use crate::{owners, queue};

type Claim = ObjectRef<PersistentVolumeClaim>;

/// Looks after claims and volumes until the context says stop.
pub(crate) async fn run(context: Context) {
    let claims = Watched::<PersistentVolumeClaim>::default();
    let volumes = Watched::<PersistentVolume>::default();
    let classes = Watched::<StorageClass>::default();
    tokio::join!(
        have_class(&context),
        claims.follow(&context),
        volumes.follow(&context),
        classes.follow(&context),
        look_after_claims(context.clone(), &claims, &volumes, &classes),
        look_after_volumes(context.clone(), &claims, &volumes),
        ephemeral::run(context.clone()),
    );
}

async fn look_after_claims(
    context: Context,
    claims: &Watched<PersistentVolumeClaim>,
    volumes: &Watched<PersistentVolume>,
    classes: &Watched<StorageClass>,
) {
    let known = claims.store();
    let of_volumes = volumes.concerning(move |change| {
        let kept = change.versions().filter_map(|volume| claim_named_by(volume));
        kept.chain(waiting(&known)).collect::<std::collections::HashSet<_>>()
    });
    let known = claims.store();
    let of_classes = classes.concerning(move |_| waiting(&known));
    let known = claims.store();
    let of_nodes =
        context.nodes.concerning(move |change| if change.before.is_none() { waiting(&known) } else { Vec::new() });
    let known = claims.store();
    let of_pods = context.pods.concerning(move |change| let_go(&known, change));
    let controller = claims.controller().reconcile_on(of_volumes).reconcile_on(of_classes);
    let controller = controller.reconcile_on(of_nodes).reconcile_on(of_pods);
    queue::run(controller, context, binding::reconcile).await;
}

async fn look_after_volumes(
    context: Context,
    claims: &Watched<PersistentVolumeClaim>,
    volumes: &Watched<PersistentVolume>,
) {
    let known = volumes.store();
    let of_claims = claims.concerning(move |change| {
        let own = |volume: &Arc<PersistentVolume>| {
            change
                .versions()
                .any(|claim| read::volume_of(claim) == Some(volume.name_any().as_str()) || read::is_for(volume, claim))
        };
        let found = known.state().into_iter().filter(own);
        found.map(|volume| ObjectRef::from_obj(volume.as_ref())).collect::<Vec<_>>()
    });
    let controller = volumes.controller().reconcile_on(of_claims);
    queue::run(controller, context, reclaim::reconcile).await;
}

fn claim_named_by(volume: &PersistentVolume) -> Option<Claim> {
    let kept = read::claim_of(volume)?;
    Some(ObjectRef::new(kept.name.as_deref()?).within(kept.namespace.as_deref()?))
}

/// The claims that have no volume yet.
fn waiting(claims: &Store<PersistentVolumeClaim>) -> Vec<Claim> {
    let waits = |claim: &Arc<PersistentVolumeClaim>| read::phase(claim) != "Bound";
    claims.state().iter().filter(|claim| waits(claim)).map(|claim| ObjectRef::from_obj(claim.as_ref())).collect()
}

/// The claims that are to go and that a pod which has changed names.
fn let_go(claims: &Store<PersistentVolumeClaim>, change: &Change<Pod>) -> Vec<Claim> {
    let named = change.versions().flat_map(|pod| {
        let namespace = pod.namespace().unwrap_or_default();
        protection::claims_of(pod).into_iter().map(move |name| Claim::new(&name).within(&namespace))
    });
    let goes = |claim: &Claim| claims.get(claim).is_some_and(|claim| owners::is_going(&claim.metadata));
    named.filter(goes).collect()
}

/// Has the classes of our volumes. The first is the default unless there is another.
async fn have_class(context: &Context) {
    while let Err(error) = make_class(context).await {
        tracing::warn!(%error, "the class of local volumes cannot be made, and is tried again");
        let pause = tokio::time::sleep(Duration::from_secs(1));
        if context.stop.run_until_cancelled(pause).await.is_none() {
            return;
        }
    }
}

async fn make_class(context: &Context) -> Result<(), Error> {
    let api = Api::<StorageClass>::all(context.client.clone());
    let there = api.list(&ListParams::default()).await?.items;
    let has_default = there.iter().any(read::is_default);
    for name in local_path::CLASSES {
        if there.iter().any(|class| class.name_any() == name) {
            continue;
        }
        let default = name == local_path::CLASSES[0] && !has_default;
        match api.create(&PostParams::default(), &class(name, default)).await {
            Err(error) if !is_taken(&error) => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

fn class(name: &str, default: bool) -> StorageClass {
    let annotations = default.then(|| [(read::DEFAULT_CLASS.to_owned(), "true".to_owned())].into());
    StorageClass {
        metadata: ObjectMeta { name: Some(name.into()), annotations, ..ObjectMeta::default() },
        provisioner: local_path::PROVISIONER.into(),
        allow_volume_expansion: Some(true),
        reclaim_policy: Some("Delete".into()),
        volume_binding_mode: Some("WaitForFirstConsumer".into()),
        ..StorageClass::default()
    }
}
