//! Live migrations off hosts that carry too much: which hosts those are, and where one of their servers may go.
//!
//! The pipeline that answers Nova chooses the target. On top of it come brakes against cycles: no target may carry more
//! afterwards than the source does before, and none may become a host that the same detectors find.

use crate::detectors::{Detector, Load};
use crate::host::Host;
use crate::request::{Candidate, Domain, Intent, Options, Request};
use crate::resources::Resources;
use crate::scheduler::Scheduler;

/// How many of the hosts that brakes leave out are told.
const TOLD: usize = 3;

/// A host that carries too much.
#[derive(Clone, Debug, PartialEq)]
pub struct Overload {
    /// The host.
    pub host: String,
    /// The detector that found it.
    pub detector: Detector,
    /// Its load.
    pub load: f64,
}

impl Overload {
    /// What is wrong with the host, in words.
    pub fn reason(&self) -> String {
        let Detector { name, load, threshold } = self.detector;
        format!("{} has {}, above the {} of {name}", self.host, load.words(self.load), load.amount(threshold))
    }

    /// How far above the threshold it is, as a share of the threshold.
    fn excess(&self) -> f64 {
        self.load / self.detector.threshold
    }
}

/// The question where a server that leaves its host goes.
#[derive(Clone, Debug)]
pub struct Relocation {
    /// The server. Candidates, intent and options are filled in.
    pub request: Request,
    /// The host that it leaves.
    pub from: String,
    /// What is compared between source and target.
    pub load: Load,
    /// Detectors that must not find the target afterwards.
    pub limits: Vec<Detector>,
    /// Hosts that it must not go to, since it left them before.
    pub left: Vec<String>,
}

/// Where a server goes, and what that changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Move {
    /// The target.
    pub to: String,
    /// The load of the source before and after.
    pub source: (f64, f64),
    /// The load of the target before and after.
    pub target: (f64, f64),
}

impl Move {
    /// What changes, in words.
    pub fn effect(&self, from: &str, load: Load) -> String {
        let (words, amount) = (|of| load.words(of), |of| load.amount(of));
        let Self { to, source, target } = self;
        format!(
            "{from} then has {}, {} now; {to} then has {}, {} now",
            words(source.1),
            amount(source.0),
            words(target.1),
            amount(target.0)
        )
    }
}

impl Scheduler {
    /// The hosts that detectors find, the worst first. A host that is found by several counts by the worst of them.
    pub fn overloads(&self, domain: Domain, detectors: &[Detector]) -> Vec<Overload> {
        let mut found: Vec<Overload> = Vec::new();
        for host in self.hosts(domain).into_iter().flat_map(crate::Inventory::iter) {
            let each = detectors.iter().filter_map(|detector| {
                let load = self.load(detector.load, host, None)?;
                (load > detector.threshold).then(|| Overload { host: host.name.clone(), detector: *detector, load })
            });
            found.extend(each.max_by(|a, b| a.excess().total_cmp(&b.excess())));
        }
        found.sort_by(|a, b| b.excess().total_cmp(&a.excess()).then_with(|| a.host.cmp(&b.host)));
        found
    }

    /// The load of a host with what is promised there, and with one more server if one is given.
    fn load(&self, load: Load, host: &Host, more: Option<&Request>) -> Option<f64> {
        let workload = more.map_or("", |request| request.workload.as_str());
        let taken = host.allocated + self.in_flight().on(&host.name, workload);
        let servers = host.instances.len() + self.in_flight().count_on(&host.name, workload);
        match more {
            Some(request) => load.of(host, taken + request.resources, servers + 1),
            None => load.of(host, taken, servers),
        }
    }

    /// Whether a host is below the threshold of what found it without these resources.
    pub fn is_enough(&self, domain: Domain, overload: &Overload, resources: Resources) -> bool {
        let host = self.hosts(domain).and_then(|hosts| hosts.get(&overload.host));
        let after = host.and_then(|host| self.without(overload.detector.load, host, resources));
        after.is_some_and(|after| after <= overload.detector.threshold)
    }

    fn without(&self, load: Load, host: &Host, resources: Resources) -> Option<f64> {
        let taken = host.allocated + self.in_flight().on(&host.name, "");
        let left = Resources {
            vcpus: taken.vcpus.saturating_sub(resources.vcpus),
            memory_mib: taken.memory_mib.saturating_sub(resources.memory_mib),
            disk_gib: taken.disk_gib.saturating_sub(resources.disk_gib),
        };
        load.of(host, left, host.instances.len().saturating_sub(1))
    }

