//! A job's pods, made from its template.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod, PodTemplateSpec};
use kube::ResourceExt;

use super::decide::Wanted;
use super::pods::{INDEX, INDEX_FAILURES, INDEX_IGNORED, TRACKED};
use crate::pods::from_template;

/// The variable that tells a container its index.
const VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// The longest name that a pod's host can have.
const LONGEST_HOSTNAME: usize = 63;

/// A pod as it is wanted.
pub(super) fn pod(job: &Job, template: &PodTemplateSpec, wanted: &Wanted) -> Pod {
    let mut pod = from_template(template, job);
    pod.metadata.finalizers.get_or_insert_default().push(TRACKED.into());
    if let Some((index, failures)) = wanted.index {
        give_index(&mut pod, job, index);
        if let Some((counted, ignored)) = failures {
            let annotations = pod.metadata.annotations.get_or_insert_default();
            annotations.insert(INDEX_FAILURES.into(), counted.to_string());
            if ignored > 0 {
                annotations.insert(INDEX_IGNORED.into(), ignored.to_string());
            }
        }
    }
    pod
}

/// Makes the index known: in the pod's name, its host's name, an annotation, a label and a variable.
fn give_index(pod: &mut Pod, job: &Job, index: i32) {
    let name = format!("{}-{index}", job.name_any());
    pod.metadata.generate_name = Some(format!("{name}-"));
    pod.metadata.annotations.get_or_insert_default().insert(INDEX.into(), index.to_string());
    pod.metadata.labels.get_or_insert_default().insert(INDEX.into(), index.to_string());
    let Some(spec) = &mut pod.spec else { return };
    if spec.hostname.is_none() && name.len() <= LONGEST_HOSTNAME {
        spec.hostname = Some(name);
    }
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        tell(container);
    }
}

fn tell(container: &mut Container) {
    let variables = container.env.get_or_insert_default();
    if variables.iter().any(|variable| variable.name == VARIABLE) {
        return;
    }
    let field = ObjectFieldSelector { api_version: None, field_path: format!("metadata.labels['{INDEX}']") };
    let value_from = Some(EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() });
    variables.push(EnvVar { name: VARIABLE.into(), value: None, value_from });
}
