//! The rows of a capture in the database of Open vSwitch: a mirror on the bridge, and a pair of patch ports to a bridge of its own.
//!
//! They have fixed names, and a lock of the database is held as long as they are wanted. The lock goes with the connection, so who
//! gets it knows that what is there was left by a capture that was killed.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::CaptureError;
use crate::database::{DATABASE, references};
use crate::rpc::Rpc;

/// The bridge of a capture.
pub const BRIDGE: &str = "c5c3-capture";
/// The patch port on the bridge that is looked at, and the one at the other end. Names of links have 15 bytes.
const NEAR: &str = "c5c3-cap-near";
const FAR: &str = "c5c3-cap-far";
const LOCK: &str = "c5c3_capture";

/// How long ovs-vswitchd may take to do what the database says: less than a call may take.
const SET_UP: Duration = Duration::from_secs(4);

/// Whether a bridge, port or interface of this name belongs to a capture, and not to the node.
pub fn is_part(name: &str) -> bool {
    [BRIDGE, NEAR, FAR].contains(&name)
}

/// What packets are taken from.
#[derive(Debug, PartialEq, Eq)]
pub struct Target {
    bridge: String,
    /// Where the bridge switches: patch ports join bridges of the same datapath only.
    datapath_type: String,
    /// The port; nothing for all of the bridge.
    port: Option<String>,
}

/// A connection that holds the lock of captures.
#[derive(Debug)]
pub struct Database {
    rpc: Rpc,
    _notifications: mpsc::Receiver<Value>,
}

impl Database {
    /// Connects, and waits for the lock for some time.
    pub async fn lock(socket: &Path, patience: Duration) -> Result<Self, CaptureError> {
        let (rpc, mut notifications) = Rpc::connect(socket).await?;
        let answer = rpc.call("lock", json!([LOCK])).await?;
        if answer["locked"] != true {
            let told = timeout(patience, notifications.recv()).await.ok().flatten();
            if told.is_none_or(|told| told["method"] != "locked") {
                return Err(CaptureError::Busy);
            }
        }
        Ok(Self { rpc, _notifications: notifications })
    }

    /// Finds a bridge or a port by its name. A bridge has a port of its own name, and is meant then.
    pub async fn find(&self, name: &str) -> Result<Target, CaptureError> {
        let bridges = json!({"op": "select", "table": "Bridge", "where": [], "columns": ["name", "ports", "datapath_type", "_uuid"]});
        let ports = json!({"op": "select", "table": "Port", "where": [["name", "==", name]], "columns": ["_uuid"]});
        let found = self.transact(vec![bridges, ports]).await?;
        target(&found, name).ok_or_else(|| CaptureError::Unknown(name.to_owned()))
    }

    /// Mirrors a target, and waits until ovs-vswitchd does.
    pub async fn mirror(&self, target: &Target) -> Result<(), CaptureError> {
        let done = self.transact(additions(target)).await?;
        let configured = self.configured(&done, vec![errors()]).await.map_err(|error| match error {
            CaptureError::Refused(why) => CaptureError::NotSetUp(why),
            error => error,
        })?;
        let mut rows = configured.last().and_then(|answer| answer["rows"].as_array()).into_iter().flatten();
        match rows.find_map(|row| row["error"].as_str()) {
            None => Ok(()),
            Some(error) => Err(CaptureError::NotSetUp(error.to_owned())),
        }
    }

    /// Removes all that belongs to a capture, and says whether there was any.
    pub async fn remove_left(&self) -> Result<bool, CaptureError> {
        let select = |table: &str, name: &str| json!({"op": "select", "table": table, "where": [["name", "==", name]], "columns": ["_uuid"]});
        let found =
            self.transact(vec![select("Mirror", BRIDGE), select("Port", NEAR), select("Bridge", BRIDGE)]).await?;
        let Some(removals) = removals(&found) else { return Ok(false) };
        let done = self.transact(removals).await?;
        // The rows are gone. That the switch has not followed yet, or does not run, takes nothing from that.
        if let Err(error) = self.configured(&done, Vec::new()).await {
            tracing::debug!(%error, "ovs-vswitchd has not removed the mirror yet");
        }
        Ok(true)
    }

