//! Plans in full, for objects as people write them.

use c5c3_kit::Plan;
use c5c3_operator_nova::Compute;
use c5c3_stage::{file, secret, waits};
use serde_json::{Value, json};

pub type World = c5c3_stage::World<Compute>;

/// Everything that a Nova needs by convention.
pub fn world() -> World {
    let policy = "\"os_compute_api:servers:create\": \"role:member\"\n";
    World::with_all(vec![
        secret("gate-metadata-proxy", &[("shared-secret", "meta$ecret")]),
        secret("nova-api-db-credentials", &[("username", "clerk"), ("password", "api$ecret")]),
        secret(
            "nova-ceph-credentials",
            &[("key", "AQBceph$ecret=="), ("monitors", "192.0.2.1:3300"), ("fsid", "1111-2222")],
        ),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "nova-policy", "namespace": "cloud"},
               "data": {"policy.yaml": policy}}),
    ])
}

pub fn nova(spec: &Value) -> Value {
    World::object(spec)
}

/// A Nova with a second cell on a database and a broker of its own.
fn two_cells() -> Value {
    nova(&json!({"cells": [{"name": "cell1"}, {"name": "cell2",
        "database": {"host": "db.example.net", "secretRef": {"name": "nova-api-db-credentials"}},
        "messaging": {"hosts": ["mq1.example.net:5672", "mq2.example.net:5672"]}}]}))
}

const SMALL: &str = include_str!("../../../../examples/nova/nova-small.yaml");

const SECRETS: &[&str] = &[
    "db$ecret",
    "db%24ecret",
    "app$ecret",
    "mq$ecret",
    "mq%24ecret",
    "ceph$ecret",
    "api$ecret",
    "api%24ecret",
    "meta$ecret",
];

fn plan(text: &str) -> Plan {
    world().plan(&World::example(text)).unwrap()
}

fn conf(spec: &Value) -> String {
    file(&world().plan(spec).unwrap(), "gate-config", "nova.conf")
}

/// The text of a Secret of this name, which is none of a configuration.
fn text(plan: &Plan, secret: &str, key: &str) -> Option<String> {
    let child = plan.children().find(|child| child.resource.kind == "Secret" && child.reference().name == secret)?;
    let data: k8s_openapi::ByteString = serde_json::from_value(child.object.data["data"][key].clone()).ok()?;
    String::from_utf8(data.0).ok()
}

fn sets(plan: &Plan) -> Vec<String> {
    let sets = plan.children().filter(|child| child.resource.kind == "StatefulSet");
    sets.map(|child| child.reference().name).collect()
}

#[test]
fn the_plan_of_a_small_nova() {
    insta::assert_snapshot!(plan(SMALL).golden());
}

