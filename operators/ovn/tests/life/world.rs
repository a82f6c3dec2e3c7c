//! Members of Raft clusters that only pretend, behind a real API server: pods with addresses of this machine's loopback, which
//! answer and obey as `control.py` does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use c5c3_harness::TestCluster;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub const NAMESPACE: &str = "net";

/// What is on the disk of a member.
#[derive(Clone, Debug)]
pub struct Disk {
    pub cid: String,
    pub sid: String,
    pub left: bool,
}

/// All that members know.
#[derive(Debug, Default)]
pub struct Facts {
    /// By pod.
    pub disks: BTreeMap<String, Disk>,
    /// The members of each cluster: id and address, in the order in which they joined.
    pub clusters: BTreeMap<String, Vec<(String, String)>>,
    /// Every order that was obeyed, such as `ovn-nb-0 /create`.
    pub orders: Vec<String>,
    /// The names in the southbound database.
    pub chassis: Vec<String>,
    /// Workloads whose pods are not replaced.
    pub held: Vec<String>,
    next_id: u32,
}

impl Facts {
    fn id(&mut self, prefix: &str) -> String {
        self.next_id += 1;
        format!("{prefix}{:03x}", self.next_id)
    }

    pub fn count(&self, order: &str) -> usize {
        self.orders.iter().filter(|given| *given == order).count()
    }

    /// How many clusters were founded for a database.
    pub fn founded(&self, database: &str) -> usize {
        self.orders
            .iter()
            .filter(|order| order.starts_with(&format!("ovn-{database}-")) && order.ends_with("/create"))
            .count()
    }

    fn state(&self, pod: &str, running: &[String]) -> Value {
        let Some(disk) = self.disks.get(pod) else { return json!({"data": false, "left": false, "joining": false}) };
        let servers = self.clusters.get(&disk.cid).cloned().unwrap_or_default();
        let own = servers.iter().find(|(sid, _)| *sid == disk.sid);
        let mut state = json!({"data": true, "left": disk.left, "joining": false, "cid": disk.cid, "sid": disk.sid});
        let (Some((_, address)), false) = (own, disk.left) else { return state };
        let lives = |(sid, _): &&(String, String)| {
            self.disks.iter().any(|(pod, disk)| disk.sid == *sid && running.contains(pod))
        };
        let alive: Vec<_> = servers.iter().filter(lives).collect();
        let leader = alive.first().filter(|_| alive.len() * 2 > servers.len()).map_or("unknown", |(sid, _)| sid);
        state["status"] = json!("cluster member");
        state["address"] = json!(address);
        state["role"] = json!(if leader == disk.sid { "leader" } else { "follower" });
        state["leader"] = json!(if leader == disk.sid { "self" } else { leader });
        state["servers"] = servers.iter().map(|(sid, address)| json!({"sid": sid, "address": address})).collect();
        state
    }

    fn obey(&mut self, pod: &str, order: &str, body: &Value, host: &str, running: &[String]) -> Result<(), String> {
        let said = self.state(pod, running);
        match order {
            "/create" if said["data"] == true => return Err("there is data already".into()),
            "/create" => {
                let (cid, sid) = (self.id("c"), self.id("s"));
                self.clusters.insert(cid.clone(), vec![(sid.clone(), host.to_owned())]);
                self.disks.insert(pod.to_owned(), Disk { cid, sid, left: false });
            }
            "/join" => {
                let may = said["data"] == false || said["left"] == true || body["replace"] == true;
                if !may {
                    return Err("there is data already".into());
                }
                let (cid, sid) = (body["cid"].as_str().unwrap_or_default().to_owned(), self.id("s"));
                let servers = self.clusters.get_mut(&cid).ok_or("there is no such cluster")?;
                assert!(
                    servers.iter().all(|(_, address)| address != host),
                    "{pod} joins while it is known: {servers:?}"
                );
                servers.push((sid.clone(), host.to_owned()));
                self.disks.insert(pod.to_owned(), Disk { cid, sid, left: false });
            }
            "/leave" => {
                let disk = self.disks.get_mut(pod).ok_or("there is no data")?;
                disk.left = true;
                let (cid, sid) = (disk.cid.clone(), disk.sid.clone());
                self.clusters.entry(cid).or_default().retain(|(other, _)| *other != sid);
            }
            "/kick" if said["role"] == "leader" => {
                let cid = said["cid"].as_str().unwrap_or_default().to_owned();
                self.clusters.entry(cid).or_default().retain(|(sid, _)| body["sid"] != sid.as_str());
            }
            "/delete-chassis" => self.chassis.retain(|name| body["name"] != name.as_str()),
            _ => return Err("refused".into()),
        }
        self.orders.push(format!("{pod} {order}"));
        Ok(())
    }
}

