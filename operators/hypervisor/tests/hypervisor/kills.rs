//! The operator is killed after every call to OpenStack, and after every write to its objects.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::api::DynamicObject;
use kube::runtime::watcher;
use serde_json::json;

use crate::site::{Site, condition, smoke};

type Events = BoxStream<'static, Result<watcher::Event<DynamicObject>, watcher::Error>>;

fn events(site: &Site, kind: &str) -> Events {
    watcher(site.api(kind), watcher::Config::default()).boxed()
}

/// Kills and restarts the operator after each call and each write, until the object is as told.
async fn killed_until(site: &mut Site, name: &str, condition_type: &str, reason: &str) -> usize {
    let mut kills = 0;
    let changed = site.cloud.changed.clone();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(90);
    let (mut hosts, mut evictions) = (events(site, "Hypervisor"), events(site, "Eviction"));
    loop {
        assert!(tokio::time::Instant::now() < deadline, "{:#?}", site.cloud.world().log);
        if let Some(found) = site.api("Hypervisor").get_opt(name).await.unwrap() {
            let said = condition(&found.data["status"], condition_type);
            if said["reason"] == reason {
                site.cloud.world().silent = false;
                return kills;
            }
        }
        tokio::select! {
            () = changed.notified() => {}
            Some(Ok(event)) = hosts.next() => if !matches!(event, watcher::Event::Apply(_)) { continue },
            Some(Ok(event)) = evictions.next() => if !matches!(event, watcher::Event::Apply(_)) { continue },
            () = tokio::time::sleep_until(deadline) => {}
        }
        site.kill().await;
        kills += 1;
        site.restart();
    }
}

#[tokio::test]
async fn an_operator_that_is_killed_after_each_step_does_nothing_twice() {
    let mut site = Site::open(|settings| {
        settings.smoke = Some(smoke());
        settings.test_aggregate = Some("tests".into());
    })
    .await;
    for (name, zone) in [("az-1", Some("az-1")), ("gold", None), ("tests", None)] {
        site.cloud.aggregate(name, zone);
    }
    site.cloud.world().silent = true;
    site.cloud.register("hv-1");
    let annotations =
        json!({"hypervisor.c5c3.io/aggregates": "gold", "hypervisor.c5c3.io/custom-traits": "CUSTOM_NVME"});
    site.node("hv-1", annotations).await;
    let joined = killed_until(&mut site, "hv-1", "Ready", "Ready").await;
    assert!(joined > 10, "{joined}");
    for (call, times) in
        [("POST /compute/servers server", 1), ("DELETE /compute/servers", 1), ("add_host", 3), ("remove_host", 1)]
    {
        assert_eq!(site.cloud.count(call), times, "{call} {:#?}", site.cloud.world().log);
    }
    assert_eq!(site.cloud.count("PUT /placement/resource_providers"), 1);

    site.cloud.server("a", "hv-1", "ACTIVE");
    site.cloud.server("b", "hv-1", "SHUTOFF");
    site.cloud.world().silent = true;
    site.maintain("hv-1", "termination").await;
    let left = killed_until(&mut site, "hv-1", "Offboarded", "Offboarded").await;
    assert!(left > 8, "{left}");
    let calls = [
        ("servers/a/action os-migrateLive", 1),
        ("servers/b/action migrate", 1),
        ("servers/b/action confirmResize", 1),
        ("DELETE /compute/os-services", 1),
        ("DELETE /placement/resource_providers", 1),
    ];
    for (call, times) in calls {
        assert_eq!(site.cloud.count(call), times, "{call} {:#?}", site.cloud.world().log);
    }
}
