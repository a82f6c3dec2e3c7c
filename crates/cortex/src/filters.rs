//! The filters: whether a host may take a workload, and if not, why.

use std::fmt;

use crate::host::{Condition, Host};
use crate::in_flight::InFlight;
use crate::params::Params;
use crate::request::{Candidate, Domain, Intent, Policy, Request};
use crate::resources::Resources;
use crate::scheduler::Known;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    StatusConditions,
    CorrectAz,
    HostInstructions,
    ImageProperties,
    Capabilities,
    HasRequestedTraits,
    ExternalCustomer,
    HasAccelerators,
    GroupAffinity,
    GroupAntiAffinity,
    HasEnoughCapacity,
    AllowedProjects,
    AggregateMetadata,
    LiveMigratable,
    RequestedDestination,
    ExcludeHosts,
}

/// What a filter says of a host.
pub(crate) enum Verdict<'a> {
    Keep,
    Drop(Reason<'a>),
    /// It cannot tell; whether the host stays is for the step's failure policy to say.
    Unknown(&'static str),
}

/// Why a host is left out. Put into words only for the hosts that a decision names.
#[derive(Debug)]
pub(crate) enum Reason<'a> {
    Said(&'static str),
    Status(&'static str, Option<&'a str>),
    Zone(&'a str, &'a str),
    Differs(&'static str, &'a str, &'a str),
    TraitMissing(&'a str),
    TraitForbidden(&'a str),
    Group(usize),
    TooSmall { what: &'static str, needs: u64, free: u64, promised: u64 },
    Aggregate(&'a str),
    Lacks(&'static str, &'a str),
}

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Said(what) | Self::Status(what, None) => f.write_str(what),
            Self::Status(what, Some(message)) => write!(f, "{what}: {message}"),
            Self::Zone(is, asked) => write!(f, "is in zone {is}, and {asked} was asked for"),
            Self::Differs(what, is, asked) => write!(f, "has {what} {is}, and {asked} was asked for"),
            Self::TraitMissing(name) => write!(f, "lacks the trait {name}"),
            Self::TraitForbidden(name) => write!(f, "has the trait {name}, which the flavor forbids"),
            Self::Group(members) => write!(f, "has {members} of the server group already"),
            Self::TooSmall { what, needs, free, promised: 0 } => {
                write!(f, "has {free} {what} free, {needs} are needed")
            }
            Self::TooSmall { what, needs, free, promised } => write!(
                f,
                "has {free} {what} free once {promised} are taken by servers that are on their way, {needs} are needed"
            ),
            Self::Aggregate(name) => write!(f, "is in the aggregate {name}, which is for other projects"),
            Self::Lacks(what, name) => write!(f, "lacks the {what} {name}, which the source has"),
        }
    }
}

/// What a filter looks at.
pub(crate) struct Look<'a> {
    pub request: &'a Request,
    pub known: &'a Known,
    pub in_flight: &'a InFlight,
    pub params: &'a Params,
}

const NO_DATA: &str = "nothing is known of the host";

impl Filter {
    /// What the filter says of a host on which `promised` is promised to others. Only asked where the filter applies.
    pub(crate) fn judge<'a>(
        self,
        look: &Look<'a>,
        candidate: &'a Candidate,
        host: Option<&'a Host>,
        promised: Resources,
    ) -> Verdict<'a> {
        let request = look.request;
        // These need nothing but the request.
        match self {
            Self::HostInstructions => return host_instructions(request, candidate),
            Self::ExcludeHosts => {
                let listed = look.params.list("hosts").contains(&candidate.host);
                return drop_if(listed, Reason::Said("is in the list of excluded hosts"));
            }
            Self::GroupAffinity => return group_affinity(look, candidate),
            _ => {}
        }
        let Some(host) = host else { return Verdict::Unknown(NO_DATA) };
        match self {
            Self::StatusConditions => status(request, candidate, host),
            Self::CorrectAz => match (&host.zone, &request.zone) {
                (Some(zone), Some(asked)) => drop_if(zone != asked, Reason::Zone(zone, asked)),
                (None, _) => Verdict::Unknown("its availability zone is not known"),
                (_, None) => Verdict::Keep,
            },
            Self::ImageProperties => image_properties(request, host),
            Self::Capabilities => capabilities(request, host),
            Self::HasRequestedTraits => traits(request, host),
            Self::ExternalCustomer => external_customer(look, host),
            Self::HasAccelerators => {
                let missing = !Host::has(&host.traits, "COMPUTE_ACCELERATORS");
                drop_if(missing, Reason::TraitMissing("COMPUTE_ACCELERATORS"))
            }
            Self::GroupAntiAffinity => anti_affinity(look, host),
            Self::HasEnoughCapacity => capacity(look, host, promised),
            Self::AllowedProjects => {
                let open = host.allowed_projects.is_empty() || Host::has(&host.allowed_projects, &request.project);
                drop_if(!open, Reason::Said("is for other projects"))
            }
            Self::AggregateMetadata => aggregate_metadata(request, host),
            Self::LiveMigratable => live_migratable(look, host),
            Self::RequestedDestination => destination(request, candidate, host),
            Self::HostInstructions | Self::ExcludeHosts | Self::GroupAffinity => Verdict::Keep,
        }
    }

    /// Whether the request asks for anything that the filter is about. If not, a host of which nothing is known passes.
    pub(crate) fn applies(self, request: &Request) -> bool {
        match self {
            Self::GroupAffinity => request.group.as_ref().is_some_and(|g| g.policy == Policy::Affinity),
            Self::CorrectAz => request.zone.is_some(),
            Self::ImageProperties => ["img_hv_type", "hypervisor_type", "hw_architecture", "architecture"]
                .iter()
                .any(|name| request.image.contains_key(*name)),
            Self::Capabilities => request.flavor.extra_specs.keys().any(|name| name.starts_with("capabilities:")),
            Self::HasRequestedTraits => request.flavor.extra_specs.keys().any(|name| is_trait(name).is_some()),
            Self::HasAccelerators => request.flavor.extra_specs.contains_key("accel:device_profile"),
            Self::GroupAntiAffinity => request.group.as_ref().is_some_and(|g| g.policy == Policy::AntiAffinity),
            Self::LiveMigratable => request.intent == Intent::LiveMigrate && request.hints.contains_key("source_host"),
            Self::RequestedDestination => request.destination != crate::request::Destination::default(),
            _ => true,
        }
    }
}

