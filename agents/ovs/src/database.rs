//! The database of Open vSwitch, as far as the agent watches it: rows as they come, and the switch that they describe.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use crate::capture;

/// The database.
pub const DATABASE: &str = "Open_vSwitch";

/// The tables and columns that are watched. Counters are not: they change every few seconds.
pub fn watched() -> Value {
    let columns = |columns: &[&str]| json!({ "columns": columns });
    json!({
        "Open_vSwitch": columns(&["bridges", "dpdk_initialized", "dpdk_version", "external_ids", "datapath_types"]),
        "Bridge": columns(&["name", "ports", "datapath_type"]),
        "Port": columns(&["name", "interfaces", "bond_mode"]),
        "Interface": columns(&["name", "type", "error", "ofport", "link_state", "admin_state", "link_speed",
            "ifindex", "external_ids", "lacp_current"]),
    })
}

/// The rows, by table and UUID.
#[derive(Debug, Default)]
pub struct Rows(HashMap<String, HashMap<String, Value>>);

impl Rows {
    /// Takes over a table update, from the answer to `monitor` or from a notification.
    pub fn update(&mut self, mut update: Value) {
        for (table, rows) in update.as_object_mut().into_iter().flatten() {
            let known = self.0.entry(table.clone()).or_default();
            for (uuid, change) in rows.as_object_mut().into_iter().flatten() {
                match change["new"].take() {
                    Value::Null => drop(known.remove(uuid)),
                    row => drop(known.insert(uuid.clone(), row)),
                }
            }
        }
    }

    /// Takes over the table update of a notification.
    pub fn notified(&mut self, mut notification: Value) {
        self.update(notification["params"][1].take());
    }

    fn row(&self, table: &str, uuid: &str) -> Option<&Value> {
        self.0.get(table)?.get(uuid)
    }

    /// Whether a capture is there: one that runs, or what one left that was killed.
    pub fn has_capture(&self) -> bool {
        self.0.get("Bridge").is_some_and(|rows| rows.values().any(|row| row["name"] == capture::BRIDGE))
    }

    /// The switch that the rows describe, with everything in the order of names, and without what belongs to a capture.
    pub fn switch(&self) -> Switch {
        let none = Value::Null;
        let root = self.0.get("Open_vSwitch").and_then(|rows| rows.values().next()).unwrap_or(&none);
        let mut bridges: Vec<Bridge> =
            references(&root["bridges"]).filter_map(|uuid| Some(self.bridge(self.row("Bridge", uuid)?))).collect();
        bridges.retain(|bridge| !capture::is_part(&bridge.name));
        bridges.sort_by(|a, b| a.name.cmp(&b.name));
        Switch {
            has_dpdk: root["dpdk_initialized"] == true,
            dpdk_version: text(&root["dpdk_version"]).filter(|version| version != "none"),
            external_ids: map(&root["external_ids"]),
            datapath_types: set(&root["datapath_types"]).filter_map(Value::as_str).map(ToOwned::to_owned).collect(),
            bridges,
        }
    }

    fn bridge(&self, row: &Value) -> Bridge {
        let mut ports: Vec<Port> =
            references(&row["ports"]).filter_map(|uuid| Some(self.port(self.row("Port", uuid)?))).collect();
        ports.retain(|port| !capture::is_part(&port.name));
        ports.sort_by(|a, b| a.name.cmp(&b.name));
        Bridge {
            name: text(&row["name"]).unwrap_or_default(),
            datapath_type: text(&row["datapath_type"]).filter(|kind| !kind.is_empty()),
            ports,
        }
    }

    fn port(&self, row: &Value) -> Port {
        let mut interfaces: Vec<Interface> =
            references(&row["interfaces"]).filter_map(|uuid| Some(interface(self.row("Interface", uuid)?))).collect();
        interfaces.sort_by(|a, b| a.name.cmp(&b.name));
        Port { name: text(&row["name"]).unwrap_or_default(), bond_mode: text(&row["bond_mode"]), interfaces }
    }
}

