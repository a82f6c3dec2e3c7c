//! Placement against a real Keystone, and both from one release of OpenStack to the next: under load, taken back once, with
//! the operators killed in each phase.

#[path = "../cloud/mod.rs"]
mod cloud;
#[path = "../slice/load.rs"]
mod load;
#[path = "../machine/mod.rs"]
mod machine;

use cloud::Cloud;
use load::Load;
use serde_json::Value;

/// Two Keystones, so that one serves while the other is replaced, and a database that can lose a server, on one of everything
/// else. The release is the usual one: what
/// is written here would be applied again by each start.
const CONTROL_PLANE: &str = "
apiVersion: c5c3.io/v1alpha1
kind: ControlPlane
metadata: {name: lab, namespace: cloud}
spec:
  infrastructure:
    mariadb: {replicas: 3, storageSize: 2Gi}
    rabbitmq: {replicas: 1, storageSize: 1Gi, resources: {requests: {cpu: 50m, memory: 384Mi}}}
    valkey: {replicas: 1, sentinel: {enabled: false}}
    memcached: {replicas: 1, memory: 64Mi}
  services:
    keystone: {replicas: 2}
  korc: {enabled: false} # the account is one that a person provides
";

/// The release that everything goes to, with the versions of both services in both releases.
const NEXT: &str = "2026.1";

#[test]
fn placement_serves_and_both_services_go_to_the_next_release_without_a_failed_request() {
    let cloud = Cloud::up(CONTROL_PLANE);
    cloud.machine.ok("$C5C3 image import placement --data $PWD/data");
    placement_waits_for_its_credential(&cloud);
    make_an_account(&cloud);
    cloud.machine.eventually(&ready("placement/placement"), "True");
    candidates_are_found(&cloud);
    placement_serves_while_a_server_of_the_database_is_down(&cloud);
    an_allocation_outlives_all_pods(&cloud);

    cloud.machine.ok(&format!("$C5C3 image import keystone placement --release {NEXT} --data $PWD/data"));
    let token = cloud.identity.sign_in().unwrap();
    let load = Load::start(&cloud.identity, &token);
    take_an_upgrade_back(&cloud);
    upgrade(&cloud);
    let (requests, failures) = load.end();
    assert!(requests > 100 && failures.is_empty(), "{} of {requests} failed:\n{}", failures.len(), failures.join("\n"));
    cloud.still_good(&token);
    candidates_are_found(&cloud);
}

fn ready(object: &str) -> String {
    format!("kubectl -n cloud get {object} -o jsonpath='{{.status.conditions[?(@.type==\"Ready\")].status}}'")
}

fn patch(cloud: &Cloud, spec: &str) {
    cloud.machine.ok(&format!("kubectl -n cloud patch controlplane lab --type=merge -p '{{\"spec\": {spec}}}'"));
}

