//! Drains: what leaves, what cannot, and what comes later.

use kube::api::{DeleteParams, DynamicObject, PostParams};
use serde_json::json;

use crate::site::{Site, condition};

#[tokio::test]
async fn of_three_guests_two_leave_and_the_third_is_named_with_its_reason() {
    let site = Site::open(|_| {}).await;
    site.ready("hv-1").await;
    site.cloud.server("a", "hv-1", "ACTIVE");
    site.cloud.server("b", "hv-1", "SHUTOFF");
    site.cloud.server("c", "hv-1", "ACTIVE");
    site.cloud.world().refuses.insert("c".into());
    site.maintain("hv-1", "manual").await;
    site.said("Hypervisor", "hv-1", "Evicting", "False", "Failed").await;
    site.said("Hypervisor", "hv-1", "Ready", "False", "EvictionFailed").await;

    let status = site.status("Eviction", "hv-1").await;
    let states: Vec<_> =
        status["instances"].as_array().unwrap().iter().map(|one| (&one["id"], &one["state"])).collect();
    assert_eq!(json!(states), json!([["a", "Migrated"], ["b", "Migrated"], ["c", "NonMigratable"]]), "{status:#}");
    assert_eq!(status["instances"][0]["destination"], "spare");
    assert_eq!(status["instances"][2]["attempts"], 2);
    assert!(status["instances"][2]["lastError"].as_str().unwrap().contains("No valid host"));
    assert_eq!((&status["outstandingInstances"], &status["outstandingRamMb"]), (&json!(["c"]), &json!(2048)));
    assert_eq!(site.cloud.count("servers/c/action os-migrateLive"), 2);
    assert_eq!(site.cloud.count("servers/b/action confirmResize"), 1);
    let reason = site.cloud.world().services["hv-1"]["disabled_reason"].clone();
    assert_eq!(reason, "c5c3 maintenance manual: a new disk");

    // A person moves it: the drain ends by itself, and the host comes back when maintenance is over.
    site.cloud.world().servers.get_mut("c").unwrap()["OS-EXT-SRV-ATTR:host"] = "spare".into();
    site.api("Eviction").delete("hv-1", &DeleteParams::default()).await.unwrap();
    site.said("Hypervisor", "hv-1", "Ready", "False", "Evicted").await;
    site.maintain("hv-1", "").await;
    site.said("Hypervisor", "hv-1", "Ready", "True", "Ready").await;
    site.gone("Eviction", "hv-1").await;
}

#[tokio::test]
async fn a_failed_drain_blocks_offboarding() {
    let site = Site::open(|_| {}).await;
    site.ready("hv-1").await;
    site.cloud.server("a", "hv-1", "SUSPENDED");
    site.maintain("hv-1", "termination").await;
    site.said("Hypervisor", "hv-1", "Evicting", "False", "Failed").await;
    let is_held = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| {
            let said = condition(&object.data["status"], "Offboarded");
            said["status"] == "False"
                && said["message"].as_str().unwrap_or_default().contains("vm-a (a): it is SUSPENDED")
        })
    };
    site.until("Hypervisor", "hv-1", "is held back by its guest", is_held).await;
    assert_eq!((site.cloud.count("DELETE"), site.cloud.count("action")), (0, 0));
    // Its user resumes it: now it can move.
    site.cloud.world().servers.get_mut("a").unwrap()["status"] = "ACTIVE".into();
    site.api("Eviction")
        .patch(
            "hv-1",
            &kube::api::PatchParams::default(),
            &kube::api::Patch::Merge(json!({"metadata": {"annotations": {"look": "again"}}})),
        )
        .await
        .unwrap();
    site.said("Hypervisor", "hv-1", "Offboarded", "True", "Offboarded").await;
}

#[tokio::test]
async fn a_migration_that_nova_accepts_and_fails_is_tried_a_few_times_and_its_error_told() {
    let site = Site::open(|_| {}).await;
    site.ready("hv-1").await;
    site.cloud.server("a", "hv-1", "PAUSED");
    site.cloud.world().fails.insert("a".into());
    site.maintain("hv-1", "auto").await;
    site.said("Eviction", "hv-1", "Evicting", "False", "Failed").await;
    let status = site.status("Eviction", "hv-1").await;
    assert!(status["instances"][0]["lastError"].as_str().unwrap().contains("the CPU is another one"), "{status:#}");
    assert_eq!(site.cloud.count("os-migrateLive"), 2);
}

