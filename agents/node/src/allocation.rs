//! What instances have of a host, in all and of each NUMA cell.
//!
//! Guests have NUMA cells, too, with numbers of their own: what counts here is which cells of the host the CPUs are in that a
//! guest's are pinned to, and which its memory is bound to. A guest without pinning may run anywhere and is counted for the
//! host alone.

use std::collections::{BTreeMap, BTreeSet};

use c5c3_api::blocks::Quantity;
use c5c3_api::hypervisor::{Amounts, Cell, Overcommit};
use roxmltree::Node;

use crate::topology::{Host, XmlError, at, bytes, child, children, numbers, parse};

/// CPUs in thousandths, memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub cpu_millis: u64,
    pub memory: u64,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.cpu_millis += other.cpu_millis;
        self.memory += other.memory;
    }

    fn amounts(self) -> Amounts {
        let cpu = if self.cpu_millis.is_multiple_of(1000) {
            (self.cpu_millis / 1000).to_string()
        } else {
            format!("{}m", self.cpu_millis)
        };
        Amounts { cpu: Quantity::new(cpu).ok(), memory: Quantity::new(self.memory.to_string()).ok() }
    }

    /// The whole CPUs and bytes that there are with overcommitment.
    fn overcommitted(self, overcommit: Option<&Overcommit>) -> Self {
        let factor = |wanted: Option<f64>| wanted.unwrap_or(1.0).max(1.0);
        let cpu = factor(overcommit.and_then(|overcommit| overcommit.cpu));
        let memory = factor(overcommit.and_then(|overcommit| overcommit.memory));
        Self { cpu_millis: scaled(self.cpu_millis / 1000, cpu) * 1000, memory: scaled(self.memory, memory) }
    }
}

/// Rounded down. A host has less memory than an `f64` counts exactly (8 PiB).
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn scaled(amount: u64, factor: f64) -> u64 {
    (amount as f64 * factor).floor() as u64
}

/// What one domain has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    pub total: Sum,
    /// The part that is bound to cells of the host.
    pub cells: BTreeMap<u32, Sum>,
}

impl Footprint {
    /// Reads the definition of a domain.
    pub fn read(xml: &str, host: &Host) -> Result<Self, XmlError> {
        let document = parse(xml, "definitions of domains")?;
        let root = document.root_element();
        let memory = child(root, "memory").and_then(bytes).unwrap_or_default();
        let vcpu = child(root, "vcpu");
        let most: u32 = vcpu.and_then(|vcpu| vcpu.text()?.trim().parse().ok()).unwrap_or(1);
        let current = vcpu.and_then(|vcpu| vcpu.attribute("current")?.parse().ok()).unwrap_or(most);
        let mut found = Self { total: Sum { cpu_millis: u64::from(current) * 1000, memory }, ..Self::default() };
        for cells in cells_of_vcpus(root, current, host) {
            found.share(&cells, Sum { cpu_millis: 1000, memory: 0 });
        }
        for (cells, memory) in cells_of_memory(root, memory, host) {
            found.share(&cells, Sum { cpu_millis: 0, memory });
        }
        Ok(found)
    }

    /// Divides an amount among cells, with the remainder in the first.
    fn share(&mut self, cells: &BTreeSet<u32>, amount: Sum) {
        let count = cells.len() as u64;
        for (place, cell) in cells.iter().enumerate() {
            let part = |amount: u64| amount / count + if place == 0 { amount % count } else { 0 };
            let part = Sum { cpu_millis: part(amount.cpu_millis), memory: part(amount.memory) };
            self.cells.entry(*cell).or_default().add(part);
        }
    }
}

/// The cells of the host that each virtual CPU is pinned to.
fn cells_of_vcpus(root: Node<'_, '_>, count: u32, host: &Host) -> Vec<BTreeSet<u32>> {
    let cells = |cpus: &str| numbers(cpus).into_iter().filter_map(|cpu| host.cell_of(cpu)).collect::<BTreeSet<_>>();
    let all = child(root, "vcpu").and_then(|vcpu| vcpu.attribute("cpuset"));
    let pins: BTreeMap<u32, &str> = child(root, "cputune")
        .into_iter()
        .flat_map(|tune| children(tune, "vcpupin"))
        .filter_map(|pin| Some((pin.attribute("vcpu")?.parse().ok()?, pin.attribute("cpuset")?)))
        .collect();
    let pinned = (0..count).filter_map(|vcpu| pins.get(&vcpu).copied().or(all));
    pinned.map(cells).filter(|cells| !cells.is_empty()).collect()
}

/// Which part of a domain's memory is bound to which cells of the host.
fn cells_of_memory(root: Node<'_, '_>, memory: u64, host: &Host) -> Vec<(BTreeSet<u32>, u64)> {
    let Some(tune) = child(root, "numatune") else { return Vec::new() };
    let cells = |node: Node<'_, '_>| -> Option<BTreeSet<u32>> {
        let known = numbers(node.attribute("nodeset")?).into_iter().filter(|cell| host.cells.contains_key(cell));
        Some(known.collect()).filter(|cells: &BTreeSet<u32>| !cells.is_empty())
    };
    let usual = child(tune, "memory").and_then(cells);
    let own: BTreeMap<&str, BTreeSet<u32>> =
        children(tune, "memnode").filter_map(|node| Some((node.attribute("cellid")?, cells(node)?))).collect();
    if own.is_empty() {
        return usual.map(|cells| (cells, memory)).into_iter().collect();
    }
    let guest_cells = at(root, &["cpu", "numa"]).into_iter().flat_map(|numa| children(numa, "cell"));
    guest_cells
        .filter_map(|cell| {
            let of_cell = own.get(cell.attribute("id")?).or(usual.as_ref())?;
            Some((of_cell.clone(), attribute_bytes(cell)?))
        })
        .collect()
}

