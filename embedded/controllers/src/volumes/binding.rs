//! Doing what was decided about a claim.

use std::sync::Arc;

use c5c3_events::News;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::claims::{Seen, Step, Told, decide, grows};
use super::local_path::{self, PROVISIONER};
use super::read::{self, BIND_COMPLETED, BOUND_BY_US, SELECTED_NODE};
use super::{protection, reclaim};
use crate::context::Context;
use crate::error::{Error, is_gone, is_taken};
use crate::owners::is_going;
use crate::queue::Again;
use crate::watched::live;

/// The older name of the annotation that says who is to make a volume.
const OLD_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";

pub(super) async fn reconcile(claim: Arc<PersistentVolumeClaim>, context: Context) -> Result<Again, Error> {
    let Some(claim) = live(&context.client, claim.as_ref()).await? else { return Ok(None) };
    let needed = is_going(&claim.metadata) && is_used(&context, &claim).await?;
    if let Some(finalizers) = protection::wanted(&claim, protection::CLAIM, needed) {
        change(&context, &claim, json!({"metadata": {"finalizers": finalizers}})).await?;
        // The change that this is brings us back.
        return Ok(None);
    }
    let volumes = Api::<PersistentVolume>::all(context.client.clone()).list(&ListParams::default()).await?.items;
    let classes = Api::<StorageClass>::all(context.client.clone()).list(&ListParams::default()).await?.items;
    match decide(&claim, Seen { volumes: &volumes, classes: &classes }) {
        Step::Wait(told) => tell(&context, &claim, told).await,
        Step::Classify(class) => change(&context, &claim, json!({"spec": {"storageClassName": class}})).await?,
        Step::Bind(volume) => bind(&context, &claim, volume, &classes).await?,
        Step::Provision(class) => provision(&context, &claim, class).await?,
        Step::Lose(told) => {
            if read::phase(&claim) != "Lost" {
                report(&context, &claim, json!({"phase": "Lost"})).await?;
                tell(&context, &claim, Some(told)).await;
            }
        }
    }
    Ok(None)
}

async fn is_used(context: &Context, claim: &PersistentVolumeClaim) -> Result<bool, Error> {
    let pods = Api::<Pod>::namespaced(context.client.clone(), &claim.namespace().unwrap_or_default());
    let pods = pods.list(&ListParams::default()).await?;
    Ok(pods.iter().any(|pod| protection::uses(pod, claim)))
}

async fn tell(context: &Context, claim: &PersistentVolumeClaim, told: Option<Told>) {
    if let Some((news, reason, message)) = told {
        context.events.tell(&read::reference(claim), news, reason, message).await;
    }
}

