//! Which pods are a job's, and how they are kept until they are counted and released.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use kube::core::{Selector, SelectorExt};
use serde_json::{Value, json};

use super::pods::{TRACKED, uid};
use crate::context::Context;
use crate::error::{Error, is_gone};
use crate::{claims, owners};

/// What a job selects; nothing, if it does not say.
pub(super) fn selector(job: &Job) -> Option<Selector> {
    job.spec.as_ref()?.selector.clone()?.try_into().ok()
}

/// The pods of a job as they are now, after those that have become its own or no longer are.
pub(super) async fn pods(context: &Context, job: &Job) -> Result<Vec<Pod>, Error> {
    let Some(selector) = selector(job) else { return Ok(Vec::new()) };
    let mut found = crate::pods::list(&context.client, &job.namespace().unwrap_or_default(), &selector).await?;
    let strays = context.pods.store().state_filter(|pod| {
        owners::controlled_by(&pod.metadata, &job.uid().unwrap_or_default()) && !selector.matches(pod.labels())
    });
    found.extend(strays.into_iter().map(Arc::unwrap_or_clone));
    let claims = claims::sort(&job.metadata, &selector, found);
    let mut own = claims.mine;
    if !claims.adopt.is_empty() {
        claims::may_adopt(&context.client, job).await?;
    }
    for pod in claims.adopt {
        let change = json!({"ownerReferences": [owners::reference(job)], "finalizers": [TRACKED]});
        own.extend(patch(context, &pod, change).await?);
    }
    for pod in claims.release {
        let owner = json!({"$patch": "delete", "uid": job.uid()});
        let change = json!({"ownerReferences": [owner], "$deleteFromPrimitiveList/finalizers": [TRACKED]});
        patch(context, &pod, change).await?;
    }
    Ok(own)
}

/// Lets a pod go that has been counted, or need not be. That it is gone already is fine.
pub(super) async fn released(context: &Context, pod: &Pod) -> Result<(), kube::Error> {
    patch(context, pod, json!({"$deleteFromPrimitiveList/finalizers": [TRACKED]})).await.map(drop)
}

/// Changes the metadata of a pod, and nothing of it that others may have changed. None: it is gone, or another has its
/// name.
async fn patch(context: &Context, pod: &Pod, mut metadata: Value) -> Result<Option<Pod>, kube::Error> {
    metadata["uid"] = json!(uid(pod));
    let api = Api::<Pod>::namespaced(context.client.clone(), &pod.namespace().unwrap_or_default());
    let change = Patch::Strategic(json!({"metadata": metadata}));
    match api.patch(&pod.name_any(), &PatchParams::default(), &change).await {
        Ok(pod) => Ok(Some(pod)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(kube::Error::Api(status)) if matches!(status.code, 409 | 422) => Ok(None),
        Err(error) => Err(error),
    }
}
