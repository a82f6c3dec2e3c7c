//! Carrying out a decision: the pod's claims get their volumes, then the pod gets its node.

use std::time::Duration;

use c5c3_events::{Events, News};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{self, Binding, ObjectReference, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Status};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::wait::{self, await_condition};
use kube::{Client, Resource};
use serde_json::json;

use crate::model::Key;
use crate::model::pod::Pod;
use crate::report;
use crate::snapshot::ClaimStep;
use crate::volumes::{SELECTED_NODE, is_bound, selected_node};

/// How long a volume may take before another node is tried.
const PATIENCE: Duration = Duration::from_mins(10);
/// Says that a volume may go to someone else once its claim is gone.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// Why a decision could not be carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BindError {
    #[error("running PreBind plugin \"VolumeBinding\": binding volumes: {0}")]
    Volumes(kube::Error),
    #[error("running PreBind plugin \"VolumeBinding\": binding volumes: {0}")]
    Wait(wait::Error),
    #[error("running PreBind plugin \"VolumeBinding\": binding volumes: context deadline exceeded")]
    Late,
    #[error("running PreBind plugin \"VolumeBinding\": binding volumes: selectedNode annotation reset for PVC {0:?}")]
    Moved(String),
    #[error("running PreBind plugin \"VolumeBinding\": binding volumes: persistentvolumeclaim {0:?} not found")]
    ClaimGone(String),
    #[error(
        "running PreBind plugin \"VolumeBinding\": binding volumes: persistentvolume {0:?} is bound to another claim"
    )]
    VolumeTaken(String),
    #[error("binding rejected: running Bind plugin \"DefaultBinder\": {0}")]
    Rejected(kube::Error),
}

/// Brings a pod to its node, and tells it, for good or bad.
pub(crate) async fn bind(
    client: Client,
    events: Events,
    pod: &Pod,
    node: &str,
    steps: &[ClaimStep],
) -> Result<(), BindError> {
    let done = carry_out(&client, pod, node, steps).await;
    match &done {
        Ok(()) => {
            let message = format!("Successfully assigned {}/{} to {node}", pod.namespace, pod.name);
            events.tell(&pod.reference(), News::Normal, "Scheduled", message).await;
        }
        // It is gone, or someone else was faster: there is no one to tell.
        Err(BindError::Rejected(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {}
        Err(error) => {
            report::tell(client, &events, pod, report::SCHEDULER_ERROR, error.to_string()).await;
        }
    }
    done
}

async fn carry_out(client: &Client, pod: &Pod, node: &str, steps: &[ClaimStep]) -> Result<(), BindError> {
    let volumes = try_join_all(steps.iter().map(|step| prepare(client, step)));
    tokio::time::timeout(PATIENCE, volumes).await.map_err(|_| BindError::Late)??;
    let binding = Binding {
        metadata: ObjectMeta {
            namespace: Some(pod.namespace.clone()),
            name: Some(pod.name.clone()),
            uid: Some(pod.uid.clone()),
            ..ObjectMeta::default()
        },
        target: ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Node".into()),
            name: Some(node.to_owned()),
            ..ObjectReference::default()
        },
    };
    let pods = Api::<v1::Pod>::namespaced(client.clone(), &pod.namespace);
    let bound = pods.create_subresource::<_, Status>("binding", &pod.name, &PostParams::default(), &binding).await;
    bound.map(drop).map_err(BindError::Rejected)
}

/// Gets a claim its volume, and waits until it has it.
async fn prepare(client: &Client, step: &ClaimStep) -> Result<(), BindError> {
    let (namespace, name) = step.claim();
    let claims = Api::<PersistentVolumeClaim>::namespaced(client.clone(), namespace);
    match step {
        ClaimStep::Provision { node, .. } => {
            let patch = json!({"metadata": {"annotations": {SELECTED_NODE: node}}});
            let patched = claims.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
            patched.map_err(BindError::Volumes)?;
        }
        ClaimStep::Bind { claim, volume } => give(client, claim, volume).await?,
    }
    let is_settled = |claim: Option<&PersistentVolumeClaim>| {
        let is_moved = |claim| matches!(step, ClaimStep::Provision { .. }) && selected_node(claim).is_none();
        claim.is_none_or(|claim| is_bound(claim) || is_moved(claim))
    };
    match await_condition(claims, name, is_settled).await.map_err(BindError::Wait)? {
        None => Err(BindError::ClaimGone(name.clone())),
        Some(claim) if is_bound(&claim) => Ok(()),
        Some(_) => Err(BindError::Moved(name.clone())),
    }
}

/// Writes the claim into a volume that no one has. The one who binds claims does the rest.
async fn give(client: &Client, (namespace, name): &Key, volume: &str) -> Result<(), BindError> {
    let claims = Api::<PersistentVolumeClaim>::namespaced(client.clone(), namespace);
    let claim = claims.get(name).await.map_err(BindError::Volumes)?;
    let volumes = Api::<PersistentVolume>::all(client.clone());
    let mut found = volumes.get(volume).await.map_err(BindError::Volumes)?;
    let reference =
        ObjectReference { resource_version: claim.metadata.resource_version.clone(), ..claim.object_ref(&()) };
    let spec = found.spec.get_or_insert_default();
    let is_ours = |other: &ObjectReference| {
        (&other.namespace, &other.name) == (&reference.namespace, &reference.name)
            && (other.uid.is_none() || other.uid == reference.uid)
    };
    if spec.claim_ref.as_ref().is_some_and(|other| !is_ours(other)) {
        return Err(BindError::VolumeTaken(volume.to_owned()));
    }
    // A volume that was kept for the claim by hand stays that way.
    if spec.claim_ref.is_none() {
        found.metadata.annotations.get_or_insert_default().insert(BOUND_BY_CONTROLLER.into(), "yes".into());
    }
    spec.claim_ref = Some(reference);
    volumes.replace(volume, &PostParams::default(), &found).await.map(drop).map_err(BindError::Volumes)
}
