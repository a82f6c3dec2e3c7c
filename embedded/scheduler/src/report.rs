//! What a pod is told that cannot be placed: an event, and its condition `PodScheduled`.

use c5c3_events::{Events, News};
use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::model::pod::{Pod, Told};

/// The condition's reason when no node does.
pub(crate) const UNSCHEDULABLE: &str = "Unschedulable";
/// The condition's reason when a node did, and the API did not.
pub(crate) const SCHEDULER_ERROR: &str = "SchedulerError";

/// Tells a pod why it waits. False if the API does not take it.
pub(crate) async fn tell(client: Client, events: &Events, pod: &Pod, reason: &str, message: String) -> bool {
    events.tell(&pod.reference(), News::Warning, "FailedScheduling", message.clone()).await;
    let told = Told { reason: reason.to_owned(), message, generation: pod.generation };
    if pod.told.as_ref() == Some(&told) {
        return true;
    }
    let Told { reason, message, generation } = told;
    let mut condition = json!({"type": "PodScheduled", "status": "False", "reason": reason, "message": message,
                               "observedGeneration": generation});
    if pod.told.is_none() {
        condition["lastTransitionTime"] = json!(Time(Timestamp::now()));
    }
    // The uid: a pod that has taken the name over is not meant.
    let patch = json!({"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}});
    let pods = Api::<v1::Pod>::namespaced(client, &pod.namespace);
    match pods.patch_status(&pod.name, &PatchParams::default(), &Patch::Strategic(patch)).await {
        Ok(_) => true,
        // It is gone, or another by that name: what was to be said to it is past.
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 404 | 409) => true,
        Err(error) => {
            let Pod { namespace, name, .. } = pod;
            tracing::warn!(namespace, name, %error, "a pod could not be told why it waits");
            false
        }
    }
}
