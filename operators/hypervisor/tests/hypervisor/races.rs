//! A reason that a person gives in Nova is not overwritten from a stale list of services.

use std::time::Duration;

use serde_json::json;

use crate::site::Site;

/// A site whose lists of Nova are stale for as long as the test runs: only the operator's own calls update them.
async fn with_old_lists() -> Site {
    let site = Site::open(|settings| settings.shared = Duration::from_hours(1)).await;
    site.ready("hv-1").await;
    site
}

fn disable(site: &Site, reason: &str) {
    let mut world = site.cloud.world();
    let service = world.services.get_mut("hv-1").unwrap();
    service["status"] = "disabled".into();
    service["disabled_reason"] = reason.into();
}

#[tokio::test]
async fn a_reason_that_a_person_gave_in_nova_is_not_replaced_by_that_of_a_maintenance() {
    let site = with_old_lists().await;
    disable(&site, "by a person");
    site.maintain("hv-1", "manual").await;
    site.said("Hypervisor", "hv-1", "HypervisorDisabled", "True", "DisabledByOthers").await;
    site.said("Hypervisor", "hv-1", "Evicting", "False", "Succeeded").await;
    assert_eq!(site.cloud.world().services["hv-1"]["disabled_reason"], "by a person");
    site.maintain("hv-1", "").await;
    site.said("Hypervisor", "hv-1", "Ready", "False", "Disabled").await;
    assert_eq!(site.cloud.world().services["hv-1"]["status"], "disabled");
}

#[tokio::test]
async fn a_service_that_a_person_took_over_during_a_maintenance_is_not_enabled_at_its_end() {
    let site = with_old_lists().await;
    site.maintain("hv-1", "manual").await;
    site.said("Hypervisor", "hv-1", "Evicting", "False", "Succeeded").await;
    assert_eq!(site.cloud.world().services["hv-1"]["disabled_reason"], "c5c3 maintenance manual: a new disk");
    disable(&site, "the disk is bad, too");
    site.maintain("hv-1", "").await;
    site.said("Hypervisor", "hv-1", "HypervisorDisabled", "True", "DisabledByOthers").await;
    let service = site.cloud.world().services["hv-1"].clone();
    assert_eq!((&service["status"], &service["disabled_reason"]), (&json!("disabled"), &json!("the disk is bad, too")));
}
