//! A cluster that runs: the machine's links, the API server, controllers, scheduler and names in this process, and a
//! process for each node.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use c5c3_apiserver::{Config, Listening, Server, Storage, listen};
use c5c3_auth::{Credential, UserInfo, kubeconfig, write_kubeconfig};
use c5c3_cri::links::{self, Network};
use c5c3_cri::{Addresses, Programs};
use c5c3_node::Serving;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::wait::{Condition, await_condition};
use kube::{Api, Client};
use secrecy::ExposeSecret;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agent::{AgentConfig, host_root, serving};
use crate::agents::{Agent, Agents, kill_stray};
use crate::client::{client, client_as};
use crate::control::{self, Ask};
use crate::doctor::{self, Finding};
use crate::folder::{Folder, FolderError, Saved, private, write};
use crate::node::{Asked, NodeSpec};
use crate::parts::{self, STORE_PORT};
use crate::{addresses, descriptors, furnish, nics, node, remains};

/// The port of the API server on the nodes' network.
const API_PORT: u16 = 6443;

/// How long certificates of the cluster's own clients and servers are good for: as long as their authority. New ones are
/// written with each start. None is renewed while the cluster runs: their keys lie beside the authority's, on the same
/// machine, so a shorter life would protect nothing and end a long run.
pub(crate) const CERTIFICATE_LIFE: Duration = Duration::from_hours(24 * 3650);

/// How long a node may take to be ready.
const NODE_PATIENCE: Duration = Duration::from_mins(2);

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data folder.
    pub folder: Folder,
    /// Its nodes.
    pub asked: Asked,
    /// Whether neighbours reach its load balancers; as before when absent.
    pub exposure: Option<Exposure>,
    /// Kernel settings that pods may change beside the safe ones; as before when absent.
    pub unsafe_sysctls: Option<Vec<String>>,
    /// The providers that do not run while this process does: the genuine operators of their kinds take their place.
    pub without_providers: Vec<String>,
    /// This program, which runs the nodes' agents too.
    pub program: PathBuf,
}

/// Whether neighbours of the machine reach the cluster's load balancers and NodePorts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// Only the machine itself reaches them.
    Machine,
    /// They are served at this address of the machine.
    Address(Ipv4Addr),
}

impl std::str::FromStr for Exposure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self::Machine);
        }
        text.parse().map(Self::Address).map_err(|_| "is neither an IPv4 address of this machine nor `none`".to_owned())
    }
}

