//! A node's own process, in the node's network namespace: its containerd, its kubelet, its rules.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use c5c3_controllers::keep_running;
use c5c3_cri::{Addresses, BadName, Containerd, Programs, Runtime, Settings, Site, StartError, images};
use c5c3_network::{Namespace, policies, services};
use c5c3_node::{Capacity, HostRoot, NodeConfig, Serving};
use ipnet::Ipv4Net;
use k8s_openapi::api::core::v1::Taint;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::folder::{Folder, FolderError};
use crate::node::NodeSpec;
use crate::{addresses, descriptors};

/// What an agent is told. It is in a file that only its owner can read, beside the kubeconfig that it names.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentConfig {
    pub(crate) data: PathBuf,
    pub(crate) block: u8,
    pub(crate) node: NodeSpec,
    /// How many nodes share the machine.
    pub(crate) nodes: usize,
    pub(crate) kubeconfig: PathBuf,
    #[serde(default)]
    pub(crate) unsafe_sysctls: Vec<String>,
}

/// Why an agent ends.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// What it was told cannot be read.
    #[error("{}: {why}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The data folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The node cannot have this name.
    #[error(transparent)]
    Name(#[from] c5c3_cri::BadName),
    /// Programs are missing.
    #[error(transparent)]
    Programs(#[from] c5c3_cri::Missing),
    /// The node's own file system cannot be made.
    #[error("cannot make the file system of {0} that hostPath volumes refer to: {1}")]
    HostRoot(String, std::io::Error),
    /// Mounts in a folder cannot be shared between containers.
    #[error("cannot share mounts below {}, which mountPropagation of containers needs: {source}", folder.display())]
    Share {
        /// The folder.
        folder: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The node cannot have a hostname of its own.
    #[error("cannot set the hostname {0}: {1}")]
    Hostname(String, std::io::Error),
    /// The container runtime does not start.
    #[error(transparent)]
    Runtime(#[from] StartError),
    /// The image of sandboxes cannot be made or imported.
    #[error(transparent)]
    Image(#[from] images::ImageError),
    /// The container runtime refuses.
    #[error(transparent)]
    Call(#[from] c5c3_cri::CallError),
    /// The limit of open files cannot be set.
    #[error("cannot set the limit of open files: {0}")]
    Descriptors(std::io::Error),
    /// The API server's client cannot be made.
    #[error("cannot talk to the API server: {0}")]
    Client(#[from] kube::Error),
}

/// Runs a node until its standard input ends, which is when the process that started it is gone.
pub async fn run(config: &Path) -> Result<(), AgentError> {
    // Inherited by containerd, and from it by containers.
    descriptors::raise(Some(descriptors::OF_CONTAINERS)).map_err(AgentError::Descriptors)?;
    let told = read(config)?;
    let folder = Folder::new(&told.data)?;
    let client = client(&told.kubeconfig).await?;
    prepare(&folder.site(&told.node.name)?)?;
    let containerd = Containerd::start(settings(&told, &folder)?).await?;
    let runtime = containerd.runtime();
    import_pause(&folder.site(&told.node.name)?, &runtime).await?;
    let (parts, stop) = (TaskTracker::new(), CancellationToken::new());
    parts.spawn(containerd.keep(stop.clone()));
    let (of_services, of_policies) = rules(&told, &folder);
    let (api, stopped) = (client.clone(), stop.clone());
    parts.spawn(keep_running("services", stop.clone(), move || {
        services::run(api.clone(), Namespace::Current, of_services.clone(), stopped.clone())
    }));
    let (api, stopped) = (client.clone(), stop.clone());
    parts.spawn(keep_running("policies", stop.clone(), move || {
        policies::run(api.clone(), Namespace::Current, of_policies.clone(), stopped.clone())
    }));
    let (config, stopped) = (node(&told, &folder)?, stop.clone());
    parts.spawn(keep_running("node", stop.clone(), move || {
        c5c3_node::run(client.clone(), runtime.clone(), config.clone(), stopped.clone())
    }));
    // With the memory of the machine used up, its pods end before the process that would restart them.
    if let Err(error) = c5c3_cri::protect_from_oom() {
        tracing::info!(%error, "this process is not protected from the OOM killer");
    }
    parts.close();
    until_input_ends().await;
    stop.cancel();
    parts.wait().await;
    Ok(())
}

/// Makes this process the host of its pods, before the container runtime inherits what it has: mounts in volumes can be
/// shared between containers, and pods on the host's network see the node's name. The process was started in a UTS
/// namespace of its own.
fn prepare(site: &Site) -> Result<(), AgentError> {
    for shared in [site.data().to_owned(), site.run()] {
        let done = std::fs::create_dir_all(&shared).and_then(|()| c5c3_files::share(&shared));
        done.map_err(|source| AgentError::Share { folder: shared, source })?;
    }
    let named = rustix::system::sethostname(site.node().as_bytes());
    named.map_err(|error| AgentError::Hostname(site.node().to_owned(), error.into()))
}

/// Every sandbox is made of this image: without it no pod runs.
async fn import_pause(site: &Site, runtime: &Runtime) -> Result<(), AgentError> {
    if runtime.image_status(images::PAUSE).await?.is_some() {
        return Ok(());
    }
    let (programs, file) = (Programs::find()?, site.data().join("pause.tar"));
    let wrong = |error: std::io::Error| AgentError::Config { path: file.clone(), why: error.to_string() };
    let archive = images::pause(&programs)?.archive().map_err(wrong)?;
    std::fs::write(&file, archive).map_err(wrong)?;
    images::import(site, &programs, runtime, &file).await?;
    Ok(())
}

/// The node's part of the plan: all addresses, its own, and the range of its pods.
fn place(told: &AgentConfig) -> (Addresses, Ipv4Addr, Ipv4Net) {
    let addresses = addresses::of(told.block);
    (addresses, addresses.node(told.node.number), addresses.pods_of(told.node.number))
}

fn settings(told: &AgentConfig, folder: &Folder) -> Result<Settings, AgentError> {
    let (_, _, pods) = place(told);
    Ok(Settings {
        site: folder.site(&told.node.name)?,
        programs: Programs::find()?,
        namespace: None,
        // This process is in the node's namespace as its containerd is.
        address: Ipv4Addr::LOCALHOST,
        pods,
        sandbox_image: images::PAUSE.to_owned(),
        registries: Vec::new(),
    })
}

fn rules(told: &AgentConfig, folder: &Folder) -> (services::Place, policies::Place) {
    let (addresses, address, pods) = place(told);
    let instance = folder.instance();
    let of_services = services::Place {
        table: format!("c5c3-services-{instance}"),
        node: Some(told.node.name.clone()),
        node_addresses: vec![address],
        pods: Some(pods),
        balancers: None,
        services: addresses.services,
    };
    let of_policies = policies::Place {
        table: format!("c5c3-policies-{instance}"),
        node: told.node.name.clone(),
        dns: Some(addresses.bridge().addr()),
    };
    (of_services, of_policies)
}

fn node(told: &AgentConfig, folder: &Folder) -> Result<NodeConfig, AgentError> {
    let (addresses, address, pods) = place(told);
    let NodeSpec { name, labels, taints, .. } = &told.node;
    let taint = |taint: &crate::node::Taint| Taint {
        key: taint.key.clone(),
        value: Some(taint.value.clone()).filter(|value| !value.is_empty()),
        effect: taint.effect.clone(),
        time_added: None,
    };
    let mut config = NodeConfig::new(folder.site(name)?, address.into());
    config.archives = Some((folder.images(), Programs::find()?));
    config.serving = Some(serving(&folder.node(name)));
    config.pod_cidr = pods.to_string();
    config.labels.clone_from(labels);
    config.taints = taints.iter().map(taint).collect();
    config.capacity = Capacity::share_of_memory(told.nodes);
    config.cluster_dns = vec![addresses.dns().into()];
    images::PAUSE.clone_into(&mut config.pause_image);
    config.unsafe_sysctls.clone_from(&told.unsafe_sysctls);
    config.host_root = host_root(folder, name)?;
    config.host_root.prepare(name).map_err(|error| AgentError::HostRoot(name.clone(), error))?;
    Ok(config)
}

/// The root folder of a node.
pub(crate) fn host_root(folder: &Folder, node: &str) -> Result<HostRoot, BadName> {
    let site = folder.site(node)?;
    Ok(HostRoot::own(site.data().join("host"), site.run().join("host"), [folder.volumes()]))
}

/// Where a node finds what its server proves itself with, in its folder.
pub(crate) fn serving(place: &Path) -> Serving {
    Serving { certificate: place.join("serving.crt"), key: place.join("serving.key"), authority: place.join("ca.crt") }
}

fn read(path: &Path) -> Result<AgentConfig, AgentError> {
    let wrong = |why: String| AgentError::Config { path: path.into(), why };
    let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))
}

async fn client(path: &Path) -> Result<kube::Client, AgentError> {
    let wrong = |why: String| AgentError::Config { path: path.into(), why };
    let read = Kubeconfig::read_from(path).map_err(|error| wrong(error.to_string()))?;
    let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
    Ok(kube::Client::try_from(config.map_err(|error| wrong(error.to_string()))?)?)
}

async fn until_input_ends() {
    let (mut input, mut nothing) = (tokio::io::stdin(), [0; 64]);
    while input.read(&mut nothing).await.is_ok_and(|count| count > 0) {}
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_offers_its_share_of_a_machine_that_has_several() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::new(home.path()).unwrap();
        let offered = |nodes| {
            let told = json!({"data": home.path(), "block": 200, "node": {"name": "node-1", "number": 1},
                "nodes": nodes, "kubeconfig": "kubeconfig"});
            node(&serde_json::from_value(told).unwrap(), &folder).unwrap().capacity
        };
        let (alone, one_of_three) = (offered(1), offered(3));
        std::fs::remove_dir_all(folder.instance().run()).unwrap();
        assert_eq!((alone.memory, one_of_three.memory.is_some(), one_of_three.nodes), (None, true, 3));
    }
}
