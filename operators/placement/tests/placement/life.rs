//! Placements on a whole API server: schemas, field owners, garbage collection and all.

use c5c3_operator_placement::{Inventory, operator};
use c5c3_stage::{Stage, ready_is};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::plans::{placement, world};

async fn stage() -> Stage<Inventory> {
    Stage::set(operator, &world()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_placement_becomes_ready_and_says_where_it_answers_and_what_runs() {
    let stage = stage().await;
    let _running = stage.operate();
    stage.create(&placement(&json!({}))).await;
    let ready = stage.until_ready().await;
    let status = ready.status.unwrap().service;
    assert_eq!(status.endpoint.as_deref(), Some("http://gate.cloud.svc.cluster.local:8778"));
    stage
        .until(|object: Option<&c5c3_api::openstack::Placement>| {
            let status = object.and_then(|object| object.status.as_ref());
            status.is_some_and(|status| status.service.installed_release.as_deref() == Some("14.0.0"))
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_spec_is_refused_with_the_field_and_nothing_is_made() {
    let stage = stage().await;
    let _running = stage.operate();
    stage.create(&placement(&json!({"extraConfig": {"api": {"auth_strategy": "noauth2"}}}))).await;
    let refused = stage.until(ready_is("False", "InvalidSpec")).await;
    let message = refused.status.unwrap().service.conditions.remove(0).message.unwrap();
    assert!(message.contains("spec.extraConfig.api.auth_strategy"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_ends_the_same_when_its_operators_are_killed_after_each_change() {
    stage().await.survives_an_installation(&stage().await, &placement(&json!({}))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_with_the_rights_that_it_says_it_needs_is_refused_nothing() {
    assert_eq!(stage().await.refused_with_own_rights(&placement(&json!({}))).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_placement_says_which_credential_its_pods_run_with_and_whether_keystone_accepts_it() {
    let runs_with = |id: &'static str, verified: bool| {
        move |object: Option<&c5c3_api::openstack::Placement>| {
            let status = object.and_then(|object| object.status.as_ref());
            let identity = status.and_then(|status| status.service.identity.as_ref());
            identity.is_some_and(|found| found.credential_id == id && found.verified == verified)
        }
    };
    let stage = stage().await;
    let _running = stage.operate();
    stage.create(&placement(&json!({}))).await;
    stage.until(runs_with("a1b2", true)).await;
    stage.jobs.never_finish(Some("gate-auth"));
    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), "cloud");
    let rotated =
        json!({"stringData": {"application_credential_id": "c3d4", "application_credential_secret": "$econd"}});
    secrets.patch("placement-keystone-credentials", &PatchParams::default(), &Patch::Merge(rotated)).await.unwrap();
    stage.until(runs_with("c3d4", false)).await;
    stage.jobs.never_finish(None);
    stage.until(runs_with("c3d4", true)).await;
    let placements: Api<c5c3_api::openstack::Placement> = Api::namespaced(stage.client.clone(), "cloud");
    let off = json!({"spec": {"replicas": 0}});
    placements.patch("gate", &PatchParams::default(), &Patch::Merge(off)).await.unwrap();
    let rotated =
        json!({"stringData": {"application_credential_id": "e5f6", "application_credential_secret": "t$ird"}});
    secrets.patch("placement-keystone-credentials", &PatchParams::default(), &Patch::Merge(rotated)).await.unwrap();
    stage.until(runs_with("e5f6", true)).await;
}
