//! Jobs of one group run one after the other: two that write the same rows, or change the same schema, break each other.
//!
//! A Job whose containers run is never deleted, because its work may not bear to be interrupted. One that does nothing (its
//! image does not exist, no node has room) may never end, and is deleted when another Job of its group is to start.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use kube::Api;
use kube::api::{DynamicObject, ListParams};
use kube::core::ObjectMeta;

use crate::apply::{Executor, Pass};
use crate::error::Error;
use crate::object::{Ref, api, condition};
use crate::ownership::{BASE, JOB_GROUP, OWNER_UID, TEMPLATE, annotation, label};
use crate::plan::Child;
use crate::readiness;
use crate::wait::Wait;

pub(crate) fn is_job(reference: &Ref) -> bool {
    reference.resource.kind == "Job" && reference.resource.group == "batch"
}

impl Executor<'_> {
    /// The wait for another Job of the group that has not ended; none if the Job may start.
    pub(crate) async fn predecessor(&self, child: &Child, pass: &Pass<'_>) -> Result<Option<Wait>, Error> {
        let (reference, meta) = (child.reference(), &child.object.metadata);
        if !is_job(&reference) || group(meta).is_none() {
            return Ok(None);
        }
        // The watches may not have heard of the youngest, which is the one that matters.
        let params = ListParams::default().labels(&format!("{OWNER_UID}={}", self.owner.uid));
        let jobs = api(self.client.clone(), &reference.resource, reference.namespace.as_deref());
        let listed = jobs.list(&params).await.map_err(|source| unread(&reference, source))?;
        for job in listed.items {
            let other = Ref::of(&reference.resource, &job.metadata);
            let concerns = self.owner.owns(&job.metadata) && excludes(&job.metadata, meta);
            if other == reference || !concerns || has_ended(&job) {
                continue;
            }
            let may_go = job.metadata.deletion_timestamp.is_none() && !pass.wants(&other);
            if may_go && !self.has_running_containers(&other).await? {
                tracing::info!(job = %other, "deleting a Job that does nothing, so that another one can start");
                self.delete_whole(&other, &job.metadata).await?;
            }
            let now = readiness::wait(&other, &job).and_then(|wait| wait.now);
            let now = now.map_or_else(|| "has not ended".to_owned(), |now| format!("has not ended: {now}"));
            let because = format!("{} starts after it: they must not run at the same time", reference.name);
            return Ok(Some(Wait::on(&other).condition("has ended").now(now).because(because)));
        }
        Ok(None)
    }

    /// Whether a Job has not ended, and a container of it runs.
    pub(crate) async fn is_running(&self, job: &Ref, meta: &ObjectMeta) -> Result<bool, Error> {
        match self.live(job, meta).await? {
            Some(live) if !has_ended(&live) => self.has_running_containers(job).await,
            _ => Ok(false),
        }
    }

    /// Replaces a Job that was made from another template, has not ended and does nothing: it may never start, and what was
    /// corrected since would not reach it.
    pub(crate) async fn outdated(&self, child: &Child, job: &DynamicObject) -> Result<Option<Wait>, Error> {
        let reference = child.reference();
        let (now, wanted) = (annotation(&job.metadata, TEMPLATE), annotation(&child.object.metadata, TEMPLATE));
        if now.is_none() || now == wanted || has_ended(job) || job.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        if self.has_running_containers(&reference).await? {
            return Ok(None);
        }
        tracing::info!(job = %reference, "deleting a Job that does nothing, so that it starts as it is specified now");
        self.delete_whole(&reference, &job.metadata).await?;
        let now = "has not started, and its specification has changed since";
        Ok(Some(Wait::on(&reference).condition("is created again").now(now)))
    }

    /// Whether a container of a Job runs, or is about to run after one that did.
    pub(crate) async fn has_running_containers(&self, job: &Ref) -> Result<bool, Error> {
        Ok(self.pods_of(job).await?.iter().filter_map(|pod| pod.status.as_ref()).any(pod_is_running))
    }

    /// The pods of a Job.
    pub(crate) async fn pods_of(&self, job: &Ref) -> Result<Vec<Pod>, Error> {
        let namespace = job.namespace.as_deref().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let params = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={}", job.name));
        Ok(pods.list(&params).await.map_err(|source| unread(job, source))?.items)
    }
}

