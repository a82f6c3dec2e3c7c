//! The cluster as decisions see it: nodes, who is on them, and what pods refer to. What has been decided counts from
//! that moment, long before the API shows it; that is how two pods do not both take the last place.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;

use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::resources::Resources;
use crate::model::{Key, Labels};
use crate::volumes;

/// Everything that decisions are made from.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The nodes, by name.
    pub nodes: BTreeMap<String, Node>,
    /// The labels of namespaces, by name.
    pub namespaces: BTreeMap<String, Labels>,
    /// The claims.
    pub claims: BTreeMap<Key, PersistentVolumeClaim>,
    /// The volumes, by name.
    pub volumes: BTreeMap<String, PersistentVolume>,
    /// The storage classes, by name.
    pub classes: BTreeMap<String, StorageClass>,
    /// Which pods services select.
    pub services: BTreeMap<Key, Labels>,
    /// What claims have been promised.
    promises: BTreeMap<Key, ClaimStep>,
    placed: HashMap<String, Arc<Pod>>,
    occupants: BTreeMap<String, Occupants>,
}

/// The pods on a node, and what they sum up to. A node that has gone may still have some.
#[derive(Debug, Default)]
pub struct Occupants {
    /// By uid.
    pub pods: BTreeMap<String, Arc<Pod>>,
    /// What they asked for.
    pub requests: Resources,
    /// What they are taken to use.
    pub footprint: Resources,
}

/// What must happen for a claim before its pod can be bound to the node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ClaimStep {
    /// A volume is made for it, on this node.
    Provision {
        /// The claim.
        claim: Key,
        /// The node.
        node: String,
    },
    /// It gets a volume that is there.
    Bind {
        /// The claim.
        claim: Key,
        /// The volume.
        volume: String,
    },
}

impl ClaimStep {
    /// The claim that it is about.
    pub fn claim(&self) -> &Key {
        match self {
            Self::Provision { claim, .. } | Self::Bind { claim, .. } => claim,
        }
    }
}

impl Snapshot {
    /// Who is on a node.
    pub fn on(&self, node: &str) -> &Occupants {
        static NOBODY: std::sync::LazyLock<Occupants> = std::sync::LazyLock::new(Occupants::default);
        self.occupants.get(node).unwrap_or(&NOBODY)
    }

    /// Every node that exists, with each pod on it.
    pub fn neighbours(&self) -> impl Iterator<Item = (&Node, &Arc<Pod>)> {
        self.nodes.values().flat_map(|node| self.on(&node.name).pods.values().map(move |pod| (node, pod)))
    }

    /// Puts a pod on the node that it names; returns what was known of it.
    pub fn place(&mut self, pod: Arc<Pod>) -> Option<Arc<Pod>> {
        let before = self.remove(&pod.uid);
        let node = pod.node.clone().unwrap_or_default();
        let occupants = self.occupants.entry(node).or_default();
        occupants.requests.add(&pod.wants.requests);
        occupants.footprint.add(&pod.wants.footprint);
        occupants.pods.insert(pod.uid.clone(), pod.clone());
        self.placed.insert(pod.uid.clone(), pod);
        before
    }

    /// Takes a pod off its node.
    pub fn remove(&mut self, uid: &str) -> Option<Arc<Pod>> {
        let pod = self.placed.remove(uid)?;
        let node = pod.node.as_deref().unwrap_or_default();
        if let Some(occupants) = self.occupants.get_mut(node) {
            occupants.requests.take(&pod.wants.requests);
            occupants.footprint.take(&pod.wants.footprint);
            occupants.pods.remove(uid);
            if occupants.pods.is_empty() {
                self.occupants.remove(node);
            }
        }
        Some(pod)
    }

    /// Counts on what has been decided: the pod is on the node, its claims are on their way.
    pub fn assume(&mut self, pod: &Pod, node: &str, steps: &[ClaimStep]) {
        self.place(Arc::new(Pod { node: Some(node.to_owned()), ..pod.clone() }));
        self.promises.extend(steps.iter().map(|step| (step.claim().clone(), step.clone())));
    }

    /// Takes back what was assumed.
    pub fn forget(&mut self, uid: &str) -> Option<Arc<Pod>> {
        let pod = self.remove(uid)?;
        for claim in &pod.wants.claims {
            self.promises.remove(&pod.claim_key(claim));
        }
        Some(pod)
    }

    /// What a claim has been promised.
    pub fn promised(&self, claim: &Key) -> Option<&ClaimStep> {
        self.promises.get(claim)
    }

    /// Whether a volume has been promised to a claim.
    pub fn is_promised(&self, volume: &str) -> bool {
        self.promises
            .values()
            .any(|step| matches!(step, ClaimStep::Bind { volume: promised, .. } if promised == volume))
    }

    /// Notes how a claim is now. Once it has a volume, what was promised to it is past.
    pub fn claim_is(&mut self, key: Key, claim: PersistentVolumeClaim) {
        if volumes::is_bound(&claim) {
            self.promises.remove(&key);
        }
        self.claims.insert(key, claim);
    }

    /// Forgets a claim that is gone.
    pub fn claim_gone(&mut self, key: &Key) {
        self.promises.remove(key);
        self.claims.remove(key);
    }
}
