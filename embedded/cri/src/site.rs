//! Names and places of a cluster and of each of its nodes on the machine: whatever is made can be found again, and
//! removed, by these alone.

use std::fmt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// One cluster of the machine. Its name is part of every name outside the data folder, so that clusters do not meet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Instance(String);

/// A name that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadName {
    /// Links have fifteen characters at most, of which six are left for the instance.
    #[error("an instance is named by one to six lower-case letters and digits, not {0:?}")]
    Instance(String),
    /// The node's name is part of a socket's path, which has 107 characters at most.
    #[error("a node is named by a DNS label of one to 63 characters, not {0:?}")]
    Node(String),
}

impl Instance {
    /// The instance of this name.
    pub fn new(name: impl Into<String>) -> Result<Self, BadName> {
        let name = name.into();
        let good = (1..=6).contains(&name.len()) && name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        if good { Ok(Self(name)) } else { Err(BadName::Instance(name)) }
    }

    /// The instance that belongs to a data folder: always the same for the same path.
    pub fn of(data: &Path) -> Self {
        let [a, b, c, ..] = Sha256::digest(data.as_os_str().as_encoded_bytes()).0;
        Self(format!("{a:02x}{b:02x}{c:02x}"))
    }

    /// Where sockets, namespaces and the state of running containers lie: a short path, and gone after a reboot.
    pub fn run(&self) -> PathBuf {
        PathBuf::from(format!("/run/c5c3-{self}"))
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One node of a cluster: the names and paths of everything that it has on the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    instance: Instance,
    node: String,
    data: PathBuf,
}

impl Site {
    /// The node of this name, with its own data folder.
    pub fn new(instance: Instance, node: impl Into<String>, data: impl Into<PathBuf>) -> Result<Self, BadName> {
        let (node, data) = (node.into(), data.into());
        let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        let good =
            (1..=63).contains(&node.len()) && node.bytes().all(inner) && !node.starts_with('-') && !node.ends_with('-');
        if good { Ok(Self { instance, node, data }) } else { Err(BadName::Node(node)) }
    }

    /// The cluster that the node belongs to.
    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    /// The node's name.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The node's data folder, which outlives reboots.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// What the node has in `/run`.
    pub fn run(&self) -> PathBuf {
        self.instance.run().join("nodes").join(&self.node)
    }

    /// The node's network namespace, as a file to enter it by. It is not among those of `ip netns`, which would leave
    /// a mount behind on `/run/netns`.
    pub fn network_namespace(&self) -> PathBuf {
        self.instance.run().join("netns").join(&self.node)
    }

    /// The socket of the node's containerd. It is also an argument of containerd's and of each of its shims, which is
    /// how they are told from those of others.
    pub fn socket(&self) -> PathBuf {
        self.run().join("cri.sock")
    }

    /// The cgroup, in every hierarchy, under which each sandbox of the node has to lie.
    pub fn cgroup_parent(&self) -> String {
        format!("/c5c3-{}/{}", self.instance, self.node)
    }

    /// Where containerd keeps images and its records, and its configuration and log lie.
    pub fn containerd(&self) -> PathBuf {
        self.data.join("containerd")
    }

    /// containerd's log.
    pub fn log(&self) -> PathBuf {
        self.containerd().join("containerd.log")
    }

    /// What containerd needs only while containers run.
    pub(crate) fn state(&self) -> PathBuf {
        self.run().join("state")
    }

    /// The CNI network's name.
    pub(crate) fn network(&self) -> String {
        format!("c5c3-{}-{}", self.instance, self.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_leaves_room_in_the_name_of_a_link() {
        assert!(Instance::new("t12").is_ok());
        for bad in ["", "seven77", "Up", "a-b", "a/b"] {
            assert!(Instance::new(bad).is_err(), "{bad:?}");
        }
        let of_folder = Instance::of(Path::new("/home/ada/.local/state/c5c3"));
        assert_eq!(Instance::new(of_folder.to_string()).unwrap(), of_folder);
    }

    #[test]
    fn the_longest_node_still_has_a_socket() {
        let site = Site::new(Instance::new("abcdef").unwrap(), "n".repeat(63), "/data").unwrap();
        assert!(site.socket().with_extension("sock.ttrpc").as_os_str().len() <= 107);
        for bad in ["", "-a", "a-", "A", "a.b", "../a"] {
            assert!(Site::new(site.instance().clone(), bad, "/data").is_err(), "{bad:?}");
        }
    }
}
