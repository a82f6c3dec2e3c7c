//! ReplicaSets and ReplicationControllers.

use std::collections::BTreeSet;

use c5c3_harness::Fault;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::fixtures::{Stage, Tested, UNREADY, eventually, is_ready};

fn set(name: &str, replicas: i32, image: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": image}]}}}})
}

fn status(set: &ReplicaSet) -> Value {
    serde_json::to_value(&set.status).unwrap_or_default()
}

/// Whether a set has that many pods, all of them ready, and has looked at its latest wish.
fn is_at(replicas: i32) -> impl Fn(Option<&ReplicaSet>) -> bool {
    move |set| {
        set.and_then(|set| set.status.as_ref().map(|status| (set, status))).is_some_and(|(set, status)| {
            status.replicas == replicas
                && status.available_replicas.unwrap_or(0) == replicas
                && status.observed_generation == set.metadata.generation
        })
    }
}

fn owner(pod: &Pod) -> Option<String> {
    pod.owner_references().iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.name.clone())
}

/// Conformance: "ReplicaSet should serve a basic image on each replica with a public image".
#[tokio::test]
async fn a_replica_set_has_its_pods_and_tells_about_them() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    stage.create::<ReplicaSet>(set("pear", 3, "fruit:1")).await;
    let made = eventually(&stage.api(), "pear", is_at(3)).await.expect("a set");
    assert_eq!(
        status(&made),
        json!({"replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 3, "availableReplicas": 3, "observedGeneration": 1})
    );
    let pods = stage.pods("app=pear").await;
    assert_eq!(pods.len(), 3, "no more than that, ever");
    for (name, pod) in &pods {
        assert!(name.starts_with("pear-") && owner(pod).as_deref() == Some("pear"), "{pod:?}");
        let told = format!("Normal SuccessfulCreate Created pod: {name}");
        assert!(stage.told("pear").await.contains(&told), "{:?}", stage.told("pear").await);
    }
    Ok(())
}

#[tokio::test]
async fn a_pod_that_is_lost_is_replaced_and_a_surplus_one_is_ended() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    stage.create::<ReplicaSet>(set("pear", 2, "fruit:1")).await;
    eventually(&stage.api(), "pear", is_at(2)).await;
    let before: BTreeSet<String> = stage.pods("app=pear").await.into_keys().collect();
    let lost = before.first().expect("a pod").clone();
    stage.api::<Pod>().delete(&lost, &DeleteParams::default()).await?;
    let now = stage.pods_until("app=pear", |pods| {
        pods.len() == 2 && pods.iter().all(is_ready) && pods.iter().all(|pod| pod.name_any() != lost)
    });
    assert_eq!(now.await.iter().filter(|pod| before.contains(&pod.name_any())).count(), 1, "the other one stays");
    stage.change::<ReplicaSet>("pear", json!({"spec": {"replicas": 0}})).await;
    stage.pods_until("app=pear", <[Pod]>::is_empty).await;
    eventually(&stage.api(), "pear", is_at(0)).await;
    assert!(stage.told("pear").await.iter().any(|told| told.starts_with("Normal SuccessfulDelete Deleted pod: pear-")));
    Ok(())
}

/// Conformance: "ReplicaSet should adopt matching pods on creation and release no longer matching pods".
#[tokio::test]
async fn an_orphan_is_adopted_and_a_relabelled_pod_released() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let orphan = json!({"metadata": {"name": "orphan", "labels": {"app": "pear"}},
        "spec": {"containers": [{"name": "c", "image": "fruit:1"}]}});
    stage.create::<Pod>(orphan.clone()).await;
    stage.create::<ReplicaSet>(set("pear", 1, "fruit:1")).await;
    let pods = stage.api::<Pod>();
    eventually(&pods, "orphan", |pod: Option<&Pod>| pod.and_then(owner).as_deref() == Some("pear")).await;
    eventually(&stage.api(), "pear", is_at(1)).await;
    assert_eq!(stage.pods("app=pear").await.len(), 1, "the orphan is enough");
    stage.change::<Pod>("orphan", json!({"metadata": {"labels": {"app": "plum"}}})).await;
    eventually(&pods, "orphan", |pod: Option<&Pod>| pod.is_some_and(|pod| owner(pod).is_none())).await;
    stage.pods_until("app=pear", |pods| pods.len() == 1).await;
    stage.change::<Pod>("orphan", json!({"metadata": {"labels": {"app": "pear"}}})).await;
    stage.pods_until("app=pear", |pods| pods.len() == 1 && pods.iter().all(|pod| owner(pod).is_some())).await;
    Ok(())
}

