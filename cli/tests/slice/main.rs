//! The whole slice with real containers: a ControlPlane, its servers, its Keystone, and a token that outlives what happens
//! to them.

#[path = "../cloud/mod.rs"]
mod cloud;
mod load;
#[path = "../machine/mod.rs"]
mod machine;

use cloud::{Cloud, Token};
use load::Load;

/// Two Keystones on one of everything else, which is what a small machine has room for.
const CONTROL_PLANE: &str = "
apiVersion: c5c3.io/v1alpha1
kind: ControlPlane
metadata: {name: lab, namespace: cloud}
spec:
  infrastructure:
    mariadb: {replicas: 1, storageSize: 2Gi}
    rabbitmq: {replicas: 1, storageSize: 1Gi, resources: {requests: {cpu: 50m, memory: 384Mi}}}
    valkey: {replicas: 1, sentinel: {enabled: false}}
    memcached: {replicas: 1, memory: 64Mi}
  services:
    keystone: {replicas: 2}
";

/// One cloud for all of it: bringing it up takes longer than anything that is done with it.
#[test]
fn a_token_outlives_rotations_changes_and_deaths_and_no_secret_is_told() {
    let cloud = Cloud::up(CONTROL_PLANE);
    the_client_signs_in_and_makes_what_people_make(&cloud);
    let token = cloud.identity.sign_in().unwrap();

    let load = Load::start(&cloud.identity, &token);
    roll_a_change(&cloud);
    rotate(&cloud, &token, 1);
    rotate(&cloud, &token, 2);
    rotate(&cloud, &token, 3);
    let (requests, failures) = load.end();
    assert!(requests > 100 && failures.is_empty(), "{} of {requests} failed:\n{}", failures.len(), failures.join("\n"));

    for part in ["keystone", "memcached", "mariadb"] {
        cloud.kill_one(part, &token);
    }
    kill_the_operators(&cloud, &token);
    cloud::leaks::search(&cloud.machine);
}

fn the_client_signs_in_and_makes_what_people_make(cloud: &Cloud) {
    assert!(cloud.openstack("token issue -f value -c id").contains("gAAAA"));
    let catalog = cloud.openstack("catalog list -f json");
    assert!(catalog.contains("\"keystone\"") && catalog.contains("identity"), "{catalog}");
    // The client may have more to say before that.
    assert!(cloud.openstack("user create alice -f value -c name").ends_with("alice"));
    assert!(cloud.openstack("application credential create robot -f value -c name").ends_with("robot"));
}

/// Changes what is in `keystone.conf`, so that every pod is replaced.
fn roll_a_change(cloud: &Cloud) {
    let pods = cloud.pods("keystone");
    let patch = r#"{"spec": {"services": {"keystone": {"fernet": {"maxActiveKeys": 5}}}}}"#;
    cloud.machine.ok(&format!("kubectl -n cloud patch controlplane lab --type=merge -p '{patch}'"));
    let has_it = "kubectl -n cloud get keystone keystone -o jsonpath='{.spec.fernet.maxActiveKeys}'";
    cloud.machine.eventually(has_it, "5");
    cloud.settle();
    let now = cloud.pods("keystone");
    assert!(pods.iter().all(|pod| !now.contains(pod)), "{pods:?} were not all replaced: {now:?}");
}

/// Rotates the keys by hand, as the CronJob does by its schedule.
fn rotate(cloud: &Cloud, token: &Token, primary: u32) {
    // Rotations are two minutes apart, in which kubelets hand the keys to pods. Here it is looked whether they have.
    cloud.has_keys(primary);
    let since = format!("keystone.openstack.c5c3.io/primary-since={primary}=2026-01-01T00:00:00Z");
    cloud.machine.ok(&format!("kubectl -n cloud annotate --overwrite secret keystone-fernet-keys {since}"));
    let job = format!("rotate-{primary}");
    cloud.machine.ok(&format!("kubectl -n cloud create job {job} --from=cronjob/keystone-fernet-rotate"));
    cloud.machine.ok(&format!("kubectl -n cloud wait --for=condition=Complete job/{job} --timeout=180s"));
    cloud.has_keys(primary + 1);
    cloud.still_good(token);
}

/// Kills the process of the API, the controllers and the operators while a change is being carried out.
fn kill_the_operators(cloud: &Cloud, token: &Token) {
    let patch = r#"{"spec": {"services": {"keystone": {"fernet": {"maxActiveKeys": 4}}}}}"#;
    cloud.machine.ok(&format!("kubectl -n cloud patch controlplane lab --type=merge -p '{patch}'"));
    cloud.machine.kill();
    cloud.machine.again();
    let wanted = "kubectl -n cloud get keystone keystone -o jsonpath='{.spec.fernet.maxActiveKeys}'";
    cloud.machine.eventually(wanted, "4");
    cloud.settle();
    cloud.good_again(token);
}
