//! Data that outlives its object, plans that are refused, and what is still looked at while a spec is wrong.

use c5c3_kit::testing::Fault;
use serde_json::{Value, json};

use crate::bench::{Bench, deployment, press};
use crate::granary::{Barn, granary, granary_key, ledger, mouse};

#[tokio::test]
async fn data_stays_as_soon_as_that_is_asked_for_though_the_spec_is_wrong_otherwise() {
    let barn = Barn::ready(false).await;
    assert!(barn.is_ledger_owned());
    barn.api.put(&granary(true, "fire"));
    barn.until_reason("InvalidSpec").await;
    assert!(!barn.is_ledger_owned());
}

#[tokio::test]
async fn what_becomes_of_data_does_not_change_while_an_object_is_paused() {
    let barn = Barn::ready(false).await;
    let mut paused = granary(true, "");
    paused["metadata"]["annotations"] = json!({"c5c3.io/paused": "true"});
    barn.api.put(&paused);
    let is_paused = |granary: &Value| {
        let mut conditions = granary["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|found| found["type"] == "Paused" && found["observedGeneration"] == 2)
    };
    barn.api.wait_until("it is paused", |api| api.get(&granary_key()).is_some_and(|found| is_paused(&found))).await;
    assert!(barn.is_ledger_owned());
    barn.annotate(&json!({"c5c3.io/paused": "false"}));
    barn.api.wait_until("the ledger stays", |_| !barn.is_ledger_owned()).await;
}

/// A Granary that is being deleted, while a mouse is still about to eat the grain.
async fn held_by_a_mouse() -> Barn {
    let barn = Barn::ready(true).await;
    barn.api.put(&mouse("grain"));
    barn.api.delete(&granary_key());
    barn.until_reason("Deleting").await;
    barn
}

#[tokio::test]
async fn an_object_stays_until_all_have_followed_what_it_says_of_its_data() {
    let barn = held_by_a_mouse().await;
    let waits = barn.api.get(&granary_key()).unwrap()["status"]["waitingFor"].clone();
    assert_eq!(waits[0]["object"], "configmap/mouse", "{waits}");
    barn.api.put(&mouse("cheese"));
    barn.annotate(&json!({"look": "again"}));
    barn.api.wait_until("the granary is gone", |api| api.get(&granary_key()).is_none()).await;
    assert!(barn.api.get(&ledger()).is_some());
}

#[tokio::test]
async fn an_object_that_is_held_by_its_data_goes_when_its_cleanup_is_skipped() {
    let barn = held_by_a_mouse().await;
    barn.annotate(&json!({"c5c3.io/skip-cleanup": "true"}));
    barn.api.wait_until("the granary is gone", |api| api.get(&granary_key()).is_none()).await;
}

#[tokio::test]
async fn a_child_that_left_the_plan_stays_until_all_have_followed_what_it_says_of_its_data() {
    let barn = Barn::ready(false).await;
    barn.api.put(&mouse("grain"));
    barn.api.put(&granary(false, "empty"));
    let is_held = |granary: &Value| granary["status"]["waitingFor"][0]["object"] == "configmap/mouse";
    barn.api.wait_until("the mouse is named", |api| is_held(&api.get(&granary_key()).unwrap())).await;
    assert!(barn.api.get(&ledger()).is_some());
    barn.api.put(&mouse("cheese"));
    barn.annotate(&json!({"look": "again"}));
    barn.api.wait_until("the ledger is gone", |api| api.get(&ledger()).is_none()).await;
}

#[tokio::test]
async fn a_plan_with_a_child_of_an_undeclared_kind_or_in_another_namespace_is_not_carried_out() {
    for flaw in ["kind", "place"] {
        let barn = Barn::start();
        barn.api.put(&granary(true, flaw));
        barn.until_reason("BrokenPlan").await;
        let (secrets, services) = (barn.api.all("v1", "Secret"), barn.api.all("v1", "Service"));
        assert!(secrets.is_empty() && services.is_empty(), "{flaw}: {secrets:?} {services:?}");
    }
}

#[tokio::test]
async fn children_of_the_last_valid_spec_are_looked_at_while_the_spec_is_wrong() {
    let bench = Bench::ready().await;
    bench.api.put(&press(-1));
    bench.until_reason("InvalidSpec").await;
    let mut down = deployment();
    down["status"] = json!({"availableReplicas": 0});
    bench.api.put(&down);
    let is_told = || bench.condition("DeploymentReady")["status"] == "False";
    bench.api.wait_until("the deployment is down", |_| is_told()).await;
    assert_eq!(bench.condition("Ready")["reason"], "InvalidSpec");
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_not_taken_for_one_that_is_gone() {
    let bench = Bench::start();
    bench.api.fail(Fault { method: "GET", path: "presss/cider", code: 500, times: 1 });
    bench.api.put(&press(3));
    bench.until_reason("WaitingForSecret").await;
}