#[test]
fn the_files_of_a_small_nova() {
    let plan = plan(SMALL);
    let files = [
        "nova.conf",
        "cell-cell1.conf",
        "api-paste.ini",
        "uwsgi.ini",
        "uwsgi-metadata.ini",
        "health.json",
        "health-metadata.json",
        "health-conductor-cell1.json",
    ];
    let mut all: Vec<String> = files.map(|name| format!("== {name}\n{}", file(&plan, "gate-config", name))).into();
    all.push(format!("== cells\n{}", file(&plan, "gate-cells", "settings.json")));
    all.push(format!("== compute\n{}", text(&plan, "gate-compute-cell1", "nova.conf").unwrap()));
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn no_secret_is_in_anything_but_a_secret_and_none_in_a_mapping() {
    for object in [World::example(SMALL), two_cells()] {
        let plan = world().plan(&object).unwrap();
        let (golden, mappings) = (plan.golden(), file(&plan, "gate-cells", "settings.json"));
        for value in SECRETS {
            assert!(!golden.contains(value) && !mappings.contains(value), "{value}");
        }
    }
}

#[test]
fn hypervisors_get_no_database_and_no_secret_of_the_metadata() {
    let object =
        nova(&json!({"storage": {"backend": "rbd", "rbd": {"cephSecretRef": {"name": "nova-ceph-credentials"}}}}));
    let plan = world().plan(&object).unwrap();
    let conf = text(&plan, "gate-compute-cell1", "nova.conf").unwrap();
    for word in ["database]", "mysql", "meta$", "metadata_proxy", "keystone_authtoken"] {
        assert!(!conf.contains(word), "{word}: {conf}");
    }
    assert!(conf.contains("/gate-cell1\n") && conf.contains("images_rbd_pool = vms\n"), "{conf}");
    assert!(text(&plan, "gate-compute-cell1", "ceph-vms.keyring").unwrap().contains("[client.nova]"));
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let wrong = nova(&json!({
        "cells": [{"name": "cell1", "messaging": {"secretRef": {"name": "other-account"}}},
                  {"name": "a-cell-with-a-name-of-forty-letters-abcd"}],
        "middleware": [{"name": "audit", "filterFactory": "a:b", "position": {"after": "nowhere"}}],
        "extraConfig": {"DEFAULT": {"state_path": "/tmp", "cpu_alocation_ratio": "4"}},
        "policyOverrides": {"rules": {"os_compute_api:servers:creat": "role:admin"}},
    }));
    insta::assert_snapshot!(world().plan(&wrong).unwrap_err());
}

#[test]
fn what_is_missing_is_waited_for_by_name() {
    let names = ["nova-db-credentials", "nova-rabbitmq-credentials", "gate-metadata-proxy", "rabbitmq", "keystone"];
    let world = names.iter().fold(world(), |world, name| world.without(name));
    let object = nova(&json!({"serviceAuth": {"placementServiceUserRef": {"name": "surveyor"}}}));
    insta::assert_snapshot!(waits(&world.plan(&object).unwrap()));
}

#[test]
fn a_cell_has_conductors_a_database_and_a_broker_of_its_own_and_the_others_do_without_it() {
    let plan = world().plan(&two_cells()).unwrap();
    assert_eq!(sets(&plan), ["gate-conductor", "gate-conductor-cell1", "gate-conductor-cell2", "gate-scheduler"]);
    let own = file(&plan, "gate-config", "cell-cell2.conf");
    assert!(
        own.contains("clerk:api%24ecret@db.example.net:3306/nova_cell2")
            && own.contains("@mq2.example.net:5672/gate-cell2"),
        "{own}"
    );
    let api = file(&plan, "gate-config", "health.json");
    assert!(!api.contains("db.example.net") && !api.contains("mq1.example.net"), "{api}");
    let conductor = file(&plan, "gate-config", "health-conductor-cell2.json");
    assert!(conductor.contains("db.example.net") && conductor.contains("mq1.example.net"), "{conductor}");
}

#[test]
fn mappings_are_templates_that_the_configuration_completes() {
    let plan = world().plan(&two_cells()).unwrap();
    let settings: Value = serde_json::from_str(&file(&plan, "gate-cells", "settings.json")).unwrap();
    let cells = &settings["cells"];
    assert_eq!(cells["cell0"]["transport_url"], "none:///");
    assert_eq!(
        cells["cell1"]["database_connection"],
        "{scheme}://{username}:{password}@{hostname}:{port}/nova?{query}"
    );
    let node = "rabbitmq-server-0.rabbitmq-nodes.cloud.svc.cluster.local:5672";
    // The parts are numbered because the broker of the other cell has two nodes.
    assert_eq!(cells["cell1"]["transport_url"], format!("rabbit://{{username1}}:{{password1}}@{node}/gate-cell1"));
    let other = cells["cell2"]["database_connection"].as_str().unwrap();
    let (before, account) = other.split_once("&read_default_file=/etc/nova/").unwrap();
    assert_eq!(before, "mysql+pymysql://db.example.net:3306/nova_cell2?charset=utf8");
    let account = file(&plan, "gate-cells", account);
    assert_eq!(account, "[client]\nuser = \"clerk\"\npassword = \"api$ecret\"\n");
}

#[test]
fn mappings_can_be_completed_from_the_url_of_any_broker_whichever_of_them_has_several_nodes() {
    let hosts = |count: u8| -> Value { (1..=count).map(|node| format!("mq{node}.example.net:5672")).collect() };
    for (main, own) in [(1, 1), (1, 3), (3, 1), (3, 3)] {
        let object = nova(
            &json!({"messaging": {"hosts": hosts(main)}, "cells": [{"name": "cell1", "messaging": {"hosts": hosts(own)}}]}),
        );
        let plan = world().plan(&object).unwrap();
        let settings: Value = serde_json::from_str(&file(&plan, "gate-cells", "settings.json")).unwrap();
        let mapping = settings["cells"]["cell1"]["transport_url"].as_str().unwrap();
        assert_eq!(mapping.matches("@mq").count(), usize::from(own), "{mapping}");
        for conf in ["nova.conf", "cell-cell1.conf"] {
            let conf = file(&plan, "gate-config", conf);
            let url = conf.lines().find_map(|line| line.strip_prefix("transport_url = ")).unwrap();
            // Nova numbers the parts of a URL with several nodes, and takes a password of one only without numbers.
            assert_eq!(url.contains(','), mapping.contains("{password1}"), "{main} and {own}: {url}");
            assert!(url.contains(',') || mapping.contains("{password}"), "{main} and {own}: {url}");
        }
    }
}

#[test]
fn the_account_of_a_broker_is_one_object_whatever_number_of_cells_uses_it() {
    let plan = world().plan(&nova(&json!({"cells": [{"name": "cell1"}, {"name": "cell2"}]}))).unwrap();
    let messaging: Vec<String> = plan
        .children()
        .filter(|child| child.resource.group == "rabbitmq.com")
        .map(|child| child.reference().short())
        .collect();
    assert_eq!(
        messaging,
        [
            "vhost/gate",
            "user/gate",
            "permission/gate",
            "vhost/gate-cell1",
            "permission/gate-cell1",
            "vhost/gate-cell2",
            "permission/gate-cell2"
        ]
    );
}

#[test]
fn users_of_service_auth_call_other_services() {
    let credential = [("application_credential_id", "e5f6"), ("application_credential_secret", "surveyor$ecret")];
    let world = world().with(secret("surveyor-keystone-credentials", &credential));
    let object = nova(&json!({"serviceAuth": {"placementServiceUserRef": {"name": "surveyor"}}}));
    let conf = file(&world.plan(&object).unwrap(), "gate-config", "nova.conf");
    let (_, placement) = conf.split_once("[placement]\n").unwrap();
    assert!(placement.starts_with("application_credential_id = e5f6\n"), "{placement}");
    assert_eq!(conf.matches("application_credential_id = a1b2\n").count(), 5, "{conf}");
}

#[test]
fn an_external_scheduler_is_asked_last_by_the_pods_of_the_scheduler_alone() {
    let plan = world().plan(&nova(&json!({"scheduler": {"externalScheduler": {"enabled": true}}}))).unwrap();
    let conf = file(&plan, "gate-config", "nova.conf");
    let (_, section) = conf.split_once("[external_scheduler]\n").unwrap();
    let section = section.split("\n[").next().unwrap().trim_end();
    let expected = "ca_file = /etc/external-scheduler-ca/ca.crt\nendpoint = https://cortex.cloud.svc.cluster.local:8080\n\
        on_failure = open\ntimeout = 5\ntoken_file = /etc/external-scheduler/token";
    assert_eq!(section, expected);
    let weighers = "weight_classes = nova.scheduler.weights.all_weighers,nova.scheduler.cortex.CortexWeigher\n";
    assert!(conf.contains(weighers), "{conf}");
    assert!(!plan.steps.iter().any(|step| step.waits.iter().any(|wait| wait.reason() == "NotSupported")));
    let mounting: Vec<String> = plan
        .children()
        .filter(|child| child.object.data.to_string().contains("cortex-token"))
        .map(|child| child.reference().name)
        .collect();
    assert_eq!(mounting, ["gate-scheduler"]);
}

#[test]
fn an_external_scheduler_elsewhere_is_verified_by_known_authorities_and_may_fail_closed() {
    let external =
        json!({"enabled": true, "endpoint": "https://cortex.example.net", "onFailure": "Closed", "timeout": "10s"});
    let conf = conf(&nova(&json!({"scheduler": {"externalScheduler": external}})));
    assert!(conf.contains("on_failure = closed\ntimeout = 10\n") && !conf.contains("ca_file"), "{conf}");
    let wrong = json!({
        "scheduler": {"externalScheduler": {"enabled": true, "timeout": "5m"}},
        "extraConfig": {"filter_scheduler": {"weight_classes": "a.B"}, "external_scheduler": {"timeout": "3"}},
    });
    let said = world().plan(&nova(&wrong)).unwrap_err();
    for part in ["externalScheduler.timeout: is 5m", "weight_classes: names the weighers", "is set by the operator"] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn users_filters_are_in_the_pipeline_at_their_positions() {
    let audit = json!({"name": "audit", "filterFactory": "keystonemiddleware.audit:filter_factory", "position": {"after": "authtoken"}});
    let plan = world().plan(&nova(&json!({ "middleware": [audit] }))).unwrap();
    let paste = file(&plan, "gate-config", "api-paste.ini");
    assert!(paste.contains("osprofiler authtoken audit keystonecontext osapi_compute_app_v21\n"), "{paste}");
}

#[test]
fn quorum_queues_are_used_and_heartbeats_have_no_thread() {
    let conf = conf(&nova(&json!({})));
    assert!(conf.contains("rabbit_quorum_queue = true\n") && conf.contains("heartbeat_in_pthread = false\n"), "{conf}");
}

/// A Nova whose API serves, and what it reports.
fn reporting(report: &Value, object: &Value) -> Plan {
    let serving = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "gate-api", "namespace": "cloud"},
        "spec": {}, "status": {"availableReplicas": 1}});
    world().with(serving).answering(Ok(report.to_string())).plan(object).unwrap()
}

