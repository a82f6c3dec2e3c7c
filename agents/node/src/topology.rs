//! What libvirt's capabilities say of a host: CPUs and memory of each NUMA cell, and what domains can have.

use std::collections::{BTreeMap, BTreeSet};

use c5c3_api::hypervisor::DomainCapabilities;
use roxmltree::{Document, Node};

use crate::protocol::NodeInfo;

/// XML that does not parse.
#[derive(Debug, thiserror::Error)]
#[error("libvirt's {what} are no valid XML: {source}")]
pub struct XmlError {
    what: &'static str,
    source: roxmltree::Error,
}

pub(crate) fn parse<'a>(text: &'a str, what: &'static str) -> Result<Document<'a>, XmlError> {
    Document::parse(text).map_err(|source| XmlError { what, source })
}

/// The first child element of that name.
pub(crate) fn child<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    node.children().find(|child| child.has_tag_name(name))
}

/// All child elements of that name.
pub(crate) fn children<'a, 'i>(node: Node<'a, 'i>, name: &'static str) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(move |child| child.has_tag_name(name))
}

/// An element that is reached by names.
pub(crate) fn at<'a, 'i>(node: Node<'a, 'i>, path: &[&str]) -> Option<Node<'a, 'i>> {
    path.iter().try_fold(node, |node, name| child(node, name))
}

/// An amount of memory with its unit, in bytes. Without a unit it is KiB.
pub(crate) fn bytes(node: Node<'_, '_>) -> Option<u64> {
    let number: u64 = node.text()?.trim().parse().ok()?;
    let factor = match node.attribute("unit").unwrap_or("KiB") {
        "b" | "bytes" => 1,
        "KB" => 1000,
        "k" | "KiB" => 1 << 10,
        "MB" => 1_000_000,
        "M" | "MiB" => 1 << 20,
        "GB" => 1_000_000_000,
        "G" | "GiB" => 1 << 30,
        "TB" => 1_000_000_000_000,
        "T" | "TiB" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// One NUMA cell of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostCell {
    /// Memory in bytes.
    pub memory: u64,
    /// The numbers of its CPUs.
    pub cpus: BTreeSet<u32>,
}

/// A host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Architecture of its CPUs.
    pub arch: Option<String>,
    /// Its NUMA cells, by their numbers.
    pub cells: BTreeMap<u32, HostCell>,
}

impl Host {
    /// Reads capabilities. A host whose libvirt tells of no cells has one with what `info` says.
    pub fn read(capabilities: &str, info: Option<NodeInfo>) -> Result<Self, XmlError> {
        let document = parse(capabilities, "capabilities")?;
        let root = document.root_element();
        let arch = at(root, &["host", "cpu", "arch"]).and_then(|arch| arch.text()).map(ToOwned::to_owned);
        let cells = at(root, &["host", "topology", "cells"]);
        let mut cells: BTreeMap<u32, HostCell> =
            cells.into_iter().flat_map(|cells| children(cells, "cell")).filter_map(cell).collect();
        if let (true, Some(info)) = (cells.is_empty(), info) {
            let cpus = u32::try_from(info.cpus).unwrap_or_default();
            cells.insert(0, HostCell { memory: info.memory_kib * 1024, cpus: (0..cpus).collect() });
        }
        Ok(Self { arch, cells })
    }

    /// The cell that a CPU is in.
    pub fn cell_of(&self, cpu: u32) -> Option<u32> {
        self.cells.iter().find(|(_, cell)| cell.cpus.contains(&cpu)).map(|(id, _)| *id)
    }
}

fn cell(node: Node<'_, '_>) -> Option<(u32, HostCell)> {
    let number = |node: Node<'_, '_>| node.attribute("id")?.parse().ok();
    let cpus = child(node, "cpus").into_iter().flat_map(|cpus| children(cpus, "cpu")).filter_map(number).collect();
    let memory = child(node, "memory").and_then(bytes).unwrap_or_default();
    Some((number(node)?, HostCell { memory, cpus }))
}

/// The most entries that the schema of a Hypervisor takes.
const MOST_DEVICES: usize = 1024;
const MOST_FEATURES: usize = 256;

