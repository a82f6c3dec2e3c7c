//! What is told when the remote fails, and that nothing is done twice.

use c5c3_kit::remote::Class;
use serde_json::{Value, json};

use crate::house::{House, waits};
use crate::inn::Fault;

fn wait(status: &Value, reason: &str) -> Value {
    let all = waits(&json!({ "status": status }));
    all.into_iter().find(|wait| wait["reason"] == reason).unwrap_or_default()
}

#[tokio::test]
async fn a_remote_that_is_unreachable_is_a_visible_wait_until_it_answers() {
    let Some(house) = House::open().await else { return };
    house.inn.strike("ask", Fault::Fails(Class::Unreachable));
    house.arrive("ada", json!({"floor": 2})).await;
    let status = house.until_waits("ada", "RemoteUnreachable").await;
    let wait = wait(&status, "RemoteUnreachable");
    assert_eq!((&wait["object"], &wait["condition"]), (&json!("remote/inn"), &json!("answers: the room of ada")));
    assert_eq!((&wait["because"], &wait["failed"]), (&json!("the inn is closed"), &Value::Null));
    assert_eq!(house.inn.count("create"), 0, "nothing is called while it is not known what is there");
    house.inn.heal();
    house.until_ready("ada").await;
    assert!(house.metrics.text().contains(r#"c5c3_remote_questions_total{controller="guest",result="Closed"}"#));
}

#[tokio::test]
async fn a_failure_that_a_plan_ignores_is_told_all_the_same() {
    let Some(house) = House::open().await else { return };
    house.inn.strike("ask", Fault::Fails(Class::Unauthorized));
    house.arrive("ada", json!({"floor": 2, "careless": true})).await;
    let status = house.until_waits("ada", "RemoteUnauthorized").await;
    assert_eq!(wait(&status, "RemoteUnauthorized")["failed"], true);
    house.inn.heal();
    house.until_ready("ada").await;
}

#[tokio::test]
async fn a_remote_that_does_not_answer_in_time_holds_up_no_other_object() {
    let Some(house) = House::open().await else { return };
    house.inn.strike("ask", Fault::Hangs);
    house.arrive("ada", json!({"floor": 2})).await;
    let status = house.until_waits("ada", "RemoteUnreachable").await;
    let text = wait(&status, "RemoteUnreachable")["because"].clone();
    assert_eq!(text, "the room of ada: no answer within 0.3 s");
    house.inn.heal();
    house.until_ready("ada").await;
}

#[tokio::test]
async fn a_create_whose_answer_was_lost_is_found_and_not_repeated() {
    let Some(house) = House::open().await else { return };
    house.inn.strike("create", Fault::LosesAnswer);
    house.arrive("ada", json!({"floor": 2})).await;
    house.until_ready("ada").await;
    assert_eq!((house.inn.rooms().len(), house.inn.count("create")), (1, 1));
    assert!(house.event("RemoteCreateFailed").await.contains("no answer within 0.3 s"));
}

#[tokio::test]
async fn an_operator_that_is_killed_between_a_call_and_the_status_creates_nothing_twice() {
    let Some(mut house) = House::open().await else { return };
    house.inn.strike("create", Fault::LosesAnswer);
    house.arrive("ada", json!({"floor": 2})).await;
    house.inn.changed.notified().await;
    house.kill().await;
    assert_eq!(house.guests().get("ada").await.unwrap().data["status"]["room"], Value::Null);
    house.restart();
    house.until_ready("ada").await;
    assert_eq!((house.inn.rooms().len(), house.inn.count("create")), (1, 1));
}

#[tokio::test]
async fn a_terminal_failure_is_told_and_waits_for_a_change() {
    let Some(house) = House::open().await else { return };
    house.inn.strike("create", Fault::Fails(Class::Terminal));
    house.arrive("ada", json!({"floor": 2})).await;
    let status = house.until_waits("ada", "RemoteTerminal").await;
    assert_eq!(wait(&status, "RemoteTerminal")["failed"], true);
    assert!(house.event("RemoteCreateFailed").await.ends_with("the inn is closed"));
    house.inn.heal();
    // Another guest goes through all of its reconciles meanwhile.
    house.arrive("bob", json!({"floor": 1})).await;
    house.until_ready("bob").await;
    assert_eq!(house.inn.count("create book a room for ada"), 1);
    house.patch("ada", json!({"spec": {"floor": 3}})).await;
    house.until_ready("ada").await;
    let metrics = house.metrics.text();
    assert!(metrics.contains(r#"verb="create",result="Closed"} 1"#), "{metrics}");
}

#[tokio::test]
async fn a_call_without_effect_is_told_as_such() {
    let Some(house) = House::open().await else { return };
    house.inn.strike("create", Fault::Pretends);
    house.arrive("ada", json!({"floor": 2})).await;
    let status = house.until_waits("ada", "CallWithoutEffect").await;
    assert_eq!(wait(&status, "CallWithoutEffect")["failed"], true);
    house.inn.heal();
    house.until_ready("ada").await;
}
