//! Deployments.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::fixtures::{Stage, Tested, UNREADY, eventually, image, is_ready};

const REVISION: &str = "deployment.kubernetes.io/revision";

fn deployment(name: &str, replicas: i32, image: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"test": "deployments"}}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": image}]}}}})
}

fn template(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}

fn status(deployment: &Deployment) -> Value {
    serde_json::to_value(&deployment.status).unwrap_or_default()
}

fn condition(deployment: &Deployment, name: &str) -> String {
    let conditions = deployment.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    let found = conditions.into_iter().find(|condition| condition.type_ == name);
    found.map_or_else(String::new, |found| format!("{} {}", found.status, found.reason.clone().unwrap_or_default()))
}

/// Whether a deployment is complete at that many pods.
fn is_complete(replicas: i32) -> impl Fn(Option<&Deployment>) -> bool {
    move |deployment| {
        deployment.and_then(|found| found.status.as_ref().map(|status| (found, status))).is_some_and(
            |(found, status)| {
                let counts =
                    [status.replicas, status.updated_replicas, status.available_replicas, status.ready_replicas];
                counts.iter().all(|count| count.unwrap_or(0) == replicas)
                    && status.observed_generation == found.metadata.generation
                    && condition(found, "Progressing") == "True NewReplicaSetAvailable"
            },
        )
    }
}

/// The ReplicaSets, by revision: `(image, size)`.
async fn sets(stage: &Stage) -> Vec<(String, i32)> {
    let mut sets = stage.api::<ReplicaSet>().list(&ListParams::default()).await.expect("sets").items;
    sets.sort_by_key(|set| set.annotations().get(REVISION).and_then(|revision| revision.parse::<i64>().ok()));
    let line = |set: ReplicaSet| {
        let spec = set.spec.expect("a spec");
        let containers = spec.template.and_then(|template| template.spec).map(|spec| spec.containers);
        let image = containers.into_iter().flatten().find_map(|container| container.image);
        (image.unwrap_or_default(), spec.replicas.unwrap_or(-1))
    };
    sets.into_iter().map(line).collect()
}

async fn sets_until(stage: &Stage, holds: impl Fn(&[(String, i32)]) -> bool) -> Vec<(String, i32)> {
    let waited = async {
        loop {
            let found = sets(stage).await;
            if holds(&found) {
                return found;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(crate::fixtures::PATIENCE, waited).await.expect("the replica sets come to be so")
}

fn of(image: &str, size: i32) -> (String, i32) {
    (image.to_owned(), size)
}

/// Conformance: "Deployment RollingUpdateDeployment should delete old pods and create new ones".
#[tokio::test]
async fn a_deployment_rolls_to_a_new_template_and_back() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    stage.create::<Deployment>(deployment("press", 3, "press:1")).await;
    let api = stage.api::<Deployment>();
    let first = eventually(&api, "press", is_complete(3)).await.expect("a deployment");
    assert_eq!(first.annotations()[REVISION], "1");
    assert_eq!(condition(&first, "Available"), "True MinimumReplicasAvailable");
    stage.change::<Deployment>("press", template("press:2")).await;
    let second = eventually(&api, "press", is_complete(3)).await.expect("a deployment");
    assert_eq!(second.annotations()[REVISION], "2");
    stage.pods_until("app=press", |pods| pods.len() == 3 && pods.iter().all(|pod| image(pod) == "press:2")).await;
    assert_eq!(sets(&stage).await, [of("press:1", 0), of("press:2", 3)]);
    stage.change::<Deployment>("press", template("press:1")).await;
    let third = eventually(&api, "press", is_complete(3)).await.expect("a deployment");
    assert_eq!(third.annotations()[REVISION], "3", "a rollback is a new revision of the old set");
    assert_eq!(sets(&stage).await, [of("press:2", 0), of("press:1", 3)]);
    let told = stage.told("press").await;
    assert!(told.iter().any(|line| line.contains("ScalingReplicaSet Scaled up replica set press-")), "{told:?}");
    Ok(())
}

#[tokio::test]
async fn a_rollout_never_leaves_its_bounds() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let mut object = deployment("press", 4, "press:1");
    object["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}});
    stage.create::<Deployment>(object).await;
    eventually(&stage.api::<Deployment>(), "press", is_complete(4)).await;
    stage.change::<Deployment>("press", template("press:2")).await;
    let within = |pods: &[Pod]| {
        let alive: Vec<&Pod> = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect();
        assert!(alive.len() <= 5, "one more than asked for at most");
        assert!(alive.iter().filter(|pod| is_ready(pod)).count() >= 3, "one less at least");
        alive.len() == 4 && alive.iter().all(|pod| image(pod) == "press:2" && is_ready(pod))
    };
    stage.pods_until("app=press", within).await;
    Ok(())
}

/// Conformance: "Deployment RecreateDeployment should delete old pods and create new ones".
#[tokio::test]
async fn a_recreated_deployment_has_old_and_new_pods_at_no_time_together() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let mut object = deployment("press", 2, "press:1");
    object["spec"]["strategy"] = json!({"type": "Recreate"});
    stage.create::<Deployment>(object).await;
    eventually(&stage.api::<Deployment>(), "press", is_complete(2)).await;
    stage.change::<Deployment>("press", template("press:2")).await;
    stage
        .pods_until("app=press", |pods| {
            let old = pods.iter().filter(|pod| image(pod) == "press:1").count();
            assert!(old == 0 || old == pods.len(), "never both");
            pods.len() == 2 && old == 0 && pods.iter().all(is_ready)
        })
        .await;
    eventually(&stage.api::<Deployment>(), "press", is_complete(2)).await;
    Ok(())
}

/// Conformance: "Deployment deployment should delete old replica sets".
#[tokio::test]
async fn history_is_kept_as_far_as_it_is_asked_for() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let mut object = deployment("press", 1, "press:1");
    object["spec"]["revisionHistoryLimit"] = json!(1);
    stage.create::<Deployment>(object).await;
    let api = stage.api::<Deployment>();
    eventually(&api, "press", is_complete(1)).await;
    for version in 2..=4 {
        stage.change::<Deployment>("press", template(&format!("press:{version}"))).await;
        eventually(&api, "press", is_complete(1)).await;
    }
    sets_until(&stage, |sets| *sets == [of("press:3", 0), of("press:4", 1)]).await;
    Ok(())
}

