//! Ceph across sites: a monitor in a third place that decides when two others lose sight of each other.

use std::collections::BTreeMap;
use std::net::IpAddr;

use c5c3_schema::Problem;
use k8s_openapi::api::core::v1::{Affinity, Toleration};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::blocks::{Condition, DataKey, Duration, NamespacedRef, ObjectName, Resources, WaitStatus};
use crate::catalog::{Rules, problem};
use crate::ovn::{ServiceType, Volume, an_address};

/// A Kubernetes cluster at another site, and the way to it.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "ceph.c5c3.io",
    version = "v1alpha1",
    kind = "RemoteCluster",
    plural = "remoteclusters",
    namespaced,
    status = "RemoteClusterStatus",
    derive = "PartialEq",
    shortname = "rcl",
    category = "c5c3",
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Namespace", type_ = "string", json_path = ".spec.namespace"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct RemoteClusterSpec {
    /// Namespace in that cluster that arbiters run in. It cannot be changed.
    #[serde(default = "default_namespace")]
    #[x_kube(validation = Rule::new("self == oldSelf")
        .message("cannot be changed; arbiters run there, so create another RemoteCluster for the new namespace"))]
    pub namespace: ObjectName,
    /// Secret with a kubeconfig for that cluster.
    #[serde(default)]
    pub accesskey_ref: AccessKeyRef,
    /// How often the cluster is checked.
    #[serde(default = "one_minute")]
    pub check_interval: Duration,
    /// How long the cluster may take to answer.
    #[serde(default = "ten_seconds")]
    pub timeout: Duration,
}

impl RemoteClusterSpec {
    fn problems(&self, path: &str) -> Vec<Problem> {
        [
            above_zero(format!("{path}.checkInterval"), &self.check_interval),
            above_zero(format!("{path}.timeout"), &self.timeout),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

fn above_zero(path: String, duration: &Duration) -> Option<Problem> {
    let wrong = || problem(path, format!("{duration} is no time at all"), "write a duration above zero, such as 1m");
    duration.get().is_zero().then(wrong)
}

fn default_namespace() -> ObjectName {
    ObjectName::new("default").expect("default is a name")
}

fn one_minute() -> Duration {
    Duration::new("1m").expect("1m is a duration")
}

fn ten_seconds() -> Duration {
    Duration::new("10s").expect("10s is a duration")
}

/// A Secret in the same namespace, and its key that holds a kubeconfig.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessKeyRef {
    /// Name of the Secret; the name of the RemoteCluster when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<ObjectName>,
    /// Key in the Secret.
    #[serde(default = "kubeconfig")]
    pub key: DataKey,
}

impl Default for AccessKeyRef {
    fn default() -> Self {
        Self { name: None, key: kubeconfig() }
    }
}

fn kubeconfig() -> DataKey {
    DataKey::new("kubeconfig.yaml").expect("kubeconfig.yaml is a key")
}

/// How far the operator is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RemoteState {
    /// Nothing was observed yet.
    #[default]
    Init,
    /// Something is being made or waited for.
    Progressing,
    /// Something is wrong.
    Error,
    /// All is well.
    Ready,
    /// It is being taken down.
    Deleting,
}

/// What the operator observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemoteClusterStatus {
    /// SecretAvailable, ConfigValid, ClusterReachable, HasEnoughPermissions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation that the status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What is waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub waiting_for: Vec<WaitStatus>,
    /// How far the operator is.
    #[serde(default)]
    pub state: RemoteState,
    /// Why, in words for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32768))]
    pub message: Option<String>,
}

impl Rules for RemoteCluster {
    fn problems(&self) -> Vec<Problem> {
        self.spec.problems("spec")
    }
}

