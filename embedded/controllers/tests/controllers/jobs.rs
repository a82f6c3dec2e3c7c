//! Jobs and cron jobs, after upstream's conformance specs.

use std::collections::BTreeSet;
use std::time::Duration;

use c5c3_harness::Fault;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PropagationPolicy};
use serde_json::{Value, json};

use crate::fixtures::{Stage, Tested, eventually, of};

const TRACKED: &str = "batch.kubernetes.io/job-tracking";

fn job(name: &str, spec: Value) -> Value {
    let template = json!({"metadata": {"labels": {"job": name}},
                          "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "oven:1"}]}});
    let mut job = json!({"metadata": {"name": name}, "spec": {"template": template}});
    let Value::Object(spec) = spec else { panic!("a spec is an object") };
    job["spec"].as_object_mut().unwrap().extend(spec);
    job
}

fn is(job: Option<&Job>, condition: &str) -> bool {
    let conditions = job.iter().filter_map(|job| job.status.as_ref()?.conditions.as_ref()).flatten();
    conditions.into_iter().any(|found| found.type_ == condition && found.status == "True")
}

fn runs(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
        && pod.metadata.deletion_timestamp.is_none()
}

async fn until(stage: &Stage, name: &'static str, condition: &'static str) -> Job {
    eventually(&stage.api::<Job>(), name, move |job: Option<&Job>| is(job, condition)).await.expect("a job")
}

/// Ends a pod with an exit code.
async fn end(stage: &Stage, pod: &Pod, code: i32) {
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    let status = json!({"status": {"phase": phase, "containerStatuses": [{
        "name": "c", "image": "oven:1", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": code, "finishedAt": "2024-05-01T10:00:00Z"}},
    }]}});
    let patch = Patch::Strategic(status);
    stage.api::<Pod>().patch_status(&pod.name_any(), &PatchParams::default(), &patch).await.expect("a pod ends");
}

/// Ends every pod that runs, as often as it takes until so many have been ended.
async fn end_all(stage: &Stage, labels: &str, count: usize, code: i32) {
    let mut ended = BTreeSet::new();
    while ended.len() < count {
        let pods = stage.pods_until(labels, |pods| pods.iter().any(runs)).await;
        for pod in pods.iter().filter(|pod| runs(pod)) {
            end(stage, pod, code).await;
            ended.insert(pod.name_any());
        }
    }
}

#[tokio::test]
async fn every_pod_of_a_job_is_counted_once_whatever_fails_in_between() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let delay = Duration::from_millis(50);
    for (skip, fault) in [(1, Fault::answer(500)), (5, Fault::delay(delay)), (8, Fault::answer(409))] {
        stage.cluster.inject(fault.to("update", "/jobs/bake/status").after(skip).times(2).late_by(delay));
    }
    stage.create::<Job>(job("bake", json!({"completions": 6, "parallelism": 2}))).await;
    end_all(&stage, "job=bake", 2, 0).await;
    stage.cluster.drop_watches();
    end_all(&stage, "job=bake", 4, 0).await;
    let done = until(&stage, "bake", "Complete").await;
    let status = done.status.unwrap();
    assert_eq!((status.succeeded, status.failed, status.active), (Some(6), None, None));
    assert!(status.completion_time.is_some() && status.start_time.is_some());
    assert_eq!(status.uncounted_terminated_pods, Some(of(json!({}))));
    let pods = stage.pods("job=bake").await;
    assert_eq!(pods.len(), 6, "{:?}", pods.keys());
    assert!(pods.values().all(|pod| !pod.finalizers().iter().any(|held| held == TRACKED)));
    let reasons: Vec<_> = status.conditions.unwrap().into_iter().map(|found| (found.type_, found.reason)).collect();
    let reached = Some("CompletionsReached".to_owned());
    assert_eq!(reasons, [("SuccessCriteriaMet".into(), reached.clone()), ("Complete".into(), reached)]);
    stage.told_of("bake", "Normal Completed Job completed").await;
    Ok(())
}

#[tokio::test]
async fn a_job_fails_at_its_limit_and_takes_its_other_pods_with_it() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    stage.create::<Job>(job("burn", json!({"completions": 2, "parallelism": 2, "backoffLimit": 0}))).await;
    let pods = stage.pods_until("job=burn", |pods| pods.len() == 2 && pods.iter().all(runs)).await;
    end(&stage, &pods[0], 1).await;
    let failed = until(&stage, "burn", "Failed").await;
    let status = failed.status.unwrap();
    assert_eq!((status.failed, status.active, status.succeeded), (Some(2), None, None));
    let reason = "Job has reached the specified backoff limit";
    assert!(status.conditions.unwrap().iter().all(|found| found.message.as_deref() == Some(reason)));
    stage.pods_until("job=burn", |pods| pods.len() == 1).await;
    stage.told_of("burn", &format!("Warning BackoffLimitExceeded {reason}")).await;
    Ok(())
}

