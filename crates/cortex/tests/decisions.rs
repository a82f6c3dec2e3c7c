//! What the scheduler decides, and what it says about it.

use std::collections::BTreeSet;

use c5c3_cortex::{
    Aggregate, Amounts, Candidate, Condition, Decision, Destination, Detector, Domain, Group, Host, Intent, OnFailure,
    Param, Pipeline, PipelineSpec, Policy, Request, Resources, Role, Scheduler, SchedulingError, StepSpec, find, known,
};

const HOUR: u64 = 3_600_000;

fn size(vcpus: u64, memory_mib: u64) -> Resources {
    Resources { vcpus, memory_mib, disk_gib: 0 }
}

fn host(name: &str, memory_mib: u64) -> Host {
    Host {
        name: name.into(),
        zone: Some("orchard".into()),
        ready: Condition::True,
        cpu_arch: Some("x86_64".into()),
        hypervisor_type: Some("qemu".into()),
        capacity: Amounts { vcpus: Some(64), memory_mib: Some(memory_mib), disk_gib: None },
        ..Host::default()
    }
}

fn scheduler(hosts: impl IntoIterator<Item = Host>) -> Scheduler {
    let mut scheduler = Scheduler::new(HOUR);
    hosts.into_iter().for_each(|host| scheduler.put_host(Domain::Nova, host));
    scheduler
}

fn request(workload: &str, memory_mib: u64, hosts: &[&str]) -> Request {
    let offer = |host: &&str| Candidate { host: (*host).into(), node: Some((*host).into()), weight: 0.0 };
    Request {
        resources: size(1, memory_mib),
        candidates: hosts.iter().map(offer).collect(),
        ..Request::new(Domain::Nova, workload)
    }
}

fn pipeline(scheduler: &mut Scheduler, spec: &PipelineSpec) {
    scheduler.put_pipeline(spec).unwrap();
}

/// The only reason that the only host was left out for.
fn refusal(decision: &Decision) -> &str {
    assert_eq!(decision.target(), None, "{}", decision.explanation());
    let filter = decision.filters.iter().find(|filter| filter.removed > 0).unwrap();
    &filter.named[0].reason
}

/// What the built-in pipeline says of a host that this request is offered.
fn verdict(host: Host, change: impl FnOnce(&mut Request)) -> Decision {
    let name = host.name.clone();
    let mut request = request("plum-1", 100, &[&name]);
    change(&mut request);
    scheduler([host]).decide(&request, 0).unwrap()
}

#[test]
fn the_emptier_host_is_taken_and_the_words_say_why() {
    let mut full = host("plum", 8192);
    full.allocated = size(32, 4096);
    let mut scheduler = scheduler([full, host("pear", 8192), host("fig", 1024)]);
    let decision = scheduler.decide(&request("a", 2048, &["plum", "pear", "fig"]), 0).unwrap();
    assert_eq!(decision.names(), ["pear", "plum"]);
    assert_eq!(
        decision.explanation(),
        "pear is the best of 2 hosts that can take 1 vCPU, 2048 MiB of memory (3 offered). \
         filter_has_enough_capacity left out 1 host: fig has 1024 MiB of memory free, 2048 are needed. \
         It scores 1.000, before plum with 0.000: weigher_general_purpose_balancing +1.000."
    );
}

#[test]
fn memory_counts_to_the_mib() {
    let mut scheduler = scheduler([host("plum", 4096)]);
    assert_eq!(scheduler.decide(&request("a", 4095, &["plum"]), 0).unwrap().target(), Some("plum"));
    let second = scheduler.decide(&request("b", 2, &["plum"]), 0).unwrap();
    assert_eq!(
        refusal(&second),
        "has 1 MiB of memory free once 4095 are taken by servers that are on their way, 2 are needed"
    );
    assert_eq!(scheduler.decide(&request("c", 1, &["plum"]), 0).unwrap().target(), Some("plum"));
}

#[test]
fn a_host_with_more_allocated_than_it_has_takes_nothing() {
    let mut shrunken = host("plum", 4096);
    shrunken.allocated = size(1, 5000);
    assert_eq!(refusal(&verdict(shrunken, |_| {})), "has 0 MiB of memory free, 100 are needed");
}

