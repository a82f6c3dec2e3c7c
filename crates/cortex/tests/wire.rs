//! What Nova, Cinder and Manila send, and what they get.

use c5c3_cortex::wire::{WireError, answer, read};
use c5c3_cortex::{Candidate, Domain, Intent, Policy, Resources};
use serde_json::{Value, json};

fn object(name: &str, data: &Value) -> Value {
    json!({"nova_object.name": name, "nova_object.namespace": "nova", "nova_object.version": "1.14",
           "nova_object.changes": [], "nova_object.data": data})
}

fn flavor(change: &Value) -> Value {
    let mut data = json!({
        "id": 1, "name": "plum.small", "memory_mb": 2048, "vcpus": 2, "root_gb": 10, "ephemeral_gb": 5,
        "swap": 1025, "flavorid": "f", "rxtx_factor": 1.0, "disabled": false, "extra_specs": {"hw:cpu_policy": "shared"},
    });
    for (field, value) in change.as_object().unwrap() {
        data[field] = value.clone();
    }
    object("Flavor", &data)
}

/// A request as Nova 2025.2 sends one, with changes to its spec.
fn body(change: &Value) -> Value {
    let properties =
        object("ImageMetaProps", &json!({"hw_architecture": "x86_64", "hw_disk_bus": "virtio", "hw_cpu_cores": 2}));
    let mut spec = json!({
        "project_id": "red", "user_id": "someone", "instance_uuid": "s-1", "availability_zone": "orchard",
        "num_instances": 3, "is_bfv": false, "scheduler_hints": {}, "ignore_hosts": null, "force_hosts": null,
        "force_nodes": null, "flavor": flavor(&json!({})),
        "image": object("ImageMeta", &json!({"id": "i", "name": "tiny", "min_ram": 0, "properties": properties})),
        "requested_destination": null, "instance_group": null, "numa_topology": null, "limits": object("SchedulerLimits", &json!({})),
    });
    for (field, value) in change.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({
        "spec": object("RequestSpec", &spec),
        "context": {"user": "someone", "request_id": "req-1"},
        "hosts": [{"host": "plum", "hypervisor_hostname": "plum.example"}, {"host": "pear", "hypervisor_hostname": "pear.example"}],
        "weights": {"plum": 1.5, "pear": 0},
    })
}

fn nova(body: &Value) -> Result<c5c3_cortex::Request, WireError> {
    read(Domain::Nova, body.to_string().as_bytes())
}

#[test]
fn a_request_of_nova_is_read_as_placement_counts() {
    let request = nova(&body(&json!({}))).unwrap();
    assert_eq!((request.workload.as_str(), request.project.as_str()), ("s-1", "red"));
    assert_eq!(
        request.resources,
        Resources { vcpus: 2, memory_mib: 2048, disk_gib: 17 },
        "one server, swap rounded up"
    );
    assert_eq!(request.zone.as_deref(), Some("orchard"));
    assert_eq!(request.intent, Intent::Unknown);
    assert_eq!(request.image.get("hw_architecture").map(String::as_str), Some("x86_64"));
    let plum = Candidate { host: "plum".into(), node: Some("plum.example".into()), weight: 1.5 };
    assert_eq!(request.candidates[0], plum);
    let from_volume = nova(&body(&json!({"is_bfv": true}))).unwrap();
    assert_eq!(from_volume.resources.disk_gib, 7);
    let own = flavor(&json!({"extra_specs": {"resources:VCPU": "0", "resources:MEMORY_MB": "4096"}}));
    assert_eq!(nova(&body(&json!({"flavor": own}))).unwrap().resources.memory_mib, 4096);
}

#[test]
fn hints_groups_and_destinations_are_read() {
    let group = json!({"policy": "anti-affinity", "policies": ["anti-affinity"], "members": ["s-1", "s-2"],
                       "hosts": ["plum"], "_rules": {"max_server_per_host": 2.0}});
    let destination =
        json!({"host": null, "node": null, "aggregates": ["u-1,u-2", "u-3"], "forbidden_aggregates": ["u-4"]});
    let request = nova(&body(&json!({
        "scheduler_hints": {"_nova_check_type": ["live_migrate"], "source_host": "fig", "odd": {}},
        "instance_group": object("InstanceGroup", &group),
        "requested_destination": object("Destination", &destination),
        "force_hosts": ["plum"],
    })))
    .unwrap();
    assert_eq!(request.intent, Intent::LiveMigrate);
    assert_eq!(request.hints.get("source_host").map(String::as_str), Some("fig"));
    let group = request.group.unwrap();
    assert_eq!((group.policy, group.members.len(), group.max_server_per_host), (Policy::AntiAffinity, 2, 2));
    assert_eq!(request.destination.aggregates.len(), 2);
    assert_eq!(request.destination.aggregates[0].len(), 2);
    assert!(request.destination.forbidden_aggregates.contains("u-4"));
    assert!(request.force_hosts.contains("plum"));
}

