//! Jobs that run once per content: a new image or command is a new Job, and the same one does not run again while it is
//! in the plan. One that left the plan is deleted, and runs anew if it comes back.
//!
//! Two runs of the same thing never overlap. A Job that failed is made again after a while. There is no time to live on it:
//! when it is deleted it would run again.

use std::time::Duration;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::core::ObjectMeta;

use crate::hash;
use crate::ownership::BASE;
use crate::plan::Child;

/// How long after its failure a Job is made again.
pub const RETRY_AFTER: Duration = Duration::from_mins(1);

/// A Job that is called `base-<hash>` and runs once.
pub fn run_once(namespace: &str, base: &str, template: PodTemplateSpec, backoff_limit: i32) -> Child {
    let content = serde_json::to_value(&template).unwrap_or_default();
    let job = Job {
        metadata: ObjectMeta {
            name: Some(hash::named(base, &hash::of_json(&content))),
            namespace: Some(namespace.to_owned()),
            labels: Some([(BASE.to_owned(), hash::fitting(base))].into()),
            ..ObjectMeta::default()
        },
        spec: Some(JobSpec { template, backoff_limit: Some(backoff_limit), ..JobSpec::default() }),
        ..Job::default()
    };
    Child::new(&job).retry_after(RETRY_AFTER).serial()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, PodSpec};

    use super::*;

    fn template(image: &str) -> PodTemplateSpec {
        let container = Container { name: "press".into(), image: Some(image.into()), ..Container::default() };
        let spec = PodSpec { containers: vec![container], restart_policy: Some("Never".into()), ..PodSpec::default() };
        PodTemplateSpec { spec: Some(spec), ..PodTemplateSpec::default() }
    }

    #[test]
    fn a_job_has_another_name_for_another_image_and_no_time_to_live() {
        let name = |image| run_once("orchard", "press", template(image), 4).reference().name;
        assert_eq!(name("press:1"), name("press:1"));
        assert_ne!(name("press:1"), name("press:2"));
        let job = run_once("orchard", "press", template("press:1"), 4);
        assert!(job.object.data["spec"].get("ttlSecondsAfterFinished").is_none());
    }
}
