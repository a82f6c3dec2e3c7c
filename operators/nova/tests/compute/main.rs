//! What runs on hypervisors among the nodes of the cluster, and fake ones: DaemonSets and StatefulSets in full, and every field about
//! them.

#[path = "../nova/compute_fields.rs"]
mod compute_fields;

use c5c3_kit::Plan;
use c5c3_operator_nova::Compute;
use c5c3_stage::{file, outcome, secret};
use serde_json::{Value, json};

type World = c5c3_stage::World<Compute>;

fn world() -> World {
    let ceph = |key| [("key", key), ("monitors", "192.0.2.1:3300"), ("fsid", "1111-2222")];
    World::with_all(vec![
        secret("gate-metadata-proxy", &[("shared-secret", "metadata$ecret")]),
        secret("nova-ceph-credentials", &ceph("AQBnova$ecret==")),
        secret("cinder-ceph-credentials", &ceph("AQBcinder$ecret==")),
    ])
}

fn plan(spec: &Value) -> Plan {
    world().plan(&World::object(spec)).unwrap()
}

/// The part of a plan that is about hypervisors.
fn golden(plan: &Plan) -> String {
    let all = plan.golden();
    let steps = all.split("\n== ").filter(|step| step.starts_with("ComputeReady"));
    steps.collect::<Vec<_>>().join("\n== ")
}

/// The spec of a DaemonSet or StatefulSet of a plan.
fn set<'a>(plan: &'a Plan, kind: &str, name: &str) -> &'a Value {
    let is_it = |child: &&c5c3_kit::Child| child.resource.kind == kind && child.reference().name == name;
    &plan.children().find(is_it).unwrap_or_else(|| panic!("no {kind} {name}")).object.data["spec"]
}

fn daemon_set<'a>(plan: &'a Plan, name: &str) -> &'a Value {
    set(plan, "DaemonSet", name)
}

fn names_of(plan: &Plan, kind: &str) -> Vec<String> {
    let sets = plan.children().filter(|child| child.resource.kind == kind);
    sets.map(|child| child.reference().name).collect()
}

fn names(plan: &Plan) -> Vec<String> {
    names_of(plan, "DaemonSet")
}

fn libvirt(spec: &Value, name: &str) -> String {
    file(&plan(spec), "gate-libvirt", name)
}

#[test]
fn the_daemon_sets_of_a_nova_whose_nodes_are_hypervisors() {
    insta::assert_snapshot!(golden(&plan(&json!({"compute": {}}))));
}

#[test]
fn what_nova_compute_is_configured_with_has_no_database() {
    let conf = file(&plan(&json!({"compute": {}})), "gate-compute-cell1-config", "nova.conf");
    assert!(!conf.contains("database") && !conf.contains("db$"), "{conf}");
    insta::assert_snapshot!(conf);
}

#[test]
fn without_the_field_hypervisors_are_elsewhere() {
    let plan = plan(&json!({}));
    assert_eq!(names(&plan), Vec::<String>::new());
    assert!(golden(&plan).contains("ComputeReady"), "the condition is there in any case");
}

#[test]
fn each_cell_with_labels_has_computes_of_its_own_and_all_share_libvirt() {
    let label = |cell: &str| json!({"name": cell, "nodeSelector": {"example.net/cell": cell}});
    let far = json!({"name": "cell3", "computeRef": {"name": "far"}});
    let plan = plan(&json!({"compute": {}, "cells": [label("cell1"), label("cell2"), far]}));
    assert_eq!(names(&plan), ["gate-libvirt", "gate-compute-cell1", "gate-compute-cell2"]);
    let selector = |name: &str| daemon_set(&plan, name)["template"]["spec"]["nodeSelector"].clone();
    let hypervisor = "node-role.kubernetes.io/hypervisor";
    assert_eq!(selector("gate-libvirt"), json!({hypervisor: ""}));
    assert_eq!(selector("gate-compute-cell2"), json!({hypervisor: "", "example.net/cell": "cell2"}));
}

#[test]
fn libvirt_gets_the_keys_of_every_pool_and_no_argument_or_variable_has_one() {
    let rbd = |secret: &str| json!({"cephSecretRef": {"name": secret}});
    let pools = json!([{"user": "cinder", "cephSecretRef": {"name": "cinder-ceph-credentials"}}]);
    let spec =
        json!({"compute": {"volumePools": pools}, "storage": {"backend": "rbd", "rbd": rbd("nova-ceph-credentials")}});
    let plan = plan(&spec);
    let secrets = plan.children().find(|child| child.reference().name.starts_with("gate-libvirt-")).unwrap();
    let files: Vec<&String> = secrets.object.data["data"].as_object().unwrap().keys().collect();
    assert_eq!(files.iter().filter(|name| name.starts_with("secret-") && name.ends_with(".base64")).count(), 2);
    let conf = file(&plan, "gate-compute-cell1-config", "nova.conf");
    let uuid = conf.lines().find_map(|line| line.strip_prefix("rbd_secret_uuid = ")).unwrap();
    assert_eq!(file(&plan, "gate-libvirt", &format!("secret-{uuid}.base64")), "AQBnova$ecret==");
    assert!(!plan.golden().contains("$ecret"));
}

