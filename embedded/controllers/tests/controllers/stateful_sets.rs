//! StatefulSets.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::fixtures::{Stage, Tested, UNREADY, eventually, image, is_ready};

const REVISION: &str = "controller-revision-hash";

fn set(replicas: i32, image: &str, change: Value) -> Value {
    let mut spec = json!({"replicas": replicas, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}}});
    if let (Some(spec), Value::Object(change)) = (spec.as_object_mut(), change) {
        spec.extend(change);
    }
    json!({"metadata": {"name": "web"}, "spec": spec})
}

fn template(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}

fn status(set: &StatefulSet) -> Value {
    serde_json::to_value(&set.status).unwrap_or_default()
}

/// Whether a set has that many pods, ready, all of one revision.
fn is_settled(replicas: i32) -> impl Fn(Option<&StatefulSet>) -> bool {
    move |set| {
        set.and_then(|set| set.status.as_ref().map(|status| (set, status))).is_some_and(|(set, status)| {
            status.replicas == replicas
                && status.ready_replicas.unwrap_or(0) == replicas
                && status.updated_replicas.unwrap_or(0) == replicas
                && status.current_revision == status.update_revision
                && status.observed_generation == set.metadata.generation
        })
    }
}

fn names(pods: &[Pod]) -> Vec<String> {
    pods.iter().map(ResourceExt::name_any).collect()
}

fn stays(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none()
}

/// Conformance: "Scaling should happen in predictable order and halt if any stateful pod is unhealthy".
#[tokio::test]
async fn pods_come_and_go_in_order_and_wait_for_one_that_ails() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let api = stage.api::<StatefulSet>();
    stage.create::<StatefulSet>(set(3, UNREADY, json!({}))).await;
    stage
        .pods_until("app=web", |pods| {
            pods.iter().any(|pod| pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Running")))
        })
        .await;
    assert_eq!(names(&stage.pods("app=web").await.into_values().collect::<Vec<_>>()), ["web-0"], "the others wait");
    ready(&stage, "web-0", "True").await;
    stage.pods_until("app=web", |pods| pods.len() == 2).await;
    ready(&stage, "web-1", "True").await;
    stage.pods_until("app=web", |pods| pods.len() == 3).await;
    ready(&stage, "web-2", "True").await;
    eventually(&api, "web", is_settled(3)).await;
    // Shrinking waits for those that ail, and then goes from the last on.
    for name in ["web-0", "web-1", "web-2"] {
        ready(&stage, name, "False").await;
    }
    stage.change::<StatefulSet>("web", json!({"spec": {"replicas": 0}})).await;
    let seen = |set: Option<&StatefulSet>| {
        set.is_some_and(|set| status(set)["observedGeneration"] == 2 && status(set)["readyReplicas"] == Value::Null)
    };
    eventually(&api, "web", seen).await;
    assert_eq!(stage.pods("app=web").await.len(), 3);
    for name in ["web-2", "web-1"] {
        ready(&stage, name, "True").await;
    }
    let gone = stage.pods_until("app=web", |pods| {
        let left: BTreeSet<String> = pods.iter().filter(|pod| stays(pod)).map(ResourceExt::name_any).collect();
        let all = ["web-0", "web-1", "web-2"].map(str::to_owned);
        assert_eq!(left.iter().cloned().collect::<Vec<_>>(), all[..left.len()], "the last goes first");
        pods.is_empty()
    });
    gone.await;
    Ok(())
}

/// Says of a pod that it is ready, or not.
async fn ready(stage: &Stage, name: &str, status: &str) {
    let runs = |pod: Option<&Pod>| {
        pod.and_then(|pod| pod.status.as_ref()).is_some_and(|status| status.phase.as_deref() == Some("Running"))
    };
    let pods = stage.api::<Pod>();
    eventually(&pods, name, runs).await;
    let change = json!({"status": {"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": jiff::Timestamp::now().to_string()}]}});
    pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(change)).await.expect("a pod is patched");
}

