//! What a node has to be told: its place on the machine, its addresses, how its pods find names.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use c5c3_cri::{Programs, Site};
use k8s_openapi::api::core::v1::Taint;

use crate::host_root::HostRoot;
use crate::machine;

/// The settings of one node.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// The node's name, data folder, sockets and cgroup.
    pub site: Site,
    /// The node's address, `InternalIP`.
    pub address: IpAddr,
    /// The addresses of its pods.
    pub pod_cidr: String,
    /// The value of `topology.kubernetes.io/zone`.
    pub zone: String,
    /// Labels beside those that every node has.
    pub labels: BTreeMap<String, String>,
    /// Taints that the node registers with.
    pub taints: Vec<Taint>,
    /// Where the node's HTTP server listens, on `address`.
    pub port: u16,
    /// How it proves itself there; without, nothing is served.
    pub serving: Option<Serving>,
    /// The name servers of pods with `dnsPolicy: ClusterFirst`.
    pub cluster_dns: Vec<IpAddr>,
    /// The domain that Services have their names in.
    pub cluster_domain: String,
    /// How many pods the node takes.
    pub max_pods: u32,
    /// An upper bound of what the node offers, where the machine is shared by several.
    pub capacity: Capacity,
    /// What `hostPath` volumes refer to.
    pub host_root: HostRoot,
    /// Kernel settings beside the safe ones that pods may change, such as `net.ipv4.ip_forward` or `net.*`.
    pub unsafe_sysctls: Vec<String>,
    /// Where locally built images appear as archives, and the programs to import them with. Without, none is imported.
    pub archives: Option<(PathBuf, Programs)>,
    /// The image of sandboxes, which is never collected.
    pub pause_image: String,
}

/// The files that a node's server proves itself with, and knows its clients by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serving {
    /// The certificate, for the node's address, PEM.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
    /// The certificate of the cluster's authority, PEM. Only those are served whom it says to be of `system:masters`.
    pub authority: PathBuf,
}

/// What a node may offer at most; where nothing is set, what the machine has.
#[derive(Debug, Clone, Copy, Default)]
pub struct Capacity {
    /// In thousandths of a core.
    pub milli_cpu: Option<i64>,
    /// In bytes.
    pub memory: Option<i64>,
    /// How many nodes share the huge pages that the machine has reserved; 0 is one.
    pub nodes: usize,
}

impl Capacity {
    /// The share of one of several nodes on this machine: of memory and huge pages, which all of them would otherwise offer
    /// to pods, and which are not there when all pods use theirs. Cores are not divided: who waits for one is slower, and goes on.
    pub fn share_of_memory(nodes: usize) -> Self {
        let divisor = i64::try_from(nodes).unwrap_or(i64::MAX).max(1);
        Self { milli_cpu: None, memory: (divisor > 1).then(|| machine::memory() / divisor), nodes }
    }
}

impl NodeConfig {
    /// The settings of a node, with what upstream's kubelet has for the rest.
    pub fn new(site: Site, address: IpAddr) -> Self {
        Self {
            site,
            address,
            pod_cidr: String::new(),
            zone: "local".to_owned(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
            port: 10250,
            serving: None,
            cluster_dns: Vec::new(),
            cluster_domain: "cluster.local".to_owned(),
            max_pods: 110,
            capacity: Capacity::default(),
            host_root: HostRoot::machine(),
            unsafe_sysctls: Vec::new(),
            archives: None,
            pause_image: c5c3_cri::images::PAUSE.to_owned(),
        }
    }

    /// The name of the Node object.
    pub fn name(&self) -> &str {
        self.site.node()
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use c5c3_cri::Instance;

    use super::*;

    /// The node `n1` of the cluster `test`.
    pub(crate) fn config() -> NodeConfig {
        let site = Site::new(Instance::new("test").unwrap(), "n1", "/data/n1").unwrap();
        NodeConfig::new(site, "10.123.0.11".parse().unwrap())
    }
}