#[test]
fn a_promise_ends_when_the_server_arrives_when_it_is_decided_on_again_and_when_it_expires() {
    let ask = |scheduler: &mut Scheduler, workload: &str, now: u64| {
        let decision = scheduler.decide(&request(workload, 3000, &["plum"]), now).unwrap();
        decision.target().map(str::to_owned)
    };
    let mut scheduler = scheduler([host("plum", 4096)]);
    assert!(ask(&mut scheduler, "a", 0).is_some());
    assert!(ask(&mut scheduler, "b", 0).is_none(), "the room is a's");
    assert!(ask(&mut scheduler, "a", 1).is_some(), "a's own promise does not stand in its way");
    assert!(ask(&mut scheduler, "b", HOUR).is_none());
    assert!(ask(&mut scheduler, "b", HOUR + 1).is_some(), "a never came");

    let mut arrived = host("plum", 4096);
    arrived.instances = Host::names(["b"]);
    scheduler.put_host(Domain::Nova, arrived);
    assert!(scheduler.in_flight().is_empty(), "b is part of the host's allocation now");
}

#[test]
fn only_asking_promises_nothing() {
    let mut scheduler = scheduler([host("plum", 4096)]);
    let mut asked = request("a", 4096, &["plum"]);
    asked.options.read_only = true;
    let decision = scheduler.decide(&asked, 0).unwrap();
    assert_eq!((decision.target(), decision.promised, decision.recorded), (Some("plum"), false, false));
    assert!(scheduler.in_flight().is_empty());
    asked.options = c5c3_cortex::Options { skip_in_flight: true, ..Default::default() };
    assert!(scheduler.decide(&asked, 0).unwrap().recorded);
    assert!(scheduler.in_flight().is_empty());
}

#[test]
fn a_capacity_probe_sees_empty_hosts() {
    let mut scheduler = scheduler([host("plum", 4096)]);
    scheduler.decide(&request("a", 4096, &["plum"]), 0).unwrap();
    let mut probe = request("b", 4096, &["plum"]);
    assert_eq!(scheduler.look(&probe).unwrap().target(), None);
    probe.options.ignore_in_flight = true;
    assert_eq!(scheduler.look(&probe).unwrap().target(), Some("plum"));
    probe.options = c5c3_cortex::Options { assume_empty_hosts: true, ..Default::default() };
    assert_eq!(scheduler.look(&probe).unwrap().target(), Some("plum"));
}

#[test]
fn equal_hosts_are_in_the_order_of_their_names_whatever_the_order_of_the_offer() {
    let mut scheduler = scheduler(["c", "a", "b"].map(|name| host(name, 4096)));
    for offer in [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]] {
        let decision = scheduler.look(&request("x", 10, &offer)).unwrap();
        assert_eq!(decision.names(), ["a", "b", "c"]);
        assert!(decision.explanation().ends_with("3 hosts weigh the same; the first by name is taken."));
    }
    let mut limited = request("x", 10, &["c", "b", "a"]);
    limited.options.max_candidates = 2;
    assert_eq!(scheduler.decide(&limited, 0).unwrap().names(), ["a", "b"]);
}

#[test]
fn the_weights_of_nova_keep_their_order_however_large_they_are() {
    let scheduler = scheduler(["a", "b", "c"].map(|name| host(name, 4096)));
    let mut weighed = request("x", 10, &["a", "b", "c"]);
    for weights in [[50.0, 60.0, -1e9], [0.0, f64::MAX, f64::MIN], [1e-300, 2e-300, 0.0]] {
        for (candidate, weight) in weighed.candidates.iter_mut().zip(weights) {
            candidate.weight = weight;
        }
        assert_eq!(scheduler.look(&weighed).unwrap().names(), ["b", "a", "c"], "{weights:?}");
    }
}

#[test]
fn a_negative_multiplier_turns_a_weigher_around() {
    let hosts = || [host("small", 1000), host("large", 9000)];
    for (multiplier, first) in [(1.0, "large"), (-1.0, "small")] {
        let mut scheduler = scheduler(hosts());
        pipeline(&mut scheduler, &PipelineSpec::new("nova", Domain::Nova).weigher("RAMWeigher", multiplier));
        assert_eq!(scheduler.look(&request("x", 10, &["small", "large"])).unwrap().target(), Some(first));
    }
}

