//! `bench cortex`: how long Cortex's engine takes for a decision, how much memory hosts take, and whether any is overbooked.

use std::num::NonZero;
use std::sync::Arc;
use std::time::{Duration, Instant};

use c5c3_cortex::{Amounts, Condition, Domain, Host, Resources, Scheduler, Shared, wire};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many hosts are offered with each request
    #[arg(long, default_value_t = 500)]
    hosts: usize,
    /// How many requests are under way at a time
    #[arg(long, default_value_t = 50)]
    parallel: usize,
    /// How many requests each of them makes
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// How many hosts the second run has
    #[arg(long, default_value_t = 10_000)]
    many: usize,
}

const MIB_OF_HOST: u64 = 256 * 1024;

/// Times of single decisions, and what became of the hosts.
struct Run {
    times: Vec<Duration>,
    wall: Duration,
    placed: usize,
    overbooked: usize,
    fullest: u64,
    emptiest: u64,
    memory_kib: u64,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    // First, since memory that a run gave back is used by the next.
    let many = measure(args.many, args.parallel, 1.max(args.rounds / 10))?;
    let alone = measure(args.hosts, 1, args.parallel * args.rounds)?;
    let few = measure(args.hosts, args.parallel, args.rounds)?;
    let name = |hosts: usize, parallel: usize| format!("{hosts} hosts, {parallel} at a time");
    println!("{:<32} {:>9} {:>9} {:>9} {:>12}", "", "p50 ms", "p99 ms", "a second", "overbooked");
    for (what, run) in [
        (name(args.hosts, 1), &alone),
        (name(args.hosts, args.parallel), &few),
        (name(args.many, args.parallel), &many),
    ] {
        println!(
            "{what:<32} {:>9.2} {:>9.2} {:>9.0} {:>12}",
            at(&run.times, 50),
            at(&run.times, 99),
            per_second(run),
            run.overbooked
        );
        println!(
            "{:<32} {} placed; the fullest host got {} MiB, the emptiest {} MiB",
            "", run.placed, run.fullest, run.emptiest
        );
    }
    println!("{} hosts in memory: {:.1} MiB", args.many, kib(many.memory_kib));
    println!("p99 of {} at a time / one at a time: {:.1}", args.parallel, at(&few.times, 99) / at(&alone.times, 99));
    println!(
        "decisions a second, {} hosts / {} hosts: {:.3}, with {:.3} of the hosts",
        args.hosts,
        args.many,
        per_second(&few) / per_second(&many),
        ratio(args.many, args.hosts)
    );
    if few.overbooked + many.overbooked + alone.overbooked > 0 {
        return Err("a host was overbooked".into());
    }
    Ok(())
}

/// Requests as the scheduler handles them, without the HTTP: as many at a time as there are processors and the others in their
/// order, read from JSON, decided, explained, answered as JSON. A time is that from the arrival to the answer.
fn measure(hosts: usize, parallel: usize, rounds: usize) -> Result<Run, String> {
    let before = resident()?;
    let mut scheduler = Scheduler::new(3_600_000);
    (0..hosts).for_each(|index| scheduler.put_host(Domain::Nova, host(index)));
    let memory_kib = resident()?.saturating_sub(before);
    let offer: Vec<Value> =
        (0..hosts).map(|index| json!({"host": name(index), "hypervisor_hostname": name(index)})).collect();
    let weights: serde_json::Map<String, Value> = (0..hosts).map(|index| (name(index), json!(1.0))).collect();
    let bodies: Vec<String> = (0..parallel * rounds).map(|server| body(server, &offer, &weights).to_string()).collect();
    let scheduler = Arc::new(Shared::new(scheduler));
    let turns = Arc::new(Semaphore::new(std::thread::available_parallelism().map_or(1, NonZero::get)));
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    let begun = Instant::now();
    let mut times = runtime.block_on(async {
        let clients = bodies.chunks(rounds).map(|share| {
            let client = client(scheduler.clone(), turns.clone(), share.to_vec());
            tokio::spawn(client)
        });
        let clients: Vec<_> = clients.collect();
        let mut times = Vec::new();
        for client in clients {
            times.extend(client.await.map_err(|error| error.to_string())??);
        }
        Ok::<_, String>(times)
    })?;
    let wall = begun.elapsed();
    let scheduler = scheduler.read();
    let inventory = scheduler.hosts(Domain::Nova).ok_or("no hosts")?;
    let filled = || (0..hosts).map(|index| scheduler.in_flight().on(&name(index), "").memory_mib);
    times.sort_unstable();
    Ok(Run {
        placed: scheduler.in_flight().len(),
        overbooked: scheduler.in_flight().overbooked(inventory).len(),
        fullest: filled().max().unwrap_or(0),
        emptiest: filled().min().unwrap_or(0),
        times,
        wall,
        memory_kib,
    })
}

