//! How long a test cluster takes to start, alone and with others: under 50 ms until it answers is what tests count on.

#![allow(clippy::print_stdout)] // A benchmark is read on the terminal.

use std::time::{Duration, Instant};

use c5c3_harness::TestCluster;
use futures::future::join_all;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

/// Starts a cluster, and returns how long it took until its first answer.
async fn start() -> Duration {
    let began = Instant::now();
    let cluster = TestCluster::start().await.expect("a cluster");
    Api::<Namespace>::all(cluster.client()).get("default").await.expect("an answer");
    began.elapsed()
}

#[tokio::main]
async fn main() {
    start().await;
    println!("{:>8}  {:>10}  {:>10}  {:>12}", "clusters", "median", "slowest", "per cluster");
    for count in [1, 10, 30] {
        let began = Instant::now();
        let tasks = join_all((0..count).map(|_| tokio::spawn(start()))).await;
        let each = began.elapsed() / count;
        let mut times: Vec<Duration> = tasks.into_iter().map(|time| time.expect("it starts")).collect();
        times.sort();
        let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
        println!("{count:>8}  {median:>10.1?}  {slowest:>10.1?}  {each:>12.1?}");
    }
}
