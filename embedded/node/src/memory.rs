//! What only this process knows of a pod: results of probes, waits, why containers are not there. Lost on a restart.

use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::Timestamp;

use crate::back_off::BackOffs;
use crate::observe::Observed;

/// One pod's.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    /// What the probes say, by the container's identifier.
    pub(crate) health: HashMap<String, Health>,
    /// The waits between restarts, by the container's name.
    pub(crate) crashes: BackOffs,
    /// The waits between pulls, by image.
    pub(crate) pulls: BackOffs,
    /// When a pull of an image failed last, and why.
    pub(crate) failed_pulls: HashMap<String, (Timestamp, String)>,
    /// Why a container is not started now, by its name.
    pub(crate) holds: BTreeMap<String, Hold>,
    /// Why nothing of the pod is started now: no volume, no sandbox.
    pub(crate) pod_hold: Option<PodHold>,
    /// Containers whose `preStop` hook has run: it runs once, also when the stop is interrupted by a shorter grace.
    pub(crate) pre_stopped: HashSet<String>,
    /// The mounts of a pod that is over are undone.
    pub(crate) is_clean: bool,
    /// Why the pod is over, other than by its containers.
    pub(crate) verdict: Option<Verdict>,
}

impl Memory {
    /// Forgets what was known of containers that are not there any more.
    pub(crate) fn forget_all_but(&mut self, observed: &Observed) {
        let is_there = |id: &String| observed.containers.iter().any(|container| container.id == *id);
        self.health.retain(|id, _| is_there(id));
        self.pre_stopped.retain(is_there);
    }

    /// Lets everything be tried again that a change may help.
    pub(crate) fn end_holds(&mut self) {
        let holds = self.holds.values_mut().filter(|hold| hold.ends_with_change);
        holds.for_each(|hold| hold.until = Timestamp::MIN);
        if let Some(hold) = self.pod_hold.as_mut().filter(|hold| hold.ends_with_change) {
            hold.until = Timestamp::MIN;
        }
    }
}

/// What the probes say of one run of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Health {
    /// The startup probe has succeeded.
    pub(crate) has_started: bool,
    /// The last word of the readiness probe.
    pub(crate) is_ready: bool,
    /// The liveness or startup probe wants it killed.
    pub(crate) failed: Option<Failed>,
}

/// The probe that has a container killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failed {
    Liveness,
    Startup,
}

/// A container that could not be started: as its status says it, and when it is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) until: Timestamp,
    /// A change of what the pod refers to may help: it is tried again then.
    pub(crate) ends_with_change: bool,
}

/// A pod of which nothing can be started, and when it is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodHold {
    pub(crate) until: Timestamp,
    /// How often it has failed in a row.
    pub(crate) failures: u32,
    /// A change of what the pod refers to may help: it is tried again then.
    pub(crate) ends_with_change: bool,
}

/// The end of a pod by the node's own decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) reason: String,
    pub(crate) message: String,
}