/// What domains can have: `disk` and `disk/virtio`, `mode/custom`, `sev`. Sorted, so that equal hosts look equal.
pub fn domain_capabilities(text: &str) -> Result<DomainCapabilities, XmlError> {
    let document = parse(text, "domain capabilities")?;
    let root = document.root_element();
    let own = |name: &str| child(root, name).and_then(|node| node.text()).map(ToOwned::to_owned);
    let below = |name: &str| child(root, name).into_iter().flat_map(|node| node.children());
    let devices: BTreeSet<String> = below("devices")
        .filter(is_supported)
        .flat_map(|device| with_values(device.tag_name().name().to_owned(), device))
        .collect();
    let modes: BTreeSet<String> = below("cpu")
        .filter(is_supported)
        .filter_map(|mode| Some(with_values(format!("mode/{}", mode.attribute("name")?), mode)))
        .flatten()
        .collect();
    let features: BTreeSet<String> =
        below("features").filter(is_supported).map(|feature| feature.tag_name().name().to_owned()).collect();
    Ok(DomainCapabilities {
        arch: own("arch"),
        hypervisor_type: own("domain"),
        supported_devices: devices.into_iter().take(MOST_DEVICES).collect(),
        supported_cpu_modes: modes.into_iter().take(MOST_DEVICES).collect(),
        supported_features: features.into_iter().take(MOST_FEATURES).collect(),
    })
}

fn is_supported(node: &Node<'_, '_>) -> bool {
    node.is_element() && node.attribute("supported") == Some("yes")
}

/// A name, and the name with each value of its enumerations.
fn with_values(name: String, node: Node<'_, '_>) -> Vec<String> {
    let values = children(node, "enum").flat_map(|one| children(one, "value")).filter_map(|value| value.text());
    let values: Vec<String> = values.map(|value| format!("{name}/{value}")).collect();
    std::iter::once(name).chain(values).collect()
}

/// A list of numbers as libvirt writes it: `0-3,^2,8`.
pub(crate) fn numbers(text: &str) -> BTreeSet<u32> {
    const MOST: u32 = 65_536;
    let mut set = BTreeSet::new();
    for part in text.split(',').map(str::trim) {
        let (part, excluded) = part.strip_prefix('^').map_or((part, false), |part| (part, true));
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) else { continue };
        for number in first..=last.min(MOST) {
            if excluded {
                set.remove(&number);
            } else {
                set.insert(number);
            }
        }
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPABILITIES: &str = include_str!("../tests/recorded/capabilities.xml");
    const DOMAIN_CAPABILITIES: &str = include_str!("../tests/recorded/domain-capabilities.xml");

    #[test]
    fn cells_have_what_libvirt_says() {
        let host = Host::read(CAPABILITIES, None).unwrap();
        assert_eq!(host.arch.as_deref(), Some("x86_64"));
        assert_eq!(host.cells.len(), 1);
        assert_eq!(host.cells[&0], HostCell { memory: 24_684_100 << 10, cpus: [0, 1].into() });
        assert_eq!((host.cell_of(1), host.cell_of(2)), (Some(0), None));
    }

    #[test]
    fn a_host_without_cells_has_what_nodeinfo_says() {
        let info = NodeInfo { memory_kib: 8, cpus: 3 };
        let host = Host::read("<capabilities><host/></capabilities>", Some(info)).unwrap();
        assert_eq!(host.cells[&0], HostCell { memory: 8192, cpus: [0, 1, 2].into() });
        assert!(Host::read("<capabilities>", None).is_err());
    }

    #[test]
    fn domain_capabilities_are_comparable_words() {
        let found = domain_capabilities(DOMAIN_CAPABILITIES).unwrap();
        assert_eq!(found.arch.as_deref(), Some("x86_64"));
        assert_eq!(found.hypervisor_type.as_deref(), Some("qemu"));
        for device in ["disk", "disk/virtio", "video/virtio", "hostdev"] {
            assert!(found.supported_devices.iter().any(|one| one == device), "{device}");
        }
        assert!(found.supported_cpu_modes.contains(&"mode/host-model".to_owned()), "{:?}", found.supported_cpu_modes);
        assert!(!found.supported_cpu_modes.iter().any(|mode| mode.starts_with("mode/host-passthrough")), "no KVM");
        assert!(found.supported_features.contains(&"genid".to_owned()), "{:?}", found.supported_features);
    }

    #[test]
    fn lists_of_numbers() {
        assert_eq!(numbers("0-3,^2,8"), [0, 1, 3, 8].into());
        assert_eq!(numbers(" 1 "), [1].into());
        assert!(numbers("none").is_empty());
    }
}
