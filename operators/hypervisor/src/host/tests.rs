//! Plans of hosts in states that matter, as text.

use std::sync::Arc;

use c5c3_api::hypervisor::Hypervisor;
use c5c3_kit::inputs::Found;
use c5c3_kit::{Controller, Inputs};
use c5c3_openstack::{Clients, Options};
use k8s_openapi::api::core::v1::Secret;
use kube::core::ApiResource;
use serde_json::{Value, json};

use super::Hosts;
use crate::access;
use crate::cloud::{Agents, Answer, Ask, Cloud, Consumers, Guests, HostSeen, Question};
use crate::settings::Settings;

const CLOUDS: &str = "clouds: {openstack: {region_name: south, auth: {auth_url: 'http://keystone/v3', username: a, password: b, \
    project_name: c, user_domain_name: d, project_domain_name: d}}}";

/// A host in this phase, with this spec; `answers` are what is asked beside the host itself.
fn plan(spec: Value, status: Value, service: Value, answers: Vec<(Ask, Answer)>) -> String {
    let object = json!({"apiVersion": "hypervisor.c5c3.io/v1", "kind": "Hypervisor",
        "metadata": {"name": "hv-1.rack", "uid": "u1-x", "generation": 1}, "spec": spec, "status": status});
    let object: Hypervisor = serde_json::from_value(object).unwrap();
    let mut inputs = Inputs::new(object, "2026-01-01T00:00:00Z".parse().unwrap());
    let settings = Arc::new(Settings::default());
    let mut secret = kube::api::DynamicObject::new("k-orc-clouds-yaml", &ApiResource::erase::<Secret>(&()));
    secret.data = json!({"data": {"clouds.yaml": k8s_openapi::ByteString(CLOUDS.into())}});
    inputs.insert(access::secret(&settings.cloud), Found::Object(Box::new(secret)));
    let access = access::read(&inputs, &settings.cloud).unwrap();
    let aggregate = |id: i64, name: &str, hosts: Value| json!({"id": id, "name": name, "hosts": hosts, "metadata": {}});
    let aggregates = json!([aggregate(1, "gold", json!([])), aggregate(2, "tests", json!(["hv-1.rack", "hv-1"]))]);
    let is_there = !service.is_null();
    let host = HostSeen {
        service: serde_json::from_value(service).unwrap(),
        compute: is_there
            .then(|| serde_json::from_value(json!({"id": "rp-1", "service": {"host": "hv-1.rack"}})).unwrap()),
        aggregates: Arc::new(serde_json::from_value(aggregates).unwrap()),
    };
    let all = [(Ask::Host("hv-1.rack".into()), Answer::Host(host))].into_iter().chain(answers);
    for (ask, answer) in all {
        inputs.insert_reply::<Cloud>(Question { access: access.clone(), ask }, Ok(answer));
    }
    let cloud = Arc::new(Cloud::new(Clients::new(Options::default()), (*settings).clone()));
    Hosts::new(settings, cloud).plan(&(), &inputs).golden()
}

fn phase(reason: &str) -> Value {
    let in_progress = !matches!(reason, "Succeeded" | "Aborted");
    json!({"type": "Onboarding", "status": if in_progress { "True" } else { "False" }, "reason": reason, "observedGeneration": 1})
}

fn service(status: &str, reason: Option<&str>) -> Value {
    json!({"id": "s-1", "host": "hv-1.rack", "status": status, "state": "up", "disabled_reason": reason})
}

#[test]
fn traits_are_set_before_the_aggregates_of_a_host_that_is_handed_over() {
    let traits =
        serde_json::from_value(json!({"resource_provider_generation": 7, "traits": ["HW_CPU_X86_AVX2"]})).unwrap();
    let spec = json!({"aggregates": ["gold"], "customTraits": ["CUSTOM_NVME"]});
    let status = json!({"conditions": [phase("Handover")]});
    let answers = vec![(Ask::Traits("rp-1".into()), Answer::Traits(Some(traits)))];
    insta::assert_snapshot!(plan(spec, status, service("enabled", None), answers));
}

#[test]
fn a_host_in_manual_maintenance_is_disabled_before_it_is_drained() {
    let spec = json!({"maintenance": "manual", "maintenanceReason": "new disk"});
    let status = json!({"conditions": [phase("Succeeded")]});
    let traits = serde_json::from_value(json!({"resource_provider_generation": 7, "traits": []})).unwrap();
    let answers = || vec![(Ask::Traits("rp-1".into()), Answer::Traits(Some(Clone::clone(&traits))))];
    insta::assert_snapshot!("enabled", plan(spec.clone(), status.clone(), service("enabled", None), answers()));
    insta::assert_snapshot!(
        "disabled",
        plan(spec, status, service("disabled", Some("c5c3 maintenance manual: new disk")), answers())
    );
}

#[test]
fn allocations_without_a_server_go_before_the_provider() {
    let spec = json!({"maintenance": "termination"});
    let evicting = json!({"type": "Evicting", "status": "False", "reason": "Succeeded"});
    let status = json!({"conditions": [phase("Succeeded"), evicting], "hypervisorId": "rp-1"});
    let answers = |orphans: &[&str]| {
        let orphans = orphans.iter().map(|id| (*id).to_owned()).collect();
        vec![
            (Ask::Guests { host: "hv-1.rack".into(), drain: String::new() }, Answer::Guests(Guests::default())),
            (Ask::Agents("hv-1.rack".into()), Answer::Agents(Agents { pods: Vec::new(), tainted: true })),
            (Ask::Consumers("rp-1".into()), Answer::Consumers(Some(Consumers { servers: Vec::new(), orphans }))),
        ]
    };
    // The Eviction is not there, as after a restart of everything: nothing is deleted before it says that the host is empty.
    let text = plan(spec, status, Value::Null, answers(&["ghost"]));
    assert!(!text.contains("-> delete"), "{text}");
    insta::assert_snapshot!(text);
}
