//! Jobs: pods that are run until enough of them have succeeded.

mod backoff;
mod claim;
mod decide;
mod indexes;
mod orphans;
mod pods;
mod policy;
mod tally;
mod template;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, PostParams, Preconditions};

use self::backoff::Failures;
use self::decide::{Plan, Seen, decide};
use crate::context::Context;
use crate::error::{Error, is_gone};
use crate::queue::Again;
use crate::watched::live;
use crate::{claims, owners, queue};

pub(crate) use self::verdict::finished_at;

/// Who looks after a job that names no one.
const OURS: &str = "kubernetes.io/job-controller";

/// What is remembered of failures, by the uid of the job.
type Memory = Arc<Mutex<HashMap<String, Failures>>>;

/// Looks after jobs until the context says stop.
pub(crate) async fn run(context: Context) {
    tokio::join!(orphans::run(context.clone()), look_after(context.clone()));
}

async fn look_after(context: Context) {
    let pods = claims::concerned(&context.pods, context.jobs.store(), claim::selector);
    let controller = context.jobs.controller().reconcile_on(pods);
    let memory = Memory::default();
    queue::run(controller, context, move |job, context| reconcile(job, context, memory.clone())).await;
}

async fn reconcile(job: Arc<Job>, context: Context, memory: Memory) -> Result<Again, Error> {
    let uid = job.metadata.uid.clone().unwrap_or_default();
    let Some(job) = live(&context.client, job.as_ref()).await? else {
        forget(&memory, &uid);
        return Ok(None);
    };
    let Some(spec) = job.spec.as_ref().filter(|spec| spec.managed_by.as_deref().is_none_or(|by| by == OURS)) else {
        return Ok(None);
    };
    let now = Timestamp::now();
    if let Some(ended) = job.status.as_ref().and_then(finished_at) {
        forget(&memory, &uid);
        return outlive(&context, &job, spec, ended, now).await;
    }
    let pods = claim::pods(&context, &job).await?;
    let failures = memory.lock().unwrap_or_else(PoisonError::into_inner).get(&uid).copied().unwrap_or_default();
    let plan = decide(&Seen { job: &job, pods: &pods, failures, now });
    let (again, failures) = (plan.again, plan.failures);
    let done = carry_out(&context, &job, spec, plan).await;
    if !matches!(&done, Err(error) if error.is_conflict()) {
        memory.lock().unwrap_or_else(PoisonError::into_inner).insert(uid, failures);
    }
    done.map(|()| again)
}

fn forget(memory: &Memory, uid: &str) {
    memory.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
}

/// Does what was decided. A pod that cannot be made or deleted does not keep the others from being counted.
async fn carry_out(context: &Context, job: &Job, spec: &JobSpec, plan: Plan<'_>) -> Result<(), Error> {
    let mut status = plan.status;
    let made = change_pods(context, job, spec, &plan.retire, &plan.stop, &plan.create, &mut status).await;
    write_status(context, job, status).await?;
    for pod in plan.released {
        claim::released(context, pod).await?;
    }
    for (news, reason, message) in plan.told {
        context.events.tell(&kube::Resource::object_ref(job, &()), news, reason, message).await;
    }
    made
}

async fn change_pods(
    context: &Context,
    job: &Job,
    spec: &JobSpec,
    retire: &[&Pod],
    stop: &[&Pod],
    create: &[decide::Wanted],
    status: &mut JobStatus,
) -> Result<(), Error> {
    for pod in retire {
        claim::released(context, pod).await?;
    }
    for pod in retire.iter().chain(stop) {
        crate::pods::delete(context, job, pod).await?;
    }
    let made = AtomicI32::new(0);
    let done = crate::pods::slowly(create.len(), |number| {
        let (pod, made) = (template::pod(job, &spec.template, &create[number]), &made);
        async move {
            let pod = crate::pods::create(context, job, &pod).await?;
            made.fetch_add(i32::from(pod.is_some()), Ordering::Relaxed);
            Ok(())
        }
    });
    let done = done.await;
    let active = status.active.unwrap_or(0) + made.into_inner();
    status.active = Some(active).filter(|active| *active > 0);
    done.map_err(Error::from)
}

/// Writes the status if it says anything new.
async fn write_status(context: &Context, job: &Job, status: JobStatus) -> Result<(), Error> {
    if job.status.as_ref() == Some(&status) {
        return Ok(());
    }
    let api = Api::<Job>::namespaced(context.client.clone(), &job.namespace().unwrap_or_default());
    let told = Job { status: Some(status), ..job.clone() };
    match api.replace_status(&job.name_any(), &PostParams::default(), &told).await {
        Ok(_) => Ok(()),
        Err(error) if is_gone(&error) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Deletes a job that is over when it has been so for long enough.
async fn outlive(
    context: &Context,
    job: &Job,
    spec: &JobSpec,
    ended: Timestamp,
    now: Timestamp,
) -> Result<Again, Error> {
    let Some(kept) = spec.ttl_seconds_after_finished.filter(|_| !owners::is_going(&job.metadata)) else {
        return Ok(None);
    };
    let left = SignedDuration::from_secs(kept.into()).saturating_sub(now.duration_since(ended));
    if let Ok(left) = Duration::try_from(left)
        && !left.is_zero()
    {
        return Ok(Some(left));
    }
    let preconditions = Some(Preconditions { uid: job.uid(), resource_version: None });
    let how = DeleteParams { preconditions, ..DeleteParams::foreground() };
    let api = Api::<Job>::namespaced(context.client.clone(), &job.namespace().unwrap_or_default());
    match api.delete(&job.name_any(), &how).await {
        Ok(_) => Ok(None),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
