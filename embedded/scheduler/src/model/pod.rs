//! A pod, as far as it decides where it may run and who may run beside it.

use k8s_openapi::api::core::v1::{self, Container, ObjectReference, PodSpec, Toleration, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::node_terms::NodeChoice;
use super::pod_terms::{Neighbours, Spread};
use super::resources::{self, Resources};
use super::{Key, Labels};

/// The scheduler that pods name when they name none, and which this one is.
pub const OURS: &str = "default-scheduler";

/// A pod.
#[derive(Clone, Debug, Default)]
pub struct Pod {
    /// What it is known by: names are used again.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The node that it is on.
    pub node: Option<String>,
    /// Whether another scheduler looks after it.
    pub is_foreign: bool,
    /// Whether it is going.
    pub is_deleting: bool,
    /// Whether it has run to its end, and holds nothing any more.
    pub is_finished: bool,
    /// Which specification of it this is.
    pub generation: Option<i64>,
    /// What its `PodScheduled` condition says, while that is false.
    pub told: Option<Told>,
    /// What it asks for.
    pub wants: Wants,
}

/// Why a pod waits, as its condition says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Told {
    /// One word.
    pub reason: String,
    /// What each node lacks.
    pub message: String,
    /// The generation of the pod that it is about.
    pub generation: Option<i64>,
}

/// What a pod asks for. When this changes, a pod that waits is looked at again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wants {
    /// Its labels, by which others speak of it.
    pub labels: Labels,
    /// The higher, the earlier.
    pub priority: i32,
    /// Whether it wants no other pod to go for it.
    pub never_preempts: bool,
    /// Whether someone holds it back.
    pub is_gated: bool,
    /// The taints that it does not mind.
    pub tolerations: Vec<Toleration>,
    /// The nodes that it may be on.
    pub nodes: NodeChoice,
    /// The pods that it wants near, or not.
    pub neighbours: Neighbours,
    /// How it and its like shall be spread.
    pub spread: Vec<Spread>,
    /// What it asks of a node.
    pub requests: Resources,
    /// What it is taken to use when nodes are compared.
    pub footprint: Resources,
    /// Ports of the node that it takes.
    pub ports: Vec<HostPort>,
    /// The claims that it mounts.
    pub claims: Vec<PodClaim>,
    /// The uid of the set of replicas that it is one of.
    pub replica_of: Option<String>,
}

/// A port of a node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HostPort {
    /// An address, or 0.0.0.0 for all.
    pub address: String,
    /// TCP, UDP or SCTP.
    pub protocol: String,
    /// The number.
    pub port: i32,
}

/// A claim that a pod mounts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PodClaim {
    /// Its name, in the pod's namespace.
    pub name: String,
    /// Whether it is made for this pod, and goes with it.
    pub is_ephemeral: bool,
}

impl Pod {
    /// Reads a pod.
    pub fn of(pod: v1::Pod) -> Self {
        let v1::Pod { metadata, spec, status } = pod;
        let spec = spec.unwrap_or_default();
        let status = status.unwrap_or_default();
        let condition = status.conditions.iter().flatten().find(|condition| condition.type_ == "PodScheduled");
        let unscheduled = condition.filter(|condition| condition.status == "False");
        let told = unscheduled.map(|condition| Told {
            reason: condition.reason.clone().unwrap_or_default(),
            message: condition.message.clone().unwrap_or_default(),
            generation: condition.observed_generation,
        });
        Self {
            wants: Wants::of(&spec, &metadata),
            uid: metadata.uid.unwrap_or_default(),
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
            node: spec.node_name.filter(|node| !node.is_empty()),
            is_foreign: spec.scheduler_name.is_some_and(|name| name != OURS),
            is_deleting: metadata.deletion_timestamp.is_some(),
            is_finished: matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")),
            generation: metadata.generation,
            told,
        }
    }

    /// The key of a claim that it mounts.
    pub fn claim_key(&self, claim: &PodClaim) -> Key {
        (self.namespace.clone(), claim.name.clone())
    }

    /// The pod as events name it.
    pub fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Pod".into()),
            namespace: Some(self.namespace.clone()),
            name: Some(self.name.clone()),
            uid: Some(self.uid.clone()),
            ..ObjectReference::default()
        }
    }
}

impl Wants {
    fn of(spec: &PodSpec, metadata: &ObjectMeta) -> Self {
        let labels = metadata.labels.clone().unwrap_or_default();
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let constraints = spec.topology_spread_constraints.iter().flatten();
        let volumes = spec.volumes.iter().flatten();
        Self {
            priority: spec.priority.unwrap_or(0),
            never_preempts: spec.preemption_policy.as_deref() == Some("Never"),
            is_gated: spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty()),
            tolerations: spec.tolerations.clone().unwrap_or_default(),
            nodes: NodeChoice::of(spec),
            neighbours: Neighbours::of(spec, namespace, &labels),
            spread: constraints.map(|constraint| Spread::of(constraint, &labels)).collect(),
            requests: resources::requests(spec),
            footprint: resources::footprint(spec),
            ports: ports(spec),
            claims: volumes.filter_map(|volume| claim(volume, metadata)).collect(),
            replica_of: replica_of(metadata),
            labels,
        }
    }
}

/// The ports of the node that a pod takes while it runs.
fn ports(spec: &PodSpec) -> Vec<HostPort> {
    let sidecars = spec.init_containers.iter().flatten().filter(|container| resources::is_sidecar(container));
    let of = |container: &Container| container.ports.clone().unwrap_or_default();
    let all = spec.containers.iter().chain(sidecars).flat_map(of);
    let taken = all.filter_map(|port| {
        Some(HostPort {
            port: port.host_port.filter(|port| *port > 0)?,
            protocol: port.protocol.unwrap_or_else(|| "TCP".into()),
            address: port.host_ip.filter(|address| !address.is_empty()).unwrap_or_else(|| "0.0.0.0".into()),
        })
    });
    taken.collect()
}

fn claim(volume: &Volume, pod: &ObjectMeta) -> Option<PodClaim> {
    if let Some(claim) = &volume.persistent_volume_claim {
        return Some(PodClaim { name: claim.claim_name.clone(), is_ephemeral: false });
    }
    volume.ephemeral.as_ref()?;
    let name = format!("{}-{}", pod.name.as_deref().unwrap_or_default(), volume.name);
    Some(PodClaim { name, is_ephemeral: true })
}

/// Which set of replicas a pod belongs to. Upstream compares by the selector of that set, which finds the same pods.
fn replica_of(metadata: &ObjectMeta) -> Option<String> {
    let controller = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    matches!(controller.kind.as_str(), "ReplicaSet" | "StatefulSet" | "ReplicationController")
        .then(|| controller.uid.clone())
}
