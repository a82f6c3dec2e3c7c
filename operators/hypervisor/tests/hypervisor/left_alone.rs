//! Hosts that the operator may not act on: those with `lifecycleEnabled: false`, and those whose nodes have lost the role.

use c5c3_operator_hypervisor::ROLE;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::site::{Site, condition};

const HOST: &str = "hv-1";

/// A site with a host that has a guest, and of which nothing has been asked yet.
async fn with_guest() -> Site {
    let site = Site::open(|_| {}).await;
    site.ready(HOST).await;
    site.cloud.server("a", HOST, "ACTIVE");
    site.cloud.world().log.clear();
    site
}

async fn lifecycle(site: &Site, enabled: bool) {
    let patch = Patch::Merge(json!({"spec": {"lifecycleEnabled": enabled}}));
    site.hypervisors().patch(HOST, &PatchParams::default(), &patch).await.unwrap();
}

/// Gives the node the role, or takes it.
async fn role(site: &Site, value: Value) {
    let patch = Patch::Merge(json!({"metadata": {"labels": {ROLE: value}}}));
    site.nodes().patch(HOST, &PatchParams::default(), &patch).await.unwrap();
}

/// Nothing was changed in Nova, the service is enabled, and the guest is where it was.
async fn assert_untouched(site: &Site) {
    assert!(site.api("Eviction").get_opt(HOST).await.unwrap().is_none());
    let world = site.cloud.world();
    assert_eq!(world.log, Vec::<String>::new());
    assert_eq!(world.services[HOST]["status"], "enabled");
    assert_eq!(world.servers["a"]["OS-EXT-SRV-ATTR:host"], HOST);
}

/// Whether a condition's wait is told, with what to do.
fn waits_for(reason: &'static str, remedy: &'static str) -> impl Fn(Option<&DynamicObject>) -> bool + Send + Sync {
    move |object| {
        let waits = object.map(|object| object.data["status"]["waitingFor"].clone()).unwrap_or_default();
        let is_it =
            |wait: &Value| wait["reason"] == reason && wait["lookAt"].as_str().unwrap_or_default().contains(remedy);
        waits.as_array().into_iter().flatten().any(is_it)
    }
}

#[tokio::test]
async fn a_terminating_host_without_lifecycle_is_neither_disabled_nor_drained_and_goes_as_it_is() {
    let site = with_guest().await;
    lifecycle(&site, false).await;
    site.maintain(HOST, "termination").await;
    site.said("Hypervisor", HOST, "Evicting", "False", "LifecycleDisabled").await;
    site.said("Hypervisor", HOST, "Offboarded", "False", "LifecycleDisabled").await;
    site.said("Hypervisor", HOST, "Ready", "False", "Maintenance").await;
    site.until("Hypervisor", HOST, "says what to do", waits_for("LifecycleDisabled", "lifecycleEnabled to true")).await;
    let status = site.status("Hypervisor", HOST).await;
    let said = condition(&status, "HypervisorDisabled")["message"].as_str().unwrap().to_owned();
    assert!(said.contains("enabled; it is left as it is, because spec.lifecycleEnabled is false"), "{said}");
    assert_untouched(&site).await;
    // No one waits for a guest of a host that is not the operator's.
    site.delete_node(HOST).await;
    site.gone("Hypervisor", HOST).await;
    assert_untouched(&site).await;
}

#[tokio::test]
async fn a_maintenance_of_a_host_without_lifecycle_begins_when_it_has_one_again() {
    let site = with_guest().await;
    lifecycle(&site, false).await;
    site.maintain(HOST, "manual").await;
    site.said("Hypervisor", HOST, "Evicting", "False", "LifecycleDisabled").await;
    assert_untouched(&site).await;
    lifecycle(&site, true).await;
    site.said("Hypervisor", HOST, "Ready", "False", "Evicted").await;
    assert_eq!(site.cloud.world().servers["a"]["OS-EXT-SRV-ATTR:host"], "spare");
}

#[tokio::test]
async fn a_drain_ends_where_it_is_when_the_host_has_no_lifecycle_any_more() {
    let site = Site::open(|settings| settings.drain.parallel = 1).await;
    site.ready(HOST).await;
    site.cloud.server("a", HOST, "ACTIVE");
    site.cloud.server("b", HOST, "ACTIVE");
    site.cloud.world().hangs.insert("a".into());
    site.maintain(HOST, "manual").await;
    let moves = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| object.data["status"]["instances"][0]["state"] == "Migrating")
    };
    site.until("Eviction", HOST, "moves the first guest", moves).await;
    lifecycle(&site, false).await;
    site.gone("Eviction", HOST).await;
    site.said("Hypervisor", HOST, "Evicting", "False", "LifecycleDisabled").await;
    site.cloud.world().hangs.clear();
    // The service stays disabled, with the reason of the maintenance, also when that ends.
    site.maintain(HOST, "").await;
    site.said("Hypervisor", HOST, "Evicting", "False", "NotAsked").await;
    site.said("Hypervisor", HOST, "Ready", "False", "Disabled").await;
    assert_eq!((site.cloud.count("os-migrateLive"), site.cloud.count("PUT /compute/os-services")), (1, 2));
    lifecycle(&site, true).await;
    site.said("Hypervisor", HOST, "Ready", "True", "Ready").await;
}