fn interface(row: &Value) -> Interface {
    let kind = text(&row["type"]).unwrap_or_default();
    // In userspace a device that was deleted has no error, only no index.
    let is_missing = ["", "system"].contains(&kind.as_str()) && row["ifindex"] == 0;
    Interface {
        name: text(&row["name"]).unwrap_or_default(),
        kind,
        error: text(&row["error"]).or_else(|| is_missing.then(|| "no such device".to_owned())),
        is_open: row["ofport"].as_i64().is_some_and(|port| port > 0),
        has_link: row["link_state"] == "up",
        is_up: row["admin_state"] == "up",
        speed: row["link_speed"].as_u64(),
        lacp_current: row["lacp_current"].as_bool(),
        external_ids: map(&row["external_ids"]),
    }
}

/// Open vSwitch on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switch {
    pub has_dpdk: bool,
    pub dpdk_version: Option<String>,
    pub external_ids: BTreeMap<String, String>,
    pub datapath_types: Vec<String>,
    pub bridges: Vec<Bridge>,
}

/// A bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bridge {
    pub name: String,
    /// `system` when absent.
    pub datapath_type: Option<String>,
    pub ports: Vec<Port>,
}

/// A port, which is a bond if it has several interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Port {
    pub name: String,
    pub bond_mode: Option<String>,
    pub interfaces: Vec<Interface>,
}

impl Port {
    pub fn is_bond(&self) -> bool {
        self.interfaces.len() > 1
    }
}

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    /// Empty for a device of the system.
    pub kind: String,
    /// Why the switch cannot use it.
    pub error: Option<String>,
    /// Whether the switch has it.
    pub is_open: bool,
    pub has_link: bool,
    pub is_up: bool,
    pub speed: Option<u64>,
    pub lacp_current: Option<bool>,
    pub external_ids: BTreeMap<String, String>,
}

/// A set as OVSDB writes it: a value, or `["set", [..]]`.
fn set(value: &Value) -> impl Iterator<Item = &Value> {
    let many = value.get(0).filter(|kind| *kind == "set").and(value[1].as_array());
    let one = (many.is_none() && !value.is_null()).then_some(value);
    many.into_iter().flatten().chain(one)
}

pub fn references(value: &Value) -> impl Iterator<Item = &str> {
    set(value).filter(|one| one[0] == "uuid").filter_map(|one| one[1].as_str())
}

fn text(value: &Value) -> Option<String> {
    set(value).next()?.as_str().map(ToOwned::to_owned)
}

/// A map as OVSDB writes it: `["map", [[key, value], ..]]`.
pub fn map(value: &Value) -> BTreeMap<String, String> {
    let pairs = value[1].as_array().into_iter().flatten();
    pairs.filter_map(|pair| Some((pair[0].as_str()?.to_owned(), pair[1].as_str()?.to_owned()))).collect()
}

/// The counters of all interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(pub BTreeMap<String, BTreeMap<String, i64>>);

impl Counters {
    /// The operation that reads them.
    pub fn question() -> Value {
        json!([DATABASE, {"op": "select", "table": "Interface", "where": [], "columns": ["name", "statistics"]}])
    }

    /// Reads the answer to it.
    pub fn read(answer: &Value) -> Self {
        let rows = answer[0]["rows"].as_array().into_iter().flatten();
        let counters = |row: &Value| {
            let pairs = row["statistics"][1].as_array().into_iter().flatten();
            pairs.filter_map(|pair| Some((pair[0].as_str()?.to_owned(), pair[1].as_i64()?))).collect()
        };
        let named = rows.filter_map(|row| Some((row["name"].as_str()?, counters(row))));
        Self(named.filter(|(name, _)| !capture::is_part(name)).map(|(name, all)| (name.to_owned(), all)).collect())
    }