/// Conformance: "ReplicaSet Replicaset should have a working scale subresource" and "Replace and Patch tests".
#[tokio::test]
async fn a_replica_set_is_scaled_and_patched() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    stage.create::<ReplicaSet>(set("pear", 1, "fruit:1")).await;
    let sets = stage.api::<ReplicaSet>();
    eventually(&sets, "pear", is_at(1)).await;
    let mut scale = sets.get_scale("pear").await?;
    assert_eq!(scale.status.as_ref().map(|status| status.replicas), Some(1));
    scale.spec.get_or_insert_default().replicas = Some(2);
    scale.metadata.resource_version = None;
    sets.replace_scale("pear", &PostParams::default(), &scale).await?;
    eventually(&sets, "pear", is_at(2)).await;
    sets.patch_scale("pear", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 4}}))).await?;
    eventually(&sets, "pear", is_at(4)).await;
    let changed = json!({"metadata": {"labels": {"test-rs": "patched"}}, "spec": {"replicas": 3,
        "template": {"spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "fruit:2"}]}}}});
    sets.patch("pear", &PatchParams::default(), &Patch::Strategic(changed)).await?;
    eventually(&sets, "pear", is_at(3)).await;
    Ok(())
}

/// Conformance: "ReplicaSet should validate Replicaset Status endpoints".
#[tokio::test]
async fn what_others_write_into_the_status_stays() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    stage.create::<ReplicaSet>(set("pear", 1, "fruit:1")).await;
    let sets = stage.api::<ReplicaSet>();
    let mut found = eventually(&sets, "pear", is_at(1)).await.expect("a set");
    let condition =
        json!([{"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "Set from e2e test"}]);
    found.status.get_or_insert_default().conditions = serde_json::from_value(condition)?;
    sets.replace_status("pear", &PostParams::default(), &found).await?;
    let patch = json!({"status": {"conditions": [{"type": "StatusPatched", "status": "True"}]}});
    sets.patch_status("pear", &PatchParams::default(), &Patch::Merge(patch)).await?;
    stage.change::<ReplicaSet>("pear", json!({"spec": {"replicas": 2}})).await;
    let found = eventually(&sets, "pear", is_at(2)).await.expect("a set");
    assert_eq!(status(&found)["conditions"], json!([{"type": "StatusPatched", "status": "True"}]));
    Ok(())
}

/// Conformance: "ReplicaSet should list and delete a collection of ReplicaSets".
#[tokio::test]
async fn a_collection_of_replica_sets_goes_with_its_pods() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    for name in ["pear", "plum"] {
        let mut object = set(name, 2, "fruit:1");
        object["metadata"]["labels"] = json!({"name": "sample"});
        stage.create::<ReplicaSet>(object).await;
        eventually(&stage.api(), name, is_at(2)).await;
    }
    let sets = stage.api::<ReplicaSet>();
    sets.delete_collection(&DeleteParams::default(), &ListParams::default().labels("name=sample")).await?;
    stage.pods_until("app in (pear,plum)", <[Pod]>::is_empty).await;
    assert!(sets.list(&ListParams::default()).await?.items.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_pod_is_available_once_it_has_been_ready_for_long_enough() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let mut object = set("pear", 1, "fruit:1");
    object["spec"]["minReadySeconds"] = json!(1);
    stage.create::<ReplicaSet>(object).await;
    eventually(&stage.api(), "pear", is_at(1)).await;
    let mut slow = set("plum", 1, "fruit:1");
    slow["spec"]["minReadySeconds"] = json!(3600);
    stage.create::<ReplicaSet>(slow).await;
    let ready = |set: Option<&ReplicaSet>| set.is_some_and(|set| status(set)["readyReplicas"] == 1);
    let found = eventually(&stage.api(), "plum", ready).await.expect("a set");
    assert_eq!(status(&found)["availableReplicas"], Value::Null);
    Ok(())
}

#[tokio::test]
async fn the_pods_that_users_would_not_miss_go_first() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    stage.create::<ReplicaSet>(set("pear", 3, "fruit:1")).await;
    eventually(&stage.api(), "pear", is_at(3)).await;
    let names: Vec<String> = stage.pods("app=pear").await.into_keys().collect();
    let cost = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}});
    for name in &names[1..] {
        stage.change::<Pod>(name, cost.clone()).await;
    }
    stage.change::<ReplicaSet>("pear", json!({"spec": {"replicas": 1}})).await;
    let left = stage.pods_until("app=pear", |pods| pods.len() == 1).await;
    assert_eq!(left[0].name_any(), names[0]);
    Ok(())
}

#[tokio::test]
async fn a_set_that_cannot_have_its_pods_says_so_until_it_can() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let refuse = Fault::answer(403).to("create", "/pods").always();
    stage.cluster.inject(refuse);
    stage.create::<ReplicaSet>(set("pear", 2, "fruit:1")).await;
    let failing = |set: Option<&ReplicaSet>| {
        set.is_some_and(|set| {
            status(set)["conditions"][0]["type"] == "ReplicaFailure"
                && status(set)["conditions"][0]["reason"] == "FailedCreate"
        })
    };
    eventually(&stage.api(), "pear", failing).await;
    assert!(stage.told("pear").await.iter().any(|told| told.starts_with("Warning FailedCreate Error creating: ")));
    stage.cluster.heal();
    let found = eventually(&stage.api(), "pear", is_at(2)).await.expect("a set");
    assert_eq!(status(&found)["conditions"], Value::Null);
    Ok(())
}

