//! Glances on a whole API server: schemas, field owners, garbage collection and all.

use c5c3_operator_glance::{Images, operator};
use c5c3_stage::{Stage, ready_is};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{Api, DeleteParams};
use kube::runtime::wait::await_condition;
use serde_json::json;

use crate::plans::{glance, world};

async fn stage() -> Stage<Images> {
    Stage::set(operator, &world()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_glance_becomes_ready_and_says_where_it_answers_and_what_runs() {
    let stage = stage().await;
    let _running = stage.operate();
    stage.create(&glance(&json!({}))).await;
    let ready = stage.until_ready().await;
    let status = ready.status.unwrap().service;
    assert_eq!(status.endpoint.as_deref(), Some("http://gate.cloud.svc.cluster.local:9292"));
    stage
        .until(|object: Option<&c5c3_api::openstack::Glance>| {
            let status = object.and_then(|object| object.status.as_ref());
            status.is_some_and(|status| status.service.installed_release.as_deref() == Some("31.0.0"))
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_spec_is_refused_with_the_field_and_nothing_is_made() {
    let stage = stage().await;
    let _running = stage.operate();
    stage.create(&glance(&json!({"extraConfig": {"DEFAULT": {"enabled_backends": "x:file"}}}))).await;
    let refused = stage.until(ready_is("False", "InvalidSpec")).await;
    let message = refused.status.unwrap().service.conditions.remove(0).message.unwrap();
    assert!(message.contains("spec.extraConfig.DEFAULT.enabled_backends"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_ends_the_same_when_its_operators_are_killed_after_each_change() {
    stage().await.survives_an_installation(&stage().await, &glance(&json!({}))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_with_the_rights_that_it_says_it_needs_is_refused_nothing() {
    assert_eq!(stage().await.refused_with_own_rights(&glance(&json!({}))).await, Vec::<String>::new());
}

/// Whether the volume with images is there after its Glance was deleted.
async fn outlives(policy: &str) -> bool {
    let stage = stage().await;
    let _running = stage.operate();
    let spec = json!({"replicas": 1, "storage": {"backend": "file"}, "deletionPolicy": policy});
    stage.create(&glance(&spec)).await;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(stage.client.clone(), "cloud");
    await_condition(claims.clone(), "gate-images", |claim: Option<&PersistentVolumeClaim>| claim.is_some())
        .await
        .unwrap();
    let glances: Api<c5c3_api::openstack::Glance> = Api::namespaced(stage.client.clone(), "cloud");
    glances.delete("gate", &DeleteParams::default()).await.unwrap();
    await_condition(glances, "gate", |object: Option<&c5c3_api::openstack::Glance>| object.is_none()).await.unwrap();
    claims.get_opt("gate-images").await.unwrap().is_some_and(|claim| claim.metadata.owner_references.is_none())
}

#[tokio::test(flavor = "multi_thread")]
async fn images_on_a_volume_outlive_the_glance_unless_it_says_otherwise() {
    assert!(outlives("Retain").await);
    assert!(!outlives("Delete").await);
}
