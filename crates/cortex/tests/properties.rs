//! What holds for any hosts and any requests: thousands of random ones, always the same thousands.

use std::collections::BTreeSet;
use std::sync::Mutex;

use c5c3_cortex::{
    Amounts, Candidate, Condition, Domain, Host, PipelineSpec, Request, Resources, Scheduler, Shared, defaults,
};

const HOUR: u64 = 3_600_000;

/// SplitMix64: a failure is seen again by its seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

fn hosts(random: &mut Random, count: u64) -> Vec<Host> {
    (0..count)
        .map(|index| Host {
            name: format!("host-{index:03}"),
            ready: if random.below(10) == 0 { Condition::False } else { Condition::True },
            capacity: Amounts {
                vcpus: Some(random.below(64)),
                memory_mib: Some(random.below(65536)),
                disk_gib: (random.below(3) > 0).then(|| random.below(500)),
            },
            allocated: Resources {
                vcpus: random.below(8),
                memory_mib: random.below(8192),
                disk_gib: random.below(100),
            },
            ..Host::default()
        })
        .collect()
}

fn request(random: &mut Random, workload: u64, hosts: &[Host]) -> Request {
    let offered = hosts.iter().filter(|_| random.below(4) > 0);
    #[allow(clippy::cast_precision_loss)]
    let candidates: Vec<Candidate> = offered
        .map(|host| Candidate { host: host.name.clone(), node: None, weight: 0.0 })
        .collect::<Vec<_>>()
        .into_iter()
        .map(|candidate| Candidate { weight: random.below(1000) as f64 / 7.0, ..candidate })
        .collect();
    let resources = Resources { vcpus: random.below(8), memory_mib: random.below(16384), disk_gib: random.below(50) };
    Request { resources, candidates, ..Request::new(Domain::Nova, format!("server-{workload}")) }
}

fn fill(scheduler: &mut Scheduler, hosts: &[Host]) {
    for host in hosts {
        scheduler.put_host(Domain::Nova, host.clone());
    }
}

#[test]
fn no_host_is_ever_overbooked_by_a_decision() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let hosts = hosts(&mut random, 12);
        let mut scheduler = Scheduler::new(HOUR);
        fill(&mut scheduler, &hosts);
        // Some have more allocated than they have before anything is decided.
        let before: BTreeSet<String> = overbooked(&scheduler);
        for workload in 0..60 {
            // Now and then the same server is asked for again, as Nova does when a host failed to build it.
            let asked = request(&mut random, workload - workload % 7, &hosts);
            scheduler.decide(&asked, workload).unwrap();
            assert!(overbooked(&scheduler).is_subset(&before), "seed {seed}, server {workload}");
        }
    }
}

fn overbooked(scheduler: &Scheduler) -> BTreeSet<String> {
    let inventory = scheduler.hosts(Domain::Nova).unwrap();
    scheduler.in_flight().overbooked(inventory).into_iter().map(str::to_owned).collect()
}

#[test]
fn requests_at_once_never_get_the_same_room() {
    let mut random = Random(7);
    let hosts = hosts(&mut random, 40);
    let mut scheduler = Scheduler::new(HOUR);
    fill(&mut scheduler, &hosts);
    let before = overbooked(&scheduler);
    let scheduler = Mutex::new(scheduler);
    std::thread::scope(|scope| {
        for worker in 0..8_u64 {
            let (scheduler, hosts) = (&scheduler, &hosts);
            scope.spawn(move || {
                let mut random = Random(1000 + worker);
                for index in 0..50 {
                    let asked = request(&mut random, worker * 1000 + index, hosts);
                    scheduler.lock().unwrap().decide(&asked, 0).unwrap();
                }
            });
        }
    });
    let scheduler = scheduler.into_inner().unwrap();
    assert!(!scheduler.in_flight().is_empty());
    assert!(overbooked(&scheduler).is_subset(&before));
}

