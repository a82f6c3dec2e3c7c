//! Claims that a pod brings along: made for it, named after it, and gone with it.

use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Volume};
use kube::ResourceExt;
use kube::api::{Api, PostParams};
use kube::core::ObjectMeta;
use kube::runtime::controller::Controller;

use crate::context::Context;
use crate::error::{Error, is_namespace_going, is_taken};
use crate::queue::Again;
use crate::{owners, pods, queue};

/// Makes such claims until the context says stop.
pub(super) async fn run(context: Context) {
    let bringing = context.pods.changes().filter_map(|change| {
        let brings = |pod: &Arc<Pod>| change.before.is_none() && !claims(pod).is_empty();
        std::future::ready(change.now.clone().filter(brings))
    });
    let controller = Controller::for_shared_stream(bringing, context.pods.store());
    queue::run(controller, context, reconcile).await;
}

async fn reconcile(pod: Arc<Pod>, context: Context) -> Result<Again, Error> {
    if !pods::is_active(&pod) {
        return Ok(None);
    }
    let api = Api::<PersistentVolumeClaim>::namespaced(context.client.clone(), &pod.namespace().unwrap_or_default());
    for claim in claims(&pod) {
        let name = claim.name_any();
        match api.create(&PostParams::default(), &claim).await {
            Err(error) if is_taken(&error) => {
                let there = api.get_opt(&name).await?;
                let uid = pod.uid().unwrap_or_default();
                if !there.is_none_or(|there| owners::controlled_by(&there.metadata, &uid)) {
                    let why = format!("PVC {:?} was not created for pod {:?} (pod is not owner)", name, pod.name_any());
                    context.events.warning(pod.as_ref(), "FailedBinding", why).await;
                }
            }
            Err(error) if !is_namespace_going(&error) => return Err(error.into()),
            _ => {}
        }
    }
    Ok(None)
}

/// The claims that a pod brings along.
fn claims(pod: &Pod) -> Vec<PersistentVolumeClaim> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| claim(pod, volume)).collect()
}

fn claim(pod: &Pod, volume: &Volume) -> Option<PersistentVolumeClaim> {
    let template = volume.ephemeral.as_ref()?.volume_claim_template.clone()?;
    let wanted = template.metadata.unwrap_or_default();
    let metadata = ObjectMeta {
        name: Some(format!("{}-{}", pod.name_any(), volume.name)),
        namespace: pod.namespace(),
        labels: wanted.labels,
        annotations: wanted.annotations,
        owner_references: Some(vec![owners::reference(pod)]),
        ..ObjectMeta::default()
    };
    Some(PersistentVolumeClaim { metadata, spec: Some(template.spec), status: None })
}
