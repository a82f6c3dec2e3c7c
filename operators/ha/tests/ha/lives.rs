//! What becomes of hosts and guests.

use c5c3_operator_ha::FenceState;

use crate::site::Site;

const GUESTS: &[(&str, &str, &str)] =
    &[("a", "pear", "ACTIVE"), ("b", "pear", "ACTIVE"), ("s", "pear", "SHUTOFF"), ("q", "quince", "ACTIVE")];

/// Both guests run elsewhere, once; the stopped one was moved and stays stopped.
fn assert_moved(site: &Site) {
    let world = site.fakes.world();
    for id in ["a", "b"] {
        let guest = &world.guests[id];
        assert_eq!(
            (guest.host.as_str(), guest.status, guest.evacuations),
            ("quince", "ACTIVE", 1),
            "{id}: {:?}",
            world.log
        );
    }
    let stopped = &world.guests["s"];
    assert_eq!((stopped.host.as_str(), stopped.status, stopped.evacuations), ("quince", "SHUTOFF", 1));
    assert_eq!(world.guests["q"].evacuations, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn guests_of_a_host_that_lost_its_power_run_elsewhere_after_one_fence() {
    let Some(site) = Site::start(&["pear", "quince"], GUESTS).await else { return };
    let _operator = site.operator("ha").await;
    site.set_ready("pear", false).await;
    let told = site.until("pear", "Evacuated").await;
    assert_moved(&site);
    assert_eq!(site.fakes.count("fence "), 1);
    let log = site.fakes.world().log.clone();
    let at =
        |what: &str| log.iter().position(|line| line.contains(what)).unwrap_or_else(|| panic!("no {what}: {log:?}"));
    assert!(
        at("fence pear") < at("forced_down") && at("forced_down") < at("disabled") && at("disabled") < at("evacuate a")
    );
    assert!(log.iter().all(|line| !line.contains("quince")), "{log:?}");
    let fenced = site.condition("pear", "Fenced").await;
    assert_eq!(fenced["status"], "True");
    assert!(fenced["message"].as_str().unwrap().contains("by the test"), "{fenced}");
    let reason = site.fakes.world().services["pear"].1.clone().unwrap();
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("2 servers that ran were moved") && reason.ends_with(message), "{reason} / {message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_evacuated_before_the_fence_is_confirmed() {
    let Some(site) = Site::start(&["pear", "quince"], GUESTS).await else { return };
    site.fakes.world().fence_answers = Some(FenceState::Pending);
    let _operator = site.operator("ha").await;
    site.set_ready("pear", false).await;
    let told = site.until("pear", "Fencing").await;
    assert!(told["message"].as_str().unwrap().contains("is being switched off"), "{told}");
    site.fakes.world().fence_answers = Some(FenceState::Failed);
    let failed = async {
        while !site.until("pear", "Fencing").await["message"].as_str().unwrap().contains("could not be switched off") {}
    };
    tokio::time::timeout(std::time::Duration::from_mins(1), failed).await.unwrap();
    assert_eq!(site.fakes.world().log, Vec::<String>::new(), "the host may still run");
    assert_eq!(site.condition("pear", "Fenced").await, serde_json::Value::Null);
    site.fakes.world().fence_answers = None;
    site.until("pear", "Evacuated").await;
    assert_moved(&site);
}

#[tokio::test(flavor = "multi_thread")]
async fn three_of_four_hosts_that_vanish_are_left_alone_and_told_why() {
    let hosts = ["pear", "plum", "quince", "sloe"];
    let Some(site) = Site::start(&hosts, GUESTS).await else { return };
    for host in &hosts[..3] {
        site.set_ready(host, false).await;
    }
    let _operator = site.operator("ha").await;
    for host in &hosts[..3] {
        let told = site.until(host, "TooManyHosts").await;
        assert!(
            told["message"].as_str().unwrap().contains("3 of 4 hosts are not ready (pear, plum, quince)"),
            "{told}"
        );
    }
    assert_eq!(site.fakes.world().log, Vec::<String>::new());
    // Two come back: the third is a host that failed.
    site.set_ready("plum", true).await;
    site.set_ready("quince", true).await;
    site.until("pear", "Evacuated").await;
    site.until("plum", "Returned").await;
    assert_eq!(site.fakes.count("fence "), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_high_availability_is_left_alone() {
    let Some(site) = Site::start(&["pear", "quince"], GUESTS).await else { return };
    site.set_high_availability("pear", false).await;
    site.set_ready("pear", false).await;
    let _operator = site.operator("ha").await;
    site.until("pear", "NotWanted").await;
    assert_eq!(site.fakes.world().log, Vec::<String>::new());
    site.set_high_availability("pear", true).await;
    site.until("pear", "Evacuated").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_is_killed_after_every_call_does_nothing_twice() {
    let Some(site) = Site::start(&["pear", "quince"], GUESTS).await else { return };
    site.set_ready("pear", false).await;
    let mut changes = site.fakes.changes();
    let mut kills = 0;
    loop {
        let operator = site.operator(&format!("ha-{kills}")).await;
        tokio::select! {
            _ = changes.changed() => {}
            _ = site.until("pear", "Evacuated") => break,
        }
        drop(operator);
        kills += 1;
    }
    assert!(kills >= 4, "killed {kills} times: {:?}", site.fakes.world().log);
    assert_moved(&site);
    assert_eq!(site.fakes.count("fence "), 1);
    let log = site.fakes.world().log.clone();
    for call in ["service pear {\"forced_down\"", "evacuate a", "evacuate b", "os-start a", "os-start b"] {
        assert_eq!(log.iter().filter(|line| line.starts_with(call)).count(), 1, "{call}: {log:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_back_is_not_enabled_before_its_evacuations_end() {
    let Some(site) = Site::start(&["pear", "quince"], GUESTS).await else { return };
    site.fakes.world().hold = true;
    let _operator = site.operator("ha").await;
    site.set_ready("pear", false).await;
    let mut changes = site.fakes.changes();
    while site.fakes.count("evacuate") < 3 {
        changes.changed().await.unwrap();
    }
    site.set_ready("pear", true).await;
    // Some turns with the node ready.
    let reads = site.fakes.world().reads;
    let turns = async {
        while site.fakes.world().reads < reads + 5 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_mins(1), turns).await.unwrap();
    let told = site.until("pear", "Evacuating").await;
    assert!(told["message"].as_str().unwrap().contains("3 under way"), "{told}");
    let (down, reason) = site.fakes.world().services["pear"].clone();
    assert!(down && reason.is_some(), "it stays down and disabled");
    site.fakes.world().hold = false;
    site.until("pear", "Returned").await;
    assert_moved(&site);
    assert_eq!(site.fakes.world().services["pear"], (false, None), "it is up and enabled");
    assert_eq!(site.condition("pear", "Fenced").await, serde_json::Value::Null);
    let annotations = site.hypervisors().get("pear").await.unwrap().metadata.annotations.unwrap_or_default();
    assert_eq!(annotations.get("ha.c5c3.io/running"), None);
    // A second failure is fenced again.
    site.fakes.world().off.clear();
    site.set_ready("pear", false).await;
    site.until("pear", "Evacuated").await;
    assert_eq!(site.fakes.count("fence "), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_host_is_told_whether_high_availability_has_it_and_what_is_told_of_a_failure_stays() {
    let Some(site) = Site::start(&["pear", "quince"], GUESTS).await else { return };
    let _operator = site.operator("ha").await;
    site.until_enabled("pear", "False", "Onboarding").await;
    site.say("pear", "Onboarding", "True", "Handover").await;
    site.until_enabled("pear", "True", "Succeeded").await;
    site.say("pear", "Onboarding", "False", "Succeeded").await;
    site.say("pear", "Evicting", "False", "Succeeded").await;
    site.until_enabled("pear", "False", "Evicted").await;
    site.say("pear", "Evicting", "False", "NotAsked").await;
    site.until_enabled("pear", "True", "Succeeded").await;
    // It fails, and a person does not want it to be looked after any more.
    site.set_ready("pear", false).await;
    site.until("pear", "Evacuated").await;
    site.set_high_availability("pear", false).await;
    site.until_enabled("pear", "False", "NotWanted").await;
    assert_eq!(site.condition("pear", "HostFailed").await["reason"], "Evacuated");
    assert_eq!(site.condition("pear", "Fenced").await["status"], "True");
    // Nothing more is written when nothing changes: changes of another host are handled after it.
    site.set_high_availability("quince", false).await;
    site.until_enabled("quince", "False", "NotWanted").await;
    let version = site.hypervisors().get("pear").await.unwrap().metadata.resource_version;
    site.set_high_availability("quince", true).await;
    site.until_enabled("quince", "False", "Onboarding").await;
    assert_eq!(site.hypervisors().get("pear").await.unwrap().metadata.resource_version, version);
}
