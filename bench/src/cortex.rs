//! `bench cortex`: how long Cortex's engine takes for a decision, how much memory hosts take, and whether any is overbooked.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use c5c3_cortex::{Amounts, Condition, Domain, Host, Resources, Scheduler, wire};
use serde_json::{Value, json};

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

/// Requests as they come over HTTP, without the HTTP: read from JSON, decided under the lock, explained, answered as JSON.
fn measure(hosts: usize, parallel: usize, rounds: usize) -> Result<Run, String> {
    let before = resident()?;
    let mut scheduler = Scheduler::new(3_600_000);
    (0..hosts).for_each(|index| scheduler.put_host(Domain::Nova, host(index)));
    let memory_kib = resident()?.saturating_sub(before);
    let offer: Vec<Value> =
        (0..hosts).map(|index| json!({"host": name(index), "hypervisor_hostname": name(index)})).collect();
    let weights: serde_json::Map<String, Value> = (0..hosts).map(|index| (name(index), json!(1.0))).collect();
    let bodies: Vec<String> = (0..parallel * rounds).map(|server| body(server, &offer, &weights).to_string()).collect();
    let scheduler = Mutex::new(scheduler);
    let begun = Instant::now();
    let times: Vec<Vec<Duration>> = std::thread::scope(|scope| {
        let decide_all = |bodies: &[String]| -> Vec<Duration> {
            bodies.iter().map(|body| decide(&scheduler, body.as_bytes())).collect()
        };
        let workers: Vec<_> = bodies.chunks(rounds).map(|share| scope.spawn(move || decide_all(share))).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().map_err(|_| "a worker panicked".to_owned()))
            .collect::<Result<_, _>>()
    })?;
    let wall = begun.elapsed();
    let scheduler = scheduler.into_inner().map_err(|_| "a worker panicked".to_owned())?;
    let inventory = scheduler.hosts(Domain::Nova).ok_or("no hosts")?;
    let filled = || (0..hosts).map(|index| scheduler.in_flight().on(&name(index), "").memory_mib);
    let mut times: Vec<Duration> = times.into_iter().flatten().collect();
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

fn decide(scheduler: &Mutex<Scheduler>, body: &[u8]) -> Duration {
    let begun = Instant::now();
    let request = wire::read(Domain::Nova, body).expect("the request is sound");
    let decision = scheduler.lock().expect("no one panics").decide(&request, 0).expect("the pipeline is built in");
    let answer = (wire::answer(&decision.names()).to_string(), decision.explanation());
    std::hint::black_box(answer);
    begun.elapsed()
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
