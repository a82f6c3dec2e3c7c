//! Amounts of what workloads need, as integers: memory in MiB as Nova and Placement count it, disks in GiB.

use std::fmt;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// What one workload needs, or what several have together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Resources {
    /// Virtual CPUs.
    pub vcpus: u64,
    /// Memory in MiB.
    #[serde(rename = "memoryMiB")]
    pub memory_mib: u64,
    /// Local disk, or the size of a volume, in GiB.
    #[serde(rename = "diskGiB")]
    pub disk_gib: u64,
}

impl Resources {
    /// The difference, never below zero.
    pub fn saturating_sub(self, other: Self) -> Self {
        Self {
            vcpus: self.vcpus.saturating_sub(other.vcpus),
            memory_mib: self.memory_mib.saturating_sub(other.memory_mib),
            disk_gib: self.disk_gib.saturating_sub(other.disk_gib),
        }
    }
}

impl Add for Resources {
    type Output = Self;

    /// Saturates: a request for more than 2^64 MiB fits nowhere, and does not wrap around to one that does.
    fn add(self, other: Self) -> Self {
        Self {
            vcpus: self.vcpus.saturating_add(other.vcpus),
            memory_mib: self.memory_mib.saturating_add(other.memory_mib),
            disk_gib: self.disk_gib.saturating_add(other.disk_gib),
        }
    }
}

impl AddAssign for Resources {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [(self.vcpus, "vCPU"), (self.memory_mib, "MiB of memory"), (self.disk_gib, "GiB of disk")];
        let parts: Vec<String> =
            all.iter().filter(|(amount, _)| *amount > 0).map(|(amount, unit)| format!("{amount} {unit}")).collect();
        if parts.is_empty() { f.write_str("no resources") } else { f.write_str(&parts.join(", ")) }
    }
}

/// What a host has for workloads, with its overcommitment; `None` where that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Virtual CPUs.
    pub vcpus: Option<u64>,
    /// Memory in MiB.
    pub memory_mib: Option<u64>,
    /// Disk in GiB.
    pub disk_gib: Option<u64>,
}

impl From<Resources> for Amounts {
    fn from(all: Resources) -> Self {
        Self { vcpus: Some(all.vcpus), memory_mib: Some(all.memory_mib), disk_gib: Some(all.disk_gib) }
    }
}
