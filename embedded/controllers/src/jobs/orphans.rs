//! Pods that are kept to be counted by a job that is over, or not there any more: they are released.

use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::Api;
use kube::runtime::controller::Controller;
use kube::runtime::reflector::ObjectRef;

use super::pods::is_tracked;
use super::{claim, verdict};
use crate::context::Context;
use crate::error::Error;
use crate::queue::Again;
use crate::watched::live;
use crate::{owners, queue};

/// Lets such pods go until the context says stop.
pub(super) async fn run(context: Context) {
    let tracked = context.pods.changes().filter_map(|change| {
        let tracked = change.now.clone().filter(|pod| is_tracked(pod));
        std::future::ready(tracked)
    });
    let pods = context.pods.store();
    let abandoned = context.jobs.concerning(move |change| {
        let over = change.versions().last().filter(|job| change.now.is_none() || is_over(job)).cloned();
        let uid = over.and_then(|job| job.metadata.uid.clone());
        let own = |pod: &Arc<Pod>| {
            is_tracked(pod) && uid.as_ref().is_some_and(|uid| owners::controlled_by(&pod.metadata, uid))
        };
        let found = pods.state().into_iter().filter(own);
        found.map(|pod| ObjectRef::from_obj(pod.as_ref())).collect::<Vec<_>>()
    });
    let controller = Controller::for_shared_stream(tracked, context.pods.store()).reconcile_on(abandoned);
    queue::run(controller, context, reconcile).await;
}

/// Whether a job counts no more pods.
fn is_over(job: &Job) -> bool {
    owners::is_going(&job.metadata) || job.status.as_ref().is_some_and(|status| verdict::finished_at(status).is_some())
}

async fn reconcile(pod: Arc<Pod>, context: Context) -> Result<Again, Error> {
    let Some(pod) = live(&context.client, pod.as_ref()).await?.filter(is_tracked) else { return Ok(None) };
    if let Some(owner) = owners::controller(&pod.metadata).filter(|owner| owner.kind == "Job") {
        let jobs = Api::<Job>::namespaced(context.client.clone(), &pod.namespace().unwrap_or_default());
        let job = jobs.get_opt(&owner.name).await?.filter(|job| job.metadata.uid.as_ref() == Some(&owner.uid));
        if job.is_some_and(|job| !is_over(&job)) {
            return Ok(None);
        }
    }
    claim::released(&context, &pod).await?;
    Ok(None)
}
