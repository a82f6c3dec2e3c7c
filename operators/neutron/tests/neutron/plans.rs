//! Plans in full, for objects as people write them.

use c5c3_kit::{Plan, Wait};
use c5c3_operator_neutron::Networking;
use c5c3_stage::{file, secret, waits};
use serde_json::{Value, json};

pub type World = c5c3_stage::World<Networking>;

/// An OVNCluster whose databases answer there.
pub fn ovn(spec: &Value, northbound: &str, southbound: &str) -> Value {
    let ready = json!({"type": "Ready", "status": "True", "reason": "Fine", "message": ""});
    json!({"apiVersion": "ovn.c5c3.io/v1alpha1", "kind": "OVNCluster",
        "metadata": {"name": "ovn", "namespace": "cloud", "generation": 1}, "spec": spec,
        "status": {"endpoints": {"northbound": northbound, "southbound": southbound}, "conditions": [ready]}})
}

/// Everything that a Neutron needs by convention.
pub fn world() -> World {
    let host = |name: &str| format!("{name}.cloud.svc.cluster.local");
    let policy = "\"create_network\": \"role:member\"\n";
    World::with_all(vec![
        ovn(&json!({}), &format!("tcp:{}:6641", host("ovn-nb")), &format!("tcp:{}:6642", host("ovn-sb"))),
        secret("nova-metadata-proxy", &[("shared-secret", "meta$ecret")]),
        secret("keystone-ca", &[("ca.crt", "CA")]),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "neutron-policy", "namespace": "cloud"},
               "data": {"policy.yaml": policy}}),
    ])
}

/// The same, where OVN speaks TLS.
pub fn encrypted(tls: &Value) -> World {
    world()
        .with(ovn(
            &json!({ "tls": tls }),
            "ssl:nb-0.example.net:6641,ssl:nb-1.example.net:6641",
            "ssl:sb.example.net:6642",
        ))
        .with(secret("ovn-tls", &[("tls.crt", "CERTIFICATE"), ("tls.key", "k$y"), ("ca.crt", "AUTHORITY")]))
}

pub fn neutron(spec: &Value) -> Value {
    World::object(spec)
}

const SMALL: &str = include_str!("../../../../examples/neutron/neutron-small.yaml");

fn plan(text: &str) -> Plan {
    world().plan(&World::example(text)).unwrap()
}

fn ml2(world: &World, spec: &Value) -> String {
    file(&world.plan(&neutron(spec)).unwrap(), "gate-config", "ml2_conf.ini")
}

#[test]
fn the_plan_of_a_small_neutron() {
    insta::assert_snapshot!(plan(SMALL).golden());
}