#[tokio::test]
async fn an_eviction_that_a_person_creates_waits_while_the_host_is_left_alone() {
    let site = with_guest().await;
    lifecycle(&site, false).await;
    let mut eviction =
        DynamicObject::new("firmware", &kube::core::ApiResource::erase::<c5c3_api::hypervisor::Eviction>(&()));
    eviction.data = json!({"spec": {"hypervisor": HOST, "reason": "firmware"}});
    let evictions: Api<DynamicObject> = site.api("Eviction");
    evictions.create(&PostParams::default(), &eviction).await.unwrap();
    site.said("Eviction", "firmware", "Evicting", "False", "LifecycleDisabled").await;
    assert_untouched(&site).await;
    lifecycle(&site, true).await;
    site.said("Eviction", "firmware", "Evicting", "False", "Succeeded").await;
    assert_eq!(site.cloud.world().servers["a"]["OS-EXT-SRV-ATTR:host"], "spare");
    // The host is left alone once more: what the drain said stays, and the deletion undoes what the drain did.
    lifecycle(&site, false).await;
    site.said("Eviction", "firmware", "Evicting", "False", "LifecycleDisabled").await;
    let status = site.status("Eviction", "firmware").await;
    assert_eq!((&status["instances"][0]["id"], &status["instances"][0]["state"]), (&json!("a"), &json!("Migrated")));
    evictions.delete("firmware", &DeleteParams::default()).await.unwrap();
    site.gone("Eviction", "firmware").await;
    assert_eq!(site.cloud.world().services[HOST]["status"], "enabled");
}

#[tokio::test]
async fn a_node_that_loses_the_role_keeps_its_hypervisor_which_is_left_alone_until_it_has_the_role_again() {
    let site = with_guest().await;
    role(&site, Value::Null).await;
    // What is asked before the operator has seen it still counts.
    site.said("Hypervisor", HOST, "TraitsUpdated", "False", "NodeRoleRemoved").await;
    site.maintain(HOST, "manual").await;
    site.said("Hypervisor", HOST, "Evicting", "False", "NodeRoleRemoved").await;
    site.said("Hypervisor", HOST, "Ready", "False", "Maintenance").await;
    site.until("Hypervisor", HOST, "says what to do", waits_for("NodeRoleRemoved", "put the label back")).await;
    assert_untouched(&site).await;
    role(&site, json!("")).await;
    site.said("Hypervisor", HOST, "Ready", "False", "Evicted").await;
    assert_eq!(site.cloud.world().servers["a"]["OS-EXT-SRV-ATTR:host"], "spare");
    // Without the role it is not created again.
    site.maintain(HOST, "").await;
    site.said("Hypervisor", HOST, "Ready", "True", "Ready").await;
    role(&site, Value::Null).await;
    site.said("Hypervisor", HOST, "TraitsUpdated", "False", "NodeRoleRemoved").await;
    site.hypervisors().delete(HOST, &DeleteParams::default()).await.unwrap();
    site.gone("Hypervisor", HOST).await;
    assert_eq!(site.cloud.count("DELETE"), 0);
    // A node of the role that comes later is looked after: the operator has not stopped looking at nodes.
    site.ready("hv-2").await;
    assert!(site.hypervisors().get_opt(HOST).await.unwrap().is_none());
}

#[tokio::test]
async fn a_host_that_loses_the_role_while_it_is_onboarded_starts_again_with_it() {
    let site = Site::open(|_| {}).await;
    site.node(HOST, json!({})).await;
    site.said("Hypervisor", HOST, "Onboarding", "True", "Initial").await;
    role(&site, Value::Null).await;
    site.said("Hypervisor", HOST, "Onboarding", "False", "Aborted").await;
    site.cloud.register(HOST);
    assert_eq!(site.cloud.world().log, Vec::<String>::new());
    role(&site, json!("")).await;
    site.said("Hypervisor", HOST, "Ready", "True", "Ready").await;
}

#[tokio::test]
async fn fields_that_nothing_acts_on_are_told_and_the_host_is_ready_all_the_same() {
    let site = Site::open(|_| {}).await;
    site.ready(HOST).await;
    site.said("Hypervisor", HOST, "SpecSupported", "True", "Supported").await;
    let patch = Patch::Merge(json!({"spec": {"version": "1592.9", "reboot": true, "evacuateOnReboot": false,
        "installCertificate": false, "createCertManagerCertificate": true}}));
    site.hypervisors().patch(HOST, &PatchParams::default(), &patch).await.unwrap();
    site.said("Hypervisor", HOST, "SpecSupported", "False", "NotSupported").await;
    for remedy in [
        "spec.version: remove it",
        "spec.reboot: set it to false",
        "spec.evacuateOnReboot: remove it",
        "spec.installCertificate: remove it",
        "spec.createCertManagerCertificate: set it to false",
    ] {
        site.until("Hypervisor", HOST, remedy, waits_for("NotSupported", remedy)).await;
    }
    let status = site.status("Hypervisor", HOST).await;
    assert_eq!(condition(&status, "Ready")["status"], "True");
    let patch = Patch::Merge(json!({"spec": {"version": null, "reboot": false, "evacuateOnReboot": true,
        "installCertificate": true, "createCertManagerCertificate": false}}));
    site.hypervisors().patch(HOST, &PatchParams::default(), &patch).await.unwrap();
    site.said("Hypervisor", HOST, "SpecSupported", "True", "Supported").await;
}