#[test]
fn libvirt_listens_only_for_migrations_and_only_as_asked() {
    let with = |migration: Value| json!({"compute": {"liveMigration": migration}});
    assert!(!libvirt(&json!({"compute": {}}), "libvirtd.conf").contains("listen"));
    assert!(libvirt(&json!({"compute": {}}), "settings.json").contains(r#""listen":false"#));
    let tcp = with(json!({"transport": "tcp"}));
    assert!(libvirt(&tcp, "libvirtd.conf").contains("listen_tcp = 1\nauth_tcp = \"none\"\n"));
    let tls = with(json!({"transport": "tls", "certSecretRef": {"name": "hypervisors"}}));
    assert!(libvirt(&tls, "libvirtd.conf").contains("listen_tls = 1\nlisten_tcp = 0\n"));
    let volumes = daemon_set(&plan(&tls), "gate-libvirt")["template"]["spec"]["volumes"].clone();
    let pki = volumes.as_array().unwrap().iter().find(|volume| volume["name"] == "pki").unwrap();
    assert_eq!(pki["secret"]["secretName"], "hypervisors");
    let conf = file(&plan(&tls), "gate-compute-cell1-config", "nova.conf");
    assert!(conf.contains("live_migration_scheme = tls\nlive_migration_with_native_tls = true\n"), "{conf}");
}

#[test]
fn a_node_is_probed_only_if_nobody_says_what_it_can_do() {
    let init = |virt_type: &str| {
        let plan = plan(&json!({"compute": {"virtType": virt_type}}));
        daemon_set(&plan, "gate-libvirt")["template"]["spec"]["initContainers"].clone()
    };
    assert_eq!(init("auto")[0]["name"], "guest");
    assert_eq!(init("kvm"), Value::Null);
}

#[test]
fn the_stateful_set_of_fake_hypervisors() {
    insta::assert_snapshot!(golden(&plan(&json!({"compute": {"fake": {"replicas": 3}}}))));
}

#[test]
fn fake_hypervisors_are_in_every_cell_of_this_cluster_and_on_any_node() {
    let labelled = json!({"name": "cell2", "nodeSelector": {"example.net/cell": "cell2"}});
    let far = json!({"name": "cell3", "computeRef": {"name": "far"}});
    let plan = plan(&json!({"compute": {"fake": {"replicas": 2}}, "cells": [{"name": "cell1"}, labelled, far]}));
    assert_eq!(names(&plan), Vec::<String>::new(), "there is no libvirt");
    let fake = names_of(&plan, "StatefulSet").into_iter().filter(|name| name.starts_with("gate-fake-"));
    assert_eq!(fake.collect::<Vec<_>>(), ["gate-fake-cell1", "gate-fake-cell2"]);
    let selector = |cell: &str| {
        let set = set(&plan, "StatefulSet", &format!("gate-fake-{cell}"));
        set["template"]["spec"]["nodeSelector"].clone()
    };
    assert_eq!((selector("cell1"), selector("cell2")), (Value::Null, json!({"example.net/cell": "cell2"})));
}

#[test]
fn fake_hypervisors_get_neither_a_database_nor_keys_of_ceph() {
    let rbd = json!({"cephSecretRef": {"name": "nova-ceph-credentials"}});
    let spec = json!({"compute": {"fake": {"replicas": 1}}, "storage": {"backend": "rbd", "rbd": rbd}});
    let plan = plan(&spec);
    let conf = file(&plan, "gate-fake-cell1-config", "nova.conf");
    assert!(conf.contains("compute_driver = fake.FakeDriver\n"), "{conf}");
    assert!(!conf.contains("database") && !conf.contains("db$") && !conf.contains("rbd"), "{conf}");
    let is_it = |child: &&c5c3_kit::Child| child.reference().name.starts_with("gate-fake-cell1-config-");
    let secret = plan.children().find(is_it).unwrap();
    let files: Vec<&String> = secret.object.data["data"].as_object().unwrap().keys().collect();
    assert_eq!(files, ["compute.py", "fake.py", "nova.conf"]);
}

#[test]
fn every_field_about_hypervisors_takes_effect_or_is_refused() {
    let wrong = outcome(&world(), compute_fields::ROWS);
    let about = |line: &&String| line.starts_with("compute") || !line.ends_with("no row is about it");
    assert_eq!(wrong.iter().filter(about).collect::<Vec<_>>(), Vec::<&String>::new());
}
