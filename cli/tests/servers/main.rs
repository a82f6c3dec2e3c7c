//! Nova with real servers: its services, its cells, and what becomes of them.

mod cells;
#[path = "../cloud/mod.rs"]
mod cloud;
mod computes;
#[path = "../machine/mod.rs"]
mod machine;

use cloud::rotation::{Asked, PLACEMENT};
use cloud::{Cloud, client};

/// One machine without hypervisors: everything that servers are scheduled by.
const CONTROL_PLANE: &str = "
apiVersion: c5c3.io/v1alpha1
kind: ControlPlane
metadata: {name: lab, namespace: cloud}
spec:
  infrastructure:
    mariadb: {replicas: 1, storageSize: 2Gi}
    rabbitmq: {replicas: 1}
    memcached: {replicas: 1, memory: 64Mi}
  services:
    keystone: {replicas: 1}
    glance: {replicas: 1, backend: {type: file}}
    placement: {replicas: 1}
    nova: {api: {replicas: 1}, scheduler: {replicas: 1}, conductor: {replicas: 1}}
";

/// Every service as Nova lists it, in one line.
const SERVICES: &str = "compute service list -f value -c Binary -c Host -c State | sort | xargs";

/// Nova, as it is asked while its credentials are replaced.
const NOVA: Asked = Asked { service: "nova", port: 8774, path: "/v2.1/flavors?limit=1", has_broker: true };

#[test]
fn nova_serves_and_its_cells_come_and_go() {
    let cloud = Cloud::up(CONTROL_PLANE);
    all_services_are_up(&cloud);
    flavors_are_made(&cloud);
    nova_finds_nothing_wrong(&cloud);
    metadata_is_refused_without_a_signature(&cloud);
    cells::hold_no_password(&cloud);
    cells::come_and_go(&cloud);
    an_api_pod_that_is_killed_comes_back(&cloud);
    cloud::passwords::are_in_no_pod_of(&cloud, &["glance", "nova", "placement"]);
    cloud::rotation::loses_no_request_and_ends_what_was_held_by(&cloud, &[PLACEMENT, NOVA]);
    computes::register_and_are_counted(&cloud);
    cloud::leaks::search(&cloud.machine);
}

fn all_services_are_up(cloud: &Cloud) {
    let all = "nova-conductor nova-conductor-0 up nova-conductor nova-conductor-cell1-0 up nova-scheduler nova-scheduler-0 up";
    cloud.machine.eventually(&client(SERVICES), all);
    cloud.machine.eventually(&cells::status("cell1"), "Ready");
}

fn flavors_are_made(cloud: &Cloud) {
    cloud.openstack("flavor create --vcpus 1 --ram 64 --disk 1 tiny");
    assert_eq!(cloud.openstack("flavor list -f value -c Name").trim(), "tiny");
}

/// Exit status 1 is a warning, such as about machine types or about Cinder, which is not there.
fn nova_finds_nothing_wrong(cloud: &Cloud) {
    let check = format!("{} /opt/nova/bin/nova-status --config-file=/etc/nova/nova.conf upgrade check", in_api());
    let said = cloud.machine.ok(&format!("{check} || [ $? -eq 1 ]"));
    assert!(said.contains("Result: Success") && !said.contains("Result: Failure"), "{said}");
}

/// The versions are for everybody, and what is about a server is for agents that sign.
fn metadata_is_refused_without_a_signature(cloud: &Cloud) {
    let address = cloud.machine.ok("kubectl -n cloud get service nova-metadata -o jsonpath='{.spec.clusterIP}'");
    let status = |path: &str| format!("curl -s -o answer -w '%{{http_code}}' http://{address}:8775{path}");
    cloud.machine.eventually(&status("/"), "200");
    cloud.machine.says(&status("/latest/meta-data/"), "400");
    let secret =
        "kubectl -n cloud get secret nova-metadata-proxy -o jsonpath='{.data.shared-secret}' | base64 -d | wc -c";
    cloud.machine.says(secret, "32");
}

/// Runs what follows in a pod of the API.
fn in_api() -> String {
    "kubectl -n cloud exec -i deploy/nova-api -c api --".to_owned()
}

fn an_api_pod_that_is_killed_comes_back(cloud: &Cloud) {
    let pod = "kubectl -n cloud get pods -l app.kubernetes.io/name=nova,app.kubernetes.io/component=api -o name";
    let before = cloud.machine.ok(pod);
    let before = before.trim();
    cloud.machine.ok(&format!("kubectl -n cloud delete {before} --grace-period=0 --force --wait=false"));
    let ready = "kubectl -n cloud get nova nova -o jsonpath='{.status.conditions[?(@.type==\"APIReady\")].status}'";
    cloud.machine.eventually(&format!("[ \"$({pod})\" != {before} ] && {ready}"), "True");
    cloud.machine.eventually(&client("flavor list -f value -c Name"), "tiny");
    // The new pod has the row of the one before it.
    let look = "SELECT COUNT(*) FROM services WHERE `binary` = 'nova-osapi_compute' AND deleted = 0";
    assert_eq!(cells::select(cloud, "database", look), "[[1]]");
}