    /// Waits until the switch has done what a transaction asked for, and does more then.
    async fn configured(&self, done: &[Value], more: Vec<Value>) -> Result<Vec<Value>, CaptureError> {
        let wanted = done.last().map(|answer| answer["rows"][0]["next_cfg"].clone()).unwrap_or_default();
        let millis = u64::try_from(SET_UP.as_millis()).unwrap_or_default();
        let wait = json!({"op": "wait", "timeout": millis, "table": "Open_vSwitch", "columns": ["cur_cfg"],
            "where": [["cur_cfg", ">=", wanted]], "until": "!=", "rows": []});
        self.transact([vec![wait], more].concat()).await
    }

    /// Does all of it or nothing, as long as the lock is held, and returns the answers.
    async fn transact(&self, operations: Vec<Value>) -> Result<Vec<Value>, CaptureError> {
        let held = json!({"op": "assert", "lock": LOCK});
        let parameters = [vec![json!(DATABASE), held], operations].concat();
        let answers = self.rpc.call("transact", json!(parameters)).await?;
        let answers = answers.as_array().cloned().unwrap_or_default();
        match answers.iter().find(|answer| !answer["error"].is_null()) {
            Some(refused) => {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let (error, details) = (text(&refused["error"]), text(&refused["details"]));
                Err(CaptureError::Refused(format!("{error}: {details}").trim_end_matches(": ").to_owned()))
            }
            None => Ok(answers.into_iter().skip(1).collect()),
        }
    }
}

fn target(found: &[Value], name: &str) -> Option<Target> {
    let rows = |at: usize| found.get(at).and_then(|answer| answer["rows"].as_array()).into_iter().flatten();
    let port = rows(1).find_map(|row| row["_uuid"][1].as_str());
    let of_name = rows(0).find(|bridge| bridge["name"] == name);
    let with_port = || rows(0).find(|bridge| references(&bridge["ports"]).any(|one| Some(one) == port));
    let bridge = of_name.or_else(with_port)?;
    Some(Target {
        bridge: bridge["_uuid"][1].as_str()?.to_owned(),
        datapath_type: bridge["datapath_type"].as_str().unwrap_or_default().to_owned(),
        port: of_name.is_none().then(|| port.map(ToOwned::to_owned)).flatten(),
    })
}

/// The operations that add a mirror. The last one says which configuration that is.
fn additions(target: &Target) -> Vec<Value> {
    let insert =
        |table: &str, id: &str, row: Value| json!({"op": "insert", "table": table, "uuid-name": id, "row": row});
    let named = |id: &str| json!(["named-uuid", id]);
    let interface = |id: &str, name: &str, kind: &str, options: Value| {
        let row = json!({"name": name, "type": kind, "options": ["map", options]});
        [
            insert("Interface", &format!("{id}_interface"), row),
            insert("Port", id, json!({"name": name, "interfaces": named(&format!("{id}_interface"))})),
        ]
    };
    let mut mirror = json!({"name": BRIDGE, "output_port": named("near")});
    match &target.port {
        None => mirror["select_all"] = json!(true),
        Some(port) => {
            mirror["select_src_port"] = json!(["uuid", port]);
            mirror["select_dst_port"] = json!(["uuid", port]);
        }
    }
    // Secure: without the flow of the capture nothing is switched, and there is no other bridge it could go to.
    let bridge = json!({"name": BRIDGE, "datapath_type": target.datapath_type, "fail_mode": "secure",
        "ports": ["set", [named("own"), named("far")]]});
    let mut operations = Vec::new();
    operations.extend(interface("own", BRIDGE, "internal", json!([])));
    operations.extend(interface("far", FAR, "patch", json!([["peer", NEAR]])));
    operations.extend(interface("near", NEAR, "patch", json!([["peer", FAR]])));
    operations.push(insert("Bridge", "bridge", bridge));
    operations.push(insert("Mirror", "mirror", mirror));
    operations.push(json!({"op": "mutate", "table": "Bridge", "where": [["_uuid", "==", ["uuid", target.bridge]]],
        "mutations": [["ports", "insert", named("near")], ["mirrors", "insert", named("mirror")]]}));
    operations.extend(change_of_root("insert", &named("bridge")));
    operations
}