/// The group of a Job. Jobs of operators that did not write the label have their base as their group.
fn group(job: &ObjectMeta) -> Option<&String> {
    label(job, JOB_GROUP).or_else(|| label(job, BASE))
}

/// Whether two Jobs must not run at the same time.
fn excludes(one: &ObjectMeta, other: &ObjectMeta) -> bool {
    let same_base = label(one, BASE).is_some() && label(one, BASE) == label(other, BASE);
    same_base || group(one).is_some() && group(one) == group(other)
}

/// Whether a container of a pod runs. Between two init containers none does, and yet the pod works.
fn pod_is_running(pod: &PodStatus) -> bool {
    if matches!(pod.phase.as_deref(), Some("Succeeded" | "Failed")) {
        return false;
    }
    let containers = || pod.init_container_statuses.iter().chain(&pod.container_statuses).flatten();
    let runs = |status: &ContainerStatus| status.state.as_ref().is_some_and(|state| state.running.is_some());
    let succeeded = |status: &ContainerStatus| {
        status.state.as_ref().and_then(|state| state.terminated.as_ref()).is_some_and(|end| end.exit_code == 0)
    };
    let cannot_start = |status: &ContainerStatus| {
        let reason = status.state.as_ref().and_then(|state| state.waiting.as_ref()?.reason.as_deref());
        reason.is_some_and(|reason| !matches!(reason, "PodInitializing" | "ContainerCreating"))
    };
    containers().any(runs) || containers().any(succeeded) && !containers().any(cannot_start)
}

fn has_ended(job: &DynamicObject) -> bool {
    ["Complete", "Failed"].iter().any(|end| condition(job, end).is_some_and(|found| found["status"] == "True"))
}

fn unread(reference: &Ref, source: kube::Error) -> Error {
    Error::ReadFailed { object: Box::new(reference.clone()), source: Box::new(source) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job(labels: &Value) -> ObjectMeta {
        serde_json::from_value(json!({"labels": labels})).unwrap()
    }

    #[test]
    fn jobs_exclude_each_other_by_group_and_by_base() {
        let expand = job(&json!({BASE: "press-expand", JOB_GROUP: "schema"}));
        let sync = job(&json!({BASE: "press-sync", JOB_GROUP: "schema"}));
        let bootstrap = job(&json!({BASE: "press-bootstrap"}));
        let old_sync = job(&json!({BASE: "press-sync"}));
        assert!(excludes(&expand, &sync));
        assert!(excludes(&old_sync, &sync), "it was made before there were groups");
        assert!(!excludes(&bootstrap, &sync) && !excludes(&job(&json!({})), &job(&json!({}))));
    }

    fn works(phase: &str, init: &Value, main: &Value) -> bool {
        let status = |name: &str, state: &Value| json!({"name": name, "image": "press:1", "imageID": "", "ready": false, "restartCount": 0, "state": state});
        let pod = json!({"phase": phase, "initContainerStatuses": [status("expand", init)], "containerStatuses": [status("migrate", main)]});
        pod_is_running(&serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn a_pod_works_while_a_container_runs_and_between_two_of_them() {
        let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
        let (running, done) = (json!({"running": {}}), json!({"terminated": {"exitCode": 0}}));
        assert!(works("Pending", &running, &waiting("PodInitializing")));
        assert!(works("Running", &done, &running));
        assert!(works("Pending", &done, &waiting("PodInitializing")), "the next container is about to start");
        assert!(!works("Pending", &waiting("ImagePullBackOff"), &waiting("PodInitializing")));
        assert!(!works("Pending", &done, &waiting("ErrImagePull")), "the next container cannot start");
        assert!(!works("Failed", &done, &json!({"terminated": {"exitCode": 1}})));
        assert!(!works("Pending", &json!({}), &json!({})), "nothing has started yet");
    }

    #[test]
    fn only_a_job_of_the_group_batch_is_a_job() {
        use k8s_openapi::api::batch::v1::{CronJob, Job};

        assert!(is_job(&Ref::namespaced::<Job>("orchard", "press")));
        assert!(!is_job(&Ref::namespaced::<CronJob>("orchard", "press")));
        let mut foreign = Ref::namespaced::<Job>("orchard", "press");
        foreign.resource.group = "printing.example.org".into();
        assert!(!is_job(&foreign));
    }
}
