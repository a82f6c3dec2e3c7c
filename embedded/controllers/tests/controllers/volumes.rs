//! Claims and volumes.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::fixtures::{Stage, Tested, eventually, is_ready, of};

fn claim(name: &str, class: &str, size: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
           "resources": {"requests": {"storage": size}}}})
}

fn has(phase: &'static str, size: &'static str) -> impl Fn(Option<&PersistentVolumeClaim>) -> bool {
    move |claim| {
        claim.and_then(|claim| claim.status.as_ref()).is_some_and(|status| {
            let given =
                status.capacity.as_ref().and_then(|all| all.get("storage")).map_or("", |amount| amount.0.as_str());
            status.phase.as_deref() == Some(phase) && given == size
        })
    }
}

fn in_phase(phase: &'static str) -> impl Fn(Option<&PersistentVolume>) -> bool {
    move |volume| volume.and_then(|volume| volume.status.as_ref()?.phase.as_deref()) == Some(phase)
}

#[tokio::test]
async fn a_claim_waits_for_its_pod_is_given_a_folder_grows_and_is_taken_back() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let (claims, volumes) = (stage.api::<PersistentVolumeClaim>(), Api::<PersistentVolume>::all(stage.client.clone()));
    let classes = Api::<StorageClass>::all(stage.client.clone());
    eventually(&classes, "c5c3-local", |class: Option<&StorageClass>| class.is_some()).await;
    stage.create::<PersistentVolumeClaim>(claim("data", "c5c3-local", "1Gi")).await;
    stage.told_of("data", "Normal WaitForFirstConsumer waiting for first consumer to be created before binding").await;
    // What a scheduler says when it has found a node for the pod.
    stage
        .change::<PersistentVolumeClaim>(
            "data",
            json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}}),
        )
        .await;
    let bound = eventually(&claims, "data", has("Bound", "1Gi")).await.unwrap();
    let name = bound.spec.as_ref().unwrap().volume_name.clone().unwrap();
    stage.told_of("data", &format!("Normal ProvisioningSucceeded Successfully provisioned volume {name}")).await;
    let volume = eventually(&volumes, &name, in_phase("Bound")).await.unwrap();
    let path = volume.spec.as_ref().unwrap().host_path.clone().unwrap().path;
    std::fs::write(format!("{path}/kept"), "yes")?;

    stage
        .change::<PersistentVolumeClaim>("data", json!({"spec": {"resources": {"requests": {"storage": "3Gi"}}}}))
        .await;
    eventually(&claims, "data", has("Bound", "3Gi")).await;
    assert_eq!(volumes.get(&name).await?.spec.unwrap().capacity.unwrap()["storage"].0, "3Gi");

    // A pod that uses it keeps it.
    let mounted = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    stage.create::<Pod>(json!({"metadata": {"name": "user"}, "spec": {"containers": [{"name": "c", "image": "i:1"}], "volumes": mounted}})).await;
    eventually(&stage.api::<Pod>(), "user", |pod: Option<&Pod>| pod.is_some_and(is_ready)).await;
    claims.delete("data", &DeleteParams::default()).await?;
    assert!(claims.get("data").await?.metadata.deletion_timestamp.is_some());
    assert!(std::fs::exists(format!("{path}/kept"))?);
    stage.api::<Pod>().delete("user", &DeleteParams::default()).await?;
    eventually(&claims, "data", |claim: Option<&PersistentVolumeClaim>| claim.is_none()).await;
    eventually(&volumes, &name, |volume: Option<&PersistentVolume>| volume.is_none()).await;
    assert!(!std::fs::exists(path)?, "what was deleted is gone");
    Ok(())
}

#[tokio::test]
async fn a_volume_made_by_hand_is_bound_and_kept_when_its_claim_goes() -> Tested {
    let stage = Stage::set(&[]).await;
    let (claims, volumes) = (stage.api::<PersistentVolumeClaim>(), Api::<PersistentVolume>::all(stage.client.clone()));
    for (name, size) in [("small", "1Gi"), ("large", "5Gi")] {
        let volume: PersistentVolume = of(json!({"metadata": {"name": name}, "spec": {
            "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "hostPath": {"path": "/tmp/by-hand"}}}));
        volumes.create(&PostParams::default(), &volume).await?;
        eventually(&volumes, name, in_phase("Available")).await;
    }
    stage.create::<PersistentVolumeClaim>(claim("wide", "", "2Gi")).await;
    let bound = eventually(&claims, "wide", has("Bound", "5Gi")).await.unwrap();
    assert_eq!(bound.spec.unwrap().volume_name.as_deref(), Some("large"));
    assert!(bound.metadata.finalizers.unwrap().contains(&"kubernetes.io/pvc-protection".into()));
    eventually(&volumes, "large", in_phase("Bound")).await;
    stage.create::<PersistentVolumeClaim>(claim("wider", "", "2Gi")).await;
    stage
        .told_of(
            "wider",
            "Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
        )
        .await;

    // A volume that is bound does not go before its claim.
    volumes.delete("large", &DeleteParams::default()).await?;
    assert!(volumes.get("large").await?.metadata.deletion_timestamp.is_some());
    claims.delete("wide", &DeleteParams::default()).await?;
    eventually(&volumes, "large", |volume: Option<&PersistentVolume>| volume.is_none()).await;

    stage.create::<PersistentVolumeClaim>(claim("tight", "", "1Gi")).await;
    eventually(&claims, "tight", has("Bound", "1Gi")).await;
    claims.delete("tight", &DeleteParams::default()).await?;
    let released = eventually(&volumes, "small", in_phase("Released")).await.unwrap();
    assert_eq!(released.spec.unwrap().claim_ref.unwrap().name.as_deref(), Some("tight"));
    Ok(())
}

#[tokio::test]
async fn a_pod_brings_its_claim_along_and_takes_it_with_it() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let claims = stage.api::<PersistentVolumeClaim>();
    let template = json!({"spec": claim("x", "c5c3-local", "1Gi")["spec"]});
    let volumes = json!([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]);
    stage.create::<Pod>(json!({"metadata": {"name": "camper"}, "spec": {"containers": [{"name": "c", "image": "i:1"}], "volumes": volumes}})).await;
    let made =
        eventually(&claims, "camper-scratch", |claim: Option<&PersistentVolumeClaim>| claim.is_some()).await.unwrap();
    assert_eq!(made.metadata.owner_references.unwrap()[0].kind, "Pod");
    stage.api::<Pod>().delete("camper", &DeleteParams::default()).await?;
    eventually(&claims, "camper-scratch", |claim: Option<&PersistentVolumeClaim>| claim.is_none()).await;
    Ok(())
}