/// Conformance: "Burst scaling should run to completion even with unhealthy pods".
#[tokio::test]
async fn a_parallel_set_waits_for_nobody() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    stage.create::<StatefulSet>(set(3, UNREADY, json!({"podManagementPolicy": "Parallel"}))).await;
    stage.pods_until("app=web", |pods| names(pods) == ["web-0", "web-1", "web-2"]).await;
    stage.change::<StatefulSet>("web", json!({"spec": {"replicas": 1}})).await;
    stage.pods_until("app=web", |pods| names(pods) == ["web-0"]).await;
    Ok(())
}

/// Conformance: "should perform rolling updates and roll backs of template modifications".
#[tokio::test]
async fn a_set_is_updated_from_the_last_pod_on_and_rolled_back() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let api = stage.api::<StatefulSet>();
    stage.create::<StatefulSet>(set(3, "web:1", json!({}))).await;
    let first = eventually(&api, "web", is_settled(3)).await.and_then(|set| set.status?.current_revision);
    let pods = stage.pods("app=web").await;
    for (place, (name, pod)) in pods.iter().enumerate() {
        let labels = pod.labels();
        assert_eq!(labels["statefulset.kubernetes.io/pod-name"], *name);
        assert_eq!(labels["apps.kubernetes.io/pod-index"], place.to_string());
        assert_eq!(labels.get(REVISION), first.as_ref());
        let spec = pod.spec.clone().expect("a spec");
        assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some(name.as_str()), Some("web")));
    }
    stage.change::<StatefulSet>("web", template("web:2")).await;
    let in_order = stage.pods_until("app=web", |pods| {
        let images: Vec<&str> = pods.iter().filter(|pod| stays(pod)).map(image).collect();
        assert!(images.is_sorted(), "the last is the first to be new: {images:?}");
        pods.len() == 3 && images == ["web:2"; 3] && pods.iter().all(is_ready)
    });
    in_order.await;
    let second = eventually(&api, "web", is_settled(3)).await.and_then(|set| set.status?.current_revision);
    assert_ne!(first, second);
    stage.change::<StatefulSet>("web", template("web:1")).await;
    stage
        .pods_until("app=web", |pods| pods.len() == 3 && pods.iter().all(|pod| image(pod) == "web:1" && is_ready(pod)))
        .await;
    let third = eventually(&api, "web", is_settled(3)).await.and_then(|set| set.status?.current_revision);
    assert_eq!(first, third, "a rollback is a return to the old revision");
    let mut revisions = stage.api::<ControllerRevision>().list(&ListParams::default()).await?.items;
    revisions.sort_by_key(|revision| revision.revision);
    let numbers: Vec<(i64, String)> = revisions.iter().map(|one| (one.revision, one.name_any())).collect();
    assert_eq!(numbers, [(2, second.expect("a revision")), (3, third.expect("a revision"))]);
    Ok(())
}

/// Conformance: "should perform canary updates and phased rolling updates of template modifications".
#[tokio::test]
async fn a_partition_holds_back_what_is_below_it() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let api = stage.api::<StatefulSet>();
    let at = |partition: i32| json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}});
    stage.create::<StatefulSet>(set(3, "web:1", at(3))).await;
    let first = eventually(&api, "web", is_settled(3)).await.and_then(|set| set.status?.current_revision);
    stage.change::<StatefulSet>("web", template("web:2")).await;
    let images = |pods: &[Pod]| pods.iter().map(|pod| image(pod).to_owned()).collect::<Vec<_>>().join(" ");
    let revised = |set: Option<&StatefulSet>| set.is_some_and(|set| status(set)["observedGeneration"] == 2);
    eventually(&api, "web", revised).await;
    assert_eq!(images(&stage.pods("app=web").await.into_values().collect::<Vec<_>>()), "web:1 web:1 web:1");
    stage.change::<StatefulSet>("web", json!({"spec": at(2)})).await;
    let all_ready = |wanted: &'static str| move |pods: &[Pod]| images(pods) == wanted && pods.iter().all(is_ready);
    stage.pods_until("app=web", all_ready("web:1 web:1 web:2")).await;
    for lost in ["web-0", "web-2"] {
        let before = stage.api::<Pod>().get(lost).await?.uid();
        stage.api::<Pod>().delete(lost, &DeleteParams::default()).await?;
        eventually(&stage.api::<Pod>(), lost, |pod: Option<&Pod>| {
            pod.is_some_and(|pod| pod.uid() != before && is_ready(pod))
        })
        .await;
    }
    let pods: Vec<Pod> = stage.pods("app=web").await.into_values().collect();
    assert_eq!(images(&pods), "web:1 web:1 web:2", "each comes back as it was");
    assert_eq!(pods[0].labels().get(REVISION), first.as_ref());
    let counted = |set: Option<&StatefulSet>| {
        set.is_some_and(|set| {
            (&status(set)["currentReplicas"], &status(set)["updatedReplicas"]) == (&json!(2), &json!(1))
        })
    };
    eventually(&api, "web", counted).await;
    stage.change::<StatefulSet>("web", json!({"spec": at(0)})).await;
    stage.pods_until("app=web", all_ready("web:2 web:2 web:2")).await;
    eventually(&api, "web", is_settled(3)).await;
    Ok(())
}