/// Conformance: "Deployment deployment should support rollover".
#[tokio::test]
async fn a_rollout_that_is_stuck_is_rolled_over() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let mut object = deployment("press", 2, "press:1");
    object["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    stage.create::<Deployment>(object).await;
    let api = stage.api::<Deployment>();
    eventually(&api, "press", is_complete(2)).await;
    stage.change::<Deployment>("press", template(UNREADY)).await;
    stage.pods_until("app=press", |pods| pods.iter().any(|pod| image(pod) == UNREADY)).await;
    assert_eq!(stage.pods("app=press").await.values().filter(|pod| is_ready(pod)).count(), 2, "nothing is lost");
    stage.change::<Deployment>("press", template("press:3")).await;
    eventually(&api, "press", is_complete(2)).await;
    assert_eq!(sets(&stage).await, [of("press:1", 0), of(UNREADY, 0), of("press:3", 2)]);
    Ok(())
}

/// Conformance: "Deployment deployment should support proportional scaling", with its numbers.
#[tokio::test]
async fn a_resize_in_the_middle_of_a_rollout_is_shared_out() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let mut object = deployment("press", 10, "press:1");
    object["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}});
    stage.create::<Deployment>(object).await;
    let api = stage.api::<Deployment>();
    eventually(&api, "press", is_complete(10)).await;
    stage.change::<Deployment>("press", template(UNREADY)).await;
    sets_until(&stage, |sets| *sets == [of("press:1", 8), of(UNREADY, 5)]).await;
    let settled = |found: Option<&Deployment>| {
        found.is_some_and(|found| status(found)["replicas"] == 13 && status(found)["availableReplicas"] == 8)
    };
    eventually(&api, "press", settled).await;
    stage.change::<Deployment>("press", json!({"spec": {"replicas": 30}})).await;
    sets_until(&stage, |sets| *sets == [of("press:1", 20), of(UNREADY, 13)]).await;
    Ok(())
}

/// Conformance: "Deployment Deployment should have a working scale subresource".
#[tokio::test]
async fn a_deployment_is_scaled() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    stage.create::<Deployment>(deployment("press", 1, "press:1")).await;
    let api = stage.api::<Deployment>();
    eventually(&api, "press", is_complete(1)).await;
    api.patch_scale("press", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 4}}))).await?;
    eventually(&api, "press", is_complete(4)).await;
    assert_eq!(api.get_scale("press").await?.status.map(|status| status.replicas), Some(4));
    api.patch_scale("press", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 0}}))).await?;
    eventually(&api, "press", is_complete(0)).await;
    assert_eq!(sets(&stage).await, [of("press:1", 0)]);
    Ok(())
}

#[tokio::test]
async fn a_paused_deployment_is_resized_but_not_rolled() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    stage.create::<Deployment>(deployment("press", 2, "press:1")).await;
    let api = stage.api::<Deployment>();
    eventually(&api, "press", is_complete(2)).await;
    stage.change::<Deployment>("press", json!({"spec": {"paused": true}})).await;
    let is_paused = |found: Option<&Deployment>| {
        found.is_some_and(|found| condition(found, "Progressing") == "Unknown DeploymentPaused")
    };
    eventually(&api, "press", is_paused).await;
    stage.change::<Deployment>("press", template("press:2")).await;
    stage.change::<Deployment>("press", json!({"spec": {"replicas": 3}})).await;
    sets_until(&stage, |sets| *sets == [of("press:1", 3)]).await;
    stage.change::<Deployment>("press", json!({"spec": {"paused": false}})).await;
    eventually(&api, "press", is_complete(3)).await;
    assert_eq!(sets(&stage).await, [of("press:1", 0), of("press:2", 3)]);
    Ok(())
}