#[test]
fn the_files_of_a_small_neutron() {
    let plan = plan(SMALL);
    let files = ["neutron.conf", "ml2_conf.ini", "api-paste.ini", "uwsgi.ini", "health.json", "entry.json"];
    let text: Vec<String> = files.map(|name| format!("== {name}\n{}", file(&plan, "gate-config", name))).into();
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn no_secret_is_in_anything_but_a_secret() {
    let object = neutron(&json!({"metadataAgent": {}}));
    let text = encrypted(&json!({"enabled": true})).plan(&object).unwrap().golden();
    for value in
        ["db$ecret", "db%24ecret", "app$ecret", "mq$ecret", "mq%24ecret", "meta$ecret", "k$y", "bWV0YSRlY3JldA"]
    {
        assert!(!text.contains(value), "{value}");
    }
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let wrong = neutron(&json!({
        "middleware": [{"name": "audit", "filterFactory": "a:b", "position": {"after": "nowhere"}}],
        "extraConfig": {"ml2": {"mechanism_drivers": "sriovnicswitch", "path_mtus": "9000"}, "ovn": {"ovn_sb_connection": "tcp:x:1"}},
        "policyOverrides": {"rules": {"create_netwrk": "role:admin"}},
    }));
    insta::assert_snapshot!(world().plan(&wrong).unwrap_err());
}

#[test]
fn what_is_missing_is_waited_for_by_name() {
    let names = ["neutron-db-credentials", "neutron-rabbitmq-credentials", "rabbitmq", "keystone", "ovn"];
    let world = names.iter().fold(world(), |world, name| world.without(name));
    insta::assert_snapshot!(waits(&world.plan(&neutron(&json!({}))).unwrap()));
}

/// The waits of a plan, each as its reason and its message.
fn said(plan: &Plan) -> Vec<String> {
    let text = |wait: &Wait| format!("{}: {}", wait.reason(), wait.message(Some("cloud")));
    plan.steps.iter().flat_map(|step| &step.waits).map(text).collect()
}

#[test]
fn an_ovn_without_addresses_is_waited_for_and_pods_stay_as_they_are() {
    let mut young = ovn(&json!({}), "", "");
    young["status"] = json!({});
    let plan = world().with(young).plan(&neutron(&json!({}))).unwrap();
    let said = said(&plan).join("\n");
    assert!(said.contains("WaitingForOVN: ovncluster/ovn has no address of its northbound database yet"), "{said}");
    assert!(said.contains("southbound") && said.contains("kubectl describe ovncluster ovn -n cloud"), "{said}");
    assert!(plan.children().all(|child| child.resource.kind != "Deployment"));
}

#[test]
fn addresses_of_the_neutron_win_over_those_of_the_ovn() {
    let both = json!({"ovn": {"nbConnection": "tcp:192.0.2.1:6641", "sbConnection": "tcp:192.0.2.1:6642"}});
    let text = ml2(&world().without("ovn"), &both);
    assert!(text.contains("ovn_nb_connection = tcp:192.0.2.1:6641\n"), "{text}");
    let one = json!({"ovn": {"nbConnection": "tcp:192.0.2.1:6641", "clusterRef": {"name": "ovn"}}});
    let text = ml2(&world(), &one);
    assert!(text.contains("ovn_nb_connection = tcp:192.0.2.1:6641\n"), "{text}");
    assert!(text.contains("ovn_sb_connection = tcp:ovn-sb.cloud.svc.cluster.local:6642\n"), "{text}");
}

#[test]
fn encrypted_connections_take_the_certificate_of_the_ovn_or_the_one_that_is_named() {
    let world = encrypted(&json!({"enabled": true}));
    let plan = world.plan(&neutron(&json!({}))).unwrap();
    let text = file(&plan, "gate-config", "ml2_conf.ini");
    assert!(text.contains("ovn_nb_connection = ssl:nb-0.example.net:6641,ssl:nb-1.example.net:6641\n"), "{text}");
    assert!(text.contains("ovn_sb_ca_cert = /etc/neutron/ovn-ca.crt\n"), "{text}");
    assert!(text.contains("ovn_nb_private_key = /etc/neutron/ovn.key\n"), "{text}");
    assert_eq!(file(&plan, "gate-config", "ovn.crt"), "CERTIFICATE");
    let own = [("tls.crt", "OWN"), ("tls.key", "k"), ("ca.crt", "A")];
    let plan =
        world.with(secret("mine", &own)).plan(&neutron(&json!({"ovn": {"certSecretRef": {"name": "mine"}}}))).unwrap();
    assert_eq!(file(&plan, "gate-config", "ovn.crt"), "OWN");
}

#[test]
fn a_certificate_of_another_namespace_is_not_read() {
    let mut elsewhere = ovn(&json!({"tls": {"enabled": true}}), "ssl:nb:6641", "ssl:sb:6642");
    elsewhere["metadata"]["namespace"] = "ovn-system".into();
    let object = neutron(&json!({"ovn": {"clusterRef": {"name": "ovn", "namespace": "ovn-system"}}}));
    let plan = encrypted(&json!({"enabled": true})).with(elsewhere).plan(&object).unwrap();
    let said = said(&plan).join("\n");
    assert!(said.contains("NoCertificate") && said.contains("set spec.ovn.certSecretRef"), "{said}");
}

#[test]
fn without_ovn_there_is_neither_its_section_nor_its_worker() {
    let spec = json!({"ovn": {"enabled": false},
        "ml2": {"mechanismDrivers": ["macvtap"], "typeDrivers": ["vlan"], "tenantNetworkTypes": ["vlan"], "vlanRanges": ["a:1:9", "b"]}});
    let plan = world().without("ovn").plan(&neutron(&spec)).unwrap();
    let text = file(&plan, "gate-config", "ml2_conf.ini");
    assert!(!text.contains("[ovn]") && text.contains("network_vlan_ranges = a:1:9,b\n"), "{text}");
    assert!(plan.children().all(|child| child.reference().name != "gate-ovn-maintenance-worker"));
    assert!(file(&plan, "gate-config", "neutron.conf").contains("service_plugins = router,segments"));
}

#[test]
fn sections_of_the_plugin_are_in_its_own_file_whoever_writes_them() {
    let spec = json!({"extraConfig": {"ovn": {"neutron_sync_mode": "repair"}, "quotas": {"quota_network": "7"}},
        "plugins": [{"name": "types", "configSection": "ml2_type_vlan", "config": {"network_vlan_ranges": "public"}}]});
    let plan = world().plan(&neutron(&spec)).unwrap();
    let (main, second) = (file(&plan, "gate-config", "neutron.conf"), file(&plan, "gate-config", "ml2_conf.ini"));
    assert!(
        second.contains("neutron_sync_mode = repair\n") && second.contains("network_vlan_ranges = public\n"),
        "{second}"
    );
    assert!(main.contains("quota_network = 7\n") && !main.contains("[ml2"), "{main}");
}

#[test]
fn the_agent_of_metadata_runs_on_hypervisors_and_has_no_account_of_the_control_plane() {
    let spec = json!({"metadataAgent": {"tolerations": [{"operator": "Exists"}]},
        "extraConfig": {"DEFAULT": {"nova_metadata_protocol": "https", "global_physnet_mtu": "9000"}}});
    let plan = world().plan(&neutron(&spec)).unwrap();
    let set = plan.children().find(|child| child.resource.kind == "DaemonSet").unwrap();
    let pod = serde_json::to_string_pretty(&set.object.data["spec"]["template"]["spec"]).unwrap();
    insta::assert_snapshot!(format!("{pod}\n\n{}", file(&plan, "gate-ovn-metadata", "agent.conf")));
    assert!(file(&plan, "gate-config", "ml2_conf.ini").contains("ovn_metadata_enabled = true\n"));
}

#[test]
fn the_agent_runs_on_nodes_with_taints_unless_the_spec_names_the_ones_that_it_tolerates() {
    let tolerations = |agent: &Value| {
        let plan = world().plan(&neutron(&json!({ "metadataAgent": agent }))).unwrap();
        let set = plan.children().find(|child| child.resource.kind == "DaemonSet").unwrap();
        let pod = &set.object.data["spec"]["template"]["spec"];
        assert_eq!(pod["priorityClassName"], "system-node-critical");
        pod["tolerations"].clone()
    };
    assert_eq!(tolerations(&json!({})), json!([{"operator": "Exists"}]));
    let one = json!([{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]);
    assert_eq!(tolerations(&json!({ "tolerations": one })), one);
}

#[test]
fn the_agent_waits_for_the_secret_that_nova_makes_and_nothing_else_does() {
    let plan = world().without("nova-metadata-proxy").plan(&neutron(&json!({"metadataAgent": {}}))).unwrap();
    let said = said(&plan).join("\n");
    assert!(said.contains("WaitingForNova: secret/nova-metadata-proxy does not exist"), "{said}");
    assert!(plan.children().any(|child| child.reference().name == "gate-api" && child.resource.kind == "Deployment"));
}

/// A Neutron whose API serves, and what it reports.
fn reporting(report: &str) -> Plan {
    let serving = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "gate-api", "namespace": "cloud"},
        "spec": {}, "status": {"availableReplicas": 1}});
    world().with(serving).answering(Ok(report.into())).plan(&neutron(&json!({}))).unwrap()
}