#[test]
fn weighers_prefer_what_they_say() {
    let mut packed = host("packed", 4096);
    packed.allocated = size(8, 2048);
    packed.instances = Host::names(["x", "y"]);
    let large = host("large", 65536);
    let cases = [
        ("kvm_binpack", "packed"),
        ("weigher_general_purpose_balancing", "large"),
        ("kvm_prefer_smaller_hosts", "packed"),
        ("RAMWeigher", "large"),
        ("CPUWeigher", "large"),
        ("NumInstancesWeigher", "packed"),
    ];
    for (weigher, first) in cases {
        let mut scheduler = scheduler([packed.clone(), large.clone()]);
        pipeline(&mut scheduler, &PipelineSpec::new("nova", Domain::Nova).weigher(weigher, 1.0));
        let decision = scheduler.look(&request("z", 10, &["packed", "large"])).unwrap();
        assert_eq!(decision.target(), Some(first), "{weigher}");
    }
}

#[test]
fn a_step_that_cannot_judge_a_host_fails_as_it_was_told_to() {
    let decide = |step: StepSpec, weigher: Option<StepSpec>| {
        let mut scheduler = scheduler([host("known", 4096)]);
        let mut spec = PipelineSpec::new("nova", Domain::Nova);
        spec.filters.push(step);
        spec.weighers.extend(weigher);
        pipeline(&mut scheduler, &spec);
        scheduler.decide(&request("x", 10, &["known", "stranger"]), 0)
    };
    let capacity = || StepSpec::new("filter_has_enough_capacity");
    let closed = decide(capacity(), None).unwrap();
    assert_eq!(closed.names(), ["known"]);
    assert_eq!(closed.filters[0].named[0].reason, "cannot be judged: nothing is known of the host");
    let open = decide(capacity().on_failure(OnFailure::Open), None).unwrap();
    assert_eq!(open.names(), ["known", "stranger"]);
    assert!(open.explanation().contains("filter_has_enough_capacity could not judge 1 host and let them pass."));

    let open = || capacity().on_failure(OnFailure::Open);
    let packing = |multiplier| Some(StepSpec::new("kvm_binpack").multiplier(multiplier));
    assert_eq!(decide(open(), packing(-1.0)).unwrap().names(), ["known", "stranger"], "the unknown host is last");
    let closed = packing(1.0).map(|step| step.on_failure(OnFailure::Closed));
    assert_eq!(
        decide(open(), closed).unwrap_err().to_string(),
        "kvm_binpack fails closed and cannot judge 1 hosts, stranger among them"
    );
}

#[test]
fn a_forced_server_may_go_to_a_host_that_is_not_ready_but_not_to_one_that_leaves() {
    let unready = || Host { ready: Condition::False, message: Some("Onboarding".into()), ..host("plum", 4096) };
    assert_eq!(refusal(&verdict(unready(), |_| {})), "is not ready: Onboarding");
    let force = |request: &mut Request| request.force_hosts = BTreeSet::from(["plum".into()]);
    assert_eq!(verdict(unready(), force).target(), Some("plum"));
    let moved = |request: &mut Request| {
        force(request);
        request.intent = Intent::LiveMigrate;
    };
    assert_eq!(refusal(&verdict(unready(), moved)), "is not ready: Onboarding");
    let leaving = Host { terminating: Condition::True, ..host("plum", 4096) };
    assert_eq!(refusal(&verdict(leaving, force)), "is terminating");
    let disabled = Host { disabled: Condition::True, ..host("plum", 4096) };
    assert_eq!(refusal(&verdict(disabled, |_| {})), "is disabled");
    let silent = Host { ready: Condition::Unknown, ..host("plum", 4096) };
    assert_eq!(verdict(silent, |_| {}).target(), Some("plum"), "a condition that nobody wrote counts as good");
}

type Change = fn(&mut Request);
type Shape = fn(&mut Host);