/// Conformance: "ReplicationController should test the lifecycle of a ReplicationController" and "should adopt matching
/// pods on creation".
#[tokio::test]
async fn a_replication_controller_does_the_same() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    stage
        .create::<Pod>(json!({"metadata": {"name": "orphan", "labels": {"app": "fig"}},
            "spec": {"containers": [{"name": "c", "image": "fruit:1"}]}}))
        .await;
    stage
        .create::<ReplicationController>(json!({"metadata": {"name": "fig"}, "spec": {
            "replicas": 2, "selector": {"app": "fig"}, "template": {"metadata": {"labels": {"app": "fig"}},
            "spec": {"containers": [{"name": "c", "image": "fruit:1"}]}}}}))
        .await;
    let controllers = stage.api::<ReplicationController>();
    let is_at = |replicas: i32| {
        move |found: Option<&ReplicationController>| {
            found
                .and_then(|found| found.status.as_ref())
                .is_some_and(|status| status.replicas == replicas && status.available_replicas.unwrap_or(0) == replicas)
        }
    };
    eventually(&controllers, "fig", is_at(2)).await;
    assert_eq!(stage.pods("app=fig").await.values().filter_map(owner).collect::<Vec<_>>(), ["fig", "fig"]);
    let scale = Patch::Merge(json!({"spec": {"replicas": 1}}));
    controllers.patch_scale("fig", &PatchParams::default(), &scale).await?;
    eventually(&controllers, "fig", is_at(1)).await;
    controllers.delete("fig", &DeleteParams::background()).await?;
    stage.pods_until("app=fig", <[Pod]>::is_empty).await;
    Ok(())
}

#[tokio::test]
async fn pods_that_are_not_ready_are_ended_before_those_that_are() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    stage.create::<ReplicaSet>(set("pear", 1, "fruit:1")).await;
    eventually(&stage.api(), "pear", is_at(1)).await;
    let good: Vec<String> = stage.pods("app=pear").await.into_keys().collect();
    let image =
        json!({"spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "c", "image": UNREADY}]}}}});
    stage.change::<ReplicaSet>("pear", image).await;
    stage.pods_until("app=pear", |pods| pods.len() == 3).await;
    stage.change::<ReplicaSet>("pear", json!({"spec": {"replicas": 1}})).await;
    let left = stage.pods_until("app=pear", |pods| pods.len() == 1).await;
    assert_eq!(left[0].name_any(), good[0]);
    Ok(())
}