#[test]
fn options_are_read_and_may_be_absent() {
    let mut asked = body(&json!({}));
    asked["options"] = json!({"read_only": true, "max_candidates": 2, "lock_reservations": true,
                              "ignored_reservation_types": ["InFlightReservation"]});
    asked["pipeline"] = json!("kvm-hana-bin-packing");
    let request = nova(&asked).unwrap();
    assert!(request.options.read_only && request.options.ignore_in_flight && !request.options.assume_empty_hosts);
    assert_eq!((request.options.max_candidates, request.pipeline.as_str()), (2, "kvm-hana-bin-packing"));
    asked["options"] = Value::Null;
    asked["pipeline"] = Value::Null;
    assert_eq!(nova(&asked).unwrap().options, c5c3_cortex::Options::default());
}

#[test]
fn what_is_no_request_is_refused_with_a_reason() {
    let mut missing = body(&json!({}));
    missing["weights"] = json!({"plum": 1.0});
    assert_eq!(nova(&missing).unwrap_err().to_string(), "missing weight for host pear");
    let mut unknown = body(&json!({}));
    unknown["weights"]["fig"] = json!(1.0);
    assert_eq!(nova(&unknown).unwrap_err().to_string(), "weight for unknown host fig");
    let mut twice = body(&json!({}));
    twice["hosts"][1] = json!({"host": "plum"});
    twice["weights"] = json!({"plum": 1.0});
    assert_eq!(nova(&twice).unwrap_err().to_string(), "host plum is offered twice");
    assert!(matches!(read(Domain::Nova, b"{"), Err(WireError::Undecodable(_))));
    assert!(matches!(
        read(Domain::Nova, br#"{"spec": {}, "hosts": null, "weights": {}}"#),
        Err(WireError::Undecodable(_))
    ));
    let none = json!({"spec": {}, "hosts": [], "weights": {}});
    assert_eq!(nova(&none).unwrap_err().to_string(), "the request has no flavor");
    let negative = body(&json!({"flavor": flavor(&json!({"memory_mb": -1}))}));
    assert_eq!(nova(&negative).unwrap_err().to_string(), "memory_mb is -1, which is no amount");
}

#[test]
fn a_request_of_cinder_and_of_manila_is_read() {
    let hosts = json!([{"host": "ceph@rbd#fast"}]);
    let weights = json!({"ceph@rbd#fast": 1});
    let cinder = json!({"spec": {"volume_id": "v-1", "volume_properties": {"size": 20, "project_id": "red", "availability_zone": "orchard", "display_name": "plum-data"}},
                        "context": {}, "hosts": hosts, "weights": weights});
    let request = read(Domain::Cinder, cinder.to_string().as_bytes()).unwrap();
    assert_eq!((request.workload.as_str(), request.resources.disk_gib, request.project.as_str()), ("v-1", 20, "red"));
    assert_eq!(request.name.as_deref(), Some("plum-data"));
    let manila =
        json!({"spec": {"share_id": "m-1", "share_properties": {"size": 5}}, "hosts": hosts, "weights": weights});
    let request = read(Domain::Manila, manila.to_string().as_bytes()).unwrap();
    assert_eq!((request.workload.as_str(), request.resources.disk_gib), ("m-1", 5));
    let versioned = json!({"spec": {"cinder_object.data": {"volume_id": "v-2", "volume_properties": {"cinder_object.data": {"size": 7}}}},
                           "hosts": [], "weights": {}});
    assert_eq!(read(Domain::Cinder, versioned.to_string().as_bytes()).unwrap().resources.disk_gib, 7);
}

#[test]
fn an_answer_without_hosts_is_an_empty_list() {
    assert_eq!(answer(&[]).to_string(), r#"{"hosts":[]}"#);
}
