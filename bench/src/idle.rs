//! `bench idle`: what an embedded cluster costs that has little to do, and how soon it is ready to do more.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::PostParams;
use kube::runtime::conditions::is_pod_running;
use kube::runtime::wait::{Condition, await_condition};
use kube::{Api, Client};
use serde_json::json;
use tempfile::TempDir;

use crate::up::output;

/// Ticks of the kernel's clock a second, as `/proc` counts them.
pub(crate) const TICKS: f64 = 100.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many pods there are
    #[arg(long, default_value_t = 5)]
    pods: u32,
    /// For how long it is watched, in seconds, and left alone before
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Where the cluster has its data
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    work: PathBuf,
}

pub(crate) async fn run(args: &Args) -> Result<(), String> {
    let work = TempDir::with_prefix_in("c5c3-bench-", &args.work).map_err(|error| error.to_string())?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("c5c3");
    let data = work.path().join("data");
    let measured = measure(args, &program, &data).await;
    output(Command::new(&program).arg("down").arg("--data").arg(&data))?;
    println!("{}", measured?);
    Ok(())
}

async fn measure(args: &Args, program: &Path, data: &Path) -> Result<String, String> {
    let up = || -> Result<Duration, String> {
        let begun = Instant::now();
        output(Command::new(program).args(["up", "--bare", "--detach", "--data"]).arg(data))?;
        Ok(begun.elapsed())
    };
    eprintln!("bench: starting a cluster twice");
    let first = up()?;
    output(Command::new(program).arg("down").arg("--data").arg(data))?;
    let second = up()?;
    output(Command::new(program).args(["image", "import", "memcached", "--data"]).arg(data))?;
    let client = crate::api::connect(&data.join("kubeconfig")).await?;
    let image = image(&client).await?;
    eprintln!("bench: starting {} pods, and waiting for {} s twice", args.pods, args.seconds);
    let one = pod(&client, &image, 0).await?;
    for number in 1..args.pods {
        pod(&client, &image, number).await?;
    }
    let rest = Duration::from_secs(args.seconds);
    tokio::time::sleep(rest).await;
    let processes = processes(program, data);
    let before = ticks(&processes);
    tokio::time::sleep(rest).await;
    let used = (ticks(&processes) - before) / TICKS / rest.as_secs_f64();
    let rows = [
        ("first start, until the node is ready", format!("{:.2} s", first.as_secs_f64())),
        ("second start, until the node is ready", format!("{:.2} s", second.as_secs_f64())),
        ("a pod, from its making until it is ready", format!("{:.2} s", one.as_secs_f64())),
        ("memory of our processes, what they share counted once", format!("{} MiB", proportional(&processes) / 1024)),
        ("processor", format!("{:.2} % of one", 100.0 * used)),
    ];
    let width = rows.iter().map(|(what, _)| what.len()).max().unwrap_or(0);
    Ok(rows.map(|(what, amount)| format!("{what:<width$}  {amount:>12}")).join("\n"))
}

/// The full name of the image that the node was given.
async fn image(client: &Client) -> Result<String, String> {
    let node = Api::<Node>::all(client.clone()).get("node-1").await.map_err(|error| error.to_string())?;
    let images = node.status.and_then(|status| status.images).unwrap_or_default();
    let mut names = images.into_iter().flat_map(|image| image.names.unwrap_or_default());
    names.find(|name| name.contains("/memcached:")).ok_or_else(|| "the node has no image of memcached".to_owned())
}

/// Makes a pod; how long it took to be ready.
async fn pod(client: &Client, image: &str, number: u32) -> Result<Duration, String> {
    let name = format!("idle-{number}");
    let pod = json!({"metadata": {"name": name}, "spec": {"terminationGracePeriodSeconds": 1,
        "containers": [{"name": "memcached", "image": image, "command": ["memcached"]}]}});
    let pod = serde_json::from_value(pod).map_err(|error| error.to_string())?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let begun = Instant::now();
    pods.create(&PostParams::default(), &pod).await.map_err(|error| error.to_string())?;
    let ready = is_pod_running().and(|pod: Option<&Pod>| {
        let conditions = pod.and_then(|pod| pod.status.as_ref()?.conditions.as_ref());
        conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
    });
    await_condition(pods, &name, ready).await.map_err(|error| error.to_string())?;
    Ok(begun.elapsed())
}

/// Our processes of a cluster: itself, and an agent for each node.
pub(crate) fn processes(program: &Path, data: &Path) -> Vec<u32> {
    let (program, data) = (program.to_string_lossy(), data.to_string_lossy());
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        line.split('\0').next() == Some(&program) && line.contains(&*data)
    })
    .collect()
}

/// The time on processors that they have had, in ticks.
pub(crate) fn ticks(processes: &[u32]) -> f64 {
    let of = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        Some(fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?)
    };
    processes.iter().filter_map(of).sum()
}

/// Their proportional set size, in KiB.
pub(crate) fn proportional(processes: &[u32]) -> u64 {
    let of = |pid: &u32| {
        let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    processes.iter().filter_map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_by_its_program_and_an_argument_and_measured() {
        let mut child = Command::new("/bin/sleep").args(["600", "0.0815"]).spawn().unwrap();
        let pid = child.id();
        let found = || processes(Path::new("/bin/sleep"), Path::new("0.0815"));
        while found() != [pid] {
            std::thread::yield_now();
        }
        assert!(proportional(&[pid]) > 0 && ticks(&[pid]) >= 0.0);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found().is_empty());
    }
}
