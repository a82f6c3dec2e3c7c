//! Why a node does not do for a pod, or none does, in the words that Kubernetes users know.

use std::fmt;

/// Why a node does not do, or why none does whatever the node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reason {
    /// The node is cordoned.
    Cordoned,
    /// The node has a taint that the pod does not tolerate.
    Taint {
        /// The taint's key.
        key: String,
        /// Its value, often none.
        value: String,
    },
    /// The pod's selector or affinity asks for another node.
    NotChosen,
    /// The pod names its nodes, and this is none of them.
    NotNamed,
    /// The pod names nodes that cannot all be meant.
    Contradiction,
    /// Another pod has the port.
    Ports,
    /// The node takes no more pods.
    TooManyPods,
    /// The node has not enough left.
    Insufficient {
        /// Of what.
        resource: String,
        /// Whether it would be too little with no one there.
        even_when_empty: bool,
    },
    /// Another pod has the claim for itself.
    ClaimInUse,
    /// The volume of a bound claim is not for this node.
    VolumeElsewhere,
    /// The volume of a bound claim is in another zone.
    VolumeZone,
    /// The volume of a bound claim does not exist.
    VolumeMissing,
    /// No volume can be had here for a claim that waits for its pod.
    NoVolume,
    /// A claim that waits for no one is not bound yet.
    ClaimUnbound,
    /// A claim does not exist.
    ClaimMissing {
        /// Its name.
        claim: String,
        /// Whether it is one that is made for the pod.
        is_ephemeral: bool,
    },
    /// A claim has lost its volume.
    ClaimLost {
        /// Its name.
        claim: String,
        /// The volume that it had.
        volume: String,
    },
    /// A claim is going.
    ClaimDeleting {
        /// Its name.
        claim: String,
    },
    /// The node lacks a label that pods are to be spread by.
    SpreadLabel,
    /// Here, the pods would be spread too unevenly.
    Spread,
    /// The pods that it must be near are not here.
    NotNear,
    /// A pod that it must be far from is here.
    NotFar,
    /// A pod that is here must be far from it.
    Unwanted,
}

/// Which rule a reason comes from: what has to change for another try to make sense.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Rule {
    /// There is no node at all.
    Nodes,
    /// Cordons and taints.
    Taints,
    /// The pod's choice of nodes.
    Choice,
    /// Ports of the node.
    Ports,
    /// Resources.
    Resources,
    /// Claims and volumes.
    Volumes,
    /// Spread constraints.
    Spread,
    /// Affinity and anti-affinity between pods.
    Neighbours,
}

impl Reason {
    /// The rule that it comes from.
    pub fn rule(&self) -> Rule {
        match self {
            Self::Cordoned | Self::Taint { .. } => Rule::Taints,
            Self::NotChosen | Self::NotNamed | Self::Contradiction => Rule::Choice,
            Self::Ports => Rule::Ports,
            Self::TooManyPods | Self::Insufficient { .. } => Rule::Resources,
            Self::ClaimInUse
            | Self::VolumeElsewhere
            | Self::VolumeZone
            | Self::VolumeMissing
            | Self::NoVolume
            | Self::ClaimUnbound
            | Self::ClaimMissing { .. }
            | Self::ClaimLost { .. }
            | Self::ClaimDeleting { .. } => Rule::Volumes,
            Self::SpreadLabel | Self::Spread => Rule::Spread,
            Self::NotNear | Self::NotFar | Self::Unwanted => Rule::Neighbours,
        }
    }

    /// Whether it could be otherwise if some of the pods on the node were not there.
    pub fn is_due_to_pods(&self) -> bool {
        match self {
            Self::Insufficient { even_when_empty, .. } => !even_when_empty,
            Self::Ports | Self::TooManyPods | Self::ClaimInUse | Self::Spread | Self::NotFar | Self::Unwanted => true,
            _ => false,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Taint { key, value } => return write!(f, "node(s) had untolerated taint {{{key}: {value}}}"),
            Self::Insufficient { resource, .. } => return write!(f, "Insufficient {resource}"),
            Self::ClaimMissing { claim, is_ephemeral: true } => {
                return write!(
                    f,
                    "waiting for ephemeral volume controller to create the persistentvolumeclaim {claim:?}"
                );
            }
            Self::ClaimMissing { claim, .. } => return write!(f, "persistentvolumeclaim {claim:?} not found"),
            Self::ClaimLost { claim, volume } => {
                return write!(f, "persistentvolumeclaim {claim:?} bound to non-existent persistentvolume {volume:?}");
            }
            Self::ClaimDeleting { claim } => return write!(f, "persistentvolumeclaim {claim:?} is being deleted"),
            Self::Cordoned => "node(s) were unschedulable",
            Self::NotChosen => "node(s) didn't match Pod's node affinity/selector",
            Self::NotNamed => "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            Self::Contradiction => "pod affinity terms conflict",
            Self::Ports => "node(s) didn't have free ports for the requested pod ports",
            Self::TooManyPods => "Too many pods",
            Self::ClaimInUse => {
                "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
            }
            Self::VolumeElsewhere => "node(s) didn't match PersistentVolume's node affinity",
            Self::VolumeZone => "node(s) had no available volume zone",
            Self::VolumeMissing => "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
            Self::NoVolume => "node(s) didn't find available persistent volumes to bind",
            Self::ClaimUnbound => "pod has unbound immediate PersistentVolumeClaims",
            Self::SpreadLabel => "node(s) didn't match pod topology spread constraints (missing required label)",
            Self::Spread => "node(s) didn't match pod topology spread constraints",
            Self::NotNear => "node(s) didn't match pod affinity rules",
            Self::NotFar => "node(s) didn't match pod anti-affinity rules",
            Self::Unwanted => "node(s) didn't satisfy existing pods anti-affinity rules",
        })
    }
}
