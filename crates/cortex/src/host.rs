//! What is known of hosts. Large sets that many hosts share (traits) are stored once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::resources::{Amounts, Resources};

/// A set of names, sorted, shared by all hosts that have the same.
pub type NameSet = Arc<[Box<str>]>;

/// Whether a condition of a host holds. A condition that nobody has written is unknown, and counts as good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Nobody has said.
    #[default]
    Unknown,
    /// It is true.
    True,
    /// It is false.
    False,
}

/// A Nova aggregate that a host is in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aggregate {
    /// Name of the aggregate.
    pub name: String,
    /// Its UUID, if known.
    pub uuid: Option<String>,
    /// Its metadata, such as `filter_tenant_id`.
    pub metadata: BTreeMap<String, String>,
}

/// A host that workloads can be placed on: a hypervisor, or a pool of volumes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Host {
    /// Name, as Nova's or Cinder's candidates have it.
    pub name: String,
    /// Availability zone.
    pub zone: Option<String>,
    /// Whether it can take workloads.
    pub ready: Condition,
    /// Whether Nova's compute service is disabled.
    pub disabled: Condition,
    /// Whether it leaves.
    pub terminating: Condition,
    /// What the conditions say about why it is not ready, in words.
    pub message: Option<String>,
    /// Architecture of its CPUs, such as `x86_64`.
    pub cpu_arch: Option<String>,
    /// What runs servers: `kvm`, `qemu` (both are QEMU to Nova), `ch`.
    pub hypervisor_type: Option<String>,
    /// What it has for workloads, overcommitment included.
    pub capacity: Amounts,
    /// What workloads on it have.
    pub allocated: Resources,
    /// Traits.
    pub traits: NameSet,
    /// Aggregates.
    pub aggregates: Vec<Aggregate>,
    /// Ids of the only projects that may use it; all may when empty.
    pub allowed_projects: NameSet,
    /// Ids of the workloads on it.
    pub instances: NameSet,
    /// CPU modes that servers can have.
    pub cpu_modes: NameSet,
    /// Devices that servers can have.
    pub devices: NameSet,
    /// Features that servers can have.
    pub features: NameSet,
}

impl Host {
    /// Makes a set of names.
    pub fn names(names: impl IntoIterator<Item = impl Into<Box<str>>>) -> NameSet {
        let mut names: Vec<Box<str>> = names.into_iter().map(Into::into).collect();
        names.sort_unstable();
        names.dedup();
        names.into()
    }

    /// Whether a set has a name.
    pub(crate) fn has(set: &NameSet, name: &str) -> bool {
        set.binary_search_by(|one| (**one).cmp(name)).is_ok()
    }
}

/// All hosts that are known, by name.
#[derive(Debug, Default)]
pub struct Inventory {
    /// Where each host is among `hosts`.
    slots: HashMap<Box<str>, usize>,
    hosts: Vec<Option<Host>>,
    free: Vec<usize>,
    shared: HashSet<NameSet>,
}

impl Inventory {
    /// Adds a host, or replaces what was known of it. Whether that changes anything.
    pub fn put(&mut self, mut host: Host) -> bool {
        if self.get(&host.name) == Some(&host) {
            return false;
        }
        for set in
            [&mut host.traits, &mut host.allowed_projects, &mut host.cpu_modes, &mut host.devices, &mut host.features]
        {
            *set = self.share(set);
        }
        let slot = self.slot(&host.name).unwrap_or_else(|| self.new_slot(&host.name));
        self.hosts[slot] = Some(host);
        true
    }

    fn new_slot(&mut self, name: &str) -> usize {
        let slot = self.free.pop().unwrap_or(self.hosts.len());
        if slot == self.hosts.len() {
            self.hosts.push(None);
        }
        self.slots.insert(name.into(), slot);
        slot
    }

    /// Forgets a host.
    pub fn remove(&mut self, name: &str) -> Option<Host> {
        let slot = self.slots.remove(name)?;
        self.free.push(slot);
        self.hosts[slot].take()
    }

    /// What is known of a host.
    pub fn get(&self, name: &str) -> Option<&Host> {
        self.at(self.slot(name)?)
    }

    /// Where a host is, until the next change.
    pub(crate) fn slot(&self, name: &str) -> Option<usize> {
        self.slots.get(name).copied()
    }

    /// The host in a slot.
    pub(crate) fn at(&self, slot: usize) -> Option<&Host> {
        self.hosts.get(slot)?.as_ref()
    }

    /// All hosts, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Host> {
        self.hosts.iter().flatten()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no host is known.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Sets that no host has any more are dropped when the table has far more of them than there are hosts.
    fn share(&mut self, set: &NameSet) -> NameSet {
        if let Some(known) = self.shared.get(set) {
            return known.clone();
        }
        if self.shared.len() > 64 + 2 * self.hosts.len() {
            self.shared.retain(|set| Arc::strong_count(set) > 1);
        }
        self.shared.insert(set.clone());
        set.clone()
    }
}
