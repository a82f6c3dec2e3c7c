//! The catalogue of steps: every filter, weigher and detector by its name, its other names, and its parameters.

use crate::detectors::Load;
use crate::filters::Filter;
use crate::params::Param;
use crate::request::Domain;
use crate::weighers::Weigher;

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Leaves hosts out.
    Filter,
    /// Puts hosts in order.
    Weigher,
    /// Finds hosts that carry too much.
    Detector,
}

impl Role {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Filter, Self::Weigher, Self::Detector];

    /// For messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Weigher => "weigher",
            Self::Detector => "detector",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Filter(Filter),
    Weigher(Weigher),
    Detector(Load),
}

/// One step of the catalogue.
#[derive(Debug)]
pub struct StepInfo {
    /// Its name.
    pub name: &'static str,
    /// Other names of it: Nova's, Cinder's, and those of Cortex's documents.
    pub aliases: &'static [&'static str],
    /// The domains whose workloads it can judge.
    pub domains: &'static [Domain],
    /// Names of its parameters, each with an example that has the right type.
    pub(crate) params: &'static [(&'static str, ParamType)],
    /// What it does, in a sentence.
    pub rule: &'static str,
    pub(crate) kind: Kind,
}

impl StepInfo {
    /// What it does.
    pub fn role(&self) -> Role {
        match self.kind {
            Kind::Filter(_) => Role::Filter,
            Kind::Weigher(_) => Role::Weigher,
            Kind::Detector(_) => Role::Detector,
        }
    }
}

/// The type that a parameter must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParamType {
    List,
    Weights,
    Percent,
    Count,
}

impl ParamType {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::List => "a list of strings",
            Self::Weights => "a map of numbers with the keys cpu and memory",
            Self::Percent => "a percentage from 1 to 100",
            Self::Count => "a number from 1 to 10000",
        }
    }

    pub(crate) fn takes(self, param: &Param) -> bool {
        match (self, param) {
            (Self::List, Param::List(_)) => true,
            (Self::Percent, Param::Number(number)) => (1.0..=100.0).contains(number),
            (Self::Count, Param::Number(number)) => (1.0..=10_000.0).contains(number),
            (Self::Weights, Param::Weights(weights)) => {
                let known = |name: &String| ["cpu", "memory"].contains(&name.as_str());
                weights.keys().all(known)
                    && weights.values().all(|weight| weight.is_finite() && *weight >= 0.0)
                    && weights.values().any(|weight| *weight > 0.0)
            }
            _ => false,
        }
    }
}

const NOVA: &[Domain] = &[Domain::Nova];
const ALL: &[Domain] = &Domain::ALL;
const VOLUMES: &[Domain] = &[Domain::Cinder, Domain::Manila];

const fn filter(name: &'static str, aliases: &'static [&'static str], kind: Filter, rule: &'static str) -> StepInfo {
    StepInfo { name, aliases, domains: NOVA, params: &[], rule, kind: Kind::Filter(kind) }
}

const fn weigher(name: &'static str, aliases: &'static [&'static str], kind: Weigher, rule: &'static str) -> StepInfo {
    StepInfo { name, aliases, domains: NOVA, params: &[], rule, kind: Kind::Weigher(kind) }
}

const fn detector(
    name: &'static str,
    of: &'static [(&'static str, ParamType)],
    kind: Load,
    rule: &'static str,
) -> StepInfo {
    StepInfo { name, aliases: &[], domains: NOVA, params: of, rule, kind: Kind::Detector(kind) }
}