impl Filter {
    /// Whether a promise to another workload can change what the filter says.
    pub(crate) fn counts_promises(self) -> bool {
        matches!(self, Self::GroupAffinity | Self::GroupAntiAffinity | Self::HasEnoughCapacity)
    }
}

fn drop_if(wrong: bool, reason: Reason<'_>) -> Verdict<'_> {
    if wrong { Verdict::Drop(reason) } else { Verdict::Keep }
}

fn host_instructions<'a>(request: &Request, candidate: &Candidate) -> Verdict<'a> {
    if request.ignore_hosts.contains(&candidate.host) {
        return Verdict::Drop(Reason::Said("is to be ignored"));
    }
    let forced = !request.force_hosts.is_empty() || !request.force_nodes.is_empty();
    drop_if(forced && !request.is_forced_onto(candidate), Reason::Said("is not the host that was forced"))
}

/// An administrator may force a server onto a host that is not ready yet: that is how onboarding tests one.
fn status<'a>(request: &Request, candidate: &Candidate, host: &'a Host) -> Verdict<'a> {
    let message = host.message.as_deref();
    if host.terminating == Condition::True {
        return Verdict::Drop(Reason::Status("is terminating", message));
    }
    let moves = matches!(request.intent, Intent::LiveMigrate | Intent::Resize | Intent::Evacuate);
    if request.is_forced_onto(candidate) && !moves {
        return Verdict::Keep;
    }
    if host.disabled == Condition::True {
        return Verdict::Drop(Reason::Status("is disabled", message));
    }
    drop_if(host.ready == Condition::False, Reason::Status("is not ready", message))
}

/// libvirt says `kvm` or `qemu` (without hardware virtualisation), images say either: it is one hypervisor, and Nova calls it QEMU.
fn hypervisor(name: &str) -> &'static str {
    let is = |names: [&str; 2]| names.iter().any(|one| name.eq_ignore_ascii_case(one));
    match () {
        () if is(["kvm", "qemu"]) => "QEMU",
        () if is(["ch", "cloud-hypervisor"]) => "CH",
        () => "",
    }
}

fn image_properties<'a>(request: &'a Request, host: &'a Host) -> Verdict<'a> {
    let property = |names: [&str; 2]| names.iter().find_map(|name| request.image.get(*name));
    if let Some(asked) = property(["img_hv_type", "hypervisor_type"]) {
        let Some(is) = host.hypervisor_type.as_deref() else {
            return Verdict::Unknown("its hypervisor is not known");
        };
        // Cloud Hypervisor runs KVM guests as well.
        let same = hypervisor(asked) == hypervisor(is) || (hypervisor(is) == "CH" && hypervisor(asked) == "QEMU");
        if hypervisor(asked).is_empty() || !same {
            return Verdict::Drop(Reason::Differs("the hypervisor", is, asked));
        }
    }
    if let Some(asked) = property(["hw_architecture", "architecture"]) {
        let Some(is) = host.cpu_arch.as_deref() else { return Verdict::Unknown("its architecture is not known") };
        return drop_if(is != asked, Reason::Differs("the architecture", is, asked));
    }
    Verdict::Keep
}