fn reasons(plan: &Plan) -> Vec<String> {
    plan.steps.iter().flat_map(|step| &step.waits).map(c5c3_kit::Wait::reason).collect()
}

fn up(up: bool) -> Value {
    json!({"nova-conductor gate-conductor-0": true, "nova-conductor gate-conductor-cell1-0": up,
           "nova-scheduler gate-scheduler-0": true, "nova-compute hawk": true})
}

#[test]
fn cells_are_in_the_status_with_their_hosts_and_one_without_a_conductor_is_down() {
    let cells = json!({"cell1": {"hosts": ["hawk", "kite"], "servers": 3}});
    let plan = reporting(&json!({"cells": cells, "services": up(true)}), &nova(&json!({})));
    assert_eq!(plan.status["cells"], json!([{"name": "cell1", "status": "Ready", "computeNodes": 2}]));
    let plan = reporting(&json!({"cells": cells, "services": up(false)}), &nova(&json!({})));
    assert_eq!(plan.status["cells"][0]["status"], "Down: none of its conductors is up");
    assert!(reasons(&plan).contains(&"ServiceDown".to_owned()), "{:?}", reasons(&plan));
}

/// A Nova whose spec has lost cell2, which Nova knows.
fn without_cell2() -> Value {
    let mut object = nova(&json!({}));
    object["status"] = json!({"cells": [{"name": "cell1", "computeNodes": 1}, {"name": "cell2", "computeNodes": 1,
        "database": {"host": "db.example.net", "secretRef": {"name": "nova-api-db-credentials"}}}]});
    object
}