/// Merges something into a claim as it was seen.
async fn change(context: &Context, claim: &PersistentVolumeClaim, mut patch: Value) -> Result<(), Error> {
    patch["metadata"]["resourceVersion"] = json!(claim.resource_version());
    let api = Api::<PersistentVolumeClaim>::namespaced(context.client.clone(), &claim.namespace().unwrap_or_default());
    match api.patch(&claim.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await {
        Err(error) if !is_gone(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Merges something into the status of a claim.
async fn report(context: &Context, claim: &PersistentVolumeClaim, status: Value) -> Result<(), Error> {
    let patch = Patch::Merge(json!({"metadata": {"uid": claim.uid()}, "status": status}));
    let api = Api::<PersistentVolumeClaim>::namespaced(context.client.clone(), &claim.namespace().unwrap_or_default());
    match api.patch_status(&claim.name_any(), &PatchParams::default(), &patch).await {
        Err(error) if !is_gone(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Makes a claim and a volume each other's: first the volume, which only one claim can win, then the claim.
async fn bind(
    context: &Context,
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
    classes: &[StorageClass],
) -> Result<(), Error> {
    if read::claim_of(volume).and_then(|kept| kept.uid.as_ref()) != claim.metadata.uid.as_ref() {
        let mut patch = json!({"spec": {"claimRef": read::reference(claim)}});
        if read::claim_of(volume).is_none() {
            patch["metadata"] = json!({"annotations": {BOUND_BY_US: "yes"}});
        }
        reclaim::change(context, volume, patch).await?;
    }
    let name = volume.name_any();
    if read::volume_of(claim) != Some(name.as_str()) || !claim.annotations().contains_key(BIND_COMPLETED) {
        let mut annotations = json!({BIND_COMPLETED: "yes"});
        if read::volume_of(claim).is_none() {
            annotations[BOUND_BY_US] = json!("yes");
        }
        let patch = json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": name}});
        // The change that this is brings us back for the rest.
        return change(context, claim, patch).await;
    }
    let grown = grow(context, claim, volume, classes).await?;
    let capacity = if grown { read::asked(claim) } else { read::capacity(volume) };
    let modes = volume.spec.as_ref().and_then(|spec| spec.access_modes.clone());
    let known = claim.status.as_ref().and_then(|status| status.access_modes.clone());
    if read::phase(claim) != "Bound" || read::given(claim) != capacity || known != modes {
        let status = json!({"phase": "Bound", "accessModes": modes, "capacity": {"storage": capacity}});
        report(context, claim, status).await?;
        if grown {
            let message = "Resize volume succeeded".to_owned();
            tell(context, claim, Some((News::Normal, "VolumeResizeSuccessful", message))).await;
        }
    }
    Ok(())
}

/// Lets a volume grow to what its claim asks for. A folder has no size, so saying so is all there is to do.
async fn grow(
    context: &Context,
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
    classes: &[StorageClass],
) -> Result<bool, Error> {
    if !grows(claim, volume) {
        return Ok(false);
    }
    let class = classes.iter().find(|class| class.name_any() == read::class_of(claim));
    let ours = local_path::folder_of(&context.options.volumes, volume).is_some();
    if !ours || class.is_none_or(|class| class.allow_volume_expansion != Some(true)) {
        let message = "waiting for an external controller to expand this PVC".to_owned();
        tell(context, claim, Some((News::Normal, "ExternalExpanding", message))).await;
        return Ok(false);
    }
    reclaim::change(context, volume, json!({"spec": {"capacity": {"storage": read::asked(claim)}}})).await?;
    Ok(true)
}

/// Makes a volume for a claim, if it is ours to make.
async fn provision(context: &Context, claim: &PersistentVolumeClaim, class: &StorageClass) -> Result<(), Error> {
    let failed = |why: &str| {
        let message = format!("failed to provision volume with StorageClass {:?}: {why}", class.name_any());
        Some((News::Warning, "ProvisioningFailed", message))
    };
    if class.provisioner.starts_with("kubernetes.io/") {
        let message = format!("no volume plugin matched name: {}", class.provisioner);
        tell(context, claim, Some((News::Warning, "ProvisioningFailed", message))).await;
        return Ok(());
    }
    if claim.annotations().get(read::PROVISIONER) != Some(&class.provisioner) {
        let annotations = json!({read::PROVISIONER: class.provisioner, OLD_PROVISIONER: class.provisioner});
        // The change that this is brings us back.
        return change(context, claim, json!({"metadata": {"annotations": annotations}})).await;
    }
    if class.provisioner != PROVISIONER {
        let message = format!(
            "Waiting for a volume to be created either by the external provisioner '{}' or manually by the system \
             administrator. If volume creation is delayed, please verify that the provisioner is running and correctly \
             registered.",
            class.provisioner
        );
        tell(context, claim, Some((News::Normal, "ExternalProvisioning", message))).await;
        return Ok(());
    }
    if let Some(why) = local_path::refusal(claim) {
        tell(context, claim, failed(why)).await;
        return Ok(());
    }
    let Some(node) = node(context, claim).await? else {
        tell(context, claim, failed("there is no node for it")).await;
        // Another may be chosen.
        let forget = json!({"metadata": {"annotations": {SELECTED_NODE: null}}});
        return if claim.annotations().contains_key(SELECTED_NODE) {
            change(context, claim, forget).await
        } else {
            Ok(())
        };
    };
    let volume = local_path::volume(&context.options.volumes, claim, class, &node);
    if let Err(error) = make(context, &volume).await {
        tell(context, claim, failed(&error.to_string())).await;
        return Err(error);
    }
    let message = format!("Successfully provisioned volume {}", volume.name_any());
    tell(context, claim, Some((News::Normal, "ProvisioningSucceeded", message))).await;
    Ok(())
}

/// The node that a claim's volume is made on: the one that its pod goes to, or the first that takes pods.
async fn node(context: &Context, claim: &PersistentVolumeClaim) -> Result<Option<Node>, Error> {
    let api = Api::<Node>::all(context.client.clone());
    if let Some(name) = claim.annotations().get(SELECTED_NODE) {
        return Ok(api.get_opt(name).await?);
    }
    let takes = |node: &Node| node.spec.as_ref().is_none_or(|spec| spec.unschedulable != Some(true));
    Ok(api.list(&ListParams::default()).await?.into_iter().find(takes))
}

/// Makes the folder of a volume, then the volume.
async fn make(context: &Context, volume: &PersistentVolume) -> Result<(), Error> {
    if let Some(path) = local_path::folder_of(&context.options.volumes, volume) {
        reclaim::on_disk(move || local_path::make(&path)).await?;
    }
    let api = Api::<PersistentVolume>::all(context.client.clone());
    match api.create(&PostParams::default(), volume).await {
        Err(error) if !is_taken(&error) => Err(error.into()),
        _ => Ok(()),
    }
}