    /// A counter summed over all interfaces.
    pub fn sum(&self, names: &[&str]) -> i64 {
        let all = self.0.values().flat_map(|counters| names.iter().filter_map(|name| counters.get(*name)));
        all.fold(0, |sum, count| sum.saturating_add(*count))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// What a real ovsdb-server answered to `monitor`.
    pub(crate) const RECORDED: &str = include_str!("../tests/recorded-monitor.json");

    pub(crate) fn recorded() -> Rows {
        let mut answer: Value = serde_json::from_str(RECORDED).unwrap();
        let mut rows = Rows::default();
        rows.update(answer["result"].take());
        rows
    }

    #[test]
    fn a_recorded_database_is_a_switch_with_two_bridges() {
        let switch = recorded().switch();
        let names: Vec<&str> = switch.bridges.iter().map(|bridge| bridge.name.as_str()).collect();
        assert_eq!(names, ["br-ex", "br-int"]);
        assert_eq!(switch.external_ids["system-id"], "ch1");
        assert_eq!(switch.datapath_types, ["netdev"]);
        let bond = &switch.bridges[0].ports[0];
        assert_eq!(
            (bond.name.as_str(), bond.bond_mode.as_deref(), bond.is_bond()),
            ("bond0", Some("active-backup"), true)
        );
        assert_eq!((bond.interfaces[0].has_link, bond.interfaces[1].has_link), (true, false));
        let tap = &switch.bridges[1].ports[1].interfaces[0];
        assert_eq!((tap.name.as_str(), tap.external_ids["iface-id"].as_str(), tap.is_open), ("tap0", "p0", true));
    }

    #[test]
    fn a_device_that_was_deleted_is_an_error_in_userspace_too() {
        let found = |row: Value| interface(&row).error;
        let gone = found(json!({"name": "tap0", "type": "", "error": ["set", []], "ifindex": 0}));
        assert_eq!(gone.as_deref(), Some("no such device"));
        assert_eq!(found(json!({"name": "tap0", "type": "", "error": ["set", []], "ifindex": 7})), None);
        assert_eq!(found(json!({"name": "patch", "type": "patch", "ifindex": 0})), None);
    }

    #[test]
    fn rows_change_and_go() {
        let mut rows = Rows::default();
        rows.update(json!({"Bridge": {"u": {"new": {"name": "br-a"}}}}));
        rows.update(json!({"Bridge": {"u": {"old": {"name": "br-a"}, "new": {"name": "br-b"}}}}));
        assert_eq!(rows.row("Bridge", "u").unwrap()["name"], "br-b");
        rows.update(json!({"Bridge": {"u": {"old": {"name": "br-b"}}}}));
        assert!(rows.row("Bridge", "u").is_none());
    }

    #[test]
    fn what_belongs_to_a_capture_is_no_part_of_the_switch() {
        let mut rows = recorded();
        let (before, table) = (rows.switch(), |name: &str| json!({"c1": {"new": {"name": name}}}));
        assert!(!rows.has_capture());
        let root = rows.0["Open_vSwitch"].keys().next().unwrap().clone();
        let mut bridges = rows.row("Open_vSwitch", &root).unwrap().clone();
        bridges["bridges"][1].as_array_mut().unwrap().push(json!(["uuid", "c1"]));
        let (id, mut bridge) = rows.0["Bridge"]
            .iter()
            .find(|(_, row)| row["name"] == "br-int")
            .map(|(id, row)| (id.clone(), row.clone()))
            .unwrap();
        bridge["ports"][1].as_array_mut().unwrap().push(json!(["uuid", "c1"]));
        rows.update(json!({"Open_vSwitch": {root: {"new": bridges}}, "Bridge": table("c5c3-capture"), "Port": table("c5c3-cap-near")}));
        rows.update(json!({"Bridge": {id: {"new": bridge}}}));
        assert!(rows.has_capture());
        assert_eq!(rows.switch(), before);
        let answer = json!([{"rows": [{"name": "c5c3-cap-far", "statistics": ["map", [["rx_packets", 2]]]}]}]);
        assert_eq!(Counters::read(&answer), Counters::default());
    }

    #[test]
    fn counters_are_summed_over_interfaces() {
        let answer = json!([{"rows": [
            {"name": "a", "statistics": ["map", [["rx_packets", 2], ["rx_dropped", 1]]]},
            {"name": "b", "statistics": ["map", [["rx_packets", 3], ["tx_dropped", 4]]]}]}]);
        let counters = Counters::read(&answer);
        assert_eq!((counters.sum(&["rx_packets"]), counters.sum(&["rx_dropped", "tx_dropped"])), (5, 5));
    }
}
