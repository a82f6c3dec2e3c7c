//! What an OVSNode's status says of a switch. Pure.

use std::collections::BTreeMap;

use c5c3_api::ovs::{
    Bond, Bridge as BridgeStatus, DatapathType, FlowStats, Interfaces, Issue, OVSNodeStatus, OvnController,
    PhysicalInterface, TableFlows, Traffic,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::database::{Bridge, Counters, Interface, Port, Switch};
use crate::health::{About, Finding, Ovn, is_active};

/// The most entries that the schema takes.
const MOST_BRIDGES: usize = 128;
const MOST_CARDS: usize = 256;
const MOST_BONDS: usize = 64;
const MOST_ISSUES: usize = 128;

/// The flows of each bridge, by table.
pub type Flows = BTreeMap<String, BTreeMap<u8, u64>>;

/// What was found out besides the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surroundings {
    pub ovs_version: Option<String>,
    pub ovsdb_version: Option<String>,
    pub flows: Flows,
    pub ovn: Ovn,
}

/// The status without its conditions. Issues that were there before keep the time since when.
pub fn status(
    switch: &Switch,
    around: &Surroundings,
    traffic: &Traffic,
    findings: &[Finding],
    before: Option<&OVSNodeStatus>,
    now: Timestamp,
) -> OVSNodeStatus {
    let bridges = switch.bridges.iter().take(MOST_BRIDGES).map(|one| bridge(one, around, findings)).collect();
    let known = before.map(|before| before.issues.as_slice()).unwrap_or_default();
    OVSNodeStatus {
        ovs_version: around.ovs_version.clone(),
        ovsd_version: around.ovsdb_version.clone(),
        dpdk_enabled: Some(switch.has_dpdk),
        dpdk_version: switch.dpdk_version.clone(),
        bridges,
        interfaces: Some(interfaces(switch)),
        ovn_controller: Some(OvnController {
            connected: around.ovn == Ovn::Connected,
            sb_connection: switch.external_ids.get("ovn-remote").cloned(),
            chassis_id: switch.external_ids.get("system-id").cloned(),
        }),
        flow_stats: Some(flow_stats(&around.flows)),
        metrics: Some(traffic.clone()),
        issues: issues(findings, known, now),
        ..OVSNodeStatus::default()
    }
}

fn bridge(bridge: &Bridge, around: &Surroundings, findings: &[Finding]) -> BridgeStatus {
    let named = format!("bridge {} ", bridge.name);
    let is_wrong = findings.iter().any(|one| one.about == About::Bridge && one.message.starts_with(&named));
    BridgeStatus {
        name: bridge.name.clone(),
        ports: i32::try_from(bridge.ports.len()).ok(),
        flows: around.flows.get(&bridge.name).map(|tables| sum(tables.values())),
        datapath_type: match bridge.datapath_type.as_deref() {
            Some("netdev") => Some(DatapathType::Netdev),
            None | Some("system") => Some(DatapathType::System),
            Some(_) => None,
        },
        status: Some(if is_wrong { "Unhealthy" } else { "Active" }.into()),
    }
}

fn sum<'a>(counts: impl Iterator<Item = &'a u64>) -> i64 {
    i64::try_from(counts.sum::<u64>()).unwrap_or(i64::MAX)
}

fn flow_stats(flows: &Flows) -> FlowStats {
    let mut tables: BTreeMap<u8, u64> = BTreeMap::new();
    for (table, count) in flows.values().flatten() {
        *tables.entry(*table).or_default() += count;
    }
    let per_table = |(table, count): (&u8, &u64)| TableFlows { table: (*table).into(), flows: sum([*count].iter()) };
    FlowStats { total_flows: Some(sum(tables.values())), flows_per_table: tables.iter().map(per_table).collect() }
}

fn interfaces(switch: &Switch) -> Interfaces {
    let ports = || switch.bridges.iter().flat_map(|bridge| &bridge.ports);
    let mut cards: Vec<PhysicalInterface> = ports()
        .flat_map(|port| port.interfaces.iter().map(move |one| (port, one)))
        .filter(|(_, one)| is_card(one))
        .map(|(port, one)| PhysicalInterface {
            name: one.name.clone(),
            status: Some(if one.is_up && one.has_link { "Up" } else { "Down" }.into()),
            speed: one.speed.map(speed),
            bond: port.is_bond().then(|| port.name.clone()),
        })
        .collect();
    cards.sort_by(|a, b| a.name.cmp(&b.name));
    cards.dedup_by(|a, b| a.name == b.name);
    cards.truncate(MOST_CARDS);
    Interfaces { physical: cards, bonds: ports().filter(|port| port.is_bond()).take(MOST_BONDS).map(bond).collect() }
}

