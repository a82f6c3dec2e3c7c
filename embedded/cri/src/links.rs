//! The links of a cluster: a bridge on the machine, and for each node a network namespace, a pair of links that joins
//! it to the bridge, addresses and routes. What leaves the cluster is masqueraded by the machine.
//!
//! Hypervisors have a second pair, to a second bridge: the provider network. In the node its end is [`PROVIDER_LINK`], which
//! Open vSwitch takes as a port; on the machine the bridge has the address of the network's gateway. Floating IPs are reached
//! over it.
//!
//! [`Network::plan`] decides, [`Network::ensure`] does.

mod forwarding;
mod plan;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, CommandError};
use crate::remains::remove_if_empty;
use crate::{Addresses, Instance, Programs, Site};

pub use plan::{Found, Step};

/// The links of one cluster.
#[derive(Clone, Debug)]
pub struct Network {
    /// Whose they are.
    pub instance: Instance,
    /// The ranges to take addresses from.
    pub addresses: Addresses,
    /// The nodes.
    pub nodes: Vec<Node>,
}

/// A node, as its links see it.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its number, from which its addresses and the names of its links follow.
    pub index: u8,
    /// Its network namespace: [`Site::network_namespace`].
    pub namespace: PathBuf,
    /// Links of the machine that are moved into the namespace.
    pub nics: Vec<String>,
    /// Whether it is connected to the provider network.
    pub is_hypervisor: bool,
}

/// A node's end of its link to the provider network.
pub const PROVIDER_LINK: &str = "provider0";

impl Node {
    /// The node of this number.
    pub fn new(index: u8, site: &Site) -> Self {
        Self { index, namespace: site.network_namespace(), nics: Vec::new(), is_hypervisor: false }
    }
}

/// Why the links are not as they should be.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// A program refused.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl LinkError {
    fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }
}

/// The bridge of a cluster.
pub fn bridge(instance: &Instance) -> String {
    format!("c5c3br-{instance}")
}

/// The machine's end of a node's link.
pub fn node_link(instance: &Instance, index: u8) -> String {
    format!("c5c3v{index}-{instance}")
}

/// The bridge of a cluster's provider network.
pub fn provider_bridge(instance: &Instance) -> String {
    format!("c5c3pr-{instance}")
}

/// The machine's end of a node's link to the provider network.
pub fn provider_link(instance: &Instance, index: u8) -> String {
    format!("c5c3p{index}-{instance}")
}

/// The table of packet filter rules that masquerade what leaves the cluster.
fn table(instance: &Instance) -> String {
    format!("c5c3-links-{instance}")
}

impl Network {
    /// Makes what is missing, and leaves what is there. Blocks for as long as it takes.
    pub fn ensure(&self, programs: &Programs) -> Result<(), LinkError> {
        let found = Found::read(self.nodes.iter().map(|node| node.namespace.as_path()))?;
        self.plan(&found).iter().try_for_each(|step| step.execute(&self.instance, programs))
    }

    /// Moves the links that were moved into nodes back to the machine. A virtual one would end with its namespace.
    pub fn return_nics(&self, programs: &Programs) -> Result<(), LinkError> {
        let process = std::process::id();
        for node in self.nodes.iter().filter(|node| !node.nics.is_empty()) {
            if !c5c3_files::is_namespace(&node.namespace).map_err(LinkError::file(&node.namespace))? {
                continue;
            }
            for nic in &node.nics {
                let line = format!("link set {nic} netns {process}");
                // A link that was taken away meanwhile needs no return.
                if let Err(error) =
                    command::run(plan::within(&node.namespace, programs).arg(&programs.ip).args(["-batch", "-"]), &line)
                {
                    tracing::warn!(%error, nic, "a network card could not be returned to the machine");
                }
            }
        }
        Ok(())
    }

    /// Cuts a node off from all others and from the machine, as if its cable were pulled.
    pub fn cut(&self, index: u8, programs: &Programs) -> Result<(), LinkError> {
        self.switch(index, "down", programs)
    }

    /// Puts the cable back.
    pub fn heal(&self, index: u8, programs: &Programs) -> Result<(), LinkError> {
        self.switch(index, "up", programs)
    }

    fn switch(&self, index: u8, state: &str, programs: &Programs) -> Result<(), LinkError> {
        let is_hypervisor = self.nodes.iter().any(|node| node.index == index && node.is_hypervisor);
        let provider = is_hypervisor.then(|| provider_link(&self.instance, index));
        let links = [node_link(&self.instance, index)].into_iter().chain(provider);
        let lines = links.map(|link| format!("link set {link} {state}")).collect::<Vec<_>>().join("\n");
        command::run(Command::new(&programs.ip).args(["-batch", "-"]), &lines)?;
        Ok(())
    }
}

/// Removes all links, namespaces and rules of a cluster, of however many nodes, and restores the machine's forwarding.
/// Can be repeated. Blocks for as long as it takes.
pub fn remove(instance: &Instance, programs: &Programs) -> Result<(), LinkError> {
    let namespaces = instance.run().join("netns");
    let links: String = host_links()?
        .iter()
        .filter(|name| is_of(name, instance))
        .fold(String::new(), |all, name| all + "link del " + name + "\n");
    command::run(Command::new(&programs.ip).args(["-batch", "-"]), &links)?;
    let left = c5c3_files::unmount_under(&namespaces).map_err(LinkError::file(&namespaces))?;
    if let Some((path, source)) = left.into_iter().next() {
        return Err(LinkError::File { path, source });
    }
    if namespaces.exists() {
        fs::remove_dir_all(&namespaces).map_err(LinkError::file(&namespaces))?;
    }
    command::run(Command::new(&programs.nft).args(["-f", "-"]), &plan::without_table(&table(instance)))?;
    forwarding::release(instance)?;
    remove_if_empty(&[&instance.run()]);
    Ok(())
}

fn host_links() -> Result<BTreeSet<String>, LinkError> {
    let folder = Path::new("/sys/class/net");
    let entries = fs::read_dir(folder).map_err(LinkError::file(folder))?;
    Ok(entries.filter_map(Result::ok).filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

fn is_of(link: &str, instance: &Instance) -> bool {
    link == bridge(instance)
        || link == provider_bridge(instance)
        || link
            .strip_prefix("c5c3v")
            .or_else(|| link.strip_prefix("c5c3p"))
            .and_then(|rest| rest.split_once('-'))
            .is_some_and(|(index, of)| index.parse::<u8>().is_ok() && of == instance.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_another_instance_are_not_ours() {
        let ours = Instance::new("a1").unwrap();
        for own in ["c5c3br-a1", "c5c3v0-a1", "c5c3v254-a1", "c5c3pr-a1", "c5c3p7-a1"] {
            assert!(is_of(own, &ours), "{own}");
        }
        for other in
            ["c5c3br-a2", "c5c3pr-a2", "c5c3p7-a2", "c5c3v0-ba1", "c5c3vx-a1", "c5c3v-a1", "eth0", "c5c3br-a11"]
        {
            assert!(!is_of(other, &ours), "{other}");
        }
    }

    #[test]
    fn the_name_of_a_link_fits() {
        let longest = Instance::new("abcdef").unwrap();
        assert!(bridge(&longest).len() <= 15 && node_link(&longest, 255).len() <= 15);
        assert!(provider_bridge(&longest).len() <= 15 && provider_link(&longest, 255).len() <= 15);
    }
}
