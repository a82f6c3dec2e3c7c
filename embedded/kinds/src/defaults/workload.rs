//! Defaults of the kinds that make pods.

use serde_json::{Value, json};

use super::{pod, storage};
use crate::read::{is_empty_at, str_at};
use crate::write::{child, each, ensure, fill};

pub(super) fn deployment(deployment: &mut Value) {
    let Some(spec) = child(deployment, "spec") else { return };
    template(spec);
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", 10);
    fill(spec, "progressDeadlineSeconds", 600);
    if let Some(rolling) = rolling_update(spec, "strategy") {
        fill(rolling, "maxUnavailable", "25%");
        fill(rolling, "maxSurge", "25%");
    }
}

pub(super) fn replica_set(set: &mut Value) {
    let Some(spec) = child(set, "spec") else { return };
    template(spec);
    fill(spec, "replicas", 1);
}

/// The oldest of them takes its labels and its selector from its template.
pub(super) fn replication_controller(controller: &mut Value) {
    let labels = controller["spec"]["template"]["metadata"]["labels"].clone();
    let Some(spec) = child(controller, "spec") else { return };
    template(spec);
    fill(spec, "replicas", 1);
    if labels.as_object().is_none_or(serde_json::Map::is_empty) {
        return;
    }
    fill(spec, "selector", labels.clone());
    if let Some(metadata) = child(controller, "metadata") {
        fill(metadata, "labels", labels);
    }
}

pub(super) fn stateful_set(set: &mut Value) {
    let Some(spec) = child(set, "spec") else { return };
    template(spec);
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", 10);
    fill(spec, "podManagementPolicy", "OrderedReady");
    if let Some(rolling) = rolling_update(spec, "updateStrategy") {
        fill(rolling, "partition", 0);
    }
    if let Some(policy) = ensure(spec, "persistentVolumeClaimRetentionPolicy") {
        fill(policy, "whenDeleted", "Retain");
        fill(policy, "whenScaled", "Retain");
    }
    each(spec, "volumeClaimTemplates", |claim| {
        fill(claim, "apiVersion", "v1");
        fill(claim, "kind", "PersistentVolumeClaim");
        storage::claim(claim);
        if let Some(status) = ensure(claim, "status") {
            fill(status, "phase", "Pending");
        }
    });
}

pub(super) fn daemon_set(set: &mut Value) {
    let Some(spec) = child(set, "spec") else { return };
    template(spec);
    fill(spec, "revisionHistoryLimit", 10);
    if let Some(rolling) = rolling_update(spec, "updateStrategy") {
        fill(rolling, "maxUnavailable", 1);
        fill(rolling, "maxSurge", 0);
    }
}

pub(super) fn job(job: &mut Value) {
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    let Some(spec) = child(job, "spec") else { return };
    job_template(spec);
    // With a number of completions to reach by default, a job without it would never be a work queue.
    if is_empty_at(spec, "completions") && is_empty_at(spec, "parallelism") {
        fill(spec, "completions", 1);
    }
    fill(spec, "parallelism", 1);
    let limit = if is_empty_at(spec, "backoffLimitPerIndex") { 6 } else { i32::MAX };
    fill(spec, "backoffLimit", limit);
    fill(spec, "completionMode", "NonIndexed");
    fill(spec, "suspend", false);
    fill(spec, "manualSelector", false);
    let replacement = if is_empty_at(spec, "podFailurePolicy") { "TerminatingOrFailed" } else { "Failed" };
    fill(spec, "podReplacementPolicy", replacement);
    if !labels.as_object().is_none_or(serde_json::Map::is_empty)
        && let Some(metadata) = child(job, "metadata")
    {
        fill(metadata, "labels", labels);
    }
}

pub(super) fn cron_job(cron_job: &mut Value) {
    let Some(spec) = child(cron_job, "spec") else { return };
    fill(spec, "concurrencyPolicy", "Allow");
    fill(spec, "suspend", false);
    fill(spec, "successfulJobsHistoryLimit", 3);
    fill(spec, "failedJobsHistoryLimit", 1);
    if let Some(job) = child(spec, "jobTemplate").and_then(|template| child(template, "spec")) {
        job_template(job);
    }
}

