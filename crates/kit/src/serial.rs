//! Runs of the same thing one after the other: two that write the same rows, or change the same schema, break each other.
//!
//! A run whose containers work is let finish, for what it does may not bear to be cut short. One that does nothing (its image
//! is not there, no node has room) may never end, and is deleted.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Preconditions, PropagationPolicy};

use crate::apply::Executor;
use crate::error::Error;
use crate::object::{Ref, api, condition, is_not_found};
use crate::ownership::{BASE, OWNER_UID, label};
use crate::plan::Child;
use crate::readiness;
use crate::wait::Wait;

impl Executor<'_> {
    /// The wait for an older run that has not ended; none if the child may start, or has.
    pub(crate) async fn predecessor(&self, child: &Child, reference: &Ref) -> Result<Option<Wait>, Error> {
        let has_started = || self.existing.iter().any(|(ours, _)| ours == reference);
        let Some(base) = label(&child.object.metadata, BASE).filter(|_| child.serial && !has_started()) else {
            return Ok(None);
        };
        // The watches may not have heard of the youngest, which is the one that matters.
        let params = ListParams::default().labels(&format!("{BASE}={base},{OWNER_UID}={}", self.owner.uid));
        let runs = api(self.client.clone(), &reference.resource, reference.namespace.as_deref());
        let listed = runs.list(&params).await.map_err(|source| unread(reference, source))?;
        for run in listed.items {
            let older = Ref::of(&reference.resource, &run.metadata);
            if older == *reference {
                return Ok(None);
            }
            if self.owner.owns(&run.metadata) && !has_ended(&run) {
                if run.metadata.deletion_timestamp.is_none() && !self.works(&older).await? {
                    self.end(&older, &run).await?;
                }
                let now = readiness::wait(&older, &run).and_then(|wait| wait.now).unwrap_or_default();
                let because = format!("{} starts after it: what they do cannot be done twice at once", reference.name);
                return Ok(Some(Wait::on(&older).condition("has ended").now(now).because(because)));
            }
        }
        Ok(None)
    }

    /// Whether a container of a Job runs, be it one of those that run before the others.
    async fn works(&self, job: &Ref) -> Result<bool, Error> {
        let namespace = job.namespace.as_deref().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let params = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={}", job.name));
        let pods = pods.list(&params).await.map_err(|source| unread(job, source))?;
        let runs = |status: &ContainerStatus| status.state.as_ref().is_some_and(|state| state.running.is_some());
        Ok(pods.items.iter().filter_map(|pod| pod.status.as_ref()).any(|status| {
            let containers = status.init_container_statuses.iter().chain(&status.container_statuses);
            containers.flatten().any(runs)
        }))
    }

    /// Deletes a run together with its pods; it is gone when they are.
    async fn end(&self, reference: &Ref, run: &DynamicObject) -> Result<(), Error> {
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Foreground),
            preconditions: Some(Preconditions { uid: run.metadata.uid.clone(), resource_version: None }),
            ..DeleteParams::default()
        };
        tracing::info!(run = %reference, "ending a run that does nothing, for another one");
        match reference.api(self.client.clone()).delete(&reference.name, &params).await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            Err(source) => Err(Error::DeleteFailed { object: Box::new(reference.clone()), source: Box::new(source) }),
        }
    }
}

fn has_ended(run: &DynamicObject) -> bool {
    ["Complete", "Failed"].iter().any(|end| condition(run, end).is_some_and(|found| found["status"] == "True"))
}

fn unread(reference: &Ref, source: kube::Error) -> Error {
    Error::ReadFailed { object: Box::new(reference.clone()), source: Box::new(source) }
}
