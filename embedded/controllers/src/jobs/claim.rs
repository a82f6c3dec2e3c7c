//! Which pods are a job's: those that it controls and selects, and those without a controller that it selects.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::core::{Selector, SelectorExt};
use kube::runtime::reflector::{ObjectRef, Store};
use serde_json::{Value, json};

use super::pods::{TRACKED, uid};
use crate::context::Context;
use crate::error::{Error, is_gone};
use crate::owners;

/// What a job selects; nothing, if it does not say.
pub(super) fn selector(job: &Job) -> Result<Option<Selector>, Error> {
    let selector = job.spec.as_ref().and_then(|spec| spec.selector.clone());
    Ok(selector.map(Selector::try_from).transpose()?)
}

/// The jobs that a pod without a controller may belong to.
pub(super) fn takers(jobs: &Store<Job>, pod: &Pod) -> Vec<ObjectRef<Job>> {
    let takes = |job: &Job| {
        job.namespace() == pod.namespace()
            && selector(job).ok().flatten().is_some_and(|selector| selector.matches(pod.labels()))
    };
    jobs.state().iter().filter(|job| takes(job)).map(|job| ObjectRef::from_obj(job.as_ref())).collect()
}

/// What is to be done with a pod.
#[derive(Debug, PartialEq, Eq)]
enum Claim {
    Keep,
    Adopt,
    Release,
    Leave,
}

fn judge(job: &Job, selector: &Selector, pod: &Pod) -> Claim {
    let (job_uid, selected) = (job.metadata.uid.as_deref().unwrap_or_default(), selector.matches(pod.labels()));
    let going = owners::is_going(&job.metadata);
    match owners::controller(&pod.metadata) {
        Some(owner) if owner.uid != job_uid => Claim::Leave,
        Some(_) if selected || going => Claim::Keep,
        Some(_) => Claim::Release,
        None if selected && !going && !owners::is_going(&pod.metadata) => Claim::Adopt,
        None => Claim::Leave,
    }
}

/// The pods of a job as they are now, after those that have become its own or no longer are.
pub(super) async fn pods(context: &Context, job: &Job) -> Result<Vec<Pod>, Error> {
    let Some(selector) = selector(job)? else { return Ok(Vec::new()) };
    let api = Api::<Pod>::namespaced(context.client.clone(), &job.namespace().unwrap_or_default());
    let mut own = Vec::new();
    for pod in api.list(&ListParams::default()).await? {
        match judge(job, &selector, &pod) {
            Claim::Keep => own.push(pod),
            Claim::Adopt => own.extend(change(&api, &pod, adopted(job, &pod)).await?),
            Claim::Release => drop(change(&api, &pod, released(job, &pod)).await?),
            Claim::Leave => {}
        }
    }
    Ok(own)
}

fn adopted(job: &Job, pod: &Pod) -> Value {
    let mut finalizers = pod.finalizers().to_vec();
    if !finalizers.iter().any(|held| held == TRACKED) {
        finalizers.push(TRACKED.into());
    }
    let owners: Vec<_> = pod.owner_references().iter().cloned().chain([owners::reference(job)]).collect();
    json!({"ownerReferences": owners, "finalizers": finalizers})
}

fn released(job: &Job, pod: &Pod) -> Value {
    let finalizers: Vec<_> = pod.finalizers().iter().filter(|held| *held != TRACKED).collect();
    let others = |uid: &str| Some(uid) != job.metadata.uid.as_deref();
    let owners: Vec<_> = pod.owner_references().iter().filter(|owner| others(&owner.uid)).collect();
    json!({"ownerReferences": owners, "finalizers": finalizers})
}

/// Changes the metadata of this pod as it was seen. None: it is gone.
async fn change(api: &Api<Pod>, pod: &Pod, mut metadata: Value) -> Result<Option<Pod>, kube::Error> {
    metadata["uid"] = json!(uid(pod));
    metadata["resourceVersion"] = json!(pod.resource_version());
    let patch = Patch::Merge(json!({"metadata": metadata}));
    match api.patch(&pod.name_any(), &PatchParams::default(), &patch).await {
        Ok(pod) => Ok(Some(pod)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Lets a pod go that has been counted, or need not be. That it is gone already is fine.
pub(super) async fn let_go(context: &Context, pod: &Pod) -> Result<(), kube::Error> {
    let api = Api::<Pod>::namespaced(context.client.clone(), &pod.namespace().unwrap_or_default());
    // The others' finalizers may have changed since, and stay as they are.
    let patch = json!({"metadata": {"uid": uid(pod), "$deleteFromPrimitiveList/finalizers": [TRACKED]}});
    match api.patch(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await {
        Ok(_) => Ok(()),
        Err(error) if is_gone(&error) => Ok(()),
        // The name belongs to another pod by now.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(error),
    }
}
