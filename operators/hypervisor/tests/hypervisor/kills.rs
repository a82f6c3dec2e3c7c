//! The operator is killed after every call to OpenStack, and after every write to its objects and to nodes.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::runtime::watcher;
use serde_json::{Value, json};

use crate::site::{Site, condition, smoke};

type Events = BoxStream<'static, Result<watcher::Event<DynamicObject>, watcher::Error>>;

const HOST: &str = "hv-1";

fn events(site: &Site, kind: &str) -> Events {
    watcher(site.api(kind), watcher::Config::default()).boxed()
}

/// The host and its Eviction, as they are.
struct Seen {
    host: Option<DynamicObject>,
    eviction: Option<DynamicObject>,
}

impl Seen {
    async fn look(site: &Site, eviction: &str) -> Self {
        let (hosts, evictions) = (site.api("Hypervisor"), site.api("Eviction"));
        Self { host: hosts.get_opt(HOST).await.unwrap(), eviction: evictions.get_opt(eviction).await.unwrap() }
    }

    /// The reason of a condition of the host; empty without one.
    fn reason(&self, condition_type: &str) -> String {
        let status = self.host.as_ref().map(|host| host.data["status"].clone()).unwrap_or_default();
        condition(&status, condition_type)["reason"].as_str().unwrap_or_default().to_owned()
    }

    /// The same of the Eviction.
    fn of_eviction(&self) -> String {
        let status = self.eviction.as_ref().map(|one| one.data["status"].clone()).unwrap_or_default();
        condition(&status, "Evicting")["reason"].as_str().unwrap_or_default().to_owned()
    }
}

/// Kills and restarts the operator after each call and each write, until it is as told. No call that changes something is ever
/// answered.
async fn killed_until(site: &mut Site, eviction: &str, is_so: impl Fn(&Seen) -> bool) -> usize {
    let mut kills = 0;
    let changed = site.cloud.changed.clone();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(90);
    let (mut hosts, mut evictions, mut nodes) =
        (events(site, "Hypervisor"), events(site, "Eviction"), events(site, "Node"));
    site.cloud.world().silent = true;
    // A new operator looks at once at what an old one would look at later.
    site.kill().await;
    site.restart();
    loop {
        let seen = Seen::look(site, eviction).await;
        if is_so(&seen) {
            site.cloud.world().silent = false;
            return kills;
        }
        let is_late = tokio::time::Instant::now() >= deadline;
        assert!(!is_late, "{:#?}\n{:#?}", seen.host.map(|host| host.data), site.cloud.world().log);
        let is_write = |event: &watcher::Event<DynamicObject>| matches!(event, watcher::Event::Apply(_));
        tokio::select! {
            () = changed.notified() => {}
            Some(Ok(event)) = hosts.next() => if !is_write(&event) { continue },
            Some(Ok(event)) = evictions.next() => if !is_write(&event) { continue },
            Some(Ok(event)) = nodes.next() => if !is_write(&event) { continue },
            () = tokio::time::sleep_until(deadline) => {}
        }
        site.kill().await;
        kills += 1;
        site.restart();
    }
}

/// Each of these calls was made so often.
fn assert_made(site: &Site, calls: &[(&str, usize)]) {
    for (call, times) in calls {
        assert_eq!(site.cloud.count(call), *times, "{call} {:#?}", site.cloud.world().log);
    }
}