fn capabilities<'a>(request: &'a Request, host: &'a Host) -> Verdict<'a> {
    for (name, asked) in &request.flavor.extra_specs {
        let Some(capability) = name.strip_prefix("capabilities:") else { continue };
        let (what, is) = match capability {
            "hypervisor_type" => ("the hypervisor", host.hypervisor_type.as_deref()),
            "cpu_arch" | "cpu_info:arch" => ("the architecture", host.cpu_arch.as_deref()),
            _ => return Verdict::Unknown("the flavor names a capability that is not known here"),
        };
        let Some(is) = is else { return Verdict::Unknown("its capabilities are not known") };
        let same = |one: &str| match capability {
            "hypervisor_type" => !hypervisor(one).is_empty() && hypervisor(one) == hypervisor(is),
            _ => one == is,
        };
        match accepts(asked, same) {
            Some(true) => {}
            Some(false) => return Verdict::Drop(Reason::Differs(what, is, asked)),
            None => {
                return Verdict::Unknown("the flavor compares a capability with an operator that is not known here");
            }
        }
    }
    Verdict::Keep
}

/// `QEMU`, `s== QEMU`, `<or> QEMU <or> CH`: whether one of these values is the right one; `None` for other operators.
fn accepts(asked: &str, same: impl Fn(&str) -> bool) -> Option<bool> {
    let mut words = asked.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some("<or>"), ..) => {
            let mut values = asked.split_whitespace().filter(|word| *word != "<or>").peekable();
            values.peek()?;
            Some(values.any(same))
        }
        (Some(one), None, None) | (Some("s==" | "=" | "=="), Some(one), None) => Some(same(one)),
        _ => None,
    }
}

/// The trait of `trait:NAME` or of `trait1:NAME`.
fn is_trait(extra_spec: &str) -> Option<&str> {
    let (group, name) = extra_spec.strip_prefix("trait")?.split_once(':')?;
    group.chars().all(|c| c.is_ascii_digit()).then_some(name)
}

fn traits<'a>(request: &'a Request, host: &'a Host) -> Verdict<'a> {
    for (name, value) in &request.flavor.extra_specs {
        let Some(name) = is_trait(name) else { continue };
        let has = Host::has(&host.traits, name);
        match value.as_str() {
            "required" if !has => return Verdict::Drop(Reason::TraitMissing(name)),
            "forbidden" if has => return Verdict::Drop(Reason::TraitForbidden(name)),
            _ => {}
        }
    }
    Verdict::Keep
}

fn external_customer<'a>(look: &Look<'a>, host: &'a Host) -> Verdict<'a> {
    const EXCLUSIVE: &str = "CUSTOM_EXTERNAL_CUSTOMER_EXCLUSIVE";
    let Some(domain) = look.request.hints.get("domain_name") else { return Verdict::Keep };
    if look.params.list("ignoredDomainNames").contains(domain) {
        return Verdict::Keep;
    }
    let external = look.params.list("domainNamePrefixes").iter().any(|prefix| domain.starts_with(prefix.as_str()));
    match (external, Host::has(&host.traits, EXCLUSIVE)) {
        (true, false) => Verdict::Drop(Reason::TraitMissing(EXCLUSIVE)),
        (false, true) => Verdict::Drop(Reason::Said("is for external customers")),
        _ => Verdict::Keep,
    }
}

/// Members that are on their way count as well: two requests at once must not split a group.
fn group_affinity<'a>(look: &Look<'a>, candidate: &Candidate) -> Verdict<'a> {
    let Some(group) = look.request.group.as_ref().filter(|group| group.policy == Policy::Affinity) else {
        return Verdict::Keep;
    };
    let others = group.members.iter().filter(|member| **member != look.request.workload);
    let mut on_their_way = others.filter_map(|member| look.in_flight.host_of(member)).peekable();
    if group.hosts.is_empty() && on_their_way.peek().is_none() {
        return Verdict::Keep;
    }
    let there = group.hosts.contains(&candidate.host) || on_their_way.any(|host| host == candidate.host);
    drop_if(!there, Reason::Said("is not where its server group is"))
}

/// Members of the group on a host, and on their way to it.
pub(crate) fn members_on(look: &Look<'_>, host: &Host) -> usize {
    let Some(group) = &look.request.group else { return 0 };
    let others = group.members.iter().filter(|member| **member != look.request.workload);
    others
        .filter(|member| Host::has(&host.instances, member) || look.in_flight.host_of(member) == Some(&host.name))
        .count()
}