/// What each filter of the built-in pipeline says; an empty refusal is none.
#[test]
fn each_filter_leaves_out_what_it_is_about() {
    fn spec(request: &mut Request, name: &str, value: &str) {
        request.flavor.extra_specs.insert(name.into(), value.into());
    }
    fn in_aggregate(host: &mut Host) {
        let metadata = [("filter_tenant_id_2".to_owned(), "red, blue".to_owned())].into();
        host.aggregates = vec![Aggregate { name: "reserved".into(), uuid: Some("u-1".into()), metadata }];
    }
    let cases: &[(Shape, Change, &str)] = &[
        (|_| {}, |r| r.zone = Some("meadow".into()), "is in zone orchard, and meadow was asked for"),
        (|_| {}, |r| r.zone = Some("orchard".into()), ""),
        (
            |h| h.zone = None,
            |r| r.zone = Some("orchard".into()),
            "cannot be judged: its availability zone is not known",
        ),
        (|_| {}, |r| r.ignore_hosts = BTreeSet::from(["plum".into()]), "is to be ignored"),
        (|_| {}, |r| r.force_hosts = BTreeSet::from(["pear".into()]), "is not the host that was forced"),
        (|_| {}, |r| r.force_nodes = BTreeSet::from(["plum".into()]), ""),
        (|_| {}, |r| drop(r.image.insert("img_hv_type".into(), "kvm".into())), ""),
        (
            |_| {},
            |r| drop(r.image.insert("img_hv_type".into(), "vmware".into())),
            "has the hypervisor qemu, and vmware was asked for",
        ),
        (
            |_| {},
            |r| drop(r.image.insert("hw_architecture".into(), "aarch64".into())),
            "has the architecture x86_64, and aarch64 was asked for",
        ),
        (|_| {}, |r| spec(r, "capabilities:hypervisor_type", "QEMU"), ""),
        (|h| h.hypervisor_type = Some("kvm".into()), |r| spec(r, "capabilities:hypervisor_type", "QEMU"), ""),
        (|_| {}, |r| spec(r, "capabilities:hypervisor_type", "CH"), "has the hypervisor qemu, and CH was asked for"),
        (|_| {}, |r| spec(r, "capabilities:hypervisor_type", "<or> CH <or> QEMU"), ""),
        (|_| {}, |r| spec(r, "capabilities:cpu_arch", "s== x86_64"), ""),
        (
            |_| {},
            |r| spec(r, "capabilities:vcpus", ">= 4"),
            "cannot be judged: the flavor names a capability that is not known here",
        ),
        (|_| {}, |r| spec(r, "trait:CUSTOM_NVME", "required"), "lacks the trait CUSTOM_NVME"),
        (|h| h.traits = Host::names(["CUSTOM_NVME"]), |r| spec(r, "trait:CUSTOM_NVME", "required"), ""),
        (
            |h| h.traits = Host::names(["CUSTOM_NVME"]),
            |r| spec(r, "trait1:CUSTOM_NVME", "forbidden"),
            "has the trait CUSTOM_NVME, which the flavor forbids",
        ),
        (|_| {}, |r| spec(r, "accel:device_profile", "gpu"), "lacks the trait COMPUTE_ACCELERATORS"),
        (|h| h.allowed_projects = Host::names(["red"]), |_| {}, "is for other projects"),
        (|h| h.allowed_projects = Host::names(["red"]), |r| r.project = "red".into(), ""),
        (in_aggregate, |r| r.project = "green".into(), "is in the aggregate reserved, which is for other projects"),
        (in_aggregate, |r| r.project = "blue".into(), ""),
        (
            |_| {},
            |r| r.destination = Destination { host: Some("pear".into()), ..Destination::default() },
            "is not the host that was asked for",
        ),
        (
            in_aggregate,
            |r| {
                r.project = "red".into();
                r.destination.forbidden_aggregates = BTreeSet::from(["u-1".into()]);
            },
            "is in an aggregate that the request forbids",
        ),
        (
            |_| {},
            |r| r.destination.aggregates = vec![BTreeSet::from(["u-1".into(), "u-2".into()])],
            "is not in the aggregates that were asked for",
        ),
    ];
    for (index, (shape, change, refused)) in cases.iter().enumerate() {
        let mut plum = host("plum", 4096);
        shape(&mut plum);
        let decision = verdict(plum, change);
        match *refused {
            "" => assert_eq!(decision.target(), Some("plum"), "case {index}: {}", decision.explanation()),
            words => assert_eq!(refusal(&decision), words, "case {index}"),
        }
    }
}

