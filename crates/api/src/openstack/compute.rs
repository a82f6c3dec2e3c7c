//! What Nova runs servers with: the hypervisors among the nodes of this cluster, the disks of servers, live migration.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::blocks::{CephRbd, Image, Replicas, Resources, SecretRef};

/// Where the disks of servers are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.backend != 'rbd' || (has(self.rbd) && has(self.rbd.cephSecretRef)) || has(self.cephSecretRef)")
        .message("has backend rbd without keys for Ceph; set rbd.cephSecretRef, or set backend to local"),
    validation = Rule::new("self.backend == 'rbd' || !(has(self.rbd) || has(self.rbdPool) || has(self.rbdUser) || has(self.cephSecretRef))")
        .message("names a Ceph pool, but backend is local; remove rbd, or set backend to rbd")
)]
pub struct NovaStorage {
    /// The kind of storage: `rbd` for a Ceph pool, `local` for files on the hypervisor.
    #[serde(default)]
    pub backend: NovaBackend,
    /// The Ceph pool; for backend `rbd`. The pool is `vms` and the user `nova` when they are not named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rbd: Option<CephRbd>,
}

/// The kinds of storage for the disks of servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NovaBackend {
    /// A pool of a Ceph cluster.
    #[default]
    Rbd,
    /// Files on the hypervisor.
    Local,
}

/// The label of nodes that are hypervisors.
pub const HYPERVISOR_LABEL: &str = "node-role.kubernetes.io/hypervisor";

/// The nodes of this cluster that are hypervisors, and what runs on them: libvirt and nova-compute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.fake) || (self.virtType == 'auto' && !has(self.libvirtResources) && !has(self.libvirtImage) && !has(self.probeImage) && !has(self.liveMigration) && !has(self.volumePools))")
    .message("has fake hypervisors, which run without libvirt; remove virtType, libvirtResources, libvirtImage, probeImage, liveMigration and volumePools, or remove fake"))]
pub struct NovaCompute {
    /// Labels that a hypervisor has; `node-role.kubernetes.io/hypervisor` with an empty value when absent. With `fake`, labels of
    /// the nodes that fake hypervisors run on; all nodes when absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that are tolerated; all of them when absent, because nodes are often reserved for guests by taints. With `fake`, none
    /// when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub tolerations: Vec<Toleration>,
    /// What guests run with.
    #[serde(default)]
    pub virt_type: VirtType,
    /// CPU and memory of each nova-compute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// CPU and memory of libvirt on each node. Guests are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub libvirt_resources: Option<Resources>,
    /// The image of libvirt and QEMU; the one of the operator when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub libvirt_image: Option<Image>,
    /// The image of the guest that is booted to find out whether KVM works; the one of the operator when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_image: Option<Image>,
    /// How guests move between hypervisors while they run; they cannot when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_migration: Option<LiveMigration>,
    /// The Ceph pools of volumes that guests use, with the keys that Cinder uses them with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub volume_pools: Vec<CephRbd>,
    /// Fake hypervisors, for scale tests: nova-compute with Nova's fake driver, on any nodes, in the place of libvirt and
    /// nova-compute on hypervisors. Their servers are ACTIVE and do not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fake: Option<FakeHypervisors>,
}

/// Hypervisors that Nova can schedule servers to, and that run nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct FakeHypervisors {
    /// How many of them are in each cell whose hypervisors are in this cluster: one pod each.
    pub replicas: Replicas,
}

impl NovaCompute {
    /// The labels of the nodes that nova-compute runs on.
    pub fn labels(&self) -> BTreeMap<String, String> {
        if self.node_selector.is_empty() && self.fake.is_none() {
            return BTreeMap::from([(HYPERVISOR_LABEL.to_owned(), String::new())]);
        }
        self.node_selector.clone()
    }
}

/// What guests run with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VirtType {
    /// KVM on nodes where a guest boots with it, emulation on the others.
    #[default]
    Auto,
    /// KVM.
    Kvm,
    /// Emulation, which is slow.
    Qemu,
}

/// How guests move between hypervisors while they run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.transport != 'tls' || has(self.certSecretRef)")
        .message("has transport tls without a certificate; set certSecretRef"),
    validation = Rule::new("self.transport == 'tls' || !has(self.certSecretRef)")
        .message("has a certificate, but transport is tcp; remove certSecretRef, or set transport to tls")
)]
pub struct LiveMigration {
    /// The connection between hypervisors.
    pub transport: MigrationTransport,
    /// A Secret with `tls.crt`, `tls.key` and `ca.crt`, for servers and for clients, valid for the addresses of all hypervisors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_secret_ref: Option<SecretRef>,
}

/// The connection between hypervisors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MigrationTransport {
    /// Encrypted at port 16514; only clients with a certificate of the same authority are served.
    Tls,
    /// Neither encrypted nor authenticated, at port 16509: whoever reaches it is root on the node. For networks of hypervisors alone.
    Tcp,
}
