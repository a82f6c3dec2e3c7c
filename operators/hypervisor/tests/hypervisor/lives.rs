//! Hosts that join, are tested, and leave.

use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::site::{Site, condition, smoke};

#[tokio::test]
async fn a_labelled_node_becomes_ready_after_a_smoke_server_wrote_its_name() {
    let site = Site::open(|settings| {
        settings.smoke = Some(smoke());
        settings.test_aggregate = Some("tests".into());
    })
    .await;
    site.cloud.aggregate("az-1", Some("az-1"));
    site.cloud.aggregate("gold", None);
    site.cloud.aggregate("tests", None);
    site.cloud.register("hv-1.rack.example");
    let annotations =
        json!({"hypervisor.c5c3.io/aggregates": "gold", "hypervisor.c5c3.io/custom-traits": "CUSTOM_NVME"});
    site.node("hv-1.rack.example", annotations).await;
    site.said("Hypervisor", "hv-1.rack.example", "Ready", "True", "Ready").await;

    assert_eq!(site.cloud.aggregates_of("hv-1.rack.example"), ["az-1", "gold"]);
    assert_eq!(site.cloud.count("POST /compute/servers server"), 1);
    assert_eq!(site.cloud.count("DELETE /compute/servers/"), 1);
    let status = site.status("Hypervisor", "hv-1.rack.example").await;
    assert_eq!(condition(&status, "Onboarding")["reason"], "Succeeded");
    assert_eq!(condition(&status, "TraitsUpdated")["status"], "True");
    let provider = status["hypervisorId"].as_str().unwrap();
    let world = site.cloud.world();
    assert_eq!(world.providers[provider]["traits"], json!(["CUSTOM_NVME", "HW_CPU_X86_AVX2"]));
    // First all additions, then the removal of the test's.
    let add = world.log.iter().rposition(|call| call.contains("add_host")).unwrap();
    let remove = world.log.iter().position(|call| call.contains("remove_host")).unwrap();
    assert!(add < remove, "{:#?}", world.log);
}

#[tokio::test]
async fn a_host_without_custom_traits_and_aggregates_is_onboarded_too() {
    let site = Site::open(|_| {}).await;
    site.ready("hv-1").await;
    let status = site.status("Hypervisor", "hv-1").await;
    for one in ["TraitsUpdated", "AggregatesUpdated"] {
        assert_eq!(condition(&status, one)["status"], "True", "{one}");
    }
    assert_eq!(site.cloud.count("traits"), 0);
}

#[tokio::test]
async fn a_wrong_aggregate_aborts_with_its_name_and_a_corrected_spec_goes_on() {
    let site = Site::open(|_| {}).await;
    site.cloud.aggregate("gold", None);
    site.cloud.register("hv-1");
    site.node("hv-1", json!({})).await;
    let aggregates = async |names: &[&str]| {
        let patch = Patch::Merge(json!({"spec": {"aggregates": names}}));
        site.until("Hypervisor", "hv-1", "exists", |object| object.is_some()).await;
        site.hypervisors().patch("hv-1", &PatchParams::default(), &patch).await.unwrap();
    };
    site.said("Hypervisor", "hv-1", "Onboarding", "False", "Succeeded").await;
    // Of a host that is in use the missing aggregate is named, and nothing is undone.
    aggregates(&["golld"]).await;
    site.said("Hypervisor", "hv-1", "AggregatesUpdated", "False", "AggregateMissing").await;

    site.cloud.register("hv-2");
    site.node("hv-2", json!({"hypervisor.c5c3.io/aggregates": "golld"})).await;
    site.said("Hypervisor", "hv-2", "Onboarding", "False", "Aborted").await;
    let status = site.status("Hypervisor", "hv-2").await;
    let message = condition(&status, "Onboarding")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("golld") && message.contains("az-1"), "{message}");
    assert_eq!(condition(&status, "Ready")["reason"], "Aborted");
    site.cloud.aggregate("az-1", Some("az-1"));
    let right = Patch::Merge(json!({"metadata": {"annotations": {"hypervisor.c5c3.io/aggregates": "gold"}}}));
    site.nodes().patch("hv-2", &PatchParams::default(), &right).await.unwrap();
    site.said("Hypervisor", "hv-2", "Ready", "True", "Ready").await;
    assert_eq!(site.cloud.aggregates_of("hv-2"), ["gold", "az-1"]);
}

