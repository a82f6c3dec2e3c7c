//! Aggregates and traits that others change in Nova and Placement are put back with the next resync, without any change of the object.

use std::time::Duration;

use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::site::Site;

const HOST: &str = "hv-1";

/// A site that looks often for what others changed, with a host in its zone's aggregate and one more, with a trait.
async fn resynced_often() -> Site {
    let site = Site::open(|settings| settings.resync = Duration::from_millis(50)).await;
    for (name, zone) in [("az-1", Some("az-1")), ("gold", None), ("silver", None)] {
        site.cloud.aggregate(name, zone);
    }
    site.cloud.register(HOST);
    let annotations =
        json!({"hypervisor.c5c3.io/aggregates": "gold", "hypervisor.c5c3.io/custom-traits": "CUSTOM_NVME"});
    site.node(HOST, annotations).await;
    site.said("Hypervisor", HOST, "Ready", "True", "Ready").await;
    site
}

/// Another program puts a host into these aggregates and no others, all at once.
fn move_into(site: &Site, aggregates: &[&str]) {
    for one in site.cloud.world().aggregates.values_mut() {
        let is_in = aggregates.contains(&one["name"].as_str().unwrap());
        let hosts = one["hosts"].as_array_mut().unwrap();
        hosts.retain(|host| host != HOST);
        hosts.extend(is_in.then(|| json!(HOST)));
    }
}

/// Another program sets the traits of the host's resource provider.
fn set_traits(site: &Site, provider: &str, traits: Value) {
    let mut world = site.cloud.world();
    let provider = world.providers.get_mut(provider).unwrap();
    provider["generation"] = (provider["generation"].as_i64().unwrap() + 1).into();
    provider["traits"] = traits;
}

/// Waits until the cloud is as told, looking at it after each call that changed something.
async fn settled(site: &Site, what: &str, is_so: impl Fn() -> bool) {
    let look = async {
        loop {
            let changed = site.cloud.changed.notified();
            if is_so() {
                return;
            }
            changed.await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), look).await;
    assert!(waited.is_ok(), "not within 30 s: {what}\n{:#?}", site.cloud.world().log);
}

#[tokio::test]
async fn aggregates_that_others_change_in_nova_are_put_back_additions_first() {
    let site = resynced_often().await;
    site.cloud.world().log.clear();
    move_into(&site, &["az-1", "silver"]);
    settled(&site, "is in its aggregates again", || site.cloud.aggregates_of(HOST) == ["az-1", "gold"]).await;
    let log = site.cloud.world().log.clone();
    let at = |action: &str| log.iter().position(|call| call.contains(action));
    assert!(at("add_host") < at("remove_host"), "{log:#?}");
    assert_eq!(log.len(), 2, "{log:#?}");
    let names = |object: Option<&DynamicObject>| {
        let all = object.map(|object| object.data["status"]["aggregates"].clone()).unwrap_or_default();
        let names: Vec<Value> = all.as_array().into_iter().flatten().map(|one| one["name"].clone()).collect();
        names == [json!("az-1"), json!("gold")]
    };
    site.until("Hypervisor", HOST, "says so", names).await;
    site.said("Hypervisor", HOST, "AggregatesUpdated", "True", "Succeeded").await;
}

#[tokio::test]
async fn traits_that_others_remove_are_put_back_and_those_that_others_add_stay() {
    let site = resynced_often().await;
    let provider = site.status("Hypervisor", HOST).await["hypervisorId"].as_str().unwrap().to_owned();
    // Placement refuses a trait that does not exist.
    site.cloud.world().traits.insert("CUSTOM_OF_OTHERS".into());
    set_traits(&site, &provider, json!(["CUSTOM_OF_OTHERS", "HW_CPU_X86_AVX2"]));
    let traits = || site.cloud.world().providers[&provider]["traits"].clone();
    let wanted = json!(["CUSTOM_NVME", "CUSTOM_OF_OTHERS", "HW_CPU_X86_AVX2"]);
    settled(&site, "has its trait again", || traits() == wanted).await;
    site.said("Hypervisor", HOST, "TraitsUpdated", "True", "Succeeded").await;
    assert_eq!(site.status("Hypervisor", HOST).await["traits"], json!(["CUSTOM_NVME"]));
}

#[tokio::test]
async fn aggregates_of_a_host_whose_spec_names_none_are_left_to_others() {
    let site = Site::open(|settings| settings.resync = Duration::from_millis(50)).await;
    site.cloud.aggregate("silver", None);
    site.ready(HOST).await;
    site.cloud.world().log.clear();
    move_into(&site, &["silver"]);
    let has_it = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| object.data["status"]["aggregates"][0]["name"] == "silver")
    };
    site.until("Hypervisor", HOST, "has seen it", has_it).await;
    site.said("Hypervisor", HOST, "AggregatesUpdated", "True", "Succeeded").await;
    assert_eq!(site.cloud.world().log, Vec::<String>::new());
}