    /// Where a server that leaves its host goes; or why nowhere. Changes nothing.
    pub fn relocate(&self, relocation: &Relocation) -> Result<Move, String> {
        let Relocation { from, load, limits, left, .. } = relocation;
        let domain = relocation.request.domain;
        let known = self.hosts(domain);
        let Some(source) = known.and_then(|hosts| hosts.get(from)) else {
            return Err(format!("{from} is no host that is known"));
        };
        let resources = relocation.request.resources;
        let loads = self.load(*load, source, None).zip(self.without(*load, source, resources));
        let Some((before, after)) = loads else { return Err(format!("the capacity of {from} is not known")) };
        let request = self.request(relocation, source);
        let decision = self.look(&request).map_err(|error| error.to_string())?;
        let mut refused = Vec::new();
        for name in decision.names() {
            let Some(host) = known.and_then(|hosts| hosts.get(name)) else { continue };
            let loads = self.load(*load, host, None).zip(self.load(*load, host, Some(&request)));
            let Some((now, then)) = loads else {
                refused.push(format!("the capacity of {name} is not known"));
                continue;
            };
            if then >= before {
                let (then, before) = (load.words(then), load.amount(before));
                refused.push(format!("{name} would have {then}, not less than the {before} of {from} now"));
                continue;
            }
            let found = limits
                .iter()
                .find(|limit| self.load(limit.load, host, Some(&request)).is_none_or(|load| load > limit.threshold));
            if let Some(limit) = found {
                refused.push(format!("{name} would itself be found by {}", limit.name));
                continue;
            }
            return Ok(Move { to: name.to_owned(), source: (before, after), target: (now, then) });
        }
        let left_out = left.iter().map(|host| format!("{host} is where it came from"));
        let mut told: Vec<String> = left_out.chain(refused).take(TOLD).collect();
        if decision.hosts.is_empty() {
            told.insert(0, decision.explanation());
        }
        Err(told.join("; "))
    }