#[tokio::test]
async fn a_set_that_updates_on_delete_does_so_only_then() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let api = stage.api::<StatefulSet>();
    stage.create::<StatefulSet>(set(2, "web:1", json!({"updateStrategy": {"type": "OnDelete"}}))).await;
    stage.pods_until("app=web", |pods| pods.len() == 2 && pods.iter().all(is_ready)).await;
    stage.change::<StatefulSet>("web", template("web:2")).await;
    let revised = |set: Option<&StatefulSet>| set.is_some_and(|set| status(set)["observedGeneration"] == 2);
    eventually(&api, "web", revised).await;
    stage.api::<Pod>().delete("web-0", &DeleteParams::default()).await?;
    let mixed = |pods: &[Pod]| pods.iter().map(image).eq(["web:2", "web:1"]) && pods.iter().all(is_ready);
    stage.pods_until("app=web", mixed).await;
    Ok(())
}

/// Conformance: "Should recreate evicted statefulset".
#[tokio::test]
async fn a_pod_that_was_evicted_comes_back_under_its_name() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    stage.create::<StatefulSet>(set(1, "web:1", json!({}))).await;
    let pods = stage.api::<Pod>();
    let evicted = stage.pods_until("app=web", |pods| pods.iter().any(is_ready)).await.remove(0);
    let failed = Patch::Merge(json!({"status": {"phase": "Failed", "reason": "Evicted"}}));
    pods.patch_status("web-0", &PatchParams::default(), &failed).await?;
    eventually(&pods, "web-0", |pod: Option<&Pod>| pod.is_some_and(|pod| pod.uid() != evicted.uid() && is_ready(pod)))
        .await;
    let told = stage.told("web").await;
    for expected in [
        "Normal SuccessfulCreate create Pod web-0 in StatefulSet web successful",
        "Normal SuccessfulDelete delete Pod web-0 in StatefulSet web successful",
    ] {
        assert!(told.iter().any(|line| line == expected), "{told:?}");
    }
    Ok(())
}

/// Conformance: "should have a working scale subresource", "should validate Statefulset Status endpoints", "should list,
/// patch and delete a collection of StatefulSets".
#[tokio::test]
async fn a_set_is_scaled_patched_reported_on_and_deleted() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let api = stage.api::<StatefulSet>();
    stage.create::<StatefulSet>(set(1, "web:1", json!({}))).await;
    eventually(&api, "web", is_settled(1)).await;
    let mut scale = api.get_scale("web").await?;
    scale.spec.get_or_insert_default().replicas = Some(2);
    scale.metadata.resource_version = None;
    api.replace_scale("web", &PostParams::default(), &scale).await?;
    let mut found = eventually(&api, "web", is_settled(2)).await.expect("a set");
    let condition = json!({"type": "StatusUpdate", "status": "True", "reason": "E2E"});
    found.status.get_or_insert_default().conditions = Some(vec![serde_json::from_value(condition)?]);
    api.replace_status("web", &PostParams::default(), &found).await?;
    stage.change::<StatefulSet>("web", json!({"metadata": {"labels": {"test": "ss"}}, "spec": {"replicas": 1}})).await;
    let found = eventually(&api, "web", is_settled(1)).await.expect("a set");
    assert_eq!(status(&found)["conditions"][0]["type"], "StatusUpdate");
    api.delete_collection(&DeleteParams::default(), &ListParams::default().labels("test=ss")).await?;
    stage.pods_until("app=web", <[Pod]>::is_empty).await;
    assert!(api.list(&ListParams::default()).await?.items.is_empty());
    Ok(())
}

