//! What was promised to workloads that the hosts do not report yet.
//!
//! Between a decision and the moment that the host's allocation has the workload, the next decision must not give its
//! room away. A promise ends when the host reports the workload, when the same workload is decided on again, or when it
//! expires: a server that Nova failed to build must not hold room for ever.

use std::collections::{BTreeSet, HashMap};

use crate::host::{Host, Inventory};
use crate::resources::Resources;

/// Room on a host that a workload will take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The host.
    pub host: String,
    /// What the workload takes there.
    pub resources: Resources,
    /// When the promise ends, in milliseconds of the clock that the scheduler is called with.
    pub expires: u64,
}

/// All promises, by workload.
#[derive(Clone, Debug, Default)]
pub struct InFlight {
    promises: HashMap<String, Promise>,
    /// Workloads and what they take, by host: each decision sums them up for each host.
    of_host: HashMap<String, Vec<(String, Resources)>>,
    by_expiry: BTreeSet<(u64, String)>,
}

impl InFlight {
    /// Promises room; an earlier promise to the same workload ends.
    pub fn promise(&mut self, workload: &str, promise: Promise) {
        self.end(workload);
        self.of_host.entry(promise.host.clone()).or_default().push((workload.to_owned(), promise.resources));
        self.by_expiry.insert((promise.expires, workload.to_owned()));
        self.promises.insert(workload.to_owned(), promise);
    }

    /// Ends the promise to a workload.
    pub fn end(&mut self, workload: &str) -> Option<Promise> {
        let promise = self.promises.remove(workload)?;
        self.by_expiry.remove(&(promise.expires, workload.to_owned()));
        if let Some(workloads) = self.of_host.get_mut(&promise.host) {
            workloads.retain(|(one, _)| one != workload);
            if workloads.is_empty() {
                self.of_host.remove(&promise.host);
            }
        }
        Some(promise)
    }

    /// Ends all promises that expire at `now` or did before.
    pub fn expire(&mut self, now: u64) -> usize {
        let mut ended = 0;
        while let Some((at, workload)) = self.by_expiry.first() {
            if *at > now {
                break;
            }
            let workload = workload.clone();
            self.end(&workload);
            ended += 1;
        }
        ended
    }

    /// Ends promises to workloads that the host now reports: they are part of its allocation.
    pub fn arrived(&mut self, host: &Host) {
        let Some(workloads) = self.of_host.get(&host.name) else { return };
        let arrived: Vec<String> =
            workloads.iter().filter(|(id, _)| Host::has(&host.instances, id)).map(|(id, _)| id.clone()).collect();
        for workload in arrived {
            self.end(&workload);
        }
    }

    /// What is promised on a host to workloads other than `except`.
    pub fn on(&self, host: &str, except: &str) -> Resources {
        let Some(workloads) = self.of_host.get(host) else { return Resources::default() };
        let others = workloads.iter().filter(|(workload, _)| workload != except);
        others.fold(Resources::default(), |sum, (_, resources)| sum + *resources)
    }

    /// How many workloads other than `except` have room promised on a host.
    pub fn count_on(&self, host: &str, except: &str) -> usize {
        self.of_host.get(host).map_or(0, |workloads| workloads.iter().filter(|(one, _)| one != except).count())
    }

    /// The host that a workload was promised room on.
    pub fn host_of(&self, workload: &str) -> Option<&str> {
        self.promises.get(workload).map(|promise| promise.host.as_str())
    }

    /// How many promises there are.
    pub fn len(&self) -> usize {
        self.promises.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.promises.is_empty()
    }

    /// The hosts on which promises and allocations together are more than the capacity: none, unless a host reported
    /// less than it had when the promise was made.
    pub fn overbooked<'a>(&self, inventory: &'a Inventory) -> Vec<&'a str> {
        let over = |amount: u64, limit: Option<u64>| limit.is_some_and(|limit| amount > limit);
        let mut hosts: Vec<&str> = inventory
            .iter()
            .filter(|host| {
                let taken = host.allocated + self.on(&host.name, "");
                over(taken.vcpus, host.capacity.vcpus)
                    || over(taken.memory_mib, host.capacity.memory_mib)
                    || over(taken.disk_gib, host.capacity.disk_gib)
            })
            .map(|host| host.name.as_str())
            .collect();
        hosts.sort_unstable();
        hosts
    }
}
