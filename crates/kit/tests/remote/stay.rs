//! What is asked and called while nothing is wrong.

use std::sync::Arc;

use c5c3_kit::{Controller, Inputs, Verdict};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::house::{Guest, GuestSpec, Guests, House, condition};
use crate::inn::{Fault, Inn, RoomOf};

#[tokio::test]
async fn a_question_is_answered_a_call_is_made_and_its_effect_is_asked_for() {
    let Some(house) = House::open().await else { return };
    house.arrive("ada", json!({"floor": 2})).await;
    house.until_ready("ada").await;
    assert_eq!(house.inn.rooms().len(), 1);
    assert!(house.inn.count("ask") >= 2 && house.inn.count("create") == 1);
    assert_eq!(house.event("RemoteCreated").await, "book a room for ada on floor 2 with a key: the guest has no room");
    let metrics = house.metrics.text();
    assert!(
        metrics.contains(r#"c5c3_remote_calls_total{controller="guest",verb="create",result="ok"} 1"#),
        "{metrics}"
    );
    assert!(metrics.contains(r#"c5c3_remote_questions_total{controller="guest",result="ok"}"#), "{metrics}");
}

#[tokio::test]
async fn a_call_waits_for_the_children_of_its_step() {
    let Some(house) = House::open().await else { return };
    house.arrive("ada", json!({"floor": 2, "luggage": true})).await;
    house.until_waits("ada", "WaitingForDeployment").await;
    assert_eq!(house.inn.count("create"), 0);
    let deployments: Api<Deployment> = Api::default_namespaced(house.cluster.client());
    let status = json!({"status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1,
        "readyReplicas": 1}});
    deployments.patch_status("ada", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    house.until_ready("ada").await;
    assert_eq!(house.inn.count("create"), 1);
}

#[tokio::test]
async fn drift_is_put_back_by_the_resync_and_the_event_names_the_field() {
    let Some(house) = House::open().await else { return };
    house.arrive("ada", json!({"floor": 2, "resync": 20})).await;
    house.until_ready("ada").await;
    house.inn.relocate(7);
    assert_eq!(house.event("RemoteUpdated").await, "move room 1 to floor 2: floor is 7 and should be 2");
    assert_eq!(house.inn.rooms()[0].floor, 2);
}

#[tokio::test]
async fn a_paused_guest_is_asked_about_and_nothing_is_called() {
    let Some(house) = House::open().await else { return };
    house.inn.strike("ask", Fault::Hangs);
    house.arrive("ada", json!({"floor": 2})).await;
    house.patch("ada", json!({"metadata": {"annotations": {"c5c3.io/paused": "true"}}})).await;
    house.inn.heal();
    let status = house.until_waits("ada", "CallPending").await;
    assert_eq!(house.inn.count("create"), 0);
    assert_eq!(condition(&json!({ "status": status }), "Paused")["status"], "True");
    house.patch("ada", json!({"metadata": {"annotations": {"c5c3.io/paused": null}}})).await;
    house.until_ready("ada").await;
    assert_eq!(house.inn.count("create"), 1);
}

#[tokio::test]
async fn a_secret_reaches_the_remote_and_is_shown_nowhere() {
    let Some(house) = House::open().await else { return };
    house.inn.strike("create", Fault::Hangs);
    house.arrive("ada", json!({"floor": 2})).await;
    house.until_waits("ada", "RemoteUnreachable").await;
    house.inn.heal();
    house.until_ready("ada").await;
    assert_eq!(house.inn.rooms()[0].key, "opensesame");
    let text = house.all_text().await;
    assert!(text.contains("with a key") && !text.contains("opensesame"), "{text}");
}

#[test]
fn a_plan_prints_its_calls_with_their_reasons_and_no_secret() {
    let guests = Guests { inn: Arc::default() };
    let spec = GuestSpec { floor: 3, luggage: false, careless: false, guards: false, resync: None };
    let mut inputs = Inputs::new(Guest::new("ada", spec), Timestamp::UNIX_EPOCH);
    inputs.object.metadata.namespace = Some("town".into());
    let Verdict::Wait(_) = guests.validate(&inputs) else { panic!("there is no key") };
    assert!(guests.plan(&"opensesame".into(), &inputs).golden().contains("not asked yet"));
    inputs.insert_reply::<Inn>(RoomOf("ada".into()), Ok(None));
    let plan = guests.plan(&"opensesame".into(), &inputs);
    assert_eq!(plan.golden(), "== RoomReady\n-> book a room for ada on floor 3 with a key: the guest has no room\n");
    assert!(!format!("{plan:?}").contains("opensesame"));
}
