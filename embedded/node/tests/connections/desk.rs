//! A desk with kubectl, before a cluster of one node that runs where a node runs: in a network namespace of its own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use c5c3_apiserver::{Config, Server, Storage, listen};
use c5c3_auth::{Credential, UserInfo, kubeconfig, write_kubeconfig};
use c5c3_cri::testing::Machine;
use c5c3_cri::{Containerd, Runtime, images};
use c5c3_node::{NodeConfig, Serving};
use http::Request;
use http_body_util::{BodyExt, Collected};
use jiff::Timestamp;
use kube::Client;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Long enough for a machine with two busy cores.
const PATIENCE: Duration = Duration::from_mins(2);
const LIFE: Duration = Duration::from_hours(1);

/// Everything of it is removed when it is dropped.
pub struct Desk {
    folder: PathBuf,
    node: Option<JoinHandle<()>>,
    stop: CancellationToken,
    _containerd: Containerd,
    _api: tokio::runtime::Runtime,
    _machine: Machine,
}

impl Desk {
    pub fn open() -> Self {
        let machine = Machine::new(1);
        let api = tokio::runtime::Runtime::new().unwrap();
        let (folder, stop) = (machine.folder(), CancellationToken::new());
        let (server, containerd) = api.block_on(async {
            let server = Server::start(Config::new(Storage::Memory)).await.unwrap();
            let address = listen(&server, "127.0.0.1:0".parse().unwrap()).await.unwrap().address;
            introduce(&server, address, &folder.join("kubeconfig"));
            (server, machine.start(0).await)
        });
        let config = config(&machine, &server);
        let node = start_node(&machine, server, containerd.runtime(), config, stop.clone());
        Self { folder, node: Some(node), stop, _containerd: containerd, _api: api, _machine: machine }
    }

    /// Runs a line: what it prints, both streams, and its exit code.
    fn run(&self, line: &str) -> (String, i32) {
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("{{ {line}\n}} 2>&1")]).current_dir(&self.folder);
        shell.env("HOME", &self.folder).env("KUBECONFIG", self.folder.join("kubeconfig"));
        let output = shell.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap().trim_end().to_owned();
        (text, output.status.code().unwrap())
    }

    /// Asserts that a line succeeds and prints exactly this.
    pub fn says(&self, line: &str, wanted: &str) {
        assert_eq!(self.run(line), (wanted.to_owned(), 0), "{line}");
    }

    /// Asserts that a line succeeds and prints this somewhere.
    pub fn tells(&self, line: &str, part: &str) {
        let (text, code) = self.run(line);
        assert!(code == 0 && text.contains(part), "{line}\ndoes not print {part:?}, but ({code}):\n{text}");
    }

    /// Asserts that a line fails with a message that holds this part.
    pub fn fails(&self, line: &str, part: &str) {
        let (text, code) = self.run(line);
        assert!(code != 0 && text.contains(part), "{line}\ndoes not fail with {part:?}, but ({code}):\n{text}");
    }

    /// Waits until a line prints exactly this.
    pub fn until(&self, line: &str, wanted: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (text, _) = self.run(line);
            if text == wanted {
                return;
            }
            let about = || self.run("kubectl describe pods; kubectl get events").0;
            assert!(Instant::now() < deadline, "{line}\ndoes not print {wanted:?}, but:\n{text}\n{}", about());
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    pub fn ready(&self, name: &str) {
        self.until(
            &format!("kubectl wait --for=condition=Ready pod/{name} --timeout=60s"),
            &format!("pod/{name} condition met"),
        );
    }

    pub fn apply(&self, object: &Value) {
        let file = self.folder.join("object.json");
        std::fs::write(&file, object.to_string()).unwrap();
        self.tells("kubectl apply -f object.json", "created");
    }

    /// Runs a program with the Python client of the Kubernetes project, where the Makefile puts it.
    pub fn python(&self, program: &str) {
        let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache"))).expect("HOME is not set");
        let python = cache.join("c5c3/python/bin/python");
        assert!(python.exists(), "there is no {}; `make test` makes it", python.display());
        std::fs::write(self.folder.join("program.py"), program).unwrap();
        self.says(&format!("{} program.py", python.display()), "");
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(node) = self.node.take() {
            let _ = node.join();
        }
    }
}

/// Writes the administrator's kubeconfig.
fn introduce(server: &Server, address: SocketAddr, path: &std::path::Path) {
    let pki = server.pki();
    let admin = pki.issue_client("admin", &["system:masters"], LIFE, Timestamp::now()).unwrap();
    let content = kubeconfig(&format!("https://{address}"), pki.ca_pem(), &Credential::Certificate(admin));
    write_kubeconfig(path, &content).unwrap();
}

fn config(machine: &Machine, server: &Server) -> NodeConfig {
    let address = machine.network.addresses.node(0);
    let mut config = NodeConfig::new(machine.sites[0].clone(), address.into());
    config.pod_cidr = machine.network.addresses.pods_of(0).to_string();
    let pki = server.pki();
    let own = pki.issue_server(&["node-0", &address.to_string()], LIFE, Timestamp::now()).unwrap();
    let write = |name: &str, text: &str| {
        let path = machine.folder().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    config.serving = Some(Serving {
        certificate: write("node.crt", &own.certificate),
        key: write("node.key", secrecy::ExposeSecret::expose_secret(&own.key)),
        authority: write("ca.crt", pki.ca_pem()),
    });
    config
}

/// Runs the node on a thread in its network namespace: whatever the thread and its children open is there.
fn start_node(
    machine: &Machine,
    server: Arc<Server>,
    runtime: Runtime,
    config: NodeConfig,
    stop: CancellationToken,
) -> JoinHandle<()> {
    let namespace = std::fs::File::open(machine.sites[0].network_namespace()).unwrap();
    std::thread::spawn(move || {
        move_into_link_name_space(std::os::fd::AsFd::as_fd(&namespace), Some(LinkNameSpaceType::Network)).unwrap();
        let here = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        here.block_on(async { Box::pin(c5c3_node::run(client(server), runtime, config, stop)).await });
    })
}

/// A client by function call: the server's port is not in the node's namespace.
fn client(server: Arc<Server>) -> Client {
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let server = server.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map(Collected::to_bytes)?;
            let node = UserInfo::new("system:node:node-0", ["system:masters"]);
            Ok::<_, kube::Error>(server.handle(parts, body, node).await)
        }
    });
    Client::new(service, "default")
}

/// A pod on the node.
pub fn pod(name: &str, containers: &[Value], restart: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "nodeName": "node-0", "containers": containers, "restartPolicy": restart, "terminationGracePeriodSeconds": 0,
        },
    })
}

/// A container that runs a script.
pub fn sh(name: &str, script: &str) -> Value {
    json!({"name": name, "image": images::BUSYBOX, "command": ["sh", "-c", script]})
}