fn anti_affinity<'a>(look: &Look<'a>, host: &'a Host) -> Verdict<'a> {
    let Some(group) = &look.request.group else { return Verdict::Keep };
    // The request names hosts of members that the inventory may not have seen yet.
    let members = members_on(look, host).max(usize::from(group.hosts.contains(&host.name)));
    let already_here = Host::has(&host.instances, &look.request.workload);
    let full = members as u64 >= group.max_server_per_host.max(1);
    drop_if(full && !already_here, Reason::Group(members))
}

/// What others have on a host.
pub(crate) fn allocated(request: &Request, host: &Host) -> Resources {
    if request.options.assume_empty_hosts { Resources::default() } else { host.allocated }
}

/// What is promised to others on a host, as far as it counts.
pub(crate) fn promised(request: &Request, in_flight: &InFlight, host: &Host) -> Resources {
    if request.options.ignore_in_flight || request.options.assume_empty_hosts {
        return Resources::default();
    }
    in_flight.on(&host.name, &request.workload)
}

fn capacity<'a>(look: &Look<'a>, host: &'a Host, promised: Resources) -> Verdict<'a> {
    let allocated = allocated(look.request, host);
    let (needs, has) = (look.request.resources, host.capacity);
    let all = [
        ("vCPU", needs.vcpus, has.vcpus, allocated.vcpus, promised.vcpus),
        ("MiB of memory", needs.memory_mib, has.memory_mib, allocated.memory_mib, promised.memory_mib),
        ("GiB of disk", needs.disk_gib, has.disk_gib, allocated.disk_gib, promised.disk_gib),
    ];
    for (what, needs, has, allocated, promised) in all {
        if needs == 0 {
            continue;
        }
        let Some(has) = has else {
            // A Hypervisor object tells nothing of disks, which may well be on Ceph; Placement counts them.
            if what == "GiB of disk" && look.request.domain == Domain::Nova {
                continue;
            }
            return Verdict::Unknown("its capacity is not known");
        };
        let free = has.saturating_sub(allocated.saturating_add(promised));
        if needs > free {
            return Verdict::Drop(Reason::TooSmall { what, needs, free, promised });
        }
    }
    Verdict::Keep
}

fn aggregate_metadata<'a>(request: &'a Request, host: &'a Host) -> Verdict<'a> {
    let mut restricting = None;
    for aggregate in &host.aggregates {
        let lists = aggregate.metadata.iter().filter(|(name, _)| name.starts_with("filter_tenant_id"));
        for (_, projects) in lists {
            if projects.split(',').any(|project| project.trim() == request.project) {
                return Verdict::Keep;
            }
            restricting = Some(aggregate.name.as_str());
        }
    }
    restricting.map_or(Verdict::Keep, |name| Verdict::Drop(Reason::Aggregate(name)))
}

fn live_migratable<'a>(look: &Look<'a>, host: &'a Host) -> Verdict<'a> {
    let source = look.request.hints.get("source_host").and_then(|name| look.known.host(look.request.domain, name));
    let Some(source) = source else { return Verdict::Unknown("nothing is known of the source host") };
    if let (Some(is), Some(was)) = (&host.cpu_arch, &source.cpu_arch)
        && is != was
    {
        return Verdict::Drop(Reason::Differs("the architecture", is, was));
    }
    let sets = [
        ("CPU mode", &source.cpu_modes, &host.cpu_modes),
        ("feature", &source.features, &host.features),
        ("device", &source.devices, &host.devices),
    ];
    for (what, needed, there) in sets {
        if let Some(missing) = needed.iter().find(|name| !Host::has(there, name)) {
            return Verdict::Drop(Reason::Lacks(what, missing));
        }
    }
    Verdict::Keep
}

fn destination<'a>(request: &'a Request, candidate: &Candidate, host: &'a Host) -> Verdict<'a> {
    let asked = &request.destination;
    if asked.host.as_ref().is_some_and(|name| *name != candidate.host) {
        return Verdict::Drop(Reason::Said("is not the host that was asked for"));
    }
    let node = candidate.node.as_ref().unwrap_or(&candidate.host);
    if asked.node.as_ref().is_some_and(|name| name != node) {
        return Verdict::Drop(Reason::Said("is not the node that was asked for"));
    }
    let is_in = |uuid: &String| host.aggregates.iter().any(|one| one.uuid.as_ref() == Some(uuid));
    if !asked.aggregates.iter().all(|any| any.iter().any(is_in)) {
        return Verdict::Drop(Reason::Said("is not in the aggregates that were asked for"));
    }
    drop_if(asked.forbidden_aggregates.iter().any(is_in), Reason::Said("is in an aggregate that the request forbids"))
}
