//! Novas on a whole API server: schemas, field owners, garbage collection and all.

use c5c3_api::openstack::Nova;
use c5c3_operator_nova::{Compute, operator};
use c5c3_stage::{Stage, ready_is};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;

use crate::plans::{nova, world};

const ONE: &str = r#"{"cells": {"cell1": {"hosts": ["hawk"], "servers": 0}},
    "services": {"nova-conductor gate-conductor-cell1-0": true}}"#;
const BOTH: &str = r#"{"cells": {"cell1": {"hosts": ["hawk"], "servers": 0}, "cell2": {"hosts": [], "servers": 0}},
    "services": {"nova-conductor gate-conductor-cell1-0": true, "nova-conductor gate-conductor-cell2-0": true}}"#;

async fn stage() -> Stage<Compute> {
    let stage = Stage::set(operator, &world()).await;
    stage.report.is(ONE);
    stage
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nova_becomes_ready_and_says_where_it_answers_and_how_its_cells_are() {
    let stage = stage().await;
    let _running = stage.operate();
    stage.create(&nova(&json!({}))).await;
    let ready = stage.until_ready().await;
    let status = ready.status.unwrap().service;
    assert_eq!(status.endpoint.as_deref(), Some("http://gate.cloud.svc.cluster.local:8774"));
    let counts = |object: Option<&Nova>| {
        let cells = object.and_then(|object| object.status.as_ref()).map(|status| status.cells.as_slice());
        cells.is_some_and(|all| all.first().is_some_and(|one| one.compute_nodes == Some(1)))
    };
    stage.until(counts).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_is_removed_takes_its_pods_with_it_when_nova_has_forgotten_it() {
    let stage = stage().await;
    stage.report.is(BOTH);
    let running = stage.operate();
    stage.create(&nova(&json!({"cells": [{"name": "cell1"}, {"name": "cell2"}]}))).await;
    stage.until_ready().await;
    let knows = |object: Option<&Nova>| {
        let cells = object.and_then(|object| object.status.as_ref()).map(|status| status.cells.as_slice());
        cells.is_some_and(|all| all.iter().filter(|one| one.compute_nodes.is_some()).count() == 2)
    };
    stage.until(knows).await;
    let alone = json!({"spec": {"cells": [{"name": "cell1"}]}});
    stage.objects().patch("gate", &PatchParams::default(), &Patch::Merge(alone)).await.unwrap();
    let is_leaving = |object: Option<&Nova>| {
        let cells = object.and_then(|object| object.status.as_ref()).map(|status| status.cells.as_slice());
        let removing = |said: &Option<String>| said.as_ref().is_some_and(|said| said.starts_with("Removing"));
        cells.is_some_and(|all| all.iter().any(|one| one.name == "cell2" && removing(&one.status)))
    };
    stage.until(is_leaving).await;
    stage.report.is(ONE);
    let sets: Api<StatefulSet> = Api::namespaced(stage.client.clone(), "cloud");
    let begun = std::time::Instant::now();
    loop {
        let found = sets.list(&ListParams::default().labels("app.kubernetes.io/instance=gate")).await.unwrap();
        let names: Vec<String> = found.into_iter().filter_map(|set| set.metadata.name).collect();
        if names == ["gate-conductor", "gate-conductor-cell1", "gate-scheduler"] {
            break;
        }
        assert!(begun.elapsed() < c5c3_stage::PATIENCE, "{names:?}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    stage.until_ready().await;
    drop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_spec_is_refused_with_the_field_and_nothing_is_made() {
    let stage = stage().await;
    let _running = stage.operate();
    stage.create(&nova(&json!({"extraConfig": {"DEFAULT": {"state_path": "/elsewhere"}}}))).await;
    let refused = stage.until(ready_is("False", "InvalidSpec")).await;
    let message = refused.status.unwrap().service.conditions.remove(0).message.unwrap();
    assert!(message.contains("spec.extraConfig.DEFAULT.state_path"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_ends_the_same_when_its_operators_are_killed_after_each_change() {
    stage().await.survives_an_installation(&stage().await, &nova(&json!({}))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_with_the_rights_that_it_says_it_needs_is_refused_nothing() {
    assert_eq!(stage().await.refused_with_own_rights(&nova(&json!({}))).await, Vec::<String>::new());
}
