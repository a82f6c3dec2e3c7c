//! `bench memory`: what a cluster holds in memory before and after an hour's worth of requests, put on its API server as fast as it
//! takes them, and when it is idle again.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde_json::json;
use tempfile::TempDir;

use crate::idle::{processes, proportional};
use crate::up::output;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many writes there are: ten a second for an hour when absent
    #[arg(long, default_value_t = 36_000)]
    writes: usize,
    /// How many clients write at once
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// For how long the cluster is left alone before each look, in seconds
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// The program that is measured; the one beside this when absent
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Where the cluster has its data
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    work: PathBuf,
}

pub(crate) async fn run(args: &Args) -> Result<(), String> {
    let work = TempDir::with_prefix_in("c5c3-bench-", &args.work).map_err(|error| error.to_string())?;
    let beside = || std::env::current_exe().map(|path| path.with_file_name("c5c3"));
    let program = args.program.clone().map_or_else(beside, Ok).map_err(|error| error.to_string())?;
    let data = work.path().join("data");
    let measured = measure(args, &program, &data).await;
    output(Command::new(&program).arg("down").arg("--data").arg(&data))?;
    println!("{}", measured?);
    Ok(())
}

async fn measure(args: &Args, program: &Path, data: &Path) -> Result<String, String> {
    output(Command::new(program).args(["up", "--bare", "--detach", "--data"]).arg(data))?;
    let client = crate::api::connect(&data.join("kubeconfig")).await?;
    let rest = || tokio::time::sleep(Duration::from_secs(args.seconds));
    let held = || proportional(&processes(program, data)) / 1024;
    rest().await;
    let mut rows = vec![("idle, before".to_owned(), held())];
    let begun = Instant::now();
    // Two halves: what grows with the load grows in both.
    for half in ["first", "second"] {
        load(&client, args.writes / 2, args.clients).await.map_err(|error| error.to_string())?;
        rows.push((format!("after the {half} half, {} s from the start", begun.elapsed().as_secs()), held()));
    }
    rest().await;
    rows.push((format!("idle, {} s later", args.seconds), held()));
    let width = rows.iter().map(|(what, _)| what.len()).max().unwrap_or(0);
    let lines: Vec<String> = rows.iter().map(|(what, mib)| format!("{what:<width$}  {mib:>6} MiB")).collect();
    Ok(lines.join("\n"))
}

/// The requests: each object is created, applied twice and deleted; now and then all of them are listed, and a watch begins.
async fn load(client: &Client, writes: usize, clients: usize) -> Result<(), kube::Error> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let each = stream::iter(0..writes / 4).map(|number| {
        let maps = maps.clone();
        async move { life(&maps, number).await }
    });
    each.buffer_unordered(clients).try_collect().await
}

async fn life(maps: &Api<ConfigMap>, number: usize) -> Result<(), kube::Error> {
    let name = format!("load-{number}");
    let map = |round: u8| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"round": round.to_string(), "filler": "x".repeat(1024)}});
    let created: ConfigMap = serde_json::from_value(map(0)).map_err(kube::Error::SerdeError)?;
    maps.create(&PostParams::default(), &created).await?;
    for round in 1..=2 {
        maps.patch(&name, &PatchParams::apply("bench").force(), &Patch::Apply(map(round))).await?;
    }
    if number.is_multiple_of(100) {
        maps.list(&ListParams::default()).await?;
        let mut watch = Box::pin(watcher(maps.clone(), watcher::Config::default()).applied_objects());
        let _ = watch.next().await;
    }
    maps.delete(&name, &DeleteParams::default()).await.map(drop)
}