#[tokio::test]
async fn instances_move_two_at_a_time_and_one_that_takes_too_long_is_aborted() {
    let site = Site::open(|settings| {
        settings.drain.deadline = std::time::Duration::from_secs(1);
        settings.drain.deadline_per_gib = std::time::Duration::ZERO;
        settings.drain.attempts = 1;
    })
    .await;
    site.ready("hv-1").await;
    for id in ["a", "b", "c", "d"] {
        site.cloud.server(id, "hv-1", "ACTIVE");
        site.cloud.world().hangs.insert(id.into());
    }
    site.maintain("hv-1", "manual").await;
    let two_move = |object: Option<&DynamicObject>| {
        let instances = object.map(|object| object.data["status"]["instances"].clone()).unwrap_or_default();
        let is_moving = |one: &&serde_json::Value| one["state"] == "Migrating";
        instances.as_array().into_iter().flatten().filter(is_moving).count() == 2
    };
    site.until("Eviction", "hv-1", "moves two", two_move).await;
    assert_eq!(site.cloud.count("os-migrateLive"), 2);
    site.said("Eviction", "hv-1", "Evicting", "False", "Failed").await;
    assert_eq!((site.cloud.count("os-migrateLive"), site.cloud.count("/migrations/")), (4, 4));
    let status = site.status("Eviction", "hv-1").await;
    assert!(status["instances"][0]["lastError"].as_str().unwrap().contains("cancelled"), "{status:#}");
}

#[tokio::test]
async fn an_eviction_by_hand_disables_the_host_drains_late_arrivals_and_enables_it_when_deleted() {
    let site = Site::open(|_| {}).await;
    site.ready("hv-1").await;
    site.cloud.server("a", "hv-1", "ACTIVE");
    let mut eviction =
        DynamicObject::new("hv-1-firmware", &kube::core::ApiResource::erase::<c5c3_api::hypervisor::Eviction>(&()));
    eviction.data = json!({"spec": {"hypervisor": "hv-1", "reason": "firmware"}});
    site.api("Eviction").create(&PostParams::default(), &eviction).await.unwrap();
    site.said("Eviction", "hv-1-firmware", "Evicting", "False", "Succeeded").await;
    assert_eq!(site.cloud.world().services["hv-1"]["disabled_reason"], "c5c3 eviction hv-1-firmware: firmware");

    site.cloud.server("late", "hv-1", "ACTIVE");
    site.api("Eviction")
        .patch(
            "hv-1-firmware",
            &kube::api::PatchParams::default(),
            &kube::api::Patch::Merge(json!({"metadata": {"annotations": {"look": "again"}}})),
        )
        .await
        .unwrap();
    let moved = |_: Option<&DynamicObject>| site.cloud.world().servers["late"]["OS-EXT-SRV-ATTR:host"] == "spare";
    site.until("Eviction", "hv-1-firmware", "drains the late arrival", moved).await;

    site.api("Eviction").delete("hv-1-firmware", &DeleteParams::default()).await.unwrap();
    site.gone("Eviction", "hv-1-firmware").await;
    assert_eq!(site.cloud.world().services["hv-1"]["status"], "enabled");
}

#[tokio::test]
async fn each_state_of_a_server_has_a_way_or_a_reason_with_what_to_do() {
    let site = Site::open(|_| {}).await;
    site.ready("hv-1").await;
    let stuck = [
        ("SUSPENDED", "resume it"),
        ("SHELVED", "openstack server shelve --offload"),
        ("VERIFY_RESIZE", "confirm or revert it"),
        ("RESCUE", "unrescue it"),
        ("ERROR", "reset its state or delete it"),
        ("UNKNOWN", "which Nova does not move"),
    ];
    for status in ["ACTIVE", "PAUSED", "SHUTOFF"].into_iter().chain(stuck.map(|(status, _)| status)) {
        site.cloud.server(status, "hv-1", status);
    }
    site.maintain("hv-1", "manual").await;
    site.said("Eviction", "hv-1", "Evicting", "False", "Failed").await;
    let status = site.status("Eviction", "hv-1").await;
    let found = |id: &str| status["instances"].as_array().unwrap().iter().find(|one| one["id"] == id).cloned().unwrap();
    for (id, call) in [("ACTIVE", "os-migrateLive"), ("PAUSED", "os-migrateLive"), ("SHUTOFF", "migrate")] {
        assert_eq!(
            (found(id)["state"].clone(), site.cloud.count(&format!("{id}/action {call}"))),
            (json!("Migrated"), 1)
        );
    }
    for (id, remedy) in stuck {
        let (state, error) = (found(id)["state"].clone(), found(id)["lastError"].clone());
        assert_eq!((state, site.cloud.count(&format!("{id}/action"))), (json!("NonMigratable"), 0), "{id}");
        assert!(error.as_str().unwrap().contains(remedy), "{error}");
    }
    // What Nova works on is waited for.
    site.cloud.world().servers.get_mut("VERIFY_RESIZE").unwrap()["status"] = "REVERT_RESIZE".into();
    let look = kube::api::Patch::Merge(json!({"metadata": {"annotations": {"look": "again"}}}));
    site.api("Eviction").patch("hv-1", &kube::api::PatchParams::default(), &look).await.unwrap();
    site.said("Eviction", "hv-1", "Evicting", "True", "Running").await;
}