#[tokio::test]
async fn claims_are_made_kept_and_dropped_as_the_set_says() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let with_data = json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}}]});
    stage.create::<StatefulSet>(set(2, "web:1", with_data)).await;
    let api = stage.api::<StatefulSet>();
    eventually(&api, "web", is_settled(2)).await;
    let claims = stage.api::<PersistentVolumeClaim>();
    let mut names: Vec<String> =
        claims.list(&ListParams::default().labels("app=web")).await?.iter().map(ResourceExt::name_any).collect();
    names.sort();
    assert_eq!(names, ["data-web-0", "data-web-1"]);
    let pod = stage.api::<Pod>().get("web-1").await?;
    let volume = pod
        .spec
        .and_then(|spec| spec.volumes)
        .and_then(|volumes| volumes.into_iter().find(|volume| volume.name == "data"));
    assert_eq!(
        volume.and_then(|volume| volume.persistent_volume_claim).map(|claim| claim.claim_name).as_deref(),
        Some("data-web-1")
    );
    let before = claims.get("data-web-1").await?.uid();
    stage.change::<StatefulSet>("web", json!({"spec": {"replicas": 1}})).await;
    eventually(&api, "web", is_settled(1)).await;
    stage.change::<StatefulSet>("web", json!({"spec": {"replicas": 2}})).await;
    eventually(&api, "web", is_settled(2)).await;
    assert_eq!(claims.get("data-web-1").await?.uid(), before, "kept unless the set says otherwise");
    let policy =
        json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete", "whenDeleted": "Delete"}}});
    stage.change::<StatefulSet>("web", policy).await;
    let owned = |kind: &'static str| {
        move |claim: Option<&PersistentVolumeClaim>| {
            claim.is_some_and(|claim| claim.owner_references().iter().any(|owner| owner.kind == kind))
        }
    };
    eventually(&claims, "data-web-1", owned("StatefulSet")).await;
    stage.change::<StatefulSet>("web", json!({"spec": {"replicas": 1}})).await;
    eventually(&claims, "data-web-1", |claim: Option<&PersistentVolumeClaim>| {
        claim.is_none_or(|claim| claim.metadata.deletion_timestamp.is_some())
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn places_may_start_anywhere() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    stage.create::<StatefulSet>(set(2, "web:1", json!({"ordinals": {"start": 5}}))).await;
    eventually(&stage.api::<StatefulSet>(), "web", is_settled(2)).await;
    assert_eq!(stage.pods("app=web").await.into_keys().collect::<Vec<_>>(), ["web-5", "web-6"]);
    Ok(())
}

#[tokio::test]
async fn history_is_kept_as_far_as_it_is_asked_for() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let api = stage.api::<StatefulSet>();
    stage.create::<StatefulSet>(set(1, "web:1", json!({"revisionHistoryLimit": 1}))).await;
    for version in 2..=4 {
        eventually(&api, "web", is_settled(1)).await;
        stage.change::<StatefulSet>("web", template(&format!("web:{version}"))).await;
    }
    eventually(&api, "web", is_settled(1)).await;
    let revisions = stage.api::<ControllerRevision>();
    let waited = async {
        while revisions.list(&ListParams::default()).await.is_ok_and(|list| list.items.len() > 2) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(crate::fixtures::PATIENCE, waited).await?;
    let numbers: BTreeSet<i64> = revisions.list(&ListParams::default()).await?.iter().map(|one| one.revision).collect();
    assert_eq!(numbers, [3, 4].into());
    Ok(())
}