/// While hosts change, and with the parts of decisions that run at the same time.
#[test]
fn threads_that_share_a_scheduler_never_get_the_same_room() {
    let mut random = Random(11);
    let hosts = hosts(&mut random, 40);
    let mut scheduler = Scheduler::new(HOUR);
    fill(&mut scheduler, &hosts);
    let before = overbooked(&scheduler);
    let shared = Shared::new(scheduler);
    std::thread::scope(|scope| {
        for worker in 0..8_u64 {
            let (shared, hosts) = (&shared, &hosts);
            scope.spawn(move || {
                let mut random = Random(2000 + worker);
                for index in 0..100 {
                    shared.decide(&request(&mut random, worker * 1000 + index, hosts), 0).unwrap();
                    // A new host each time, so that what was worked out before does not hold any more.
                    let host = Host { name: format!("new-{worker}-{index}"), ..Host::default() };
                    shared.write().put_host(Domain::Nova, host);
                }
            });
        }
    });
    let scheduler = shared.read();
    assert!(scheduler.in_flight().len() > 50, "{} are promised", scheduler.in_flight().len());
    assert!(overbooked(&scheduler).is_subset(&before));
}

/// What the capacity filter keeps is what integers say, and nothing else.
#[test]
fn the_capacity_filter_is_exact() {
    for seed in 0..500 {
        let mut random = Random(seed);
        let hosts = hosts(&mut random, 20);
        let mut scheduler = Scheduler::new(HOUR);
        fill(&mut scheduler, &hosts);
        let spec = PipelineSpec::new("nova", Domain::Nova).filters(["filter_has_enough_capacity"]);
        scheduler.put_pipeline(&spec).unwrap();
        let asked = request(&mut random, 1, &hosts);
        let kept: BTreeSet<String> =
            scheduler.look(&asked).unwrap().hosts.into_iter().map(|ranked| ranked.host).collect();
        let offered: BTreeSet<&str> = asked.candidates.iter().map(|candidate| candidate.host.as_str()).collect();
        let fits = |has: Option<u64>, used: u64, needs: u64| needs == 0 || has.is_none_or(|has| used + needs <= has);
        let expected: BTreeSet<String> = hosts
            .iter()
            .filter(|host| offered.contains(host.name.as_str()))
            .filter(|host| {
                let (has, used, needs) = (host.capacity, host.allocated, asked.resources);
                fits(has.vcpus, used.vcpus, needs.vcpus)
                    && fits(has.memory_mib, used.memory_mib, needs.memory_mib)
                    && fits(has.disk_gib, used.disk_gib, needs.disk_gib)
            })
            .map(|host| host.name.clone())
            .collect();
        assert_eq!(kept, expected, "seed {seed}");
    }
}

#[test]
fn a_decision_depends_on_nothing_but_its_inputs() {
    for seed in 0..100 {
        let mut random = Random(seed);
        let hosts = hosts(&mut random, 15);
        let asked = request(&mut random, 1, &hosts);
        let (mut forward, mut backward) = (Scheduler::new(HOUR), Scheduler::new(HOUR));
        fill(&mut forward, &hosts);
        hosts.iter().rev().for_each(|host| backward.put_host(Domain::Nova, host.clone()));
        let mut reversed = asked.clone();
        reversed.candidates.reverse();
        for pipeline in defaults().into_iter().filter(|pipeline| pipeline.domain == Domain::Nova) {
            let named = |request: &Request| Request { pipeline: pipeline.name.clone(), ..request.clone() };
            let one = forward.look(&named(&asked)).unwrap();
            let other = backward.look(&named(&reversed)).unwrap();
            assert_eq!(one.hosts, other.hosts, "seed {seed}");
            let offered: BTreeSet<&str> = asked.candidates.iter().map(|candidate| candidate.host.as_str()).collect();
            let answered: BTreeSet<&str> = one.names().into_iter().collect();
            assert_eq!(answered.len(), one.hosts.len(), "no host is named twice");
            assert!(answered.is_subset(&offered), "no host is made up");
            assert_eq!(one.hosts.len() + one.filters.iter().map(|f| f.removed).sum::<usize>(), one.offered);
            assert!(one.hosts.is_sorted_by(|a, b| a.score >= b.score));
        }
    }
}
