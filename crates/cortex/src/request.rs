//! What a scheduler is asked: where to put one workload, and which hosts are offered for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::resources::Resources;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Domain {
    /// Nova, for servers.
    Nova,
    /// Cinder, for volumes.
    Cinder,
    /// Manila, for shares.
    Manila,
}

impl Domain {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Nova, Self::Cinder, Self::Manila];

    /// As paths and objects spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nova => "nova",
            Self::Cinder => "cinder",
            Self::Manila => "manila",
        }
    }

    /// Reads a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|domain| domain.as_str() == name)
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a host is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Intent {
    /// The request does not say; Nova says nothing when it creates a server.
    #[default]
    Unknown,
    /// A new server.
    Create,
    /// The same host, with another image.
    Rebuild,
    /// Another flavor, or a cold migration.
    Resize,
    /// A live migration.
    LiveMigrate,
    /// The host failed.
    Evacuate,
}

impl Intent {
    /// Reads the hint `_nova_check_type`.
    pub fn parse(hint: Option<&str>) -> Self {
        match hint {
            None => Self::Unknown,
            Some("rebuild") => Self::Rebuild,
            Some("resize") => Self::Resize,
            Some("live_migrate") => Self::LiveMigrate,
            Some("evacuate") => Self::Evacuate,
            Some(_) => Self::Create,
        }
    }

    /// As decisions spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Create => "create",
            Self::Rebuild => "rebuild",
            Self::Resize => "resize",
            Self::LiveMigrate => "live_migrate",
            Self::Evacuate => "evacuate",
        }
    }
}

/// A host that is offered.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Name of the host.
    pub host: String,
    /// Name of the node on it; the host's own for libvirt.
    pub node: Option<String>,
    /// How the asking service weighs it.
    pub weight: f64,
}

/// What a server is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flavor {
    /// Name of the flavor.
    pub name: String,
    /// Its extra specs, such as `trait:HW_CPU_X86_AVX2`.
    pub extra_specs: BTreeMap<String, String>,
}

/// A server group's policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// All on one host.
    Affinity,
    /// Each on another host.
    AntiAffinity,
    /// On one host if possible.
    SoftAffinity,
    /// On different hosts if possible.
    SoftAntiAffinity,
}

/// The server group that a server is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its policy.
    pub policy: Policy,
    /// Ids of all its members.
    pub members: BTreeSet<String>,
    /// Hosts that members are on.
    pub hosts: BTreeSet<String>,
    /// How many members one host may have under anti-affinity.
    pub max_server_per_host: u64,
}

/// Where the workload was asked to go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Destination {
    /// Only this host.
    pub host: Option<String>,
    /// Only this node.
    pub node: Option<String>,
    /// Aggregates, by UUID: one of each entry.
    pub aggregates: Vec<BTreeSet<String>>,
    /// Aggregates that the host must not be in.
    pub forbidden_aggregates: BTreeSet<String>,
}

/// How the question is meant.
#[allow(clippy::struct_excessive_bools)] // Each is one option of the API, and any of them go together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Only asks: nothing is promised and no decision is recorded.
    pub read_only: bool,
    /// Hosts count as empty.
    pub assume_empty_hosts: bool,
    /// Promises to other workloads do not count.
    pub ignore_in_flight: bool,
    /// At most so many hosts in the answer; all when 0.
    pub max_candidates: usize,
    /// Nothing is recorded.
    pub skip_history: bool,
    /// Nothing is promised.
    pub skip_in_flight: bool,
}

/// The question where one workload goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Who asks.
    pub domain: Domain,
    /// Id of the workload; empty if the asking service gave none.
    pub workload: String,
    /// Its name, where the request has it: Cinder sends it, Nova does not.
    pub name: Option<String>,
    /// Id of its project.
    pub project: String,
    /// Why it is asked.
    pub intent: Intent,
    /// What one workload needs.
    pub resources: Resources,
    /// Availability zone, if one was asked for.
    pub zone: Option<String>,
    /// What a server is made of.
    pub flavor: Flavor,
    /// Properties of the image, such as `img_hv_type`.
    pub image: BTreeMap<String, String>,
    /// Scheduler hints, each with its first value.
    pub hints: BTreeMap<String, String>,
    /// Hosts that must not be taken.
    pub ignore_hosts: BTreeSet<String>,
    /// The only hosts that may be taken, if any are named.
    pub force_hosts: BTreeSet<String>,
    /// The only nodes that may be taken, if any are named.
    pub force_nodes: BTreeSet<String>,
    /// Where the workload was asked to go.
    pub destination: Destination,
    /// Its server group.
    pub group: Option<Group>,
    /// The hosts that are offered.
    pub candidates: Vec<Candidate>,
    /// Name of the pipeline; the scheduler chooses when empty.
    pub pipeline: String,
    /// How the question is meant.
    pub options: Options,
}

impl Request {
    /// A request without any wishes.
    pub fn new(domain: Domain, workload: impl Into<String>) -> Self {
        Self {
            domain,
            workload: workload.into(),
            name: None,
            project: String::new(),
            intent: Intent::default(),
            resources: Resources::default(),
            zone: None,
            flavor: Flavor::default(),
            image: BTreeMap::new(),
            hints: BTreeMap::new(),
            ignore_hosts: BTreeSet::new(),
            force_hosts: BTreeSet::new(),
            force_nodes: BTreeSet::new(),
            destination: Destination::default(),
            group: None,
            candidates: Vec::new(),
            pipeline: String::new(),
            options: Options::default(),
        }
    }

    /// Whether an administrator forced the workload onto a host, as onboarding does with its test server.
    pub(crate) fn is_forced_onto(&self, candidate: &Candidate) -> bool {
        self.force_hosts.contains(&candidate.host)
            || candidate.node.as_ref().is_some_and(|node| self.force_nodes.contains(node))
    }
}
