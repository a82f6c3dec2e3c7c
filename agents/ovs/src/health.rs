//! What is wrong with a switch, and what to do about it. Pure.

use std::collections::BTreeSet;

use c5c3_api::ovs::Severity;
use c5c3_kit::condition::ConditionState;

use crate::database::{Bridge, Interface, Port, Switch};
use crate::stale::Stale;

/// Conditions that the agent owns.
pub const OVSDB: &str = "OVSDBConnected";
pub const OVN: &str = "OVNControllerConnected";
pub const BRIDGES: &str = "AllBridgesHealthy";
pub const BONDS: &str = "AllBondsHealthy";
pub const READY: &str = "Ready";

/// What a finding is about, for the condition that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    Bridge,
    Bond,
    Port,
}

/// Something that is wrong. The message says what is, and then what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub about: About,
    pub severity: Severity,
    pub message: String,
}

impl Finding {
    fn new(about: About, severity: Severity, message: String) -> Self {
        Self { about, severity, message }
    }
}

/// What ovn-controller says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ovn {
    /// The switch names no southbound database.
    Unused,
    Connected,
    /// It runs, and has no connection.
    Disconnected,
    /// It does not answer.
    Unreachable(String),
}

/// The bridge that instances are connected to.
pub fn integration_bridge(switch: &Switch) -> &str {
    switch.external_ids.get("ovn-bridge").map_or("br-int", String::as_str)
}

/// Everything that is wrong with the bridges, bonds and ports of a switch.
pub fn findings(switch: &Switch) -> Vec<Finding> {
    let name = integration_bridge(switch);
    let mut found = Vec::new();
    match switch.bridges.iter().find(|bridge| bridge.name == name) {
        None => found.push(Finding::new(
            About::Bridge,
            Severity::Critical,
            format!(
                "bridge {name} is missing, so that instances have no network; look at ovn-controller, which makes it"
            ),
        )),
        Some(bridge) => found.extend(wrong_datapath(switch, bridge)),
    }
    for bridge in &switch.bridges {
        for port in &bridge.ports {
            found.extend(bond(bridge, port));
            found.extend(port.interfaces.iter().filter_map(|one| unusable(bridge, one)));
            if bridge.name == name {
                found.extend(port.interfaces.iter().filter_map(|one| orphan(bridge, one)));
            }
        }
    }
    found
}

fn wrong_datapath(switch: &Switch, bridge: &Bridge) -> Option<Finding> {
    let wanted = switch.external_ids.get("ovn-bridge-datapath-type").map_or("system", String::as_str);
    let is = bridge.datapath_type.as_deref().unwrap_or("system");
    let known = switch.datapath_types.is_empty() || switch.datapath_types.iter().any(|kind| kind == is);
    let why = match (is == wanted, known) {
        (true, true) => return None,
        (true, false) => "which this Open vSwitch does not have; load its kernel module, or use netdev".to_owned(),
        (false, _) => format!("but external_ids:ovn-bridge-datapath-type says {wanted}; restart ovn-controller"),
    };
    let message = format!("bridge {} has the datapath type {is}, {why}", bridge.name);
    Some(Finding::new(About::Bridge, Severity::Critical, message))
}

/// Whether a member of a bond carries traffic.
pub fn is_active(member: &Interface) -> bool {
    member.error.is_none() && member.is_open && member.is_up && member.has_link && member.lacp_current != Some(false)
}

fn bond(bridge: &Bridge, port: &Port) -> Vec<Finding> {
    if !port.is_bond() {
        return Vec::new();
    }
    let down = port.interfaces.iter().filter(|member| !is_active(member));
    let severity = if port.interfaces.iter().any(is_active) { Severity::Warning } else { Severity::Critical };
    down.map(|member| {
        let why = match member {
            Interface { error: Some(error), .. } => error.as_str(),
            Interface { is_open: false, .. } => "the switch does not have it",
            Interface { is_up: false, .. } => "it is not up",
            Interface { has_link: false, .. } => "it has no link",
            _ => "its LACP partner does not answer",
        };
        let place = format!("{} of bond {} on bridge {}", member.name, port.name, bridge.name);
        let message = format!("member {place} carries no traffic: {why}; check cable, network card and switch");
        Finding::new(About::Bond, severity, message)
    })
    .collect()
}