#[tokio::test]
async fn rules_for_failures_end_a_job_or_ignore_a_disruption() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let rules = json!({"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]});
    stage.create::<Job>(job("strict", json!({"backoffLimit": 3, "podFailurePolicy": rules}))).await;
    end_all(&stage, "job=strict", 1, 42).await;
    let failed = until(&stage, "strict", "Failed").await;
    let reasons: BTreeSet<_> =
        failed.status.unwrap().conditions.unwrap().into_iter().map(|found| found.reason).collect();
    assert_eq!(reasons, BTreeSet::from([Some("PodFailurePolicy".to_owned())]));

    let rules =
        json!({"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]});
    stage.create::<Job>(job("calm", json!({"backoffLimit": 0, "podFailurePolicy": rules}))).await;
    let first = stage.pods_until("job=calm", |pods| pods.iter().any(runs)).await.remove(0);
    let disrupted =
        json!({"status": {"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True"}]}});
    let patch = Patch::Strategic(disrupted);
    stage.api::<Pod>().patch_status(&first.name_any(), &PatchParams::default(), &patch).await?;
    stage.pods_until("job=calm", |pods| pods.iter().all(|pod| pod.finalizers().is_empty())).await;
    let calm = stage.api::<Job>().get("calm").await?;
    assert!(!is(Some(&calm), "FailureTarget") && calm.status.unwrap().failed.is_none());
    Ok(())
}

#[tokio::test]
async fn a_job_adopts_and_releases_pods() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let made: Job = stage.create(job("foster", json!({"completions": 4, "parallelism": 2}))).await;
    let uid = made.uid().unwrap();
    let pods = stage.pods_until("job=foster", |pods| pods.len() == 2 && pods.iter().all(runs)).await;
    let (orphan, stray) = (pods[0].name_any(), pods[1].name_any());
    stage.change::<Pod>(&orphan, json!({"metadata": {"ownerReferences": null}})).await;
    let owned =
        move |pod: Option<&Pod>| pod.is_some_and(|pod| pod.owner_references().iter().any(|owner| owner.uid == uid));
    eventually(&stage.api::<Pod>(), &orphan, owned.clone()).await;
    let labels = json!({"metadata": {"labels": {"batch.kubernetes.io/controller-uid": null, "job": "none"}}});
    stage.change::<Pod>(&stray, labels).await;
    eventually(&stage.api::<Pod>(), &stray, move |pod: Option<&Pod>| pod.is_some() && !owned(pod)).await;
    stage.pods_until("job=foster", |pods| pods.iter().filter(|pod| runs(pod)).count() == 2).await;
    Ok(())
}

#[tokio::test]
async fn a_job_that_is_suspended_stops_and_goes_on_later() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    stage.create::<Job>(job("nap", json!({"completions": 1, "suspend": true}))).await;
    assert!(until(&stage, "nap", "Suspended").await.status.unwrap().start_time.is_none());
    stage.change::<Job>("nap", json!({"spec": {"suspend": false}})).await;
    stage.pods_until("job=nap", |pods| pods.iter().any(runs)).await;
    stage.change::<Job>("nap", json!({"spec": {"suspend": true}})).await;
    stage.pods_until("job=nap", <[Pod]>::is_empty).await;
    stage.change::<Job>("nap", json!({"spec": {"suspend": false}})).await;
    end_all(&stage, "job=nap", 1, 0).await;
    let status = until(&stage, "nap", "Complete").await.status.unwrap();
    assert_eq!((status.succeeded, status.failed), (Some(1), None), "pods that were suspended have not failed");
    Ok(())
}

#[tokio::test]
async fn a_deleted_job_leaves_no_pod_behind() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    for (name, policy) in [("leaf", PropagationPolicy::Background), ("twig", PropagationPolicy::Foreground)] {
        stage.create::<Job>(job(name, json!({"completions": 3, "parallelism": 2}))).await;
        let labels = format!("job={name}");
        stage.pods_until(&labels, |pods| pods.len() == 2 && pods.iter().all(runs)).await;
        let how = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
        stage.api::<Job>().delete(name, &how).await?;
        stage.pods_until(&labels, <[Pod]>::is_empty).await;
        eventually(&stage.api::<Job>(), name, |job: Option<&Job>| job.is_none()).await;
    }
    Ok(())
}

