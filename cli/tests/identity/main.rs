//! The catalog, the users and the credentials of a cloud with a real Keystone and a real Placement: no account is made by hand.

#[path = "../cloud/mod.rs"]
mod cloud;
mod links;
#[path = "../machine/mod.rs"]
mod machine;
mod many;
mod outage;
mod rotation;

use cloud::Cloud;
use serde_json::Value;

const CONTROL_PLANE: &str = "
apiVersion: c5c3.io/v1alpha1
kind: ControlPlane
metadata: {name: lab, namespace: cloud}
spec:
  infrastructure:
    mariadb: {replicas: 1, storageSize: 2Gi}
    memcached: {replicas: 1, memory: 64Mi}
  services:
    keystone: {replicas: 1}
    placement: {replicas: 1}
  global: {logging: {accessLog: true}}
";

/// A project as the documents of the system write it.
const PROJECT: &str = "
apiVersion: openstack.k-orc.cloud/v1alpha1
kind: Project
metadata: {name: customer-project, namespace: cloud}
spec:
  cloudCredentialsRef: {cloudName: openstack, secretName: k-orc-clouds-yaml}
  managementPolicy: managed
  resource:
    description: Customer project
    enabled: true
    tags: [customer-a, production]
";

#[test]
fn a_cloud_has_its_catalog_its_users_and_their_credentials_by_itself() {
    let cloud = Cloud::up(CONTROL_PLANE);
    every_endpoint_has_the_region(&cloud);
    a_request_is_logged_with_its_id(&cloud);
    the_infrastructures_passwords_are_in_one_secret(&cloud);
    a_credential_has_all_roles_of_its_user(&cloud);
    cloud.machine.eventually(&format!("{} | tail -n 1", cloud::client("resource provider list -f json")), "[]");
    cloud::passwords::are_in_no_pod_of(&cloud, &["placement"]);
    what_is_changed_by_hand_comes_back(&cloud);
    another_public_url_changes_the_catalog_and_restarts_nothing(&cloud);
    rotation::loses_no_request_and_ends_the_old_credentials(&cloud);
    links::of_placements_credential_are_named_and_heal(&cloud);
    a_project_is_available(&cloud);
    outage::is_said_by_every_kind_and_ends_by_itself(&cloud);
    links::korcs_own_credential_is_named_and_heals(&cloud);
    many::are_available_soon_and_ask_little(&cloud);
    rotation::the_administrators_password_follows_its_secret(&cloud);
    cloud::leaks::search(&cloud.machine);
}

fn endpoints(cloud: &Cloud) -> Vec<Value> {
    serde_json::from_str(&cloud.openstack("endpoint list -f json")).unwrap()
}

fn every_endpoint_has_the_region(cloud: &Cloud) {
    let listed = endpoints(cloud);
    assert!(listed.iter().all(|row| row["Region"] == "RegionOne"), "{listed:#?}");
    let of_placement = listed.iter().filter(|row| row["Service Type"] == "placement").count();
    assert_eq!(of_placement, 2, "{listed:#?}");
}

fn a_request_is_logged_with_its_id(cloud: &Cloud) {
    let log = "kubectl -n cloud logs deployment/keystone-api -c api";
    let line = r#"'GET /v3/endpoints" 200 .* req-[0-9a-f-]*$'"#;
    cloud.machine.eventually(&format!("{log} | grep -q {line} && echo found"), "found");
}

fn the_infrastructures_passwords_are_in_one_secret(cloud: &Cloud) {
    let password = cloud::accounts::value(cloud, "mariadb-root-credentials", "password");
    assert!(!password.is_empty());
    let kept = "kubectl -n cloud get secret openstack-credentials -o jsonpath='{.data.MARIADB_PASSWORD}' | base64 -d";
    cloud.machine.eventually(kept, &password);
}

/// Also the one that is assigned last. Without the role `service`, tokens beside those of clients are refused.
fn a_credential_has_all_roles_of_its_user(cloud: &Cloud) {
    let roles = "kubectl -n cloud get applicationcredential placement-app-credential-v1 \
        -o jsonpath='{range .status.resource.roles[*]}{.name}{\"\\n\"}{end}'";
    cloud.machine.eventually(&format!("{roles} | grep -x -e admin -e service | sort | xargs"), "admin service");
}

fn what_is_changed_by_hand_comes_back(cloud: &Cloud) {
    let row =
        endpoints(cloud).into_iter().find(|row| row["Service Type"] == "placement" && row["Interface"] == "public");
    let (row, field) = (row.unwrap(), |row: &Value, name: &str| row[name].as_str().unwrap().to_owned());
    let (id, url) = (field(&row, "ID"), field(&row, "URL"));
    cloud.openstack("region create north -f value -c region");
    cloud.openstack(&format!("endpoint set {id} --url http://192.0.2.1:8778 --region north"));
    // K-ORC looks at an object that changes; the ControlPlane looks at all regions once a minute.
    cloud
        .machine
        .ok("kubectl -n cloud annotate endpoints.openstack.k-orc.cloud placement-public look=here --overwrite");
    let show = |column: &str| cloud::client(&format!("endpoint show {id} -f value -c {column} 2>/dev/null"));
    cloud.machine.eventually(&show("url"), &url);
    cloud.machine.eventually(&show("region_id"), "RegionOne");
}

fn another_public_url_changes_the_catalog_and_restarts_nothing(cloud: &Cloud) {
    let pods = || cloud.machine.ok("kubectl -n cloud get pods -o name | LC_ALL=C sort");
    let show = "--os-region-name RegionOne endpoint list --service placement --interface public -f value -c URL";
    let (before, url) = (pods(), cloud.openstack(show));
    let set = |value: &Value| {
        let patch = serde_json::json!({"spec": {"services": {"placement": {"publicEndpoint": value}}}});
        cloud.machine.ok(&format!("kubectl -n cloud patch controlplane lab --type=merge -p '{patch}'"));
    };
    set(&"https://placement.example.net".into());
    cloud.machine.eventually(&cloud::client(show), "https://placement.example.net");
    set(&Value::Null);
    cloud.machine.eventually(&cloud::client(show), &url);
    cloud.settle();
    assert_eq!(pods(), before, "pods were replaced");
}

/// What says whether an object of K-ORC is available.
fn available(plural: &str, name: &str) -> String {
    let status = "{.status.conditions[?(@.type==\"Available\")].status}";
    format!("kubectl -n cloud get {plural}.openstack.k-orc.cloud {name} -o jsonpath='{status}'")
}

fn a_project_is_available(cloud: &Cloud) {
    cloud.machine.write("project.yaml", PROJECT);
    cloud.machine.ok("kubectl apply -f project.yaml");
    cloud.machine.eventually(&available("projects", "customer-project"), "True");
}
