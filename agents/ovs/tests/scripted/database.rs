//! An ovsdb-server as far as the agent asks one: `monitor`, the counters, and updates to all who watch.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;

/// The bridge br-int with ports tap0, tap1 and so on. Dropping it ends it.
pub struct Database {
    ports: Arc<Mutex<BTreeMap<usize, Value>>>,
    updates: broadcast::Sender<String>,
    server: JoinHandle<()>,
}

impl Drop for Database {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Database {
    /// Listens at `db.sock` in a folder. OVN has bound all ports.
    pub fn start(folder: &Path, ports: usize) -> Self {
        let listener = UnixListener::bind(folder.join("db.sock")).unwrap();
        let ports = Arc::new(Mutex::new((0..ports).map(|index| (index, interface(index, true))).collect()));
        let updates = broadcast::channel(1 << 16).0;
        let (of_server, sender) = (Arc::clone(&ports), updates.clone());
        let server = tokio::spawn(async move {
            loop {
                let stream = listener.accept().await.unwrap().0;
                tokio::spawn(serve(stream, Arc::clone(&of_server), sender.subscribe()));
            }
        });
        Self { ports, updates, server }
    }

    /// Says whether OVN has bound a port, to all who watch.
    pub fn bind(&self, index: usize, is_bound: bool) {
        let row = interface(index, is_bound);
        self.ports.lock().unwrap().insert(index, row.clone());
        let changed = json!({"Interface": {format!("i{index}"): {"new": row}}});
        // Without anyone who watches there is no one to tell.
        let _ = self.updates.send(json!({"method": "update", "params": ["c5c3", changed], "id": null}).to_string());
    }
}

fn interface(index: usize, is_bound: bool) -> Value {
    let ids = json!([["iface-id", format!("port-{index}")], ["ovn-installed", is_bound.to_string()]]);
    json!({"name": format!("tap{index}"), "type": "", "error": ["set", []], "ofport": index + 1, "link_state": "up",
        "admin_state": "up", "link_speed": 10_000_000_000u64, "ifindex": index + 10, "lacp_current": ["set", []],
        "external_ids": ["map", ids]})
}

async fn serve(
    mut stream: UnixStream,
    ports: Arc<Mutex<BTreeMap<usize, Value>>>,
    mut updates: broadcast::Receiver<String>,
) {
    let mut unread = Vec::new();
    let mut watches = false;
    loop {
        tokio::select! {
            read = stream.read_buf(&mut unread) => if !matches!(read, Ok(1..)) { return },
            update = updates.recv(), if watches => {
                let update = update.expect("the test watches fast enough");
                if stream.write_all(update.as_bytes()).await.is_err() {
                    return;
                }
            }
        }
        let mut asked = serde_json::Deserializer::from_slice(&unread).into_iter::<Value>();
        let mut answers = Vec::new();
        let mut end = 0;
        while let Some(Ok(request)) = asked.next() {
            end = asked.byte_offset();
            watches |= request["method"] == "monitor";
            let result = answer(&request, &ports.lock().unwrap());
            answers.extend_from_slice(
                json!({"id": request["id"], "result": result, "error": null}).to_string().as_bytes(),
            );
        }
        drop(asked);
        unread.drain(..end);
        if stream.write_all(&answers).await.is_err() {
            return;
        }
    }
}

fn answer(request: &Value, ports: &BTreeMap<usize, Value>) -> Value {
    let rows = |table: &str, row: &dyn Fn(usize, &Value) -> Value| {
        let rows = ports.iter().map(|(index, port)| (format!("{table}{index}"), json!({"new": row(*index, port)})));
        Value::Object(rows.collect())
    };
    match request["method"].as_str() {
        Some("monitor") => {
            let all: Vec<Value> = ports.keys().map(|index| json!(["uuid", format!("p{index}")])).collect();
            let bridge = json!({"name": "br-int", "ports": ["set", all], "datapath_type": "netdev"});
            let ids = json!([["system-id", "orchard"], ["ovn-bridge-datapath-type", "netdev"]]);
            let root = json!({"bridges": ["uuid", "b"], "external_ids": ["map", ids], "datapath_types": "netdev",
                "dpdk_initialized": false, "dpdk_version": "none"});
            json!({
                "Open_vSwitch": {"root": {"new": root}}, "Bridge": {"b": {"new": bridge}},
                "Port": rows("p", &|index, port| json!({"name": port["name"], "interfaces": ["uuid", format!("i{index}")],
                    "bond_mode": ["set", []]})),
                "Interface": rows("i", &|_, port| port.clone()),
            })
        }
        Some("transact") => {
            let counters = json!(["map", [["rx_packets", 2], ["tx_packets", 1], ["rx_bytes", 128], ["tx_bytes", 64]]]);
            let rows: Vec<Value> =
                ports.values().map(|port| json!({"name": port["name"], "statistics": counters})).collect();
            json!([{"rows": rows}])
        }
        other => panic!("the agent asks for {other:?}"),
    }
}
