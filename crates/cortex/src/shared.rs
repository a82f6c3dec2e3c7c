//! A scheduler that many threads ask at once.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::decision::Decision;
use crate::request::Request;
use crate::scheduler::{Scheduler, SchedulingError};

/// Decisions are made one after another, each with the promises of all before it. Only what needs that is done alone: the filters
/// before the first one that counts promises run at the same time as those of other requests, and so does putting hosts in order.
#[derive(Debug)]
pub struct Shared(RwLock<Scheduler>);

impl Shared {
    /// Shares a scheduler.
    pub fn new(scheduler: Scheduler) -> Self {
        Self(RwLock::new(scheduler))
    }

    /// Reads the scheduler. A decision is complete or was not begun: a panic leaves nothing half done.
    pub fn read(&self) -> RwLockReadGuard<'_, Scheduler> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the scheduler.
    pub fn write(&self) -> RwLockWriteGuard<'_, Scheduler> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Scheduler::decide`].
    pub fn decide(&self, request: &Request, now: u64) -> Result<Decision, SchedulingError> {
        let prepared = self.read().prepare(request)?;
        let chosen = self.write().commit(prepared, now)?;
        Ok(chosen.decision())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Condition, Host};
    use crate::request::{Candidate, Domain};
    use crate::resources::{Amounts, Resources};

    fn host(name: &str, memory_mib: u64) -> Host {
        let capacity = Amounts { memory_mib: Some(memory_mib), vcpus: Some(64), disk_gib: None };
        Host { name: name.into(), ready: Condition::True, capacity, ..Host::default() }
    }

    fn request(workload: &str, memory_mib: u64, hosts: &[&str]) -> Request {
        let offer = |host: &&str| Candidate { host: (*host).into(), node: None, weight: 0.0 };
        Request {
            resources: Resources { vcpus: 1, memory_mib, disk_gib: 0 },
            candidates: hosts.iter().map(offer).collect(),
            ..Request::new(Domain::Nova, workload)
        }
    }

    fn shared(hosts: impl IntoIterator<Item = Host>) -> Shared {
        let mut scheduler = Scheduler::new(1000);
        hosts.into_iter().for_each(|host| scheduler.put_host(Domain::Nova, host));
        Shared::new(scheduler)
    }

    #[test]
    fn a_promise_that_is_made_between_the_parts_of_a_decision_counts() {
        let shared = shared([host("plum", 4096)]);
        let (first, second) = (request("a", 3000, &["plum"]), request("b", 3000, &["plum"]));
        let prepared = shared.read().prepare(&first).unwrap();
        assert_eq!(shared.decide(&second, 0).unwrap().target(), Some("plum"));
        let decision = shared.write().commit(prepared, 0).unwrap().decision();
        assert_eq!(decision.target(), None);
        assert!(decision.explanation().contains("1096 MiB of memory free once 3000 are taken"), "{decision:?}");
        assert!(shared.read().in_flight().host_of("a").is_none(), "nothing is promised");
    }

    #[test]
    fn a_host_that_changes_between_the_parts_of_a_decision_is_judged_again() {
        let shared = shared([host("plum", 4096), host("pear", 8192)]);
        let asked = request("a", 1000, &["plum", "pear"]);
        let prepared = shared.read().prepare(&asked).unwrap();
        shared.write().put_host(Domain::Nova, Host { ready: Condition::False, ..host("pear", 8192) });
        let decision = shared.write().commit(prepared, 0).unwrap().decision();
        assert_eq!(decision.names(), ["plum"]);
        assert_eq!(decision.filters.iter().map(|filter| filter.removed).sum::<usize>(), 1, "each filter ran once");
    }

    #[test]
    fn a_host_that_takes_the_place_of_a_removed_one_is_not_taken_for_it() {
        let shared = shared([host("plum", 4096)]);
        let asked = request("a", 1000, &["plum", "fig"]);
        let prepared = shared.read().prepare(&asked).unwrap();
        shared.write().remove_host(Domain::Nova, "plum");
        shared.write().put_host(Domain::Nova, host("fig", 4096));
        let decision = shared.write().commit(prepared, 0).unwrap().decision();
        assert_eq!(decision.names(), ["fig"]);
        assert!(decision.explanation().contains("plum cannot be judged: nothing is known of the host"));
    }

    #[test]
    fn a_host_that_is_reported_again_as_it_was_holds_no_decision_up() {
        let shared = shared([host("plum", 4096)]);
        let asked = request("a", 1000, &["plum"]);
        let revision = shared.read().prepare(&asked).unwrap().revision;
        shared.write().put_host(Domain::Nova, host("plum", 4096));
        assert_eq!(shared.read().prepare(&asked).unwrap().revision, revision);
        shared.write().put_host(Domain::Nova, host("plum", 4097));
        assert_ne!(shared.read().prepare(&asked).unwrap().revision, revision);
    }
}