/// An interface that the switch cannot use, such as that of a tap device that was deleted. Members of bonds are reported as such.
fn unusable(bridge: &Bridge, interface: &Interface) -> Option<Finding> {
    let is_member = bridge.ports.iter().any(|port| port.is_bond() && port.interfaces.contains(interface));
    let error = interface.error.as_deref().filter(|_| !is_member)?;
    let remedy = match interface.external_ids.get("iface-id") {
        Some(port) => {
            format!("restart the instance of Neutron port {port}, or delete the port with ovs-vsctl del-port")
        }
        None => "create the device, or delete the port with ovs-vsctl del-port".into(),
    };
    let message = format!("port {} on bridge {} has no device: {error}; {remedy}", interface.name, bridge.name);
    Some(Finding::new(About::Port, Severity::Warning, message))
}

/// A port that says which logical port it is, and that ovn-controller has not bound.
fn orphan(bridge: &Bridge, interface: &Interface) -> Option<Finding> {
    let id = interface.external_ids.get("iface-id")?;
    let is_bound = interface.external_ids.get("ovn-installed").is_some_and(|value| value == "true");
    if is_bound || interface.error.is_some() {
        return None;
    }
    let message = format!(
        "port {} on bridge {} is bound to no logical port: OVN has no port {id} on this chassis; if its instance is gone, \
         delete it with ovs-vsctl del-port",
        interface.name, bridge.name
    );
    Some(Finding::new(About::Port, Severity::Warning, message))
}

/// For how many ports of a bridge it is said that only flows know them.
const MOST_STALE: usize = 16;

/// Flows of ports that their bridge does not have.
pub fn stale_flows(switch: &Switch, stale: &Stale) -> Vec<Finding> {
    let found = |message| Finding::new(About::Port, Severity::Warning, message);
    let of_bridge = |(bridge, ports): (&String, &BTreeSet<u32>)| {
        let is_ours = bridge == integration_bridge(switch);
        let remedy = |port: &u32| {
            if is_ours {
                "restart ovn-controller on this node, which writes all flows again".to_owned()
            } else {
                format!("delete them with ovs-ofctl del-flows {bridge} in_port={port}, and again with out_port={port}")
            }
        };
        let message = |port: &u32| {
            format!(
                "bridge {bridge} has flows of port {port}, which does not exist: their packets are lost, or reach \
                     another port that gets the number; {}",
                remedy(port)
            )
        };
        let more = format!("bridge {bridge} has stale flows of more ports than are listed");
        let mut all: Vec<Finding> = ports.iter().take(MOST_STALE).map(|port| found(message(port))).collect();
        all.extend((ports.len() > MOST_STALE).then(|| found(more)));
        all
    };
    stale.iter().flat_map(of_bridge).collect()
}

/// The conditions of a switch whose database answers.
pub fn conditions(findings: &[Finding], ovn: &Ovn) -> Vec<ConditionState> {
    let about = |about: About, condition: &str, good: &str, well: &str, reason: &str| {
        let messages: Vec<&str> =
            findings.iter().filter(|one| one.about == about).map(|one| one.message.as_str()).collect();
        if messages.is_empty() {
            ConditionState::met(condition, good, well)
        } else {
            ConditionState::unmet(condition, reason, messages.join(". "))
        }
    };
    let mut all = vec![
        ConditionState::met(OVSDB, "Connected", "the database answers"),
        controller(ovn),
        about(About::Bridge, BRIDGES, "BridgesHealthy", "all bridges are as they should be", "BridgeUnhealthy"),
        about(About::Bond, BONDS, "BondsHealthy", "all members of bonds carry traffic", "MemberDown"),
    ];
    all.push(ready(&all));
    all
}

/// The conditions of a switch whose database does not answer. What was known of bridges and bonds stays as it was.
pub fn unreachable(why: &str) -> Vec<ConditionState> {
    let message = format!("{why}; look at the Open vSwitch pod of this node");
    let lost = ConditionState::unmet(OVSDB, "Unreachable", message);
    let summary = ready(std::slice::from_ref(&lost));
    vec![lost, summary]
}

fn controller(ovn: &Ovn) -> ConditionState {
    match ovn {
        Ovn::Connected => ConditionState::met(OVN, "Connected", "ovn-controller follows the southbound database"),
        Ovn::Disconnected => ConditionState::unmet(
            OVN,
            "Disconnected",
            "ovn-controller is not connected to the southbound database, so that changes do not arrive; look at its logs",
        ),
        Ovn::Unused => ConditionState::unmet(OVN, "NotConfigured", "external_ids:ovn-remote is not set on this node"),
        Ovn::Unreachable(why) => ConditionState::unmet(
            OVN,
            "NotRunning",
            format!("ovn-controller does not answer: {why}; look at its pod on this node"),
        ),
    }
}