/// A pod of an agent on the host, which goes when the host is said to wait for it.
async fn agent(site: &Site) -> tokio::task::JoinHandle<()> {
    let pods: Api<Pod> = Api::default_namespaced(site.cluster.client());
    let pod = json!({"metadata": {"name": "nova-compute-x"}, "spec": {"nodeName": HOST, "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "nova-compute", "image": "nova"}]}});
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let hosts = site.api("Hypervisor");
    tokio::spawn(async move {
        let waits = |found: Option<&DynamicObject>| {
            let status = found.map(|found| found.data["status"].clone()).unwrap_or_default();
            condition(&status, "AgentPodsEvicted")["reason"] == "AgentPodsRunning"
        };
        kube::runtime::wait::await_condition(hosts, HOST, waits).await.unwrap();
        pods.delete("nova-compute-x", &DeleteParams::default().grace_period(0)).await.unwrap();
    })
}

fn zones(site: &Site) -> Value {
    for (name, zone) in [("az-1", Some("az-1")), ("gold", None), ("tests", None)] {
        site.cloud.aggregate(name, zone);
    }
    json!({"hypervisor.c5c3.io/aggregates": "gold", "hypervisor.c5c3.io/custom-traits": "CUSTOM_NVME"})
}

/// A consumer of the host's resources of which Nova knows no server.
async fn ghost(site: &Site) {
    let provider = site.status("Hypervisor", HOST).await["hypervisorId"].as_str().unwrap().to_owned();
    site.cloud.world().providers.get_mut(&provider).unwrap()["allocations"]["ghost"] = json!({});
}

#[tokio::test]
async fn an_operator_that_is_killed_after_each_step_does_nothing_twice() {
    let mut site = Site::open(|settings| {
        settings.smoke = Some(smoke());
        settings.test_aggregate = Some("tests".into());
    })
    .await;
    let annotations = zones(&site);
    site.cloud.register(HOST);
    site.node(HOST, annotations).await;
    let joined = killed_until(&mut site, HOST, |seen| seen.reason("Ready") == "Ready").await;
    assert!(joined > 10, "{joined}");
    let calls = [
        ("POST /compute/servers server", 1),
        ("DELETE /compute/servers", 1),
        ("add_host", 3),
        ("remove_host", 1),
        ("PUT /placement/resource_providers", 1),
        ("PUT /compute/os-services", 1),
    ];
    assert_made(&site, &calls);

    site.cloud.server("a", HOST, "ACTIVE");
    site.cloud.server("b", HOST, "SHUTOFF");
    ghost(&site).await;
    let agent = agent(&site).await;
    site.maintain(HOST, "termination").await;
    let left = killed_until(&mut site, HOST, |seen| seen.reason("Offboarded") == "Offboarded").await;
    assert!(left > 10, "{left}");
    agent.await.unwrap();
    let calls = [
        ("servers/a/action os-migrateLive", 1),
        ("servers/b/action migrate", 1),
        ("servers/b/action confirmResize", 1),
        ("PUT /compute/os-services", 2),
        ("remove_host", 3),
        ("DELETE /compute/os-services", 1),
        ("DELETE /placement/allocations/ghost", 1),
        ("DELETE /placement/resource_providers", 1),
    ];
    assert_made(&site, &calls);

    // The node goes, and one of the same name comes.
    site.delete_node(HOST).await;
    killed_until(&mut site, HOST, |seen| seen.host.is_none()).await;
    site.cloud.world().log.clear();
    site.cloud.register(HOST);
    site.node(HOST, json!({})).await;
    killed_until(&mut site, HOST, |seen| seen.reason("Ready") == "Ready").await;
    assert_made(&site, &[("POST /compute/servers server", 1), ("PUT /compute/os-services", 1)]);
}

#[tokio::test]
async fn an_onboarding_that_is_aborted_and_started_again_leaves_no_server_and_boots_no_second_one() {
    let mut site = Site::open(|settings| settings.smoke = Some(smoke())).await;
    site.cloud.world().fails.insert("smoke".into());
    site.cloud.register(HOST);
    site.node(HOST, json!({})).await;
    let cloud = site.cloud.clone();
    let is_aborted = |seen: &Seen| seen.reason("Onboarding") == "Aborted" && cloud.world().servers.is_empty();
    let aborted = killed_until(&mut site, HOST, is_aborted).await;
    assert!(aborted > 5, "{aborted}");
    assert_made(&site, &[("POST /compute/servers server", 1), ("DELETE /compute/servers", 1)]);
    site.cloud.world().fails.clear();
    let patch = json!({"metadata": {"annotations": {"hypervisor.c5c3.io/restart-onboarding": "2090-01-01T00:00:00Z"}}});
    site.hypervisors().patch(HOST, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    killed_until(&mut site, HOST, |seen| seen.reason("Ready") == "Ready").await;
    assert_made(
        &site,
        &[("POST /compute/servers server", 2), ("DELETE /compute/servers", 2), ("PUT /compute/os-services", 1)],
    );
}

#[tokio::test]
async fn a_drain_that_fails_tries_no_instance_too_often_and_its_end_enables_the_host_once() {
    let mut site = Site::open(|_| {}).await;
    site.ready(HOST).await;
    site.cloud.world().log.clear();
    site.cloud.server("a", HOST, "ACTIVE");
    site.cloud.server("b", HOST, "ACTIVE");
    site.cloud.world().fails.insert("b".into());
    site.maintain(HOST, "manual").await;
    let failed = killed_until(&mut site, HOST, |seen| seen.reason("Ready") == "EvictionFailed").await;
    assert!(failed > 5, "{failed}");
    let calls = [("PUT /compute/os-services", 1), ("servers/a/action", 1), ("servers/b/action os-migrateLive", 2)];
    assert_made(&site, &calls);
    // Its user deletes it.
    site.cloud.world().servers.remove("b");
    killed_until(&mut site, HOST, |seen| seen.reason("Ready") == "Evicted").await;
    site.maintain(HOST, "").await;
    let is_back = |seen: &Seen| seen.reason("Ready") == "Ready" && seen.eviction.is_none();
    killed_until(&mut site, HOST, is_back).await;
    assert_made(&site, &[("PUT /compute/os-services", 2), ("os-migrateLive", 3)]);
}

#[tokio::test]
async fn a_migration_that_takes_too_long_is_aborted_once() {
    let mut site = Site::open(|settings| {
        settings.drain.deadline = Duration::from_secs(1);
        settings.drain.deadline_per_gib = Duration::ZERO;
        settings.drain.attempts = 1;
    })
    .await;
    site.ready(HOST).await;
    site.cloud.server("a", HOST, "ACTIVE");
    site.cloud.world().hangs.insert("a".into());
    site.maintain(HOST, "auto").await;
    killed_until(&mut site, HOST, |seen| seen.of_eviction() == "Failed").await;
    assert_made(&site, &[("servers/a/action os-migrateLive", 1), ("DELETE /compute/servers/a/migrations", 1)]);
}

#[tokio::test]
async fn an_eviction_by_hand_disables_and_enables_once() {
    const NAME: &str = "hv-1-firmware";
    let mut site = Site::open(|_| {}).await;
    site.ready(HOST).await;
    site.cloud.world().log.clear();
    site.cloud.server("a", HOST, "PAUSED");
    let mut eviction = DynamicObject::new(NAME, &ApiResource::erase::<c5c3_api::hypervisor::Eviction>(&()));
    eviction.data = json!({"spec": {"hypervisor": HOST, "reason": "firmware"}});
    site.api("Eviction").create(&PostParams::default(), &eviction).await.unwrap();
    killed_until(&mut site, NAME, |seen| seen.of_eviction() == "Succeeded").await;
    assert_made(&site, &[("PUT /compute/os-services", 1), ("servers/a/action os-migrateLive", 1)]);
    site.api("Eviction").delete(NAME, &DeleteParams::default()).await.unwrap();
    killed_until(&mut site, NAME, |seen| seen.eviction.is_none()).await;
    assert_made(&site, &[("PUT /compute/os-services", 2), ("servers/a/action", 1)]);
    assert_eq!(site.cloud.world().services[HOST]["status"], "enabled");
}

#[tokio::test]
async fn a_host_whose_node_was_deleted_leaves_nova_once() {
    let mut site = Site::open(|_| {}).await;
    let annotations = zones(&site);
    site.cloud.register(HOST);
    site.node(HOST, annotations).await;
    site.said("Hypervisor", HOST, "Ready", "True", "Ready").await;
    site.cloud.world().log.clear();
    ghost(&site).await;
    site.delete_node(HOST).await;
    let left = killed_until(&mut site, HOST, |seen| seen.host.is_none()).await;
    assert!(left > 4, "{left}");
    let calls = [
        ("remove_host", 2),
        ("DELETE /compute/os-services", 1),
        ("DELETE /placement/allocations/ghost", 1),
        ("DELETE /placement/resource_providers", 1),
    ];
    assert_made(&site, &calls);
    assert!(!site.cloud.world().services.contains_key(HOST));
}