    /// The request that Nova would send: for all other hosts of the same zone, of which it prefers none.
    fn request(&self, relocation: &Relocation, source: &Host) -> Request {
        let mut request = relocation.request.clone();
        let domain = request.domain;
        let hosts = || self.hosts(domain).into_iter().flat_map(crate::Inventory::iter);
        let offered = hosts().filter(|host| host.name != source.name && !relocation.left.contains(&host.name));
        let mut names: Vec<&str> = offered.map(|host| host.name.as_str()).collect();
        names.sort_unstable();
        let offer = |host: &str| Candidate { host: host.to_owned(), node: None, weight: 0.0 };
        let candidates = names.into_iter().map(offer).collect();
        let server = request.workload.clone();
        if let Some(group) = &mut request.group {
            let members = &group.members;
            let others = |host: &&Host| host.instances.iter().any(|id| **id != *server && members.contains(&**id));
            group.hosts = hosts().filter(others).map(|host| host.name.clone()).collect();
        }
        request.candidates = candidates;
        request.zone.clone_from(&source.zone);
        request.intent = Intent::LiveMigrate;
        request.hints.insert("source_host".into(), source.name.clone());
        request.options = Options { read_only: true, ..Options::default() };
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::Amounts;

    fn memory(mib: u64) -> Resources {
        Resources { memory_mib: mib, ..Resources::default() }
    }

    /// Hosts of 1000 MiB, of which so much is taken.
    fn cloud(taken: &[(&str, u64)]) -> Scheduler {
        let mut scheduler = Scheduler::new(60_000);
        for (name, mib) in taken {
            let capacity = Amounts { vcpus: Some(16), memory_mib: Some(1000), disk_gib: None };
            let host = Host { name: (*name).into(), capacity, allocated: memory(*mib), ..Host::default() };
            scheduler.put_host(Domain::Nova, host);
        }
        scheduler
    }

    fn detector(threshold: f64) -> Detector {
        Detector { name: "avoid_high_memory_pct", load: Load::Memory, threshold }
    }

    fn server(mib: u64) -> Relocation {
        let request = Request { resources: memory(mib), ..Request::new(Domain::Nova, "s-1") };
        let limits = vec![detector(80.0)];
        Relocation { request, from: "plum".into(), load: Load::Memory, limits, left: Vec::new() }
    }

    #[test]
    fn the_worst_host_comes_first_and_promised_room_is_load() {
        let mut scheduler = cloud(&[("pear", 810), ("plum", 900), ("fig", 700)]);
        let found = scheduler.overloads(Domain::Nova, &[detector(80.0)]);
        assert_eq!(found.iter().map(|one| one.host.as_str()).collect::<Vec<_>>(), ["plum", "pear"]);
        assert_eq!(found[0].reason(), "plum has 90.0 % of its memory taken, above the 80.0 % of avoid_high_memory_pct");
        assert!(scheduler.is_enough(Domain::Nova, &found[0], memory(100)));
        assert!(!scheduler.is_enough(Domain::Nova, &found[0], memory(99)));
        scheduler.promise("s-9", "fig", memory(200), 0);
        assert_eq!(
            scheduler.overloads(Domain::Nova, &[detector(80.0)])[0].host,
            "fig",
            "as hot as plum, and first by name"
        );
        scheduler.end_promise("s-9");
        assert_eq!(scheduler.overloads(Domain::Nova, &[detector(80.0)]).len(), 2);
    }

    #[test]
    fn a_server_goes_where_the_pipeline_puts_it() {
        let scheduler = cloud(&[("plum", 900), ("fig", 500), ("pear", 300)]);
        let moved = scheduler.relocate(&server(100)).unwrap();
        assert_eq!(moved, Move { to: "pear".into(), source: (90.0, 80.0), target: (30.0, 40.0) });
        assert_eq!(
            moved.effect("plum", Load::Memory),
            "plum then has 80.0 % of its memory taken, 90.0 % now; pear then has 40.0 % of its memory taken, 30.0 % now"
        );
    }

    #[test]
    fn no_target_gets_hotter_than_the_source_was_and_none_is_found_in_its_turn() {
        let nowhere = |scheduler: &Scheduler, relocation: &Relocation| scheduler.relocate(relocation).unwrap_err();
        let hot = cloud(&[("plum", 900), ("fig", 750)]);
        assert_eq!(nowhere(&hot, &server(100)), "fig would itself be found by avoid_high_memory_pct");
        let unlimited = Relocation { limits: Vec::new(), ..server(150) };
        assert_eq!(
            nowhere(&hot, &unlimited),
            "fig would have 90.0 % of its memory taken, not less than the 90.0 % of plum now"
        );
        assert_eq!(hot.relocate(&Relocation { limits: Vec::new(), ..server(100) }).unwrap().to, "fig");
        assert!(nowhere(&hot, &server(300)).contains("fig has 250 MiB of memory free, 300 are needed"));
        assert_eq!(nowhere(&cloud(&[]), &server(1)), "plum is no host that is known");
    }

    #[test]
    fn a_server_never_goes_back_and_promised_room_is_not_given_twice() {
        let mut scheduler = cloud(&[("plum", 900), ("fig", 500), ("pear", 300)]);
        let back = Relocation { left: vec!["pear".into()], ..server(100) };
        assert_eq!(scheduler.relocate(&back).unwrap().to, "fig");
        scheduler.promise("s-2", "pear", memory(450), 0);
        assert_eq!(scheduler.relocate(&server(100)).unwrap().to, "fig");
        let nowhere = Relocation { left: vec!["pear".into(), "fig".into()], ..server(100) };
        let why = scheduler.relocate(&nowhere).unwrap_err();
        assert!(why.contains("No host was offered") && why.contains("pear is where it came from"), "{why}");
    }

    #[test]
    fn it_stays_in_its_zone_and_away_from_its_group() {
        use crate::request::{Group, Policy};
        let mut scheduler = cloud(&[]);
        for (name, zone, mib, ids) in [
            ("plum", "north", 900, "s-1"),
            ("fig", "north", 500, "s-2"),
            ("kiwi", "north", 600, ""),
            ("pear", "south", 0, ""),
        ] {
            let capacity = Amounts { vcpus: Some(16), memory_mib: Some(1000), disk_gib: None };
            let instances = Host::names(ids.split_whitespace());
            let (name, zone) = (name.into(), Some(zone.into()));
            scheduler.put_host(
                Domain::Nova,
                Host { name, zone, capacity, allocated: memory(mib), instances, ..Host::default() },
            );
        }
        assert_eq!(scheduler.relocate(&server(100)).unwrap().to, "fig");
        let mut member = server(100);
        let members = ["s-1", "s-2"].map(String::from).into();
        let policy = Policy::AntiAffinity;
        member.request.group = Some(Group { policy, members, hosts: [].into(), max_server_per_host: 1 });
        assert_eq!(scheduler.relocate(&member).unwrap().to, "kiwi");
    }
}