/// Ready is the first of the others that does not hold. A bond that lost a member still works.
fn ready(others: &[ConditionState]) -> ConditionState {
    use c5c3_api::blocks::ConditionStatus::False;
    match others.iter().find(|other| other.status == False && other.condition != BONDS) {
        None => ConditionState::met(READY, "Ready", "the switch works"),
        Some(other) => ConditionState::unmet(READY, &other.reason, &other.message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::tests::recorded;

    #[test]
    fn a_member_without_link_and_a_port_that_ovn_does_not_know_are_found() {
        let found = findings(&recorded().switch());
        let texts: Vec<&str> = found.iter().map(|one| one.message.as_str()).collect();
        assert_eq!(found.len(), 2, "{texts:?}");
        assert!(texts[0].starts_with("member b0 of bond bond0 on bridge br-ex carries no traffic: it has no link; "));
        assert_eq!((found[0].about, found[0].severity), (About::Bond, Severity::Warning));
        assert!(texts[1].starts_with("port tap0 on bridge br-int is bound to no logical port: OVN has no port p0"));
    }

    #[test]
    fn a_bound_port_is_fine_until_its_device_is_deleted() {
        let mut switch = recorded().switch();
        let tap = &mut switch.bridges[1].ports[1].interfaces[0];
        tap.external_ids.insert("ovn-installed".into(), "true".into());
        assert!(!findings(&switch).iter().any(|one| one.about == About::Port));
        switch.bridges[1].ports[1].interfaces[0].error = Some("could not open network device tap0".into());
        let found = findings(&switch);
        let port: Vec<&Finding> = found.iter().filter(|one| one.about == About::Port).collect();
        assert_eq!(port.len(), 1);
        assert!(port[0].message.contains("has no device: could not open network device tap0; restart the instance"));
    }

    #[test]
    fn stale_flows_name_the_port_and_who_writes_the_flows_of_the_bridge() {
        let switch = recorded().switch();
        let stale = |bridge: &str, ports: BTreeSet<u32>| Stale::from([(bridge.to_owned(), ports)]);
        let texts = |stale: &Stale| stale_flows(&switch, stale).into_iter().map(|one| one.message).collect::<Vec<_>>();
        let ours = texts(&stale("br-int", [7].into()));
        assert!(ours[0].starts_with("bridge br-int has flows of port 7, which does not exist: "), "{ours:?}");
        assert!(ours[0].ends_with("; restart ovn-controller on this node, which writes all flows again"), "{ours:?}");
        let other = texts(&stale("br-ex", [9].into()));
        assert!(other[0].contains("ovs-ofctl del-flows br-ex in_port=9, "), "{other:?}");
        let many = texts(&stale("br-int", (1..100).collect()));
        assert_eq!(many.len(), MOST_STALE + 1);
        assert_eq!(many[MOST_STALE], "bridge br-int has stale flows of more ports than are listed");
    }

    #[test]
    fn the_integration_bridge_must_be_there_with_the_right_datapath() {
        let mut switch = recorded().switch();
        switch.bridges[1].datapath_type = None;
        let found = findings(&switch);
        let wrong = "bridge br-int has the datapath type system, but external_ids:ovn-bridge-datapath-type says netdev";
        assert!(found[0].message.starts_with(wrong), "{found:?}");
        switch.bridges.pop();
        assert!(findings(&switch)[0].message.starts_with("bridge br-int is missing"));
    }

    #[test]
    fn ready_names_what_is_wrong_but_a_degraded_bond_does_not_take_a_node_away() {
        use c5c3_api::blocks::ConditionStatus::{False, True};
        let status = |conditions: &[ConditionState], wanted: &str| {
            let found = conditions.iter().find(|one| one.condition == wanted).unwrap();
            (found.status, found.reason.clone())
        };
        let found = findings(&recorded().switch());
        let all = conditions(&found, &Ovn::Connected);
        assert_eq!(status(&all, BONDS), (False, "MemberDown".into()));
        assert_eq!(status(&all, READY), (True, "Ready".into()));
        let all = conditions(&found, &Ovn::Unreachable("connection refused".into()));
        assert_eq!(status(&all, READY), (False, "NotRunning".into()));
        assert_eq!(status(&unreachable("gone"), READY), (False, "Unreachable".into()));
    }
}