/// The operations that remove what was found: mirrors, ports and bridges. `None` if nothing was.
fn removals(found: &[Value]) -> Option<Vec<Value>> {
    let set = |at: usize| {
        let rows = found.get(at).and_then(|answer| answer["rows"].as_array()).into_iter().flatten();
        rows.map(|row| row["_uuid"].clone()).collect::<Vec<_>>()
    };
    let (mirrors, ports, bridges) = (set(0), set(1), set(2));
    if mirrors.is_empty() && ports.is_empty() && bridges.is_empty() {
        return None;
    }
    let mut operations = vec![json!({"op": "mutate", "table": "Bridge", "where": [],
        "mutations": [["mirrors", "delete", ["set", mirrors]], ["ports", "delete", ["set", ports]]]})];
    operations.extend(change_of_root("delete", &json!(["set", bridges])));
    Some(operations)
}

/// Changes the list of bridges, and says which configuration that is.
fn change_of_root(mutator: &str, bridges: &Value) -> [Value; 2] {
    let mutations = json!([["bridges", mutator, bridges], ["next_cfg", "+=", 1]]);
    [
        json!({"op": "mutate", "table": "Open_vSwitch", "where": [], "mutations": mutations}),
        json!({"op": "select", "table": "Open_vSwitch", "where": [], "columns": ["next_cfg"]}),
    ]
}

/// What keeps the switch from using the patch ports.
fn errors() -> Value {
    json!({"op": "select", "table": "Interface", "where": [["name", "==", NEAR]], "columns": ["error", "ofport"]})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Vec<Value> {
        vec![
            json!({"rows": [
                {"name": "br-ex", "_uuid": ["uuid", "b1"], "ports": ["uuid", "p1"], "datapath_type": ""},
                {"name": "br-int", "_uuid": ["uuid", "b2"], "ports": ["set", [["uuid", "p2"], ["uuid", "p3"]]],
                    "datapath_type": "netdev"}]}),
            json!({"rows": [{"_uuid": ["uuid", "p3"]}]}),
        ]
    }

    #[test]
    fn a_name_is_a_bridge_or_a_port_of_one() {
        let port = target(&found(), "tap0").unwrap();
        assert_eq!(
            (port.bridge.as_str(), port.datapath_type.as_str(), port.port.as_deref()),
            ("b2", "netdev", Some("p3"))
        );
        // A bridge has a port of its name.
        let bridge = target(&found(), "br-int").unwrap();
        assert_eq!((bridge.bridge.as_str(), bridge.port), ("b2", None));
        let nothing = vec![found().remove(0), json!({"rows": []})];
        assert_eq!(target(&nothing, "tap9"), None);
    }

    #[test]
    fn a_mirror_of_a_port_selects_it_in_both_directions_and_one_of_a_bridge_all() {
        let row = |target: Target| {
            let operations = additions(&target);
            operations.iter().find(|one| one["table"] == "Mirror").unwrap()["row"].clone()
        };
        let target = |port: Option<&str>| Target {
            bridge: "b2".into(),
            datapath_type: "netdev".into(),
            port: port.map(ToOwned::to_owned),
        };
        let output = json!(["named-uuid", "near"]);
        assert_eq!(row(target(None)), json!({"name": BRIDGE, "output_port": output, "select_all": true}));
        let port = json!(["uuid", "p3"]);
        assert_eq!(
            row(target(Some("p3"))),
            json!({"name": BRIDGE, "output_port": output, "select_src_port": port, "select_dst_port": port})
        );
    }

    #[test]
    fn what_was_left_is_removed_whole_or_in_part() {
        let rows = |uuids: &[&str]| json!({"rows": uuids.iter().map(|uuid| json!({"_uuid": ["uuid", uuid]})).collect::<Vec<_>>()});
        assert_eq!(removals(&[rows(&[]), rows(&[]), rows(&[])]), None);
        let operations = removals(&[rows(&[]), rows(&["p"]), rows(&["b"])]).unwrap();
        assert_eq!(
            operations[0]["mutations"],
            json!([["mirrors", "delete", ["set", []]], ["ports", "delete", ["set", [["uuid", "p"]]]]])
        );
        assert_eq!(operations[1]["mutations"][0], json!(["bridges", "delete", ["set", [["uuid", "b"]]]]));
    }
}