/// The part of a job's defaults that its template in a cron job gets too.
fn job_template(spec: &mut Value) {
    template(spec);
    if let Some(policy) = child(spec, "podFailurePolicy") {
        each(policy, "rules", |rule| each(rule, "onPodConditions", |condition| fill(condition, "status", "True")));
    }
}

fn template(spec: &mut Value) {
    if let Some(template) = child(spec, "template") {
        pod::template(template);
    }
}

/// The settings of a rolling update, which is the strategy when none is named.
fn rolling_update<'v>(spec: &'v mut Value, field: &str) -> Option<&'v mut Value> {
    let strategy = ensure(spec, field)?;
    fill(strategy, "type", json!("RollingUpdate"));
    if str_at(strategy, "type") != "RollingUpdate" {
        return None;
    }
    ensure(strategy, "rollingUpdate")
}

#[cfg(test)]
mod tests {
    use super::super::tests::defaulted;
    use super::*;

    #[test]
    fn a_deployment_rolls_a_quarter_at_a_time() {
        let deployment = defaulted("apps", "deployments", json!({"spec": {"template": {"spec": {}}}}));
        let spec = &deployment["spec"];
        assert_eq!(spec["replicas"], 1);
        assert_eq!(
            spec["strategy"],
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}})
        );
        assert_eq!(spec["template"]["spec"]["restartPolicy"], "Always");
        let recreate = defaulted("apps", "deployments", json!({"spec": {"strategy": {"type": "Recreate"}}}));
        assert_eq!(recreate["spec"]["strategy"], json!({"type": "Recreate"}));
    }

    #[test]
    fn zero_replicas_are_a_wish_and_not_an_omission() {
        let deployment = defaulted("apps", "deployments", json!({"spec": {"replicas": 0}}));
        assert_eq!(deployment["spec"]["replicas"], 0);
    }

    #[test]
    fn a_stateful_set_completes_its_claims() {
        let set = defaulted(
            "apps",
            "statefulsets",
            json!({"spec": {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
                "resources": {"requests": {"storage": "1024Mi"}},
            }}]}}),
        );
        assert_eq!(
            set["spec"]["volumeClaimTemplates"][0],
            json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
                "spec": {"resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Filesystem"},
                "status": {"phase": "Pending"},
            })
        );
        assert_eq!(
            set["spec"]["persistentVolumeClaimRetentionPolicy"],
            json!({"whenDeleted": "Retain", "whenScaled": "Retain"})
        );
        assert_eq!(set["spec"]["updateStrategy"], json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}));
    }

    #[test]
    fn a_job_completes_once_unless_it_says_how_parallel_it_is() {
        let once = defaulted(
            "batch",
            "jobs",
            json!({"metadata": {}, "spec": {
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never"}},
            }}),
        );
        assert_eq!((&once["spec"]["completions"], &once["spec"]["parallelism"]), (&json!(1), &json!(1)));
        assert_eq!(once["spec"]["backoffLimit"], 6);
        assert_eq!(once["metadata"]["labels"], json!({"a": "b"}));
        let queue = defaulted("batch", "jobs", json!({"spec": {"parallelism": 3}}));
        assert!(queue["spec"].get("completions").is_none());
    }

    #[test]
    fn the_job_of_a_cron_job_is_left_for_when_it_is_made() {
        let cron =
            defaulted("batch", "cronjobs", json!({"spec": {"jobTemplate": {"spec": {"template": {"spec": {}}}}}}));
        assert_eq!(cron["spec"]["concurrencyPolicy"], "Allow");
        let job = &cron["spec"]["jobTemplate"]["spec"];
        assert!(job.get("backoffLimit").is_none());
        assert_eq!(job["template"]["spec"]["dnsPolicy"], "ClusterFirst");
    }
}