#[tokio::test]
async fn a_smoke_server_that_fails_aborts_and_is_deleted() {
    let site = Site::open(|settings| settings.smoke = Some(smoke())).await;
    site.cloud.world().fails.insert("smoke".into());
    site.cloud.register("hv-1");
    site.node("hv-1", json!({})).await;
    site.said("Hypervisor", "hv-1", "Onboarding", "False", "Aborted").await;
    let status = site.status("Hypervisor", "hv-1").await;
    assert!(condition(&status, "Onboarding")["message"].as_str().unwrap().contains("no bootable device"));
    site.until("Hypervisor", "hv-1", "has no smoke server", |_| site.cloud.world().servers.is_empty()).await;
    // The cause is corrected, and a person asks for another try.
    site.cloud.world().fails.clear();
    let patch = json!({"metadata": {"annotations": {"hypervisor.c5c3.io/restart-onboarding": "2090-01-01T00:00:00Z"}}});
    site.hypervisors().patch("hv-1", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    site.said("Hypervisor", "hv-1", "Ready", "True", "Ready").await;
}

#[tokio::test]
async fn a_service_that_others_disabled_stays_disabled_through_a_maintenance() {
    let site = Site::open(|_| {}).await;
    site.ready("hv-1").await;
    site.cloud.world().services.get_mut("hv-1").unwrap()["status"] = "disabled".into();
    site.cloud.world().services.get_mut("hv-1").unwrap()["disabled_reason"] = "by a person".into();
    site.maintain("hv-1", "ha").await;
    site.looked_at("hv-1", "HypervisorDisabled", "DisabledByOthers").await;
    site.said("Hypervisor", "hv-1", "Ready", "False", "Maintenance").await;
    site.maintain("hv-1", "").await;
    site.said("Hypervisor", "hv-1", "Ready", "False", "Disabled").await;
    site.said("Hypervisor", "hv-1", "HypervisorDisabled", "True", "DisabledByOthers").await;
}

#[tokio::test]
async fn a_host_whose_service_is_up_again_takes_servers_without_a_change_of_its_object() {
    let site = Site::open(|_| {}).await;
    site.ready("hv-1").await;
    site.cloud.world().services.get_mut("hv-1").unwrap()["state"] = "down".into();
    site.looked_at("hv-1", "Ready", "ServiceDown").await;
    site.cloud.world().services.get_mut("hv-1").unwrap()["state"] = "up".into();
    site.said("Hypervisor", "hv-1", "Ready", "True", "Ready").await;
}

#[tokio::test]
async fn a_terminated_host_leaves_nova_and_placement_and_can_come_back() {
    let site = Site::open(|_| {}).await;
    site.cloud.aggregate("az-1", Some("az-1"));
    site.cloud.register("hv-1");
    site.node("hv-1", json!({"hypervisor.c5c3.io/aggregates": ""})).await;
    site.said("Hypervisor", "hv-1", "Ready", "True", "Ready").await;
    site.cloud.server("a", "hv-1", "ACTIVE");
    let provider = site.status("Hypervisor", "hv-1").await["hypervisorId"].as_str().unwrap().to_owned();
    // A consumer of which Nova knows no server.
    site.cloud.world().providers.get_mut(&provider).unwrap()["allocations"]["ghost"] = json!({});
    site.maintain("hv-1", "termination").await;
    site.said("Hypervisor", "hv-1", "Offboarded", "True", "Offboarded").await;
    {
        let world = site.cloud.world();
        assert!(!world.services.contains_key("hv-1") && !world.providers.contains_key(&provider));
        assert_eq!(world.servers["a"]["OS-EXT-SRV-ATTR:host"], "spare");
    }
    assert!(site.cloud.aggregates_of("hv-1").is_empty());
    let node = site.nodes().get("hv-1").await.unwrap();
    let taints = node.spec.unwrap().taints.unwrap();
    assert_eq!(taints[0].key, "hypervisor.c5c3.io/offboarding");

    site.delete_node("hv-1").await;
    site.gone("Hypervisor", "hv-1").await;
    site.ready("hv-1").await;
}

#[tokio::test]
async fn a_hypervisor_whose_node_is_deleted_is_held_while_it_has_guests() {
    let site = Site::open(|_| {}).await;
    site.ready("hv-1").await;
    site.cloud.server("a", "hv-1", "ACTIVE");
    site.delete_node("hv-1").await;
    let names_it = |object: Option<&kube::api::DynamicObject>| {
        object.is_some_and(|object| object.data["status"]["waitingFor"].to_string().contains("vm-a"))
    };
    site.until("Hypervisor", "hv-1", "names its guest", names_it).await;
    assert_eq!(site.cloud.count("DELETE"), 0);
    site.cloud.world().servers.clear();
    site.gone("Hypervisor", "hv-1").await;
    assert!(!site.cloud.world().services.contains_key("hv-1"));
}

#[tokio::test]
async fn a_handover_waits_for_high_availability_where_it_says_something_of_the_host() {
    let site = Site::open(|_| {}).await;
    site.node("hv-1", json!({})).await;
    site.said("Hypervisor", "hv-1", "Onboarding", "True", "Initial").await;
    site.say("hv-1", "HaEnabled", "False", "Onboarding").await;
    site.cloud.register("hv-1");
    let waits = |object: Option<&kube::api::DynamicObject>| {
        object.is_some_and(|object| {
            let said = condition(&object.data["status"], "Onboarding");
            said["reason"] == "Handover" && said["message"].as_str().unwrap_or_default().contains("HaEnabled")
        })
    };
    site.until("Hypervisor", "hv-1", "waits for high availability", waits).await;
    site.say("hv-1", "HaEnabled", "True", "Succeeded").await;
    site.said("Hypervisor", "hv-1", "Ready", "True", "Ready").await;
}