#[test]
fn groups_count_members_that_are_on_their_way() {
    let group = |policy| Group {
        policy,
        members: ["a", "b", "c"].map(str::to_owned).into(),
        hosts: BTreeSet::new(),
        max_server_per_host: 1,
    };
    let ask = |scheduler: &mut Scheduler, workload: &str, policy| {
        let asked = Request { group: Some(group(policy)), ..request(workload, 10, &["plum", "pear"]) };
        scheduler.decide(&asked, 0).unwrap().target().map(str::to_owned)
    };
    let hosts = || ["plum", "pear"].map(|name| host(name, 4096));
    let mut apart = scheduler(hosts());
    let first = ask(&mut apart, "a", Policy::AntiAffinity);
    let second = ask(&mut apart, "b", Policy::AntiAffinity);
    assert!(first.is_some() && second.is_some() && first != second);
    assert_eq!(ask(&mut apart, "c", Policy::AntiAffinity), None);

    for policy in [Policy::Affinity, Policy::SoftAffinity] {
        let mut together = scheduler(hosts());
        let first = ask(&mut together, "a", policy);
        assert_eq!(ask(&mut together, "b", policy), first, "{policy:?}");
    }
}

#[test]
fn a_live_migration_needs_what_the_source_has() {
    let mut source = host("source", 4096);
    source.features = Host::names(["sev"]);
    let mut scheduler = scheduler([source, host("plum", 4096)]);
    let mut asked = request("a", 10, &["plum"]);
    asked.intent = Intent::LiveMigrate;
    asked.hints.insert("source_host".into(), "source".into());
    assert_eq!(refusal(&scheduler.decide(&asked, 0).unwrap()), "lacks the feature sev, which the source has");
    asked.hints.insert("source_host".into(), "gone".into());
    let unknown = scheduler.decide(&asked, 0).unwrap();
    assert_eq!(refusal(&unknown), "cannot be judged: nothing is known of the source host");
}

#[test]
fn the_pipeline_is_chosen_by_name_by_flavor_and_by_what_an_administrator_wrote() {
    let mut scheduler = scheduler([host("plum", 4096)]);
    let chosen = |scheduler: &Scheduler, change: Change| {
        let mut asked = request("a", 10, &["plum"]);
        change(&mut asked);
        scheduler.look(&asked).map(|decision| decision.pipeline)
    };
    let hana: Change =
        |r| drop(r.flavor.extra_specs.insert("trait:CUSTOM_HANA_EXCLUSIVE_HOST".into(), "required".into()));
    let vmware: Change = |r| {
        r.flavor.extra_specs.insert("capabilities:hypervisor_type".into(), "VMware vCenter Server".into());
    };
    assert_eq!(chosen(&scheduler, |_| {}).unwrap(), "kvm-general-purpose-load-balancing");
    assert_eq!(chosen(&scheduler, hana).unwrap(), "kvm-hana-bin-packing");
    assert_eq!(
        chosen(&scheduler, vmware).unwrap_err().to_string(),
        "there is no pipeline vmware-general-purpose-load-balancing for nova that is ready"
    );
    let odd: Change = |r| drop(r.flavor.extra_specs.insert("capabilities:hypervisor_type".into(), "xen".into()));
    assert!(matches!(chosen(&scheduler, odd), Err(SchedulingError::NoPipeline(_))));
    pipeline(&mut scheduler, &PipelineSpec::new("nova", Domain::Nova));
    assert_eq!(chosen(&scheduler, |_| {}).unwrap(), "nova");
    assert_eq!(chosen(&scheduler, |r| r.pipeline = "kvm-hana-bin-packing".into()).unwrap(), "kvm-hana-bin-packing");
    let missing = chosen(&scheduler, |r| r.pipeline = "cinder-external-scheduler".into());
    assert!(matches!(missing, Err(SchedulingError::PipelineMissing { .. })), "it is another domain's");
    scheduler.remove_pipeline("nova");
    assert_eq!(chosen(&scheduler, |_| {}).unwrap(), "kvm-general-purpose-load-balancing");
}