/// A cluster with everybody else on it.
pub struct World {
    pub cluster: TestCluster,
    pub client: Client,
    facts: Arc<Mutex<Facts>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl World {
    pub async fn new() -> Self {
        let cluster = TestCluster::in_process().await.unwrap();
        for kind in ["OVNCluster", "OVNChassis"] {
            cluster.install(&c5c3_api::find("ovn.c5c3.io/v1alpha1", kind).unwrap().crd()).await.unwrap();
        }
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "certificates.cert-manager.io"},
            "spec": {"group": "cert-manager.io", "scope": "Namespaced",
                "names": {"kind": "Certificate", "plural": "certificates", "singular": "certificate"},
                "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema":
                    {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
        });
        cluster.install(&serde_json::from_value(definition).unwrap()).await.unwrap();
        cluster.namespace_named(NAMESPACE).await.unwrap();
        let (client, facts) = (cluster.client(), Arc::<Mutex<Facts>>::default());
        let tasks = vec![
            tokio::spawn(stateful_sets(client.clone(), facts.clone())),
            tokio::spawn(all_available::<Deployment>(client.clone(), facts.clone())),
            tokio::spawn(all_available::<DaemonSet>(client.clone(), facts.clone())),
        ];
        Self { cluster, client, facts, tasks }
    }

    pub fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap()
    }

    /// Adds a hypervisor.
    pub async fn add_node(&self, name: &str, address: &str) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = json!({"metadata": {"name": name, "labels": {"node-role.kubernetes.io/hypervisor": ""}}});
        nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
        let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": address}],
            "allocatable": {"devices.kubevirt.io/tun": "1k"}}});
        nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }
}

