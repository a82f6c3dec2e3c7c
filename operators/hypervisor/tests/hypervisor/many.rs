//! Thousands of hypervisors: memory, and requests and CPU at rest. Run by hand, because it takes minutes; `HYPERVISORS` says how many:
//!
//! ```sh
//! HYPERVISORS=10000 cargo nextest run -p c5c3-operator-hypervisor --run-ignored only --no-capture thousands
//! ```

use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream;
use kube::api::ListParams;
use serde_json::json;

use crate::site::Site;

/// Resident memory of this process in MiB. The API server and the cloud are in it too.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

/// What this process has had of CPUs, in the kernel's ticks of 10 ms. The API server and the cloud are in it too.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace().skip(11).take(2);
    Duration::from_millis(fields.map(|ticks| ticks.parse::<u64>().unwrap()).sum::<u64>() * 10)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes; run by hand for the numbers"]
async fn thousands_of_hypervisors_take_little_memory_and_few_requests_at_rest() {
    let count: usize = std::env::var("HYPERVISORS").ok().and_then(|text| text.parse().ok()).unwrap_or(1000);
    let mut site = Site::open(|settings| {
        settings.shared = Duration::from_secs(10);
        settings.wait = Duration::from_secs(15);
    })
    .await;
    site.kill().await;
    for number in 0..count {
        site.cloud.register(&format!("hv-{number}"));
    }
    stream::iter(0..count)
        .for_each_concurrent(8, |number| {
            let name = format!("hv-{number}");
            let site = &site;
            async move { site.node(&name, json!({})).await }
        })
        .await;
    let (empty, started) = (resident(), Instant::now());
    site.restart();
    let mut ready = 0;
    while ready < count {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let all = site.hypervisors().list(&ListParams::default()).await.unwrap();
        let is_ready = |one: &c5c3_api::hypervisor::Hypervisor| {
            let conditions = one.status.iter().flat_map(|status| &status.conditions);
            conditions.into_iter().any(|one| one.r#type == "Ready" && one.reason.as_deref() == Some("Ready"))
        };
        ready = all.items.iter().filter(|one| is_ready(one)).count();
    }
    let onboarded = started.elapsed();
    site.kill().await;
    let without = resident();
    site.restart();
    // The first look at all objects after a start, and then rest.
    let settle = Duration::from_mins(1);
    tokio::time::sleep(settle).await;
    let (with, before, worked) = (resident(), site.cloud.world().calls, cpu());
    tokio::time::sleep(settle).await;
    let (calls, worked) = (site.cloud.world().calls - before, cpu().saturating_sub(worked));
    println!(
        "{count} hypervisors: onboarded in {onboarded:?}; before {empty} MiB, all without the operator {without} MiB, \
         with it {with} MiB; {calls} requests to OpenStack and {worked:?} of CPU in {} s at rest",
        settle.as_secs()
    );
    let all = site.hypervisors().list(&ListParams::default()).await.unwrap();
    assert_eq!(all.items.len(), count);
    assert!(calls < count, "{calls} requests a minute for {count} hosts at rest");
    assert!(with.saturating_sub(without) < 200, "{with} MiB with the operator, {without} without");
}
