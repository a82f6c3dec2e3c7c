//! A small cluster of network namespaces: a machine with a bridge, two nodes on it, and pods behind the nodes, linked as
//! the embedded cluster links them. Needs root, `ip`, `nft` and `python3`. Everything is gone when it is dropped.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::future::Future;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use c5c3_harness::TestCluster;
use c5c3_network::balancers::{self, Pool};
use c5c3_network::{Namespace, services};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Generous: the machine may be busy.
const DEADLINE: Duration = Duration::from_mins(1);

pub const MACHINE: &str = "10.9.0.1";
pub const NODE_1: &str = "10.9.0.11";
pub const NODE_2: &str = "10.9.0.12";
/// The machine's address on the network of its neighbour.
pub const LAN: &str = "192.0.2.1";
pub const NEIGHBOUR: &str = "192.0.2.2";

/// Pods: name, node and address.
pub const PODS: [(&str, usize, &str); 3] = [("one", 1, "10.8.1.5"), ("two", 1, "10.8.1.6"), ("three", 2, "10.8.2.5")];

/// The namespaces, the API, and what runs in them.
pub struct Testbed {
    prefix: String,
    namespaces: Vec<String>,
    servers: Vec<Child>,
    cluster: TestCluster,
    stop: CancellationToken,
    _stopped: DropGuard,
}

fn run(program: &str, arguments: &[&str]) {
    let Output { status, stderr, .. } = Command::new(program).args(arguments).output().unwrap_or_else(|error| {
        panic!("{program} cannot be run ({error}): these tests need root, iproute2, nftables, conntrack and python3")
    });
    assert!(status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&stderr));
}

fn ip(words: &str) {
    run("ip", &words.split_whitespace().collect::<Vec<_>>());
}

