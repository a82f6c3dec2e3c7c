//! Cron jobs: jobs that are made when it is time for them.

mod decide;
mod schedule;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, DeleteParams, ListParams, PostParams, Preconditions};
use kube::core::ObjectMeta;
use kube::{Resource, ResourceExt};

use self::decide::{Plan, SCHEDULED, Start, decide, is_over, reference};
use crate::context::Context;
use crate::error::{Error, is_gone, is_namespace_going, is_taken};
use crate::pods::said;
use crate::queue::Again;
use crate::watched::{Watched, live};
use crate::{owners, queue};

/// Looks after cron jobs until the context says stop.
pub(crate) async fn run(context: Context) {
    let cron_jobs = Watched::<CronJob>::default();
    let controller = cron_jobs.controller().reconcile_on(context.jobs.owners());
    tokio::join!(cron_jobs.follow(&context), queue::run(controller, context.clone(), reconcile));
}

async fn reconcile(cron: Arc<CronJob>, context: Context) -> Result<Again, Error> {
    let Some(cron) = live(&context.client, cron.as_ref()).await? else { return Ok(None) };
    let jobs = own_jobs(&context, &cron).await?;
    let plan = decide(&cron, &jobs, Timestamp::now());
    let again = plan.again;
    carry_out(&context, &cron, plan).await?;
    Ok(again)
}

async fn own_jobs(context: &Context, cron: &CronJob) -> Result<Vec<Job>, Error> {
    let uid = cron.uid().unwrap_or_default();
    let jobs = jobs(context, cron).list(&ListParams::default()).await?;
    Ok(jobs.into_iter().filter(|job| owners::controlled_by(&job.metadata, &uid)).collect())
}

fn jobs(context: &Context, cron: &CronJob) -> Api<Job> {
    Api::namespaced(context.client.clone(), &cron.namespace().unwrap_or_default())
}

async fn carry_out(context: &Context, cron: &CronJob, plan: Plan<'_>) -> Result<(), Error> {
    for (news, reason, message) in plan.told {
        context.events.tell(&cron.object_ref(&()), news, reason, message).await;
    }
    for job in plan.replace {
        delete(context, cron, job).await?;
    }
    let mut status = plan.status;
    if let Some(start) = plan.start {
        let made = create(context, cron, &start).await?;
        status.active.get_or_insert_default().extend(made.as_ref().map(reference));
        status.active.take_if(|active| active.is_empty());
        status.last_schedule_time = Some(Time(start.at));
    }
    write_status(context, cron, status).await?;
    for job in plan.forget {
        delete(context, cron, job).await?;
    }
    Ok(())
}

/// A job from the template, for that time.
fn from_template(cron: &CronJob, start: &Start) -> Option<Job> {
    let template = cron.spec.as_ref()?.job_template.clone();
    let wanted = template.metadata.unwrap_or_default();
    let mut annotations = wanted.annotations.unwrap_or_default();
    annotations.insert(SCHEDULED.into(), start.told.clone());
    let metadata = ObjectMeta {
        name: Some(start.name.clone()),
        namespace: cron.namespace(),
        labels: wanted.labels,
        annotations: Some(annotations),
        owner_references: Some(vec![owners::reference(cron)]),
        ..ObjectMeta::default()
    };
    Some(Job { metadata, spec: template.spec, status: None })
}

/// Makes the job of a time. None: there is no place for it, or it was made before and is over.
async fn create(context: &Context, cron: &CronJob, start: &Start) -> Result<Option<Job>, Error> {
    let Some(job) = from_template(cron, start) else { return Ok(None) };
    match jobs(context, cron).create(&PostParams::default(), &job).await {
        Ok(job) => {
            context.events.normal(cron, "SuccessfulCreate", format!("Created job {}", job.name_any())).await;
            Ok(Some(job))
        }
        Err(error) if is_taken(&error) => {
            let uid = cron.uid().unwrap_or_default();
            let found = jobs(context, cron).get_opt(&start.name).await?;
            Ok(found.filter(|job| owners::controlled_by(&job.metadata, &uid) && !is_over(job)))
        }
        Err(error) if is_namespace_going(&error) => Ok(None),
        Err(error) => {
            context.events.warning(cron, "FailedCreate", format!("Error creating job: {}", said(&error))).await;
            Err(error.into())
        }
    }
}

/// Deletes a job and, after it, its pods.
async fn delete(context: &Context, cron: &CronJob, job: &Job) -> Result<(), Error> {
    let preconditions = Some(Preconditions { uid: job.uid(), resource_version: None });
    let how = DeleteParams { preconditions, ..DeleteParams::background() };
    match jobs(context, cron).delete(&job.name_any(), &how).await {
        Ok(_) => {
            context.events.normal(cron, "SuccessfulDelete", format!("Deleted job {}", job.name_any())).await;
            Ok(())
        }
        Err(error) if is_gone(&error) => Ok(()),
        Err(error) => {
            context.events.warning(cron, "FailedDelete", format!("Deleted job: {}", said(&error))).await;
            Err(error.into())
        }
    }
}

/// Writes the status if it says anything new.
async fn write_status(context: &Context, cron: &CronJob, status: CronJobStatus) -> Result<(), Error> {
    if cron.status.as_ref() == Some(&status) {
        return Ok(());
    }
    let api = Api::<CronJob>::namespaced(context.client.clone(), &cron.namespace().unwrap_or_default());
    let told = CronJob { status: Some(status), ..cron.clone() };
    match api.replace_status(&cron.name_any(), &PostParams::default(), &told).await {
        Ok(_) => Ok(()),
        Err(error) if is_gone(&error) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