#[test]
fn a_cell_that_left_the_spec_runs_on_until_it_is_empty_and_the_wait_says_what_is_in_it() {
    let cells = json!({"cell1": {"hosts": [], "servers": 0}, "cell2": {"hosts": ["kite"], "servers": 2}});
    let plan = reporting(&json!({"cells": cells, "services": up(true)}), &without_cell2());
    assert!(sets(&plan).contains(&"gate-conductor-cell2".to_owned()));
    assert!(file(&plan, "gate-config", "cell-cell2.conf").contains("db.example.net"));
    let said = waits(&plan);
    assert!(said.contains("cell2 has left spec.cells and still has the host kite and 2 servers"), "{said}");
    assert_eq!(plan.status["cells"][1]["status"], "Removing: it has the host kite and 2 servers");
}

#[test]
fn an_empty_cell_is_removed_by_a_job_and_forgotten_when_nova_has() {
    let cells = json!({"cell1": {"hosts": [], "servers": 0}, "cell2": {"hosts": [], "servers": 0}});
    let plan = reporting(&json!({"cells": cells, "services": up(true)}), &without_cell2());
    let settings: Value = serde_json::from_str(&file(&plan, "gate-cell-removal", "settings.json")).unwrap();
    assert_eq!(settings["remove"], json!(["cell2"]));
    assert!(!reasons(&plan).contains(&"CellNotEmpty".to_owned()));
    let gone = json!({"cell1": {"hosts": [], "servers": 0}});
    let plan = reporting(&json!({"cells": gone, "services": up(true)}), &without_cell2());
    assert_eq!(plan.status["cells"].as_array().unwrap().len(), 1);
}