#[test]
fn a_pipeline_with_mistakes_is_refused_with_all_of_them_and_the_old_one_stays() {
    let mut scheduler = scheduler([host("plum", 4096)]);
    pipeline(&mut scheduler, &PipelineSpec::new("nova", Domain::Nova).weigher("RAMWeigher", 1.0));
    let mut wrong = PipelineSpec::new("nova", Domain::Nova).filters([
        "AvailabilityZoneFiler",
        "RAMWeigher",
        "filter_correct_az",
        "AvailabilityZoneFilter",
        "xyz",
    ]);
    wrong.weighers.push(StepSpec::new("weigher_capacity").multiplier(f64::NAN));
    let mut binpack = StepSpec::new("kvm_binpack");
    binpack.params.0.insert("resourceWeights".into(), Param::Text("much".into()));
    binpack.params.0.insert("speed".into(), Param::Switch(true));
    wrong.weighers.push(binpack);
    let said: Vec<String> = scheduler
        .put_pipeline(&wrong)
        .unwrap_err()
        .iter()
        .map(|problem| format!("{}: {}: {}", problem.path, problem.what, problem.fix))
        .collect();
    assert_eq!(
        said,
        [
            "filters[0].name: no filter is called AvailabilityZoneFiler: did you mean AvailabilityZoneFilter?",
            "filters[1].name: no filter is called RAMWeigher: it is a weigher; list it under weighers",
            "filters[3].name: filter_correct_az is there twice: remove one of them",
            "filters[4].name: no filter is called xyz: docs/cortex.md lists every filter",
            "weighers[0].name: weigher_capacity knows nothing of nova: remove it",
            "weighers[0].multiplier: is not a finite number: write a number such as 1.0",
            "weighers[1].params.resourceWeights: is a string: write a map of numbers with the keys cpu and memory",
            "weighers[1].params.speed: kvm_binpack has no such parameter: it has resourceWeights",
        ]
    );
    assert_eq!(scheduler.look(&request("a", 10, &["plum"])).unwrap().weighers.len(), 2, "the old one still runs");
}

#[test]
fn every_step_is_found_by_each_of_its_names_and_no_name_means_two() {
    let mut seen = BTreeSet::new();
    for step in known() {
        for name in std::iter::once(step.name).chain(step.aliases.iter().copied()) {
            assert_eq!(find(step.role(), name).unwrap().name, step.name);
            assert!(seen.insert(name), "{name} is the name of two steps");
        }
        let spec = PipelineSpec::new("all", step.domains[0]);
        let is_right = match step.role() {
            Role::Filter => Pipeline::compile(&spec.filters([step.name])).is_ok(),
            Role::Weigher => Pipeline::compile(&spec.weigher(step.name, 1.0)).is_ok(),
            Role::Detector => {
                let mut detector = StepSpec::new(step.name);
                detector.params.0.insert("threshold".into(), Param::Number(50.0));
                Detector::compile(&[detector], step.domains[0]).is_ok()
            }
        };
        assert!(is_right, "{}", step.name);
    }
}

#[test]
fn params_reach_their_steps() {
    let mut scheduler = scheduler(["plum", "pear"].map(|name| host(name, 4096)));
    let mut exclude = StepSpec::new("filter_exclude_hosts");
    exclude.params.0.insert("hosts".into(), Param::List(vec!["pear".into()]));
    let mut customers = StepSpec::new("filter_external_customer");
    customers.params.0.insert("domainNamePrefixes".into(), Param::List(vec!["ext-".into()]));
    let spec = PipelineSpec { filters: vec![exclude, customers], ..PipelineSpec::new("nova", Domain::Nova) };
    pipeline(&mut scheduler, &spec);
    let mut asked = request("a", 10, &["plum", "pear"]);
    assert_eq!(scheduler.look(&asked).unwrap().names(), ["plum"]);
    asked.hints.insert("domain_name".into(), "ext-red".into());
    let decision = scheduler.look(&asked).unwrap();
    assert!(decision.explanation().contains("plum lacks the trait CUSTOM_EXTERNAL_CUSTOMER_EXCLUSIVE"));
}

#[test]
fn what_a_decision_holds_is_bounded() {
    let names: Vec<String> = (0..5000).map(|index| format!("host-{index:04}")).collect();
    let offered: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut scheduler = scheduler(names.iter().map(|name| host(name, 64)));
    let decision = scheduler.decide(&request("a", 1000, &offered), 0).unwrap();
    let capacity = decision.filters.iter().find(|filter| filter.removed > 0).unwrap();
    assert_eq!((capacity.removed, capacity.named.len()), (5000, 20));
    assert!(decision.explanation().len() < 500, "{}", decision.explanation());
    assert!(decision.explanation().starts_with("None of the 5000 hosts offered can take 1 vCPU, 1000 MiB of memory."));
}
