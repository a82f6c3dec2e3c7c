//! Doing what was decided about a volume.

use std::io;
use std::sync::Arc;

use c5c3_events::News;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use super::phases::{Step, decide};
use super::{local_path, protection, read};
use crate::context::Context;
use crate::error::{Error, is_gone};
use crate::owners::is_going;
use crate::queue::Again;

pub(super) async fn reconcile(volume: Arc<PersistentVolume>, context: Context) -> Result<Again, Error> {
    let api = Api::<PersistentVolume>::all(context.client.clone());
    let found = api.get_opt(&volume.name_any()).await?;
    let Some(volume) = found.filter(|found| found.metadata.uid == volume.metadata.uid) else { return Ok(None) };
    let claim = match read::claim_of(&volume) {
        Some(kept) => {
            let namespace = kept.namespace.as_deref().unwrap_or_default();
            let claims = Api::<PersistentVolumeClaim>::namespaced(context.client.clone(), namespace);
            claims.get_opt(kept.name.as_deref().unwrap_or_default()).await?
        }
        None => None,
    };
    let needed = protection::is_needed(&volume);
    if let Some(finalizers) = protection::wanted(&volume, protection::VOLUME, needed) {
        if is_going(&volume.metadata) && is_to_be_deleted(&volume) {
            empty(&context, &volume).await?;
        }
        change(&context, &volume, json!({"metadata": {"finalizers": finalizers}})).await?;
        return Ok(None);
    }
    match decide(&volume, claim.as_ref()) {
        Step::Is(phase) => report(&context, &volume, phase, None).await?,
        Step::Unbind => unbind(&context, &volume).await?,
        Step::Reclaim => take_back(&context, &volume).await?,
        Step::Leave => {}
    }
    Ok(None)
}

fn is_to_be_deleted(volume: &PersistentVolume) -> bool {
    let policy = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    policy == Some("Delete")
}

/// Merges something into a volume as it was seen.
pub(super) async fn change(context: &Context, volume: &PersistentVolume, mut patch: Value) -> Result<(), Error> {
    patch["metadata"]["resourceVersion"] = json!(volume.resource_version());
    let api = Api::<PersistentVolume>::all(context.client.clone());
    match api.patch(&volume.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await {
        Err(error) if !is_gone(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Says which phase a volume is in, and why if something is wrong.
async fn report(context: &Context, volume: &PersistentVolume, phase: &str, why: Option<&str>) -> Result<(), Error> {
    if read::volume_phase(volume) == phase {
        return Ok(());
    }
    let patch = Patch::Merge(json!({"metadata": {"uid": volume.uid()}, "status": {"phase": phase, "message": why}}));
    let api = Api::<PersistentVolume>::all(context.client.clone());
    match api.patch_status(&volume.name_any(), &PatchParams::default(), &patch).await {
        Err(error) if !is_gone(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Frees a volume: of the claim that we chose, or of the uid of one that a user did.
async fn unbind(context: &Context, volume: &PersistentVolume) -> Result<(), Error> {
    let patch = if volume.annotations().contains_key(read::BOUND_BY_US) {
        json!({"metadata": {"annotations": {read::BOUND_BY_US: null}}, "spec": {"claimRef": null}})
    } else {
        json!({"spec": {"claimRef": {"uid": null, "resourceVersion": null}}})
    };
    change(context, volume, patch).await
}

/// Deletes a volume whose claim is gone, with what it holds, if that is ours to do.
async fn take_back(context: &Context, volume: &PersistentVolume) -> Result<(), Error> {
    let by = volume.annotations().get(read::PROVISIONED_BY);
    if by.is_some_and(|by| by != local_path::PROVISIONER) {
        // Whoever made it sees that, too.
        return Ok(());
    }
    if local_path::folder_of(&context.options.volumes, volume).is_none() {
        let name = volume.name_any();
        let (reason, why) = if is_to_be_deleted(volume) {
            let why =
                format!("error getting deleter volume plugin for volume {name:?}: no deletable volume plugin matched");
            ("VolumeFailedDelete", why)
        } else {
            ("VolumeFailedRecycle", "no volume plugin matched that can recycle".to_owned())
        };
        report(context, volume, "Failed", Some(&why)).await?;
        context.events.tell(&volume.object_ref(&()), News::Warning, reason, why).await;
        return Ok(());
    }
    empty(context, volume).await?;
    let preconditions = Some(Preconditions { uid: volume.uid(), resource_version: None });
    let how = DeleteParams { preconditions, ..DeleteParams::default() };
    match Api::<PersistentVolume>::all(context.client.clone()).delete(&volume.name_any(), &how).await {
        Err(error) if !is_gone(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Deletes what a volume of ours holds.
async fn empty(context: &Context, volume: &PersistentVolume) -> Result<(), Error> {
    let Some(path) = local_path::folder_of(&context.options.volumes, volume) else { return Ok(()) };
    if let Err(error) = on_disk(move || local_path::delete(&path)).await {
        let why = error.to_string();
        context.events.tell(&volume.object_ref(&()), News::Warning, "VolumeFailedDelete", why).await;
        return Err(error);
    }
    Ok(())
}

/// Does something that may take the disk a while.
pub(super) async fn on_disk(what: impl FnOnce() -> io::Result<()> + Send + 'static) -> Result<(), Error> {
    tokio::task::spawn_blocking(what).await.map_err(io::Error::other)?.map_err(Error::Disk)
}