fn connected(plan: &Plan) -> (Vec<String>, String) {
    let step = plan.steps.iter().find(|step| step.condition == "OVNConnected").unwrap();
    let waits = step.waits.iter().map(|wait| format!("{}: {}", wait.reason(), wait.message(Some("cloud"))));
    (waits.collect(), step.done.clone())
}

#[test]
fn pods_say_whether_they_reach_ovn_and_why_not() {
    let report = |northbound: &str, southbound: &str, unmapped: &[&str]| {
        let report = json!({"northbound": northbound, "southbound": southbound, "unmapped": unmapped});
        connected(&reporting(&report.to_string()))
    };
    assert_eq!(report("Connected", "Connected", &[]), (vec![], "both databases answer".into()));
    let (waits, _) = report("Unreachable: failed to connect (Connection refused)", "WrongCA: not of one CA", &[]);
    let at = "deployment/gate-api does not reach OVN's";
    assert_eq!(
        waits[0],
        format!(
            "Unreachable: {at} northbound database: failed to connect (Connection refused); networks are made there"
        )
    );
    assert_eq!(waits[1], format!("WrongCA: {at} southbound database: not of one CA; networks are made there"));
    let (waits, done) = report("Connected", "Connected", &["external"]);
    assert!(waits.is_empty() && done.contains("no chassis has a bridge for external"), "{done}");
    assert!(connected(&reporting("nonsense")).0[0].starts_with("Unreachable: "));
}

#[test]
fn users_filters_are_in_the_pipeline_at_their_positions() {
    let audit = json!({"name": "audit", "filterFactory": "keystonemiddleware.audit:filter_factory", "position": {"after": "authtoken"}});
    let plan = world().plan(&neutron(&json!({ "middleware": [audit] }))).unwrap();
    let paste = file(&plan, "gate-config", "api-paste.ini");
    assert!(paste.contains("osprofiler authtoken audit keystonecontext extensions neutronapiapp_v2_0\n"), "{paste}");
    assert!(paste.contains("/healthcheck = healthcheck\n") && paste.contains("[filter:audit]\n"), "{paste}");
}