/// A device of the system, or of DPDK, that belongs to no instance.
fn is_card(interface: &Interface) -> bool {
    ["", "system", "dpdk"].contains(&interface.kind.as_str()) && !interface.external_ids.contains_key("iface-id")
}

/// A link's speed for people.
fn speed(bits: u64) -> String {
    match bits {
        1_000_000_000.. if bits.is_multiple_of(1_000_000_000) => format!("{}Gbps", bits / 1_000_000_000),
        _ => format!("{}Mbps", bits / 1_000_000),
    }
}

fn bond(port: &Port) -> Bond {
    let active = port.interfaces.iter().filter(|member| is_active(member)).count();
    let status = match active {
        0 => "Down",
        _ if active < port.interfaces.len() => "Degraded",
        _ => "Active",
    };
    Bond {
        name: port.name.clone(),
        mode: Some(port.bond_mode.clone().unwrap_or_else(|| "active-backup".into())),
        status: Some(status.into()),
        members: i32::try_from(port.interfaces.len()).ok(),
        active_members: i32::try_from(active).ok(),
    }
}

fn issues(findings: &[Finding], known: &[Issue], now: Timestamp) -> Vec<Issue> {
    let mut findings: Vec<&Finding> = findings.iter().collect();
    // The worst first, so that it is among those that fit.
    findings.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.message.cmp(&b.message)));
    let issue = |finding: &Finding| {
        let message: String = finding.message.chars().take(1024).collect();
        let since = known.iter().find(|issue| issue.message == message).and_then(|issue| issue.detected_at.clone());
        Issue { severity: finding.severity, message, detected_at: since.or(Some(Time(now))) }
    };
    findings.into_iter().take(MOST_ISSUES).map(issue).collect()
}

/// The traffic through all ports.
pub fn traffic(counters: &Counters) -> Traffic {
    let sum = |names: &[&str]| Some(counters.sum(names));
    Traffic {
        packets_received: sum(&["rx_packets"]),
        packets_sent: sum(&["tx_packets"]),
        bytes_received: sum(&["rx_bytes"]),
        bytes_sent: sum(&["tx_bytes"]),
        drops: sum(&["rx_dropped", "tx_dropped"]),
        errors: sum(&["rx_errors", "tx_errors"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::tests::recorded;
    use crate::health::findings;

    fn around() -> Surroundings {
        let flows = [("br-int".to_owned(), [(0, 1), (5, 1)].into()), ("br-ex".to_owned(), [(0, 1)].into())].into();
        Surroundings { ovs_version: Some("3.1.0".into()), ovsdb_version: None, flows, ovn: Ovn::Connected }
    }

    #[test]
    fn a_recorded_switch_becomes_a_status_that_does_not_change_by_itself() {
        let switch = recorded().switch();
        let found = findings(&switch);
        let early: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let late: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let first = status(&switch, &around(), &Traffic::default(), &found, None, early);
        let ports: Vec<_> = first.bridges.iter().map(|one| (one.name.as_str(), one.ports, one.flows)).collect();
        assert_eq!(ports, [("br-ex", Some(2), Some(1)), ("br-int", Some(2), Some(2))]);
        let stats = first.flow_stats.as_ref().unwrap();
        assert_eq!(stats.total_flows, Some(3));
        assert_eq!(stats.flows_per_table[0], TableFlows { table: 0, flows: 2 });
        let interfaces = first.interfaces.as_ref().unwrap();
        let bond = &interfaces.bonds[0];
        assert_eq!((bond.status.as_deref(), bond.members, bond.active_members), (Some("Degraded"), Some(2), Some(1)));
        let cards: Vec<_> = interfaces.physical.iter().map(|one| (one.name.as_str(), one.bond.as_deref())).collect();
        assert_eq!(cards, [("a0", Some("bond0")), ("b0", Some("bond0"))]);
        assert_eq!(interfaces.physical[0].speed.as_deref(), Some("10Gbps"));
        assert_eq!(first.ovn_controller.as_ref().unwrap().chassis_id.as_deref(), Some("ch1"));

        let second = status(&switch, &around(), &Traffic::default(), &found, Some(&first), late);
        assert_eq!(second, first, "an issue keeps the time since when");
        assert_eq!(second.issues[0].detected_at, Some(Time(early)));
        let third = status(&switch, &around(), &Traffic::default(), &found[..1], Some(&first), late);
        assert_eq!(third.issues.len(), 1, "and goes when it is mended");
    }
}
