//! What becomes of guests that crash.

use std::time::Duration;

use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

use crate::site::Site;

const GUESTS: &[(&str, &str, &str)] =
    &[("a", "pear", "SHUTOFF"), ("b", "pear", "SHUTOFF"), ("c", "pear", "SHUTOFF"), ("q", "quince", "SHUTOFF")];
const CONDITION: &str = "GuestsFailed";

/// Waits until something is so; conditions of the cluster are read again and again meanwhile.
async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    let wait = async {
        while !is_so().await {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_mins(1), wait).await.is_ok(), "{what}");
}

/// Some turns of an operator that looks at a guest of `quince` that is busy: what is not done after them is not done.
async fn some_turns(site: &Site) {
    site.fakes.world().guests.get_mut("q").unwrap().task = Some("rebooting");
    site.report("quince", &[("q", "Crashed", "Stopped", 1)]).await;
    let reads = site.fakes.world().reads;
    eventually("turns are taken", async || site.fakes.world().reads >= reads + 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_crashes_runs_again_in_place_and_is_told_until_then() {
    let Some(site) = Site::start(&["pear", "quince"], GUESTS).await else { return };
    let _operator = site.operator("ha").await;
    site.report("pear", &[("a", "Crashed", "Stopped", 5)]).await;
    let told = site.until_told("pear", CONDITION, "Restarting").await;
    assert!(told["message"].as_str().unwrap().starts_with("1 guest is down: a (Crashed at "), "{told}");
    eventually("it is rebooted", async || site.fakes.count("reboot a") == 1).await;
    site.report("pear", &[("a", "Crashed", "Running", 5)]).await;
    let told = site.until_told("pear", CONDITION, "Recovered").await;
    assert_eq!(told["status"], "False");
    eventually("each step is an event", async || {
        let events = site.events().await;
        ["GuestCrashed", "RestartGuest"].into_iter().all(|reason| events.iter().any(|event| event == reason))
    })
    .await;
    assert_eq!(site.fakes.world().log, ["reboot a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_a_user_stopped_or_nova_works_on_is_left_alone() {
    let Some(site) = Site::start(&["pear", "quince"], GUESTS).await else { return };
    site.fakes.world().guests.get_mut("a").unwrap().stopped_by = Some("someone");
    site.fakes.world().guests.get_mut("b").unwrap().task = Some("powering-off");
    let _operator = site.operator("ha").await;
    site.report(
        "pear",
        &[("a", "Crashed", "Stopped", 5), ("b", "Crashed", "Stopped", 5), ("gone", "Crashed", "Stopped", 5)],
    )
    .await;
    let told = site.until_told("pear", CONDITION, "Restarting").await;
    assert!(told["message"].as_str().unwrap().contains("Nova is busy with it (powering-off)"), "{told}");
    some_turns(&site).await;
    assert_eq!(site.fakes.world().log, Vec::<String>::new());
    let left = site.events().await.iter().filter(|event| *event == "GuestLeft").count();
    assert_eq!(left, 2, "the stopped one and the one that is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn guests_of_hosts_in_maintenance_or_under_eviction_or_without_high_availability_are_left_alone() {
    let Some(site) = Site::start(&["pear", "quince"], GUESTS).await else { return };
    site.set_high_availability("pear", false).await;
    let _operator = site.operator("ha").await;
    site.report("pear", &[("a", "Crashed", "Stopped", 5)]).await;
    site.until_told("pear", CONDITION, "NotWanted").await;
    site.set_maintenance("pear", "manual").await;
    site.set_high_availability("pear", true).await;
    site.until_told("pear", CONDITION, "InMaintenance").await;
    let eviction = json!({"apiVersion": "hypervisor.c5c3.io/v1", "kind": "Eviction", "metadata": {"name": "fan"},
        "spec": {"hypervisor": "pear", "reason": "a fan"}});
    site.evictions().create(&PostParams::default(), &serde_json::from_value(eviction).unwrap()).await.unwrap();
    site.set_maintenance("pear", "").await;
    let told = site.until_told("pear", CONDITION, "Evicting").await;
    assert!(told["message"].as_str().unwrap().contains("(Eviction fan)"), "{told}");
    some_turns(&site).await;
    assert_eq!(site.fakes.world().log, Vec::<String>::new());
    site.evictions().delete("fan", &DeleteParams::default()).await.unwrap();
    eventually("it is rebooted after all", async || site.fakes.count("reboot a") == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_is_killed_after_every_call_restarts_each_guest_once() {
    let Some(site) = Site::start(&["pear", "quince"], GUESTS).await else { return };
    // Nova accepts, and the guests do not come up: nothing but the record says that they were restarted.
    site.fakes.world().breaks = true;
    site.report("pear", &[("a", "Crashed", "Stopped", 5), ("b", "Panicked", "Stopped", 5)]).await;
    let mut changes = site.fakes.changes();
    let mut kills = 0;
    loop {
        let operator = site.operator(&format!("ha-{kills}")).await;
        let is_done = async {
            loop {
                let told = site.until_told("pear", CONDITION, "Restarting").await;
                if told["message"].as_str().unwrap().matches("and again after 60 s").count() == 2 {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = changes.changed() => {}
            () = is_done => break,
        }
        drop(operator);
        kills += 1;
    }
    assert!(kills >= 1, "it was never killed");
    let log = site.fakes.world().log.clone();
    for call in ["reboot a", "reboot b"] {
        assert!(log.iter().filter(|line| *line == call).count() <= 1, "{log:?}");
    }
    let annotations = site.hypervisors().get("pear").await.unwrap().metadata.annotations.unwrap();
    let ledger: Value = serde_json::from_str(&annotations["ha.c5c3.io/guests"]).unwrap();
    assert_eq!(ledger["guests"]["a"]["restarted"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_does_not_come_up_is_restarted_three_times_and_given_up() {
    let Some(mut site) = Site::start(&["pear", "quince"], GUESTS).await else { return };
    site.policy.back_off = vec![Duration::from_millis(1)];
    site.fakes.world().breaks = true;
    let _operator = site.operator("ha").await;
    site.report("pear", &[("a", "Crashed", "Stopped", 5)]).await;
    let told = site.until_told("pear", CONDITION, "GivenUp").await;
    assert!(told["message"].as_str().unwrap().contains("it was restarted 3 times and failed again"), "{told}");
    some_turns(&site).await;
    assert_eq!(site.fakes.world().log, ["reboot a"; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_on_which_three_guests_crash_is_evicted_once() {
    let Some(site) = Site::start(&["pear", "quince"], GUESTS).await else { return };
    let operator = site.operator("ha-1").await;
    let crashed = |state| ["a", "b", "c"].map(|guest| (guest, "Crashed", state, 5));
    site.report("pear", &crashed("Stopped")).await;
    eventually("all are rebooted", async || site.fakes.count("reboot") == 3).await;
    assert_eq!(site.evictions().list(&ListParams::default()).await.unwrap().items.len(), 0, "they are restarted first");
    site.report("pear", &crashed("Running")).await;
    let told = site.until_told("pear", CONDITION, "Evicting").await;
    assert!(told["message"].as_str().unwrap().contains("(Eviction ha-pear), after crashes"), "{told}");
    let eviction = site.evictions().get("ha-pear").await.unwrap();
    assert_eq!(eviction.data["spec"]["hypervisor"], "pear");
    let reason = eviction.data["spec"]["reason"].as_str().unwrap().to_owned();
    assert!(reason.starts_with("3 guests crashed within 10 minutes (a, b, c)"), "{reason}");
    // A person looks at the host and deletes it: the same crashes are no reason for another one, nor for the next operator.
    drop(operator);
    let _operator = site.operator("ha-2").await;
    site.evictions().delete("ha-pear", &DeleteParams::default()).await.unwrap();
    site.until_told("pear", CONDITION, "Recovered").await;
    some_turns(&site).await;
    assert_eq!(site.evictions().list(&ListParams::default()).await.unwrap().items.len(), 0);
    assert_eq!(site.fakes.count("reboot"), 3);
}