/// Why a cluster does not start.
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    /// The machine is not fit.
    #[error("this machine can't run a cluster yet:\n{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Machine(Vec<Finding>),
    /// What is asked for makes no sense.
    #[error("{0}")]
    Asked(String),
    /// The data folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A node cannot have its name.
    #[error(transparent)]
    Name(#[from] c5c3_cri::BadName),
    /// Programs are missing.
    #[error(transparent)]
    Programs(#[from] c5c3_cri::Missing),
    /// The links cannot be made.
    #[error("cannot make the nodes' network: {0}")]
    Links(#[from] links::LinkError),
    /// The API server does not start.
    #[error("the API server does not start: {0}")]
    Server(#[from] c5c3_apiserver::StartError),
    /// The API server does not listen.
    #[error("the API server does not listen: {0}")]
    Listen(#[from] c5c3_apiserver::ServeError),
    /// A certificate cannot be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] c5c3_auth::PkiError),
    /// A kubeconfig cannot be written.
    #[error(transparent)]
    Kubeconfig(#[from] c5c3_auth::KubeconfigError),
    /// The API refuses what a cluster has from the start.
    #[error("cannot furnish the cluster: {0}")]
    Furnish(#[from] kube::Error),
    /// The names' port cannot be had.
    #[error("cannot serve names on {0}, port 53: {1}")]
    Names(Ipv4Addr, std::io::Error),
    /// The store's port cannot be had.
    #[error("cannot store secrets on {0}, port {STORE_PORT}: {1}")]
    Store(Ipv4Addr, std::io::Error),
    /// Mounts in volumes cannot be shared between containers.
    #[error("cannot share mounts below {}, which mountPropagation of containers needs: {source}", folder.display())]
    Share {
        /// The folder of all volumes.
        folder: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A path of a node cannot be found on the machine.
    #[error("cannot find {} of a node: {source}", path.display())]
    HostPath {
        /// The path on the node.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The limit of open files cannot be raised.
    #[error("cannot raise the limit of open files: {0}")]
    Descriptors(std::io::Error),
    /// A node is not ready in time.
    #[error("{name} is not ready after {NODE_PATIENCE:?}: {why}; its agent's log is {}", log.display())]
    Node {
        /// The node.
        name: String,
        /// What its Node object says.
        why: String,
        /// Where to look.
        log: PathBuf,
    },
}

/// A cluster that runs in this process.
pub struct Cluster {
    folder: Folder,
    saved: Saved,
    programs: Programs,
    server: Arc<Server>,
    listening: Vec<Listening>,
    agents: Agents,
    parts: TaskTracker,
    stop: CancellationToken,
    /// While it is held, no other process runs this cluster.
    _lock: File,
    begun: jiff::Timestamp,
}

impl Cluster {
    /// Starts a cluster, or takes over one whose process was killed. Says what it does.
    pub async fn start(options: Options, say: &(dyn Fn(&str) + Sync)) -> Result<Self, UpError> {
        let Options { folder, asked, exposure, unsafe_sysctls, without_providers, program } = options;
        let begun = now();
        descriptors::raise(None).map_err(UpError::Descriptors)?;
        folder.create()?;
        let lock = folder.lock()?;
        let found = doctor::examine(&folder).into_iter().filter(|finding| finding.fix.is_some());
        let (warnings, problems): (Vec<_>, Vec<_>) = found.partition(Finding::is_bearable);
        if !problems.is_empty() {
            return Err(UpError::Machine(problems));
        }
        for warning in warnings {
            say(&warning.to_string());
        }
        let programs = Programs::find()?;
        let wanted = Wanted { asked, exposure, unsafe_sysctls };
        let (saved, machine) = blocking(|| connect(&folder, wanted, &programs))?;
        let addresses = addresses::of(saved.block);
        say(&format!(
            "network    {} for nodes, {} for pods, {} for Services",
            addresses.nodes, addresses.pods, addresses.services
        ));

        let server = Server::start(configuration(&folder, &addresses)).await?;
        let mut listening = Vec::new();
        for address in [
            SocketAddr::from((Ipv4Addr::LOCALHOST, saved.port)),
            SocketAddr::from((addresses.bridge().addr(), API_PORT)),
        ] {
            listening.push(listen(&server, address).await?);
        }
        drop(machine);
        let url = format!("https://127.0.0.1:{}", saved.port);
        credentials(&server, "kubernetes-admin", "system:masters", &url, &folder.kubeconfig())?;
        furnish::furnish(&client(&server, "up"), addresses.dns(), addresses.bridge().addr()).await?;
        say(&format!("API        {url} after {:.2} s", now().duration_since(begun).as_secs_f64()));

        let (parts, stop) = (TaskTracker::new(), CancellationToken::new());
        parts::start(&server, &folder, &saved, without_providers, &parts, &stop).await?;
        let volumes = folder.volumes();
        c5c3_files::share(&volumes).map_err(|source| UpError::Share { folder: volumes, source })?;
        let agents = launch_agents(&server, &folder, &saved, &programs, &program)?;
        Ok(Self { folder, saved, programs, server, listening, agents, parts, stop, _lock: lock, begun })
    }

    /// A client for one of the cluster's own parts.
    pub fn client(&self, part: &str) -> Client {
        client(&self.server, part)
    }

    /// A client of a service account, which may do what roles allow.
    pub fn account(&self, namespace: &str, name: &str) -> Client {
        client_as(&self.server, UserInfo::service_account(namespace, name))
    }

    /// The same for a pod on that node.
    pub fn account_on(&self, node: &str, namespace: &str, name: &str) -> Client {
        client_as(&self.server, UserInfo::service_account(namespace, name).on_node(node))
    }

    /// Where on this machine paths of a node are, as `hostPath` volumes have them. The node is ready.
    pub fn places(&self, node: &str) -> impl Fn(&str) -> Result<PathBuf, UpError> + Send + Sync + 'static {
        let (folder, node) = (self.folder.clone(), node.to_owned());
        move |path| {
            let root = host_root(&folder, &node)?;
            root.place(Path::new(path)).map_err(|source| UpError::HostPath { path: path.into(), source })
        }
    }

    /// Makes this process less likely to be killed for want of memory than the cluster's pods. Programs that it starts
    /// later would be, too: call it when images are built.
    pub fn protect(&self) {
        if let Err(error) = c5c3_cri::protect_from_oom() {
            tracing::info!(%error, "this process is not protected from the OOM killer");
        }
    }

    /// The nodes' names.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.saved.nodes.iter().map(|node| node.name.as_str())
    }

    /// Waits until every node is ready.
    pub async fn ready(&self, say: &(dyn Fn(&str) + Sync)) -> Result<(), UpError> {
        let nodes: Api<Node> = Api::all(self.client("up"));
        for name in self.nodes() {
            let waited =
                tokio::time::timeout(NODE_PATIENCE, await_condition(nodes.clone(), name, is_ready(self.begun))).await;
            if !matches!(waited, Ok(Ok(_))) {
                let why = match nodes.get_opt(name).await {
                    Ok(Some(node)) => unready(&node),
                    Ok(None) => "it never registered".to_owned(),
                    Err(error) => error.to_string(),
                };
                return Err(UpError::Node { name: name.to_owned(), why, log: self.folder.agent_log(name) });
            }
            say(&format!("{name:<10} ready after {:.2} s", now().duration_since(self.begun).as_secs_f64()));
        }
        Ok(())
    }

    /// Answers other commands until `stop`.
    pub async fn serve(&self, stop: &CancellationToken) -> std::io::Result<()> {
        private(&self.folder.instance().run()).map_err(std::io::Error::other)?;
        let socket = self.folder.control();
        tokio::select! {
            served = control::serve(&socket, |ask| self.answer(ask)) => served,
            () = stop.cancelled() => Ok(()),
        }
    }

    async fn answer(&self, ask: Ask) -> Result<String, String> {
        let (Ask::Stop(name) | Ask::Start(name) | Ask::Cut(name)) = &ask;
        let names = self.nodes().collect::<Vec<_>>().join(", ");
        let node = self.saved.nodes.iter().find(|node| node.name == *name);
        let node = node.ok_or_else(|| format!("there is no node {name}; there are {names}"))?;
        let links = network(&self.folder, &self.saved).map_err(|error| error.to_string())?;
        match ask {
            Ask::Stop(_) => {
                self.agents.kill(name).await;
                let site = self.folder.site(name).map_err(|error| error.to_string())?;
                blocking(|| c5c3_cri::end_node(&site)).map_err(|error| error.to_string())?;
                Ok(format!("{name} is off"))
            }
            Ask::Start(_) => {
                blocking(|| links.heal(node.number, &self.programs)).map_err(|error| error.to_string())?;
                self.agents.revive(name).await;
                Ok(format!("{name} is on"))
            }
            Ask::Cut(_) => {
                blocking(|| links.cut(node.number, &self.programs)).map_err(|error| error.to_string())?;
                Ok(format!("{name} is cut off"))
            }
        }
    }

    /// Ends the cluster: containers are asked to end, then everything is removed that is not in the data folder.
    pub async fn end(self, say: &(dyn Fn(&str) + Sync)) -> Result<(), remains::Left> {
        self.stop.cancel();
        self.agents.end().await;
        self.parts.close();
        self.parts.wait().await;
        self.server.stop().await;
        for listening in self.listening {
            listening.finished().await;
        }
        remains::remove(&self.folder, &self.saved, &self.programs, say).await
    }
}

/// Runs what blocks without stopping others.
pub(crate) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

/// What is asked for beyond what is kept.
struct Wanted {
    asked: Asked,
    exposure: Option<Exposure>,
    unsafe_sysctls: Option<Vec<String>>,
}

/// The address to expose, if it is one of the machine's.
fn exposed(exposure: Exposure) -> Result<Option<Ipv4Addr>, UpError> {
    let Exposure::Address(address) = exposure else { return Ok(None) };
    match std::net::UdpSocket::bind((address, 0)) {
        Ok(_) if !address.is_unspecified() && !address.is_loopback() => Ok(Some(address)),
        _ => Err(UpError::Asked(format!(
            "--expose {address}: this machine's neighbours do not reach it there; name one of the addresses that \
            `ip -4 address` shows"
        ))),
    }
}

/// Decides what the cluster is to be, keeps that, and makes its links. One cluster of the machine at a time, until it listens: two
/// would take the same addresses and the same port.
fn connect(folder: &Folder, wanted: Wanted, programs: &Programs) -> Result<(Saved, File), UpError> {
    // A folder that is there before and after all that we make.
    let path = PathBuf::from("/run");
    let failed = |source| FolderError::File { path: path.clone(), source };
    let machine = File::open(&path).map_err(failed)?;
    machine.lock().map_err(failed)?;
    let mut saved = if let Some(saved) = folder.load()? {
        saved
    } else {
        let (block, port) = free_place()?;
        Saved::new(block, port, Vec::new())
    };
    saved.nodes = node::nodes(saved.nodes, &wanted.asked).map_err(UpError::Asked)?;
    if let Some(exposure) = wanted.exposure {
        saved.exposed = exposed(exposure)?;
    }
    saved.unsafe_sysctls = wanted.unsafe_sysctls.unwrap_or(saved.unsafe_sysctls);
    // Another program may have taken it while the cluster was stopped. Pods use another address.
    saved.port = free_port(saved.port);
    folder.save(&saved)?;
    let network = network(folder, &saved)?;
    nics::check(&network).map_err(UpError::Asked)?;
    network.ensure(programs)?;
    Ok((saved, machine))
}

/// Addresses that nothing on the machine uses, and the usual port of a Kubernetes API.
fn free_place() -> Result<(u8, u16), UpError> {
    let used = addresses::used().unwrap_or_default();
    let block = addresses::choose(&used).ok_or_else(|| UpError::Asked("no addresses are free".into()))?;
    Ok((block, API_PORT))
}

/// The port that is wanted, or one that is free.
fn free_port(wanted: u16) -> u16 {
    let try_port = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).and_then(|bound| bound.local_addr());
    try_port(wanted).or_else(|_| try_port(0)).map_or(wanted, |address| address.port())
}

pub(crate) fn network(folder: &Folder, saved: &Saved) -> Result<Network, UpError> {
    let node = |node: &NodeSpec| {
        let site = folder.site(&node.name)?;
        let (nics, is_hypervisor) = (node.nics.clone(), node.is_hypervisor());
        Ok(links::Node { nics, is_hypervisor, ..links::Node::new(node.number, &site) })
    };
    let nodes = saved.nodes.iter().map(node).collect::<Result<_, c5c3_cri::BadName>>()?;
    Ok(Network { instance: folder.instance(), addresses: addresses::of(saved.block), nodes })
}

fn configuration(folder: &Folder, addresses: &Addresses) -> Config {
    Config {
        advertise: Some(addresses.bridge().addr().into()),
        service_range: addresses.services.into(),
        ..Config::new(Storage::Folder(folder.apiserver()))
    }
}

pub(crate) fn now() -> jiff::Timestamp {
    jiff::Timestamp::try_from(SystemTime::now()).unwrap_or_default()
}

/// Writes a kubeconfig with a new certificate.
fn credentials(server: &Server, user: &str, group: &str, url: &str, path: &std::path::Path) -> Result<(), UpError> {
    let identity = server.pki().issue_client(user, &[group], CERTIFICATE_LIFE, now())?;
    let content = kubeconfig(url, server.pki().ca_pem(), &Credential::Certificate(identity));
    Ok(write_kubeconfig(path, &content)?)
}

/// Writes what a node's server proves itself with, and knows this one by.
fn prove(server: &Server, names: &[&str], files: &Serving) -> Result<(), UpError> {
    let identity = server.pki().issue_server(names, CERTIFICATE_LIFE, now())?;
    write(&files.certificate, &identity.certificate)?;
    write(&files.key, identity.key.expose_secret())?;
    Ok(write(&files.authority, server.pki().ca_pem())?)
}

fn launch_agents(
    server: &Server,
    folder: &Folder,
    saved: &Saved,
    programs: &Programs,
    program: &std::path::Path,
) -> Result<Agents, UpError> {
    let host = addresses::of(saved.block).bridge().addr();
    let url = format!("https://{host}:{API_PORT}");
    let mut agents = Vec::new();
    for node in &saved.nodes {
        let place = folder.node(&node.name);
        private(&place)?;
        let kubeconfig = place.join("kubeconfig");
        credentials(server, &format!("system:node:{}", node.name), "system:nodes", &url, &kubeconfig)?;
        let address = addresses::of(saved.block).node(node.number).to_string();
        prove(server, &[&node.name, &address], &serving(&place))?;
        let told = AgentConfig {
            data: folder.path().to_owned(),
            block: saved.block,
            node: node.clone(),
            nodes: saved.nodes.len(),
            kubeconfig,
            unsafe_sysctls: saved.unsafe_sysctls.clone(),
        };
        let config = place.join("agent.json");
        write(&config, &serde_json::to_string_pretty(&told).expect("it has string keys only"))?;
        agents.push(Agent {
            node: node.name.clone(),
            namespace: folder.site(&node.name)?.network_namespace(),
            nsenter: programs.nsenter.clone(),
            unshare: programs.unshare.clone(),
            program: program.to_owned(),
            config,
            log: folder.agent_log(&node.name),
        });
    }
    kill_stray(&agents.iter().map(|agent| agent.config.clone()).collect::<Vec<_>>());
    Ok(Agents::start(agents))
}

fn ready_condition(node: &Node) -> Option<&k8s_openapi::api::core::v1::NodeCondition> {
    node.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == "Ready")
}

/// Whether a node says that it is ready, and said so after the cluster was started: it may have said so before.
fn is_ready(begun: jiff::Timestamp) -> impl Condition<Node> {
    move |node: Option<&Node>| {
        node.and_then(ready_condition).is_some_and(|condition| {
            let heard = condition.last_heartbeat_time.as_ref().map(|time| time.0.as_second());
            condition.status == "True" && heard.is_some_and(|heard| heard >= begun.as_second())
        })
    }
}

fn unready(node: &Node) -> String {
    match ready_condition(node) {
        Some(condition) => {
            let text = |part: &Option<String>| part.clone().unwrap_or_default();
            format!("{}: {}", text(&condition.reason), text(&condition.message))
        }
        None => "it has not said whether it is".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use tokio_rustls::rustls::pki_types::CertificateDer;
    use tokio_rustls::rustls::pki_types::pem::PemObject;

    use super::*;

    #[tokio::test]
    async fn what_a_node_proves_itself_with_is_in_force_as_long_as_a_cluster_may_run() {
        let home = tempfile::tempdir().unwrap();
        let server = Server::start(Config::new(Storage::Memory)).await.unwrap();
        let files = serving(home.path());
        prove(&server, &["lion"], &files).unwrap();
        let certificate = CertificateDer::from_pem_slice(&std::fs::read(&files.certificate).unwrap()).unwrap();
        let in_nine_years = now() + Duration::from_hours(24 * 365 * 9);
        assert_eq!(c5c3_auth::certificate_user(&certificate, in_nine_years).unwrap().name, "lion");
        server.stop().await;
    }
}