static STEPS: &[StepInfo] = &[
    filter(
        "filter_status_conditions",
        &["ComputeFilter"],
        Filter::StatusConditions,
        "the host is ready, enabled and not terminating; a host that an administrator forces may be not ready",
    ),
    filter(
        "filter_correct_az",
        &["AvailabilityZoneFilter"],
        Filter::CorrectAz,
        "the host is in the availability zone that was asked for",
    ),
    StepInfo {
        domains: ALL,
        ..filter(
            "filter_host_instructions",
            &[],
            Filter::HostInstructions,
            "ignore_hosts, force_hosts and force_nodes of the request",
        )
    },
    filter(
        "filter_image_properties",
        &["ImagePropertiesFilter"],
        Filter::ImageProperties,
        "the image is for the host's hypervisor and architecture",
    ),
    filter(
        "filter_capabilities",
        &["ComputeCapabilitiesFilter"],
        Filter::Capabilities,
        "the flavor's capabilities:hypervisor_type and capabilities:cpu_arch are the host's",
    ),
    filter(
        "filter_has_requested_traits",
        &[],
        Filter::HasRequestedTraits,
        "the host has the flavor's required traits and none of its forbidden ones",
    ),
    StepInfo {
        params: &[("domainNamePrefixes", ParamType::List), ("ignoredDomainNames", ParamType::List)],
        ..filter(
            "filter_external_customer",
            &[],
            Filter::ExternalCustomer,
            "projects of domains with these prefixes use hosts with CUSTOM_EXTERNAL_CUSTOMER_EXCLUSIVE, and no others do",
        )
    },
    filter(
        "filter_has_accelerators",
        &[],
        Filter::HasAccelerators,
        "a flavor with accel:device_profile needs the trait COMPUTE_ACCELERATORS",
    ),
    filter(
        "filter_instance_group_affinity",
        &["ServerGroupAffinityFilter"],
        Filter::GroupAffinity,
        "a server of a group with affinity goes where the group is",
    ),
    filter(
        "filter_instance_group_anti_affinity",
        &["ServerGroupAntiAffinityFilter"],
        Filter::GroupAntiAffinity,
        "a host has fewer members of the group than max_server_per_host",
    ),
    StepInfo {
        domains: ALL,
        ..filter(
            "filter_has_enough_capacity",
            &["CapacityFilter"],
            Filter::HasEnoughCapacity,
            "what is free, without what was promised to others, is enough",
        )
    },
    filter("filter_allowed_projects", &[], Filter::AllowedProjects, "the host takes servers of the project"),
    filter(
        "filter_aggregate_metadata",
        &["AggregateMultiTenancyIsolation"],
        Filter::AggregateMetadata,
        "an aggregate with filter_tenant_id takes servers of those projects",
    ),
    filter(
        "filter_live_migratable",
        &[],
        Filter::LiveMigratable,
        "a live migration goes to a host that has what the source has",
    ),
    filter(
        "filter_requested_destination",
        &[],
        Filter::RequestedDestination,
        "the host, node and aggregates that the request names, and none of those that it forbids",
    ),
    StepInfo {
        domains: ALL,
        params: &[("hosts", ParamType::List)],
        ..filter("filter_exclude_hosts", &[], Filter::ExcludeHosts, "the host is not in the list")
    },
    weigher("weigher_ram", &["RAMWeigher"], Weigher::FreeMemory, "free memory in MiB"),
    weigher("weigher_cpu", &["CPUWeigher"], Weigher::FreeCpus, "free vCPUs"),
    StepInfo { domains: ALL, ..weigher("weigher_disk", &["DiskWeigher"], Weigher::FreeDisk, "free disk in GiB") },
    StepInfo {
        domains: VOLUMES,
        ..weigher("weigher_capacity", &["CapacityWeigher"], Weigher::FreeDisk, "free capacity in GiB")
    },
    weigher("weigher_num_instances", &["NumInstancesWeigher"], Weigher::Instances, "how many servers the host has"),
    StepInfo {
        params: &[("resourceWeights", ParamType::Weights)],
        ..weigher(
            "weigher_general_purpose_balancing",
            &["kvm_balance"],
            Weigher::Balance,
            "the share of CPU and memory that is free once the server is there",
        )
    },
    StepInfo {
        params: &[("resourceWeights", ParamType::Weights)],
        ..weigher(
            "kvm_binpack",
            &["weigher_binpack"],
            Weigher::Binpack,
            "the share of CPU and memory that is taken once the server is there",
        )
    },
    StepInfo {
        params: &[("resourceWeights", ParamType::Weights)],
        ..weigher(
            "kvm_prefer_smaller_hosts",
            &["weigher_prefer_smaller_hosts"],
            Weigher::SmallerHosts,
            "the smaller the host, the better",
        )
    },
    weigher(
        "kvm_instance_group_soft_affinity",
        &["ServerGroupSoftAffinityWeigher", "ServerGroupSoftAntiAffinityWeigher"],
        Weigher::GroupSoftAffinity,
        "members of the group on the host, for soft affinity; against it, for soft anti-affinity",
    ),
    detector(
        "avoid_high_memory_pct",
        &[("threshold", ParamType::Percent)],
        Load::Memory,
        "a larger share of the host's memory is taken than the threshold; 90 when absent",
    ),
    detector(
        "avoid_high_cpu_pct",
        &[("threshold", ParamType::Percent)],
        Load::Cpu,
        "a larger share of the host's vCPUs is taken than the threshold; 90 when absent",
    ),
    detector(
        "avoid_many_instances",
        &[("threshold", ParamType::Count)],
        Load::Instances,
        "the host has more servers than the threshold",
    ),
];

/// Every step there is.
pub fn known() -> impl Iterator<Item = &'static StepInfo> {
    STEPS.iter()
}

/// The step of that name, or of that other name.
pub fn find(role: Role, name: &str) -> Option<&'static StepInfo> {
    known().find(|step| step.role() == role && (step.name == name || step.aliases.contains(&name)))
}

/// The known name that is most like `name`, of steps that do this in that domain.
pub fn hint(role: Role, domain: Domain, name: &str) -> Option<&'static str> {
    let fitting = known().filter(|step| step.role() == role && step.domains.contains(&domain));
    let names = fitting.flat_map(|step| std::iter::once(step.name).chain(step.aliases.iter().copied()));
    let likeness = |one: &str| strsim::jaro_winkler(&name.to_lowercase(), &one.to_lowercase());
    names.max_by(|a, b| likeness(a).total_cmp(&likeness(b))).filter(|best| likeness(best) > 0.7)
}