#[tokio::test]
async fn a_rollout_without_progress_is_reported_after_its_deadline() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let mut object = deployment("press", 1, UNREADY);
    object["spec"]["progressDeadlineSeconds"] = json!(1);
    stage.create::<Deployment>(object).await;
    let api = stage.api::<Deployment>();
    let is_stuck = |found: Option<&Deployment>| {
        found.is_some_and(|found| condition(found, "Progressing") == "False ProgressDeadlineExceeded")
    };
    eventually(&api, "press", is_stuck).await;
    stage.change::<Deployment>("press", template("press:2")).await;
    eventually(&api, "press", is_complete(1)).await;
    Ok(())
}

/// Conformance: "Deployment should run the lifecycle of a Deployment" and "should validate Deployment Status endpoints".
#[tokio::test]
async fn a_deployment_lives_with_what_others_write_into_its_status() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    stage.create::<Deployment>(deployment("press", 1, "press:1")).await;
    let api = stage.api::<Deployment>();
    let mut found = eventually(&api, "press", is_complete(1)).await.expect("a deployment");
    let others = serde_json::from_value(json!({"type": "StatusUpdate", "status": "True", "reason": "E2E"}))?;
    found.status.get_or_insert_default().conditions.get_or_insert_default().push(others);
    api.replace_status("press", &PostParams::default(), &found).await?;
    let patch = json!({"metadata": {"labels": {"test": "patched"}}, "status": {"readyReplicas": 7}});
    api.patch_status("press", &PatchParams::default(), &Patch::Merge(patch)).await?;
    let restored = |found: Option<&Deployment>| found.is_some_and(|found| status(found)["readyReplicas"] == 1);
    let found = eventually(&api, "press", restored).await.expect("a deployment");
    assert_eq!(condition(&found, "StatusUpdate"), "True E2E");
    let patched = ListParams::default().labels("test=patched");
    let all = Api::<Deployment>::all(stage.client.clone());
    assert_eq!(all.list(&patched).await?.items.len(), 0, "labels are not written with the status");
    let label = json!({"metadata": {"labels": {"test": "patched"}}});
    api.patch("press", &PatchParams::default(), &Patch::Merge(label)).await?;
    assert_eq!(all.list(&patched).await?.items.len(), 1);
    api.delete_collection(&DeleteParams::default(), &patched).await?;
    stage.pods_until("app=press", <[Pod]>::is_empty).await;
    sets_until(&stage, <[(String, i32)]>::is_empty).await;
    Ok(())
}

#[tokio::test]
async fn a_name_that_another_template_has_is_avoided() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    stage.create::<Deployment>(deployment("press", 1, "press:1")).await;
    let api = stage.api::<Deployment>();
    eventually(&api, "press", is_complete(1)).await;
    let taken = stage.api::<ReplicaSet>().list(&ListParams::default()).await?.items.remove(0);
    api.delete("press", &DeleteParams::foreground()).await?;
    eventually(&api, "press", |found: Option<&Deployment>| found.is_none()).await;
    let impostor = json!({"metadata": {"name": taken.name_any()}, "spec": {"replicas": 0,
        "selector": {"matchLabels": {"app": "other"}}, "template": {"metadata": {"labels": {"app": "other"}},
        "spec": {"containers": [{"name": "c", "image": "other:1"}]}}}});
    stage.create::<ReplicaSet>(impostor).await;
    stage.create::<Deployment>(deployment("press", 1, "press:1")).await;
    let found = eventually(&api, "press", is_complete(1)).await.expect("a deployment");
    assert_eq!(status(&found)["collisionCount"], 1);
    Ok(())
}

#[tokio::test]
async fn a_replica_set_that_fits_is_adopted() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let orphan = json!({"metadata": {"name": "orphan", "labels": {"app": "press"}}, "spec": {"replicas": 2,
        "selector": {"matchLabels": {"app": "press"}}, "template": {"metadata": {"labels": {"app": "press"}},
        "spec": {"containers": [{"name": "c", "image": "press:1"}]}}}});
    stage.create::<ReplicaSet>(orphan).await;
    stage.create::<Deployment>(deployment("press", 2, "press:1")).await;
    eventually(&stage.api::<Deployment>(), "press", is_complete(2)).await;
    let set = stage.api::<ReplicaSet>().get("orphan").await?;
    assert_eq!((set.owner_references()[0].name.as_str(), sets(&stage).await.len()), ("press", 1));
    Ok(())
}
