//! The weighers: how good a host is, as a number that only counts beside the numbers of the other hosts.

use crate::filters::{Look, allocated, members_on};
use crate::host::Host;
use crate::request::Policy;
use crate::resources::Resources;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weigher {
    FreeMemory,
    FreeCpus,
    FreeDisk,
    Instances,
    Balance,
    Binpack,
    SmallerHosts,
    GroupSoftAffinity,
}

impl Weigher {
    /// What the weigher says of a host on which `promised` is promised to others; `None` if it cannot tell.
    pub(crate) fn weigh(self, look: &Look<'_>, host: Option<&Host>, promised: Resources) -> Option<f64> {
        if self == Self::GroupSoftAffinity && look.request.group.is_none() {
            return Some(0.0);
        }
        let host = host?;
        let used = allocated(look.request, host) + promised;
        let free = |has: Option<u64>, used: u64| has.map(|has| number(has.saturating_sub(used)));
        match self {
            Self::FreeMemory => free(host.capacity.memory_mib, used.memory_mib),
            Self::FreeCpus => free(host.capacity.vcpus, used.vcpus),
            Self::FreeDisk => free(host.capacity.disk_gib, used.disk_gib),
            Self::Instances => Some(number(host.instances.len() as u64)),
            Self::Binpack => share(look, host, used),
            Self::Balance => share(look, host, used).map(|share| -share),
            Self::SmallerHosts => {
                let (cpu, memory) = (look.params.weight("cpu"), look.params.weight("memory"));
                // A vCPU weighs like 4 GiB: the ratio of general purpose flavors.
                let size = cpu * 4096.0 * number(host.capacity.vcpus?) + memory * number(host.capacity.memory_mib?);
                Some(-size)
            }
            Self::GroupSoftAffinity => {
                let members = number(members_on(look, host) as u64);
                Some(match look.request.group.as_ref().map(|group| group.policy) {
                    Some(Policy::SoftAffinity) => members,
                    Some(Policy::SoftAntiAffinity) => -members,
                    _ => 0.0,
                })
            }
        }
    }
}

/// Which share of the host is taken once the workload is there, over CPU and memory.
fn share(look: &Look<'_>, host: &Host, used: Resources) -> Option<f64> {
    let used = used + look.request.resources;
    let of = |used: u64, has: u64| if has == 0 { 1.0 } else { number(used) / number(has) };
    let (cpu, memory) = (look.params.weight("cpu"), look.params.weight("memory"));
    let sum = cpu * of(used.vcpus, host.capacity.vcpus?) + memory * of(used.memory_mib, host.capacity.memory_mib?);
    Some(sum / (cpu + memory))
}

/// Exact up to 2^53, far above any host's MiB.
#[allow(clippy::cast_precision_loss)]
fn number(amount: u64) -> f64 {
    amount as f64
}

/// Spreads numbers over 0 to 1. All the same are all 0, as Nova does: a weigher that sees no difference changes nothing.
pub(crate) fn min_max(weights: &[Option<f64>]) -> Vec<Option<f64>> {
    let known = || weights.iter().flatten().copied();
    let (min, max) = (known().fold(f64::INFINITY, f64::min), known().fold(f64::NEG_INFINITY, f64::max));
    // In halves, since the difference of two large numbers need not be a finite one.
    let spread = max / 2.0 - min / 2.0;
    let normal = |weight: f64| if spread > 0.0 { (weight / 2.0 - min / 2.0) / spread } else { 0.0 };
    weights.iter().map(|weight| weight.map(normal)).collect()
}