/// A Ceph monitor at another site.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "ceph.c5c3.io",
    version = "v1alpha1",
    kind = "RemoteArbiter",
    plural = "remotearbiters",
    namespaced,
    status = "RemoteArbiterStatus",
    derive = "PartialEq",
    shortname = "rarb",
    category = "c5c3",
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Mon", type_ = "string", json_path = ".status.monId"),
    printcolumn(name = "Ceph", type_ = "string", json_path = ".spec.cephCluster.name"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct RemoteArbiterSpec {
    /// The cluster that the monitor runs in.
    pub remote_cluster: RemoteClusterSource,
    /// The CephCluster that the monitor belongs to. It cannot be changed.
    #[x_kube(validation = Rule::new("self == oldSelf")
        .message("cannot be changed; the monitor is a member of that cluster, so delete the RemoteArbiter and create another"))]
    pub ceph_cluster: NamespacedRef,
    /// What the id of the monitor begins with; a letter follows. It cannot be changed.
    #[serde(default = "ext")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(
        validation = Rule::new("self.matches('^[a-z]([-a-z0-9]*)$')")
            .message("cannot begin a monitor's id; use lower case letters, digits and '-', starting with a letter, such as ext-"),
        validation = Rule::new("self == oldSelf")
            .message("cannot be changed; the monitor has its id already, so delete the RemoteArbiter and create another")
    )]
    pub mon_id_prefix: String,
    /// How often the monitor is checked.
    #[serde(default = "one_minute")]
    pub check_interval: Duration,
    /// How the other monitors reach it; at its pod's address when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ArbiterService>,
    /// Where and how large the monitor's pod is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment: Option<ArbiterDeployment>,
    /// The volume of the monitor's database; a directory of the node when absent, which ties the monitor to that node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Volume>,
}

fn ext() -> String {
    "ext-".into()
}

/// A RemoteCluster: by name, or written out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.name) != has(self.spec)")
        .message("needs exactly one of name and spec; set name for a RemoteCluster that exists, or spec to have one made"),
    validation = Rule::new("has(self.name) == has(oldSelf.name) && (!has(self.name) || self.name == oldSelf.name)")
        .message("changes to another cluster, and the monitor would stay behind; delete the RemoteArbiter and create another")
)]
pub struct RemoteClusterSource {
    /// Name of a RemoteCluster in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<ObjectName>,
    /// A RemoteCluster of its own, which is made and deleted with the arbiter, and has its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<RemoteClusterSpec>,
}

/// How other monitors reach an arbiter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(has(self.type) && self.type == 'NodePort') == has(self.nodeIp)")
    .message("needs nodeIp with type NodePort, and only then; set the address of the node that the other sites reach, or choose another type"))]
pub struct ArbiterService {
    /// Type of the Service. Monitors of other sites reach a ClusterIP only over a routed Service network.
    #[serde(default)]
    pub r#type: ServiceType,
    /// Address of the node that other sites reach, for NodePort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", length(max = 45))]
    #[x_kube(validation = an_address())]
    pub node_ip: Option<IpAddr>,
}

/// The pod of an arbiter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArbiterDeployment {
    /// Labels that its node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that it tolerates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub tolerations: Vec<Toleration>,
    /// Attraction to nodes and pods, and repulsion from them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// CPU and memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
}

/// What the operator observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemoteArbiterStatus {
    /// RemoteClusterReady, CephClusterReady, CephClusterConfigured, MonitorDeploymentReady, ArbiterDeploymentReady.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation that the status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What is waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub waiting_for: Vec<WaitStatus>,
    /// How far the operator is.
    #[serde(default)]
    pub state: RemoteState,
    /// Id of the monitor, such as `ext-a`; reserved until the arbiter is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub mon_id: Option<String>,
    /// Why, in words for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32768))]
    pub message: Option<String>,
}

impl Rules for RemoteArbiter {
    fn problems(&self) -> Vec<Problem> {
        let inline = self.spec.remote_cluster.spec.iter().flat_map(|spec| spec.problems("spec.remoteCluster.spec"));
        inline.chain(above_zero("spec.checkInterval".into(), &self.spec.check_interval)).collect()
    }
}
