//! Jobs that failed: what they say of it, and when they are replaced.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod};
use kube::api::{DynamicObject, PostParams};

use crate::apply::{Executor, Pass};
use crate::error::Error;
use crate::job::LONGEST_RETRY;
use crate::job_order::is_job;
use crate::object::{Ref, condition};
use crate::ownership::{ATTEMPT, annotation};
use crate::plan::Child;
use crate::wait::{Wait, shortened};

/// How much of a termination message is quoted.
const LONGEST_QUOTE: usize = 400;

impl Executor<'_> {
    /// The wait for a failed child, with what its last failed container said.
    pub(crate) async fn explained(&self, reference: &Ref, wait: Wait) -> Wait {
        if !is_job(reference) {
            return wait;
        }
        // Without the pods there is still the Job's own message.
        let pods = self.pods_of(reference).await.unwrap_or_default();
        match termination_message(&pods) {
            Some(words) => wait.now(format!("failed: {words}")),
            None => wait,
        }
    }

    /// Replaces a failed child once its time has come: `successor` is created right after it is deleted, so that its logs can
    /// be read until then.
    pub(crate) async fn retry(
        &self,
        child: &Child,
        live: &DynamicObject,
        successor: DynamicObject,
        wait: Wait,
        pass: &mut Pass<'_>,
    ) -> Result<Wait, Error> {
        let (Some(first), reference) = (child.retry_after, child.reference()) else { return Ok(wait) };
        let attempt = annotation(&live.metadata, ATTEMPT).and_then(|count| count.parse().ok()).unwrap_or(1);
        let (delay, age) = (delay(first, attempt), age(live, self.now));
        if age < delay {
            pass.applied.requeue_within(delay.saturating_sub(age));
            return Ok(wait);
        }
        if let Some(predecessor) = self.predecessor(child, pass).await? {
            return Ok(predecessor);
        }
        if is_job(&reference) && self.has_running_containers(&reference).await? {
            pass.applied.requeue_within(first);
            return Ok(wait);
        }
        self.delete(&reference, &live.metadata).await?;
        self.create(&reference, numbered(successor, attempt + 1)).await?;
        let before = wait.now.unwrap_or_default();
        Ok(Wait::on(&reference).condition(wait.condition).now(format!("attempt {} starts; {before}", attempt + 1)))
    }

    async fn create(&self, reference: &Ref, object: DynamicObject) -> Result<(), Error> {
        let params = PostParams { field_manager: Some(self.owner.manager.into()), ..PostParams::default() };
        match reference.api(self.client.clone()).create(&params, &object).await {
            Ok(_) => Ok(()),
            // The failed one is still terminating; the next reconcile creates the successor.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(source) => Err(Error::ApplyFailed { object: Box::new(reference.clone()), source: Box::new(source) }),
        }
    }
}

/// How long after its failure an attempt is followed by the next.
fn delay(first: Duration, attempt: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1))).min(LONGEST_RETRY.max(first))
}

fn age(live: &DynamicObject, now: Timestamp) -> Duration {
    let failed_at = condition(live, "Failed")
        .and_then(|failed| failed["lastTransitionTime"].as_str())
        .and_then(|time| time.parse::<Timestamp>().ok())
        .unwrap_or(now);
    Duration::try_from(now.duration_since(failed_at)).unwrap_or_default()
}

fn numbered(mut object: DynamicObject, attempt: u32) -> DynamicObject {
    object.metadata.annotations.get_or_insert_default().insert(ATTEMPT.into(), attempt.to_string());
    object
}

/// The last line of the termination message of the container that failed last.
fn termination_message(pods: &[Pod]) -> Option<String> {
    let statuses = pods.iter().filter_map(|pod| pod.status.as_ref());
    let containers =
        statuses.flat_map(|status| status.init_container_statuses.iter().chain(&status.container_statuses));
    let ends = containers.flatten().filter_map(failure);
    let (_, words) = ends
        .filter_map(|end| {
            let line = end.message.as_deref()?.lines().map(str::trim).rfind(|line| !line.is_empty())?;
            Some((end.finished_at.as_ref().map(|time| time.0), line.to_owned()))
        })
        .max_by_key(|(finished, _)| *finished)?;
    Some(shortened(words, LONGEST_QUOTE))
}

fn failure(status: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    status.state.as_ref()?.terminated.as_ref().filter(|end| end.exit_code != 0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn each_attempt_waits_twice_as_long_as_the_one_before_up_to_ten_minutes() {
        let minutes = |attempt| delay(Duration::from_mins(1), attempt).as_secs() / 60;
        assert_eq!((1..=6).map(minutes).collect::<Vec<_>>(), [1, 2, 4, 8, 10, 10]);
        assert_eq!(minutes(1000), 10);
    }

    fn pod(field: &str, ends: &[(i32, &str, &str)]) -> Pod {
        let statuses: Vec<Value> = ends
            .iter()
            .map(|(code, at, message)| {
                json!({"name": "press", "image": "press:1", "imageID": "", "ready": false, "restartCount": 0,
                    "state": {"terminated": {"exitCode": code, "finishedAt": at, "message": message}}})
            })
            .collect();
        serde_json::from_value(json!({"metadata": {}, "status": {field: statuses}})).unwrap()
    }

    #[test]
    fn the_last_line_of_the_container_that_failed_last_is_quoted() {
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z");
        let first = pod("containerStatuses", &[(1, early, "no route to host")]);
        let second =
            pod("initContainerStatuses", &[(1, late, "Traceback\n  line 1\nAccess denied for user 'press'\n\n")]);
        let quoted = termination_message(&[second.clone(), first.clone()]);
        assert_eq!(quoted.as_deref(), Some("Access denied for user 'press'"));
        let well = pod("containerStatuses", &[(0, late, "all is well")]);
        assert_eq!(termination_message(&[first, well]).as_deref(), Some("no route to host"));
        assert_eq!(termination_message(&[pod("containerStatuses", &[(1, late, "")])]), None);
        let long = pod("containerStatuses", &[(1, late, &"x".repeat(1000))]);
        assert!(termination_message(&[long]).is_some_and(|words| words.len() <= LONGEST_QUOTE));
    }
}