#[test]
fn a_cell_that_nova_never_knew_is_gone_at_once() {
    let mut object = nova(&json!({}));
    object["status"] = json!({"cells": [{"name": "cell9"}]});
    assert_eq!(sets(&world().plan(&object).unwrap()), ["gate-conductor", "gate-conductor-cell1", "gate-scheduler"]);
}

#[test]
fn consoles_have_a_proxy_that_reaches_screens_and_hypervisors_are_told_its_address() {
    let plan =
        world().plan(&nova(&json!({"compute": {}, "console": {"publicEndpoint": "http://192.0.2.7:6080"}}))).unwrap();
    let child = |kind: &str, name: &str| {
        let mut found = plan.children().filter(|child| child.resource.kind == kind);
        found
            .find(|child| child.reference().name == name)
            .unwrap_or_else(|| panic!("no {kind} {name}"))
            .object
            .data
            .clone()
    };
    let pod = &child("Deployment", "gate-console")["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        pod["args"],
        json!(["/opt/nova/bin/python", "/etc/nova/console.py", "--config-file=/etc/nova/nova.conf"])
    );
    assert_eq!(child("Service", "gate-console")["spec"]["ports"][0]["port"], 6080);
    let policy = child("NetworkPolicy", "gate-console");
    assert_eq!(policy["spec"]["ingress"][0]["ports"][0]["port"], 6080);
    let rules = policy["spec"]["egress"].as_array().unwrap();
    let is_to_screens = |rule: &&Value| rule["ports"][0]["port"] == 5900 && rule["ports"][0]["endPort"] == 6899;
    assert!(rules.iter().find(is_to_screens).is_some_and(|rule| rule["to"].is_null()), "{rules:?}");
    assert_eq!(pod["startupProbe"]["tcpSocket"]["port"], 6080, "it is ready once it listens");
    for conf in [file(&plan, "gate-config", "nova.conf"), text(&plan, "gate-compute-cell1", "nova.conf").unwrap()] {
        let section = "[vnc]\nenabled = true\nnovncproxy_base_url = http://192.0.2.7:6080/vnc_lite.html\n";
        assert!(conf.contains(section), "{conf}");
    }
    let none = nova(&json!({"compute": {}}));
    assert!(
        conf(&none).contains("[vnc]\nenabled = false\n")
            && !world().plan(&none).unwrap().golden().contains("gate-console")
    );
}