#[tokio::test]
async fn a_job_goes_when_it_has_been_over_for_long_enough() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    stage.create::<Job>(job("brief", json!({"ttlSecondsAfterFinished": 0}))).await;
    end_all(&stage, "job=brief", 1, 0).await;
    eventually(&stage.api::<Job>(), "brief", |job: Option<&Job>| job.is_none()).await;
    stage.pods_until("job=brief", <[Pod]>::is_empty).await;
    Ok(())
}

#[tokio::test]
async fn an_indexed_job_does_each_index() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let spec = json!({"completions": 3, "parallelism": 2, "completionMode": "Indexed"});
    stage.create::<Job>(job("count", spec)).await;
    end_all(&stage, "job=count", 3, 0).await;
    let status = until(&stage, "count", "Complete").await.status.unwrap();
    assert_eq!((status.completed_indexes.as_deref(), status.succeeded), (Some("0-2"), Some(3)));
    let pods = stage.pods("job=count").await;
    let hosts: BTreeSet<_> = pods.values().map(|pod| pod.spec.as_ref().unwrap().hostname.clone().unwrap()).collect();
    assert_eq!(hosts, ["count-0", "count-1", "count-2"].map(str::to_owned).into());
    for pod in pods.values() {
        let index = &pod.annotations()["batch.kubernetes.io/job-completion-index"];
        assert!(pod.name_any().starts_with(&format!("count-{index}-")));
        assert_eq!(pod.spec.as_ref().unwrap().containers[0].env.as_ref().unwrap()[0].name, "JOB_COMPLETION_INDEX");
    }
    Ok(())
}

#[tokio::test]
async fn indexes_fail_one_by_one_and_success_may_be_some_of_them() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let spec = json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 0});
    stage.create::<Job>(job("dice", spec)).await;
    let pods = stage.pods_until("job=dice", |pods| pods.len() == 3 && pods.iter().all(runs)).await;
    for (position, pod) in pods.iter().enumerate() {
        end(&stage, pod, i32::from(position != 1)).await;
    }
    let status = until(&stage, "dice", "Failed").await.status.unwrap();
    assert_eq!((status.completed_indexes.as_deref(), status.failed_indexes.as_deref()), (Some("1"), Some("0,2")));
    assert_eq!((status.succeeded, status.failed), (Some(1), Some(2)));

    let spec = json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed",
                      "successPolicy": {"rules": [{"succeededIndexes": "1"}]}});
    stage.create::<Job>(job("coin", spec)).await;
    let pods = stage.pods_until("job=coin", |pods| pods.len() == 3 && pods.iter().all(runs)).await;
    end(&stage, &pods[1], 0).await;
    let status = until(&stage, "coin", "Complete").await.status.unwrap();
    assert_eq!((status.succeeded, status.failed, status.completed_indexes.as_deref()), (Some(1), None, Some("1")));
    Ok(())
}

#[tokio::test]
async fn a_cron_job_makes_a_job_when_it_is_time() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let template = json!({"metadata": {"labels": {"by": "sweep"}}, "spec": job("sweep", json!({}))["spec"]});
    stage
        .create::<CronJob>(
            json!({"metadata": {"name": "sweep"}, "spec": {"schedule": "@every 1s", "concurrencyPolicy": "Forbid", "jobTemplate": template}}),
        )
        .await;
    let api: Api<CronJob> = stage.api();
    let active = |cron: Option<&CronJob>| {
        cron.is_some_and(|cron| cron.status.as_ref().is_some_and(|status| status.active.is_some()))
    };
    let cron = eventually(&api, "sweep", active).await.unwrap();
    let name = cron.status.unwrap().active.unwrap()[0].name.clone().unwrap();
    let made = stage.api::<Job>().get(&name).await?;
    assert!(made.annotations().contains_key("batch.kubernetes.io/cronjob-scheduled-timestamp"));
    assert_eq!(made.owner_references()[0].kind, "CronJob");
    assert_eq!(made.labels()["by"], "sweep");
    stage.change::<CronJob>("sweep", json!({"spec": {"suspend": true}})).await;
    end_all(&stage, "job=sweep", 1, 0).await;
    let succeeded = |cron: Option<&CronJob>| {
        cron.is_some_and(|cron| {
            cron.status.as_ref().is_some_and(|status| status.active.is_none() && status.last_successful_time.is_some())
        })
    };
    eventually(&api, "sweep", succeeded).await;
    stage.told_of("sweep", &format!("Normal SuccessfulCreate Created job {name}")).await;
    Ok(())
}