/// Starts and ends pods as their StatefulSets say, each with an address of its own on which it answers.
async fn stateful_sets(client: Client, facts: Arc<Mutex<Facts>>) {
    let sets: Api<StatefulSet> = Api::namespaced(client.clone(), NAMESPACE);
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let mut doors: BTreeMap<String, JoinHandle<()>> = BTreeMap::new();
    let running: Arc<Mutex<Vec<String>>> = Arc::default();
    loop {
        let (mut wanted, mut found) = (BTreeMap::new(), Vec::new());
        for set in sets.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default() {
            let spec = set.spec.clone().unwrap();
            for ordinal in 0..spec.replicas.unwrap_or(1) {
                wanted.insert(format!("{}-{ordinal}", set.name_any()), set.name_any());
            }
            let (name, count) = (set.name_any(), spec.replicas.unwrap_or(1));
            let status = json!({"status": {"observedGeneration": set.metadata.generation, "replicas": count,
                "updatedReplicas": count, "readyReplicas": count, "availableReplicas": count}});
            if !is_held(&facts, &name) {
                let _ = sets.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await;
            }
        }
        for pod in pods.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default() {
            if wanted.contains_key(&pod.name_any()) {
                found.push(pod.name_any());
            } else {
                let _ = pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await;
            }
        }
        doors.retain(|pod, door| {
            if !found.contains(pod) {
                door.abort();
            }
            found.contains(pod)
        });
        for (pod, set) in wanted.iter().filter(|(pod, _)| !found.contains(pod)) {
            let port = if set.ends_with("nb") { 26641 } else { 26642 };
            let listener = listen(pod, port).await;
            let address = listener.local_addr().unwrap().ip().to_string();
            let object =
                json!({"metadata": {"name": pod}, "spec": {"containers": [{"name": "ovsdb", "image": "ovn"}]}});
            if pods.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.is_ok() {
                let status = json!({"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}});
                pods.patch_status(pod, &PatchParams::default(), &Patch::Strategic(status)).await.unwrap();
                let door = answer(listener, pod.clone(), set.clone(), facts.clone(), running.clone());
                if let Some(old) = doors.insert(pod.clone(), tokio::spawn(door)) {
                    old.abort();
                }
            }
        }
        *running.lock().unwrap() = doors.keys().cloned().collect();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// An address of the loopback that no other test and no other pod has.
async fn listen(pod: &str, port: u16) -> TcpListener {
    let (process, ordinal) = (std::process::id(), pod.rsplit('-').next().unwrap().parse::<u8>().unwrap());
    let [_, _, high, low] = process.to_be_bytes();
    for attempt in 0..10 {
        let third = ordinal + 10 * u8::from(pod.contains("-sb-")) + attempt * 20;
        let address = format!("127.{}.{}.{}:{port}", high.max(1), low, third + 1);
        if let Ok(listener) = TcpListener::bind(&address).await {
            return listener;
        }
    }
    panic!("no address for {pod}");
}

async fn answer(
    listener: TcpListener,
    pod: String,
    set: String,
    facts: Arc<Mutex<Facts>>,
    running: Arc<Mutex<Vec<String>>>,
) {
    loop {
        let Ok((mut connection, _)) = listener.accept().await else { return };
        let mut request = Vec::new();
        let (head, body) = loop {
            let mut part = [0; 4096];
            let read = connection.read(&mut part).await.unwrap_or(0);
            request.extend_from_slice(&part[..read]);
            let text = String::from_utf8_lossy(&request).into_owned();
            let Some((head, body)) = text.split_once("\r\n\r\n") else {
                if read == 0 {
                    break (text, String::new());
                }
                continue;
            };
            let length = head
                .to_lowercase()
                .split("content-length: ")
                .nth(1)
                .and_then(|rest| rest.lines().next()?.trim().parse().ok());
            if read == 0 || body.len() >= length.unwrap_or(0_usize) {
                break (head.to_owned(), body.to_owned());
            }
        };
        let (code, said) = respond(&head, &body, &pod, &set, &facts, &running);
        let said = said.to_string();
        let head = format!(
            "HTTP/1.1 {code} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            said.len()
        );
        let _ = connection.write_all((head + &said).as_bytes()).await;
    }
}

fn respond(
    head: &str,
    body: &str,
    pod: &str,
    set: &str,
    facts: &Mutex<Facts>,
    running: &Mutex<Vec<String>>,
) -> (u16, Value) {
    let mut words = head.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (mut facts, running) = (facts.lock().unwrap(), running.lock().unwrap().clone());
    match (method, path.split('?').next().unwrap_or_default()) {
        ("GET", "/state") => (200, facts.state(pod, &running)),
        ("GET", "/chassis") => {
            let now = jiff::Timestamp::now().as_millisecond();
            let rows = facts.chassis.iter().map(|name| json!({"name": name, "datapath": "netdev", "heartbeat": now}));
            (200, rows.collect())
        }
        ("POST", order) => {
            assert!(head.to_lowercase().contains("x-ovn-token: "), "an order without a token: {head}");
            let port = if set.ends_with("nb") { 6643 } else { 6644 };
            let host = format!("tcp:{pod}.{set}-raft.{NAMESPACE}.svc.cluster.local:{port}");
            let body = serde_json::from_str(body).unwrap_or_default();
            match facts.obey(pod, order, &body, &host, &running) {
                Ok(()) => (200, json!({})),
                Err(why) => (409, json!({"kind": "Status", "status": "Failure", "code": 409, "message": why})),
            }
        }
        _ => (404, json!({})),
    }
}

fn is_held(facts: &Mutex<Facts>, workload: &str) -> bool {
    facts.lock().unwrap().held.iter().any(|held| held == workload)
}

/// Says of every workload that it is available.
async fn all_available<K: Resource<DynamicType = ()>>(client: Client, facts: Arc<Mutex<Facts>>) {
    let api: Api<DynamicObject> = Api::namespaced_with(client, NAMESPACE, &ApiResource::erase::<K>(&()));
    loop {
        for object in api.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default() {
            let (count, generation) =
                (object.data["spec"]["replicas"].as_i64().unwrap_or(1), object.metadata.generation);
            let is_current = object.data["status"]["observedGeneration"].as_i64() == generation;
            if is_current || is_held(&facts, &object.name_any()) {
                continue;
            }
            let status = if K::kind(&()) == "DaemonSet" {
                json!({"observedGeneration": generation, "desiredNumberScheduled": 1, "updatedNumberScheduled": 1,
                    "currentNumberScheduled": 1, "numberMisscheduled": 0, "numberReady": 1, "numberAvailable": 1})
            } else {
                json!({"observedGeneration": generation, "replicas": count, "updatedReplicas": count,
                    "readyReplicas": count, "availableReplicas": count})
            };
            let _ = api
                .patch_status(&object.name_any(), &PatchParams::default(), &Patch::Merge(json!({"status": status})))
                .await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
