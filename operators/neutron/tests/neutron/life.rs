//! Neutrons on a whole API server: schemas, field owners, garbage collection and all.

use c5c3_api::blocks::ConditionStatus;
use c5c3_api::openstack::Neutron;
use c5c3_kit::condition::find;
use c5c3_operator_neutron::{Networking, operator};
use c5c3_stage::{Stage, ready_is};
use serde_json::json;

use crate::plans::{neutron, world};

const FINE: &str = r#"{"northbound": "Connected", "southbound": "Connected", "unmapped": []}"#;
const GONE: &str = r#"{"northbound": "Unreachable: it does not answer", "southbound": "Connected", "unmapped": []}"#;

async fn stage() -> Stage<Networking> {
    let stage = Stage::set(operator, &world()).await;
    stage.report.is(FINE);
    stage
}

fn connected(status: ConditionStatus, reason: &'static str) -> impl Fn(Option<&Neutron>) -> bool {
    move |object| {
        let status_of = object.and_then(|object| object.status.as_ref());
        let found = status_of.and_then(|all| find(&all.service.conditions, "OVNConnected"));
        found.is_some_and(|found| found.status == status && found.reason.as_deref() == Some(reason))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_neutron_becomes_ready_and_says_where_it_answers() {
    let stage = stage().await;
    let _running = stage.operate();
    stage.create(&neutron(&json!({"metadataAgent": {}}))).await;
    let ready = stage.until_ready().await;
    let status = ready.status.unwrap().service;
    assert_eq!(status.endpoint.as_deref(), Some("http://gate.cloud.svc.cluster.local:9696"));
    for condition in ["OVNConnected", "MetadataAgentReady", "MessagingReady", "KeystoneAuthReady"] {
        assert_eq!(find(&status.conditions, condition).unwrap().status, ConditionStatus::True, "{condition}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ovn_that_is_gone_is_said_so_until_it_is_back() {
    let stage = stage().await;
    stage.report.is(GONE);
    let _running = stage.operate();
    stage.create(&neutron(&json!({}))).await;
    stage.until(connected(ConditionStatus::False, "Unreachable")).await;
    stage.report.is(FINE);
    stage.until(connected(ConditionStatus::True, "Connected")).await;
    stage.until_ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_spec_is_refused_with_the_field_and_nothing_is_made() {
    let stage = stage().await;
    let _running = stage.operate();
    stage.create(&neutron(&json!({"extraConfig": {"ml2": {"type_drivers": "vxlan"}}}))).await;
    let refused = stage.until(ready_is("False", "InvalidSpec")).await;
    let message = refused.status.unwrap().service.conditions.remove(0).message.unwrap();
    assert!(message.contains("spec.extraConfig.ml2.type_drivers"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_ends_the_same_when_its_operators_are_killed_after_each_change() {
    stage().await.survives_an_installation(&stage().await, &neutron(&json!({"metadataAgent": {}}))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_with_the_rights_that_it_says_it_needs_is_refused_nothing() {
    assert_eq!(
        stage().await.refused_with_own_rights(&neutron(&json!({"metadataAgent": {}}))).await,
        Vec::<String>::new()
    );
}