/// One that asks again as soon as it has the answer.
async fn client(scheduler: Arc<Shared>, turns: Arc<Semaphore>, bodies: Vec<String>) -> Result<Vec<Duration>, String> {
    let mut times = Vec::with_capacity(bodies.len());
    for body in bodies {
        let (begun, scheduler) = (Instant::now(), scheduler.clone());
        let turn = turns.clone().acquire_owned().await.map_err(|error| error.to_string())?;
        let decided = tokio::task::spawn_blocking(move || {
            decide(&scheduler, body.as_bytes());
            drop(turn);
        });
        decided.await.map_err(|error| error.to_string())?;
        times.push(begun.elapsed());
    }
    Ok(times)
}

fn decide(scheduler: &Shared, body: &[u8]) {
    let request = wire::read(Domain::Nova, body).expect("the request is sound");
    let decision = scheduler.decide(&request, 0).expect("the pipeline is built in");
    std::hint::black_box((wire::answer(&decision.names()).to_string(), decision.explanation()));
}

fn name(index: usize) -> String {
    format!("hypervisor-{index:05}.region.example.net")
}

/// A host as a Hypervisor object tells of one: a hundred traits, thirty servers.
fn host(index: usize) -> Host {
    Host {
        name: name(index),
        zone: Some(format!("zone-{}", index % 3)),
        ready: Condition::True,
        cpu_arch: Some("x86_64".into()),
        hypervisor_type: Some("kvm".into()),
        capacity: Amounts { vcpus: Some(256), memory_mib: Some(MIB_OF_HOST), disk_gib: None },
        allocated: Resources { vcpus: (index % 64) as u64, memory_mib: (index % 100) as u64 * 1024, disk_gib: 0 },
        traits: Host::names((0..100).map(|number| format!("CUSTOM_TRAIT_OF_HARDWARE_{number}"))),
        instances: Host::names((0..30).map(|number| format!("00000000-0000-4000-{index:08x}-{number:012x}"))),
        ..Host::default()
    }
}

fn body(server: usize, offer: &[Value], weights: &serde_json::Map<String, Value>) -> Value {
    let memory = 4096 + 512 * (server as u64 % 57);
    let flavor =
        json!({"nova_object.data": {"name": "m1", "vcpus": 2, "memory_mb": memory, "root_gb": 20, "extra_specs": {}}});
    let spec =
        json!({"instance_uuid": format!("server-{server}"), "project_id": "p", "num_instances": 1, "flavor": flavor});
    json!({"spec": {"nova_object.data": spec}, "context": {}, "hosts": offer, "weights": weights})
}

/// What this process has in memory, in KiB.
fn resident() -> Result<u64, String> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS in /proc/self/status")?;
    line.split_whitespace().next().and_then(|kib| kib.parse().ok()).ok_or_else(|| format!("VmRSS is {line}"))
}

/// The time at a percentile, in milliseconds.
fn at(times: &[Duration], percentile: usize) -> f64 {
    let index = (times.len() * percentile).div_ceil(100).saturating_sub(1);
    times.get(index).map_or(0.0, |time| time.as_secs_f64() * 1000.0)
}

#[allow(clippy::cast_precision_loss)]
fn per_second(run: &Run) -> f64 {
    run.times.len() as f64 / run.wall.as_secs_f64()
}

#[allow(clippy::cast_precision_loss)]
fn kib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

#[allow(clippy::cast_precision_loss)]
fn ratio(a: usize, b: usize) -> f64 {
    b as f64 / a as f64
}