impl Testbed {
    pub async fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let stop = CancellationToken::new();
        let mut bed = Self {
            prefix: format!("c5c3-t{}-{count}", std::process::id()),
            namespaces: Vec::new(),
            servers: Vec::new(),
            cluster: TestCluster::in_process().await.unwrap(),
            _stopped: stop.clone().drop_guard(),
            stop,
        };
        bed.machine();
        for node in [1, 2] {
            bed.node(node);
        }
        for (pod, node, address) in PODS {
            bed.pod(pod, node, address);
        }
        bed
    }

    fn add_namespace(&mut self, name: &str) -> String {
        let full = format!("{}-{name}", self.prefix);
        ip(&format!("netns add {full}"));
        self.namespaces.push(full.clone());
        ip(&format!("-n {full} link set lo up"));
        self.enter(name, &["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]);
        full
    }

    fn machine(&mut self) {
        let machine = self.add_namespace("machine");
        ip(&format!("-n {machine} link add br0 type bridge"));
        ip(&format!("-n {machine} addr add {MACHINE}/24 dev br0"));
        ip(&format!("-n {machine} link set br0 up"));
        for node in [1, 2] {
            ip(&format!("-n {machine} route add 10.8.{node}.0/24 via 10.9.0.1{node}"));
        }
        ip(&format!("-n {machine} route add 10.125.0.0/16 dev br0 src {MACHINE}"));
    }

    fn node(&mut self, node: usize) {
        let name = format!("node{node}");
        let (full, machine) = (self.add_namespace(&name), format!("{}-machine", self.prefix));
        ip(&format!("-n {full} link add eth0 type veth peer name {name} netns {machine}"));
        ip(&format!("-n {machine} link set {name} master br0 up"));
        ip(&format!("-n {full} addr add 10.9.0.1{node}/24 dev eth0"));
        ip(&format!("-n {full} link set eth0 up"));
        ip(&format!("-n {full} route add default via {MACHINE}"));
        let other = 3 - node;
        ip(&format!("-n {full} route add 10.8.{other}.0/24 via 10.9.0.1{other}"));
    }

    /// A pod as the `ptp` plugin links it: routed, on a link of its own.
    fn pod(&mut self, name: &str, node: usize, address: &str) {
        let (full, node_full) = (self.add_namespace(name), format!("{}-node{node}", self.prefix));
        let (subnet, gateway) = (format!("10.8.{node}.0/24"), format!("10.8.{node}.1"));
        ip(&format!("-n {full} link add eth0 type veth peer name {name} netns {node_full}"));
        ip(&format!("-n {full} addr add {address}/24 dev eth0"));
        ip(&format!("-n {full} link set eth0 up"));
        ip(&format!("-n {full} route del {subnet} dev eth0"));
        ip(&format!("-n {full} route add {gateway} dev eth0 scope link src {address}"));
        ip(&format!("-n {full} route add {subnet} via {gateway} dev eth0 src {address}"));
        ip(&format!("-n {full} route add default via {gateway}"));
        ip(&format!("-n {node_full} addr add {gateway}/32 dev {name}"));
        ip(&format!("-n {node_full} link set {name} up"));
        ip(&format!("-n {node_full} route add {address}/32 dev {name} scope host"));
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/run/netns/{}-{name}", self.prefix))
    }

    /// A namespace of the bed: `machine`, `node1`, `node2`, or a pod.
    pub fn namespace(&self, name: &str) -> Namespace {
        Namespace::At(self.path(name))
    }

    fn command(&self, name: &str, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path(name).display())).arg("--").args(words);
        command
    }

    /// Runs a program in a namespace to its end, and gives what it printed.
    pub fn enter(&self, name: &str, words: &[&str]) -> String {
        let output = self.command(name, words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Serves in a namespace, answering its name.
    pub fn serve(&mut self, name: &str, protocol: &str, port: u16) {
        let mut command = self.command(name, &["python3", PEER, "serve", protocol, &port.to_string(), name]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        self.servers.push(child);
        assert_eq!(line, "ready\n", "{name} could not serve {protocol} {port}");
    }

    /// Asks from a namespace so often; what has no answer by then has none.
    pub fn ask_often(&self, from: &str, to: (&str, &str, u16), times: usize, timeout: u32) -> Vec<String> {
        let (protocol, address, port) = to;
        let (port, times, timeout) = (port.to_string(), times.to_string(), timeout.to_string());
        let output = self.enter(from, &["python3", PEER, "ask", protocol, address, &port, &times, &timeout]);
        output.lines().map(str::to_owned).collect()
    }

    /// Asks once by TCP, patiently.
    pub fn ask(&self, from: &str, address: &str, port: u16) -> String {
        self.ask_often(from, ("tcp", address, port), 1, 30).remove(0)
    }

    /// Whether a connection is let through. One that is not takes a second to find out.
    pub fn reaches(&self, from: &str, address: &str, port: u16) -> bool {
        !matches!(self.ask_often(from, ("tcp", address, port), 1, 1)[0].as_str(), "timeout" | "refused")
    }

    /// Begins to ask from one and the same port.
    pub fn chat(&self, from: &str, protocol: &str, address: &str, port: u16) -> Chat {
        let mut command = self.command(from, &["python3", PEER, "chat", protocol, address, &port.to_string()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Chat { child, stdin, answers: BufReader::new(stdout) }
    }

    pub fn client(&self) -> Client {
        self.cluster.client()
    }

    /// Runs something of ours until the test is over.
    pub fn start<F: Future<Output = ()> + Send + 'static>(&self, task: impl FnOnce(CancellationToken) -> F) {
        tokio::spawn(task(self.stop.clone()));
    }

    /// Creates an object, and its status if it has one.
    pub async fn create<K>(&self, namespace: &str, object: Value) -> K
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client(), namespace);
        let created =
            api.create(&PostParams::default(), &serde_json::from_value(object.clone()).unwrap()).await.unwrap();
        if let Some(status) = object.get("status") {
            let patch = Patch::Merge(json!({"status": status}));
            return api
                .patch_status(created.meta().name.as_ref().unwrap(), &PatchParams::default(), &patch)
                .await
                .unwrap();
        }
        created
    }

    /// A computer beside the machine, on a network of their own.
    pub fn neighbour(&mut self) {
        let (full, machine) = (self.add_namespace("neighbour"), format!("{}-machine", self.prefix));
        ip(&format!("-n {full} link add eth0 type veth peer name lan netns {machine}"));
        ip(&format!("-n {machine} addr add {LAN}/24 dev lan"));
        ip(&format!("-n {machine} link set lan up"));
        ip(&format!("-n {full} addr add {NEIGHBOUR}/24 dev eth0"));
        ip(&format!("-n {full} link set eth0 up"));
    }

    /// Has the rules of Services kept on the machine and on both nodes.
    pub fn keep_services(&self) {
        self.keep_services_of(Pool::Range("10.9.0.128/25".parse().unwrap()));
    }

    /// The same, with these addresses for load balancers.
    pub fn keep_services_of(&self, pool: Pool) {
        let client = self.client();
        self.start(move |stop| balancers::run(client, pool, stop));
        let node = |address, pods| Some((address, pods));
        let places =
            [("machine", None), ("node1", node(NODE_1, "10.8.1.0/24")), ("node2", node(NODE_2, "10.8.2.0/24"))];
        for (name, node) in places {
            let place = services::Place {
                table: "c5c3-services".to_owned(),
                node: node.map(|_| name.to_owned()),
                node_addresses: match (node, pool) {
                    (Some((address, _)), _) => vec![address.parse().unwrap()],
                    (None, Pool::Exposed(exposed)) => vec![MACHINE.parse().unwrap(), exposed],
                    (None, Pool::Range(_)) => vec![MACHINE.parse().unwrap()],
                },
                pods: node.map(|(_, pods)| pods.parse().unwrap()),
                balancers: Some(pool),
                services: "10.125.0.0/16".parse().unwrap(),
            };
            let (client, namespace) = (self.client(), self.namespace(name));
            self.start(move |stop| services::run(client, namespace, place, stop));
        }
    }

    pub async fn service(&self, name: &str, mut spec: Value) {
        spec["clusterIPs"] = json!([spec["clusterIP"]]);
        self.create::<Service>("default", json!({"metadata": {"name": name}, "spec": spec})).await;
    }

    /// Lets these pods be the endpoints of a Service.
    pub async fn endpoints(&self, service: &str, pods: &[&str], port: Value) {
        let known = PODS.iter().filter(|(name, ..)| pods.contains(name));
        let endpoints: Vec<_> = known
            .map(|(_, node, address)| json!({"addresses": [address], "nodeName": format!("node{node}")}))
            .collect();
        let slice = json!({
            "metadata": {"name": service, "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4", "endpoints": endpoints, "ports": [port],
        });
        self.create::<EndpointSlice>("default", slice).await;
    }

    pub async fn delete<K>(&self, namespace: &str, name: &str)
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        Api::<K>::namespaced(self.client(), namespace).delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until something is so.
    pub async fn until(&self, what: &str, mut check: impl FnMut() -> bool) {
        let start = Instant::now();
        while !check() {
            assert!(start.elapsed() < DEADLINE, "{what}: not so in time");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/testbed/peer.py");

/// Someone who asks again and again.
pub struct Chat {
    child: Child,
    stdin: ChildStdin,
    answers: BufReader<std::process::ChildStdout>,
}

impl Chat {
    pub fn ask(&mut self) -> String {
        self.stdin.write_all(b"\n").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }
}

impl Drop for Chat {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn end(child: &mut Child) {
    // It may have ended by itself, and a test that panics must not panic again.
    let _ = child.kill();
    let _ = child.wait();
}

impl Drop for Testbed {
    fn drop(&mut self) {
        self.servers.iter_mut().for_each(end);
        for namespace in &self.namespaces {
            let _ = Command::new("ip").args(["netns", "del", namespace]).status();
        }
    }
}