/// The memory of a guest's cell, whose unit is an attribute beside it.
fn attribute_bytes(cell: Node<'_, '_>) -> Option<u64> {
    let text = format!("<m unit='{}'>{}</m>", cell.attribute("unit").unwrap_or("KiB"), cell.attribute("memory")?);
    bytes(parse(&text, "definitions of domains").ok()?.root_element())
}

/// The amounts that a Hypervisor's status has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub capacity: Amounts,
    pub allocation: Amounts,
    pub effective_capacity: Amounts,
    pub cells: Vec<Cell>,
}

/// Sums up what the host has and what running domains have of it.
pub fn account(host: &Host, footprints: &[Footprint], overcommit: Option<&Overcommit>) -> Account {
    let (mut capacity, mut allocation) = (Sum::default(), Sum::default());
    let mut cells = Vec::new();
    for (id, cell) in &host.cells {
        let own = Sum { cpu_millis: cell.cpus.len() as u64 * 1000, memory: cell.memory };
        capacity.add(own);
        let mut taken = Sum::default();
        for part in footprints.iter().filter_map(|footprint| footprint.cells.get(id)) {
            taken.add(*part);
        }
        cells.push(Cell {
            cell_id: i32::try_from(*id).unwrap_or(i32::MAX),
            allocation: Some(taken.amounts()),
            capacity: Some(own.amounts()),
            effective_capacity: Some(own.overcommitted(overcommit).amounts()),
        });
    }
    for footprint in footprints {
        allocation.add(footprint.total);
    }
    Account {
        capacity: capacity.amounts(),
        allocation: allocation.amounts(),
        effective_capacity: capacity.overcommitted(overcommit).amounts(),
        cells,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::HostCell;

    const PLAIN: &str = include_str!("../tests/recorded/plain.xml");
    const PINNED: &str = include_str!("../tests/recorded/pinned.xml");
    /// Guest cell 0 lies on the host's cell 1.
    const CROSSED: &str = "<domain><memory unit='MiB'>300</memory><vcpu>3</vcpu>
        <cputune><vcpupin vcpu='0' cpuset='2'/><vcpupin vcpu='1' cpuset='3'/><vcpupin vcpu='2' cpuset='1-2'/></cputune>
        <numatune><memory mode='strict' nodeset='0-1'/><memnode cellid='0' mode='strict' nodeset='1'/></numatune>
        <cpu><numa><cell id='0' cpus='0-1' memory='100' unit='MiB'/><cell id='1' cpus='2' memory='204801'/></numa></cpu>
        </domain>";

    fn two_cells() -> Host {
        let cell = |cpus| HostCell { memory: 4 << 30, cpus };
        Host { arch: None, cells: [(0, cell([0, 1].into())), (1, cell([2, 3].into()))].into() }
    }

    fn sum(cpu_millis: u64, memory: u64) -> Sum {
        Sum { cpu_millis, memory }
    }

    #[test]
    fn a_guest_without_pinning_is_counted_for_the_host_alone() {
        let found = Footprint::read(PLAIN, &two_cells()).unwrap();
        assert_eq!(found, Footprint { total: sum(1000, 128 << 20), cells: BTreeMap::new() });
    }

    #[test]
    fn current_cpus_count_and_pins_lead_to_cells() {
        let found = Footprint::read(PINNED, &two_cells()).unwrap();
        assert_eq!(found.total, sum(2000, 64 << 20));
        assert_eq!(found.cells, [(0, sum(2000, 64 << 20))].into());
    }

    #[test]
    fn a_guests_cell_is_not_the_hosts_cell_of_the_same_number() {
        let found = Footprint::read(CROSSED, &two_cells()).unwrap();
        let half = (204_801 * 1024) / 2;
        assert_eq!(found.cells, [(0, sum(500, half)), (1, sum(2500, (100 << 20) + half))].into());
    }

    #[test]
    fn effective_capacity_is_rounded_down() {
        let overcommit = Overcommit { cpu: Some(1.3), memory: None };
        let footprint = Footprint::read(CROSSED, &two_cells()).unwrap();
        let found = account(&two_cells(), &[footprint], Some(&overcommit));
        let text = |amounts: &Amounts| {
            (amounts.cpu.as_ref().unwrap().as_str().to_owned(), amounts.memory.as_ref().unwrap().as_str().to_owned())
        };
        assert_eq!(text(&found.capacity), ("4".into(), (8u64 << 30).to_string()));
        assert_eq!(text(&found.effective_capacity), ("5".into(), (8u64 << 30).to_string()));
        assert_eq!(text(&found.allocation), ("3".into(), (300u64 << 20).to_string()));
        assert_eq!(text(found.cells[0].allocation.as_ref().unwrap()).0, "500m");
        assert_eq!(text(found.cells[1].effective_capacity.as_ref().unwrap()).0, "2");
    }
}
