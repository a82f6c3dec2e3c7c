//! What happens at the remote before an object goes.

use c5c3_kit::remote::Class;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams};
use kube::runtime::wait::await_condition;
use serde_json::json;

use crate::house::{House, condition};
use crate::inn::Fault;

#[tokio::test]
async fn a_deletion_calls_the_remote_and_goes_when_it_has_confirmed() {
    let Some(house) = House::open().await else { return };
    house.arrive("ada", json!({"floor": 2})).await;
    house.until_ready("ada").await;
    house.inn.strike("delete", Fault::LosesAnswer);
    house.guests().delete("ada", &DeleteParams::default()).await.unwrap();
    house.until("ada", "it is gone", |guest| guest.is_none()).await;
    assert_eq!((house.inn.rooms().len(), house.inn.count("delete")), (0, 1));
}

#[tokio::test]
async fn a_deletion_that_the_remote_refuses_is_visible_and_goes_on_when_it_can() {
    let Some(house) = House::open().await else { return };
    house.arrive("ada", json!({"floor": 2})).await;
    house.until_ready("ada").await;
    house.inn.strike("delete", Fault::Fails(Class::Refused));
    house.guests().delete("ada", &DeleteParams::default()).await.unwrap();
    let status = house.until_waits("ada", "RemoteRefused").await;
    let ready = condition(&json!({ "status": status }), "Ready");
    assert_eq!(ready["reason"], "Deleting");
    let message = ready["message"].as_str().unwrap();
    assert_eq!(
        message,
        "remote/inn does not carry out \"give up room 1\": the inn is closed; the guest leaves; \
         to leave it behind: annotate the object with c5c3.io/skip-cleanup=true"
    );
    house.inn.heal();
    house.until("ada", "it is gone", |guest| guest.is_none()).await;
    assert!(house.inn.rooms().is_empty());
}

#[tokio::test]
async fn a_deletion_that_is_skipped_says_what_it_leaves() {
    let Some(house) = House::open().await else { return };
    house.arrive("ada", json!({"floor": 2})).await;
    house.until_ready("ada").await;
    house.inn.strike("ask", Fault::Fails(Class::Unreachable));
    house.guests().delete("ada", &DeleteParams::default()).await.unwrap();
    house.until_waits("ada", "RemoteUnreachable").await;
    house.patch("ada", json!({"metadata": {"annotations": {"c5c3.io/skip-cleanup": "true"}}})).await;
    house.until("ada", "it is gone", |guest| guest.is_none()).await;
    let note = house.event("CleanupAbandoned").await;
    assert_eq!(note, "left behind at the remote, delete by hand: the room of ada");
    assert_eq!(house.inn.rooms().len(), 1);
}

#[tokio::test]
async fn an_operator_that_is_killed_during_a_farewell_finishes_it_later() {
    let Some(mut house) = House::open().await else { return };
    house.arrive("ada", json!({"floor": 2})).await;
    house.until_ready("ada").await;
    house.inn.changed.notified().await;
    house.inn.strike("delete", Fault::LosesAnswer);
    house.guests().delete("ada", &DeleteParams::default()).await.unwrap();
    house.inn.changed.notified().await;
    house.kill().await;
    assert!(house.guests().get_opt("ada").await.unwrap().is_some(), "the finalizer holds it");
    house.restart();
    house.until("ada", "it is gone", |guest| guest.is_none()).await;
    assert_eq!(house.inn.count("delete"), 1);
}

#[tokio::test]
async fn what_is_guarded_goes_with_the_last_object_that_refers_to_it() {
    let Some(house) = House::open().await else { return };
    for name in ["ada", "bob"] {
        house.arrive(name, json!({"floor": 2, "guards": true})).await;
        house.until_ready(name).await;
    }
    let secrets: Api<Secret> = Api::default_namespaced(house.cluster.client());
    secrets.delete("key", &DeleteParams::default()).await.unwrap();
    let held = secrets.get("key").await.unwrap().metadata;
    assert_eq!(held.finalizers, Some(vec!["inn.example.org/guest".to_owned()]));
    house.guests().delete("ada", &DeleteParams::default()).await.unwrap();
    house.until("ada", "it is gone", |guest| guest.is_none()).await;
    assert!(secrets.get_opt("key").await.unwrap().is_some(), "bob needs it");
    house.guests().delete("bob", &DeleteParams::default()).await.unwrap();
    house.until("bob", "it is gone", |guest| guest.is_none()).await;
    await_condition(secrets, "key", |secret: Option<&Secret>| secret.is_none()).await.unwrap();
}

#[tokio::test]
async fn objects_that_go_together_leave_no_guard_behind() {
    let Some(house) = House::open().await else { return };
    let names: Vec<String> = (0..8).map(|number| format!("guest-{number}")).collect();
    for name in &names {
        house.arrive(name, json!({"floor": 2, "guards": true})).await;
    }
    for name in &names {
        house.until_ready(name).await;
        house.guests().delete(name, &DeleteParams::default()).await.unwrap();
    }
    for name in &names {
        house.until(name, "it is gone", |guest| guest.is_none()).await;
    }
    let secrets: Api<Secret> = Api::default_namespaced(house.cluster.client());
    let is_free = |secret: Option<&Secret>| secret.is_some_and(|secret| secret.metadata.finalizers.is_none());
    await_condition(secrets, "key", is_free).await.unwrap();
}