/// Without its credential nothing of Placement runs, and what is missing is named.
fn placement_waits_for_its_credential(cloud: &Cloud) {
    patch(cloud, r#"{"services": {"placement": {"enabled": true, "replicas": 1}}}"#);
    let reason = "kubectl -n cloud get controlplane lab -o \
                  jsonpath='{.status.conditions[?(@.type==\"CredentialsReady\")].reason}'";
    cloud.machine.eventually(reason, "SecretMissing");
    let why = cloud.machine.ok("$C5C3 why --data $PWD/data || true");
    assert!(why.contains("placement-keystone-credentials"), "{why}");
}

/// What K-ORC's kinds do otherwise: a user with the service role, its application credential, a catalog entry.
fn make_an_account(cloud: &Cloud) {
    let password = "only-for-the-application-credential";
    cloud.openstack(&format!("user create placement --password {password} -f value -c name"));
    cloud.openstack("role add --user placement --project service service");
    cloud.openstack("role add --user placement --project service admin");
    let as_placement = "--os-username placement --os-project-name service --os-user-domain-name Default \
                        --os-project-domain-name Default";
    let create = cloud::client(&format!(
        "{as_placement} --os-password {password} application credential create placement -f json > credential.json"
    ));
    cloud.machine.ok(&create);
    let credential: Value = serde_json::from_str(&cloud.machine.ok("cat credential.json")).unwrap();
    let value = |key: &str| {
        let found = credential.as_object().unwrap().iter().find(|(name, _)| name.eq_ignore_ascii_case(key));
        found.and_then(|(_, value)| value.as_str()).unwrap().to_owned()
    };
    cloud.machine.write("application_credential_id", &value("id"));
    cloud.machine.write("application_credential_secret", "a wrong one");
    let apply = "kubectl -n cloud create secret generic placement-keystone-credentials --from-file=application_credential_id \
                 --from-file=application_credential_secret --dry-run=client -o yaml | kubectl apply -f -";
    cloud.machine.ok(apply);
    a_wrong_credential_is_told_in_the_words_of_keystone(cloud);
    cloud.machine.write("application_credential_secret", &value("secret"));
    cloud.machine.ok(apply);
    cloud.openstack("service create --name placement placement -f value -c name");
    let address = cloud.machine.ok("kubectl -n cloud get service placement -o jsonpath='{.spec.clusterIP}'");
    for interface in ["public", "internal"] {
        cloud.openstack(&format!(
            "endpoint create --region RegionOne placement {interface} http://{address}:8778 -f value -c interface"
        ));
    }
}

/// The condition says what Keystone said, without what it was asked with.
fn a_wrong_credential_is_told_in_the_words_of_keystone(cloud: &Cloud) {
    let auth = |field: &str| {
        let condition = format!("{{.status.conditions[?(@.type==\"KeystoneAuthReady\")].{field}}}");
        format!("kubectl -n cloud get placement placement -o jsonpath='{condition}'")
    };
    let words = "The request you have made requires authentication";
    cloud.machine.eventually(&format!("{} | grep -o '{words}' | head -n 1", auth("message")), words);
    cloud.machine.says(&auth("status"), "False");
    let message = cloud.machine.ok(&auth("message"));
    assert!(message.contains("401") && !message.contains("a wrong one"), "{message}");
}

/// The primary goes, and stays away while Placement is asked and told.
fn placement_serves_while_a_server_of_the_database_is_down(cloud: &Cloud) {
    let broken = cloud.break_a_database_server();
    let list = format!("{} 2>/dev/null | tail -n 1", placement("resource provider list -f value -c name"));
    cloud.machine.eventually(&list, "shelf");
    candidates_are_found(cloud);
    cloud.machine.ok(&placement("trait create CUSTOM_WIDE"));
    cloud.repair(&broken);
}

/// A consumer of the test's, by its own id.
const CONSUMER: &str = "6b0d2a54-0f0b-4d7c-9f0c-0d6f5a1b7c11";

/// All pods go at once: those of Placement, of Keystone and of the database.
fn an_allocation_outlives_all_pods(cloud: &Cloud) {
    let osc = |command: &str| cloud.machine.ok(&placement(command));
    let uuid = osc("resource provider list --name shelf -f value -c uuid");
    let uuid = uuid.lines().last().unwrap();
    osc(&format!(
        "resource provider allocation set {CONSUMER} --allocation rp={uuid},VCPU=2,MEMORY_MB=512 \
         --project-id {CONSUMER} --user-id {CONSUMER}"
    ));
    cloud.machine.ok("kubectl -n cloud delete pods --all --grace-period=0 --force --wait=false");
    let show = placement(&format!("resource provider allocation show {CONSUMER} -f value -c resources"));
    cloud.machine.eventually(&format!("{show} 2>/dev/null | grep -o \"'VCPU': 2\""), "'VCPU': 2");
    cloud.settle();
    cloud.machine.eventually(&ready("placement/placement"), "True");
}

/// A command of the OpenStack client for Placement, signed in as `c5c3 env` says.
fn placement(command: &str) -> String {
    cloud::client(&format!("--os-placement-api-version 1.29 {command}"))
}

/// A provider with an inventory and a trait is found by what it has.
fn candidates_are_found(cloud: &Cloud) {
    let osc = |command: &str| cloud.machine.ok(&placement(command));
    let listed = osc("resource provider list -f value -c name");
    if !listed.contains("shelf") {
        osc("trait create CUSTOM_TALL");
        let uuid = osc("resource provider create shelf -f value -c uuid");
        let uuid = uuid.lines().last().unwrap();
        osc(&format!("resource provider inventory set {uuid} --resource VCPU=8 --resource MEMORY_MB=4096"));
        osc(&format!("resource provider trait set {uuid} --trait CUSTOM_TALL"));
    }
    let found =
        osc("allocation candidate list --resource VCPU=2 --resource MEMORY_MB=1024 --required CUSTOM_TALL -f json");
    assert!(found.contains("VCPU=2"), "{found}");
    let none = osc("allocation candidate list --resource VCPU=16 -f json");
    assert!(none.trim_end().ends_with("[]"), "{none}");
}

fn status(object: &str, field: &str) -> String {
    format!("kubectl -n cloud get {object} -o jsonpath='{{.status.{field}}}'")
}

/// An upgrade that has begun, and is taken back before anything was contracted.
fn take_an_upgrade_back(cloud: &Cloud) {
    patch(cloud, &format!(r#"{{"openStackRelease": "{NEXT}"}}"#));
    cloud.machine.eventually(&status("keystone/keystone", "upgradePhase"), "Expanding");
    patch(cloud, r#"{"openStackRelease": "2025.2"}"#);
    cloud.machine.eventually(&status("keystone/keystone", "upgradePhase"), "");
    cloud.settle();
    cloud.machine.says(&status("keystone/keystone", "installedRelease"), "28.0.0");
}

/// The same upgrade to its end, with the operators killed in each phase.
fn upgrade(cloud: &Cloud) {
    patch(cloud, &format!(r#"{{"openStackRelease": "{NEXT}"}}"#));
    for phase in ["Expanding", "Contracting"] {
        cloud.machine.eventually(&status("keystone/keystone", "upgradePhase"), phase);
        cloud.machine.kill();
        // It does not wait until everything is ready, which is after the last phase.
        cloud.machine.ok("$C5C3 up -f $PWD/plane.yaml --timeout 0 --detach --data $PWD/data || true");
    }
    cloud.machine.eventually(&status("keystone/keystone", "installedRelease"), "29.0.0");
    cloud.machine.eventually(&status("placement/placement", "installedRelease"), "15.0.0");
    cloud.settle();
    cloud.machine.says(&status("keystone/keystone", "upgradePhase"), "");
}
