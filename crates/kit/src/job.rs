//! Jobs that run once per identity: a new image or command is a new Job, and the same one does not run again while it is
//! in the plan. One that left the plan is deleted unless it runs, and runs again if it comes back.
//!
//! Jobs of one group never overlap; see [`Child::job_group`]. A Job that failed is replaced after a while, later each time, and
//! stays until then so that its logs can be read. A Job has no time to live: when it is deleted it would run again.

use std::time::Duration;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::core::ObjectMeta;
use serde_json::Value;

use crate::hash;
use crate::ownership::{BASE, TEMPLATE};
use crate::plan::Child;

/// How long after its first failure a Job is replaced. The delay doubles with each attempt.
pub const RETRY_AFTER: Duration = Duration::from_mins(1);

/// The longest time until a failed Job is replaced.
pub const LONGEST_RETRY: Duration = Duration::from_mins(10);

/// A Job that is called `base-<hash>` and runs once for each `identity`: what decides whether the work has been done, such as
/// the version, the commands and the hash of the configuration. What else is in the template takes effect with the next run, or at once
/// for a Job that has not started.
pub fn run_once(namespace: &str, base: &str, identity: &Value, template: PodTemplateSpec, backoff_limit: i32) -> Child {
    let content = hash::of_json(&serde_json::to_value(&template).unwrap_or_default());
    let job = Job {
        metadata: ObjectMeta {
            annotations: Some([(TEMPLATE.to_owned(), content)].into()),
            name: Some(hash::named(base, &hash::of_json(identity))),
            namespace: Some(namespace.to_owned()),
            labels: Some([(BASE.to_owned(), hash::truncate_base(base))].into()),
            ..ObjectMeta::default()
        },
        spec: Some(JobSpec { template, backoff_limit: Some(backoff_limit), ..JobSpec::default() }),
        ..Job::default()
    };
    Child::new(&job).retry_after(RETRY_AFTER)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, PodSpec};
    use serde_json::json;

    use super::*;

    fn template(image: &str) -> PodTemplateSpec {
        let container = Container { name: "press".into(), image: Some(image.into()), ..Container::default() };
        let spec = PodSpec { containers: vec![container], restart_policy: Some("Never".into()), ..PodSpec::default() };
        PodTemplateSpec { spec: Some(spec), ..PodTemplateSpec::default() }
    }

    #[test]
    fn a_job_has_another_name_for_another_identity_whatever_its_template_says() {
        let job = |identity: Value, image| run_once("orchard", "press", &identity, template(image), 4);
        let name = |identity, image| job(identity, image).reference().name;
        assert_eq!(name(json!({"release": 1}), "press:1"), name(json!({"release": 1}), "press:2"));
        assert_ne!(name(json!({"release": 1}), "press:1"), name(json!({"release": 2}), "press:1"));
        assert!(job(json!({}), "press:1").object.data["spec"].get("ttlSecondsAfterFinished").is_none());
    }
}
