//! What goes on while a spec is wrong or an object is paused, and what is told of it.

use c5c3_kit::testing::FakeApi;
use serde_json::{Value, json};

use crate::vat::{Brewery, deployment, is_ready, reason, scaler, service, vat, vat_key};

fn fed(api: &FakeApi) -> Vec<Value> {
    let mut events = api.all("events.k8s.io/v1", "Event");
    events.retain(|event| event["reason"] == "Fed");
    events
}

#[tokio::test]
async fn a_step_has_its_own_reasons_for_waiting_and_being_done() {
    let brewery = Brewery::start(FakeApi::default());
    brewery.api.put(&service());
    brewery.api.put(&vat(&[]));
    brewery.until("it is filled", |status| reason(status, "VatReady") == "Filling").await;
    brewery.roll_out(1);
    brewery.until("it brews", |status| reason(status, "VatReady") == "Brewing" && is_ready(status)).await;
}

#[tokio::test]
async fn an_event_of_a_plan_is_published_once_until_it_says_something_else() {
    let brewery = Brewery::ready(&["hay"]).await;
    brewery.reconcile("green").await;
    brewery.reconcile("red").await;
    let events = fed(&brewery.api);
    assert_eq!((events.len(), &events[0]["note"], events[0].get("series")), (1, &json!("1 feeds"), None));
    brewery.api.put(&vat(&["hay", "oats"]));
    brewery.api.wait_until("it is reported again", |api| fed(api).len() == 2).await;
}

#[tokio::test]
async fn what_must_go_on_goes_on_while_the_spec_is_wrong_and_nothing_is_pruned() {
    let brewery = Brewery::ready(&["hay"]).await;
    brewery.api.put(&vat(&["poison"]));
    brewery.until("it is invalid", |status| reason(status, "Ready") == "InvalidSpec").await;
    brewery.api.delete(&deployment("north"));
    brewery.api.wait_until("it is made again", |api| api.get(&deployment("north")).is_some()).await;
    brewery.until("its step says so", |status| reason(status, "VatReady") == "Filling").await;
    let vat = brewery.api.get(&vat_key()).unwrap();
    assert_eq!(reason(&vat["status"], "Ready"), "InvalidSpec");
    assert_eq!(vat["status"]["feedsLastValid"], json!(["hay"]), "it is made from the last valid spec");
    assert!(brewery.api.get(&scaler()).is_some(), "what is not in the plan stays");
}

#[tokio::test]
async fn an_object_that_is_paused_is_looked_at_and_left_alone() {
    let brewery = Brewery::ready(&[]).await;
    let mut paused = vat_key();
    paused["metadata"]["annotations"] = json!({"c5c3.io/paused": "true"});
    brewery.api.put(&paused);
    brewery.until("it is paused", |status| reason(status, "Paused") == "Paused").await;
    brewery.api.delete(&deployment("north"));
    brewery.until("its step says so", |status| reason(status, "VatReady") == "Filling").await;
    assert!(is_ready(&brewery.api.get(&vat_key()).unwrap()["status"]), "Ready keeps its value");
    assert!(brewery.api.get(&deployment("north")).is_none());
    brewery.api.take_writes();
    paused["metadata"]["annotations"] = json!({"c5c3.io/paused": "false"});
    brewery.api.put(&paused);
    brewery.api.wait_until("it is made again", |api| api.get(&deployment("north")).is_some()).await;
    brewery.until("it is not ready", |status| !is_ready(status)).await;
    let said = brewery.api.take_writes().into_iter().rfind(|write| write.path.contains("/status")).unwrap();
    assert_eq!(reason(&said.body["status"], "Paused"), Value::Null);
    assert_eq!(reason(&said.body["status"], "Progressing"), "Degraded", "it was ready before");
}
