//! Networks with real servers: Keystone, Neutron, OVN's databases, and what they stand on.

#[path = "../cloud/mod.rs"]
mod cloud;
#[path = "../machine/mod.rs"]
mod machine;

use std::time::{Duration, Instant};

use cloud::rotation::Asked;
use cloud::{Cloud, client};

/// One machine without hypervisors: networks exist in OVN's databases alone, and on no chassis.
const CONTROL_PLANE: &str = "
apiVersion: c5c3.io/v1alpha1
kind: ControlPlane
metadata: {name: lab, namespace: cloud}
spec:
  infrastructure:
    mariadb: {replicas: 1, storageSize: 2Gi}
    rabbitmq: {replicas: 1}
    memcached: {replicas: 1, memory: 64Mi}
    ovn: {replicas: 1, storageSize: 1Gi}
  services:
    keystone: {replicas: 1}
    neutron: {api: {replicas: 1}}
";

/// OVN's northbound database, as its own tool sees it.
const NORTHBOUND: &str =
    "kubectl -n cloud exec ovn-nb-0 -c ovsdb -- ovn-nbctl --db=tcp:ovn-nb.cloud.svc.cluster.local:6641";

/// Neutron, as it is asked while its credentials are replaced.
const NEUTRON: Asked = Asked { service: "neutron", port: 9696, path: "/v2.0/networks?limit=1", has_broker: true };

/// How soon the condition must follow when a database goes away or comes back.
const TOLD: Duration = Duration::from_mins(1);

#[test]
fn networks_are_made_in_ovn_and_one_that_is_gone_is_told() {
    let cloud = Cloud::up(CONTROL_PLANE);
    networks_routers_and_addresses_come_and_go(&cloud);
    an_ovn_that_is_stopped_is_told_and_reads_are_answered(&cloud);
    cloud::passwords::are_in_no_pod_of(&cloud, &["neutron"]);
    cloud::rotation::loses_no_request_and_ends_what_was_held_by(&cloud, &[NEUTRON]);
    cloud::leaks::search(&cloud.machine);
}

/// The name that OVN has for what Neutron calls so.
fn in_ovn(cloud: &Cloud, kind: &str, name: &str) -> String {
    format!("neutron-{}", cloud.openstack(&format!("{kind} show {name} -f value -c id")).trim())
}

fn networks_routers_and_addresses_come_and_go(cloud: &Cloud) {
    for command in [
        "network create inside",
        "subnet create inside --network inside --subnet-range 10.9.0.0/24",
        "network create outside --external --provider-network-type flat --provider-physical-network external",
        "subnet create outside --network outside --subnet-range 198.51.100.0/24 --no-dhcp",
        "router create gate",
        "router add subnet gate inside",
        "router set gate --external-gateway outside",
        "security group create web",
        "security group rule create web --protocol tcp --dst-port 443",
        "port create one --network inside --security-group web",
    ] {
        cloud.openstack(command);
    }
    let port = cloud.openstack("port show one -f value -c id");
    let floating =
        cloud.openstack(&format!("floating ip create outside --port {} -f value -c floating_ip_address", port.trim()));
    let fixed = cloud.openstack("floating ip list -f value -c \"Fixed IP Address\"");
    let (network, router) = (in_ovn(cloud, "network", "inside"), in_ovn(cloud, "router", "gate"));

    let shown = cloud.machine.ok(&format!("{NORTHBOUND} show"));
    for part in
        [network.as_str(), router.as_str(), "(aka inside)", "(aka gate)", port.trim(), floating.trim(), fixed.trim()]
    {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
    let mtu = cloud.openstack("network show inside -f value -c mtu");
    assert_eq!(mtu.trim(), "1442", "what Geneve leaves of 1500");
    // No chassis has a bridge to the network of floating IPs.
    let told =
        "kubectl -n cloud get neutron neutron -o jsonpath='{.status.conditions[?(@.type==\"OVNConnected\")].message}'";
    cloud.machine.eventually(&format!("{told} | grep -c 'no chassis has a bridge for external'"), "1");

    for command in [
        &format!("floating ip delete {}", floating.trim()),
        "port delete one",
        "security group delete web",
        "router unset gate --external-gateway",
        "router remove subnet gate inside",
        "router delete gate",
        "network delete inside",
        "network delete outside",
    ] {
        cloud.openstack(command);
    }
    cloud.machine.says(&format!("{NORTHBOUND} show"), "");
}

/// Waits until the condition is so, and says how long it took.
fn connected(cloud: &Cloud, status: &str) -> Duration {
    let condition = "{.status.conditions[?(@.type==\"OVNConnected\")].status}";
    let begun = Instant::now();
    cloud.machine.eventually(&format!("kubectl -n cloud get neutron neutron -o jsonpath='{condition}'"), status);
    begun.elapsed()
}

fn an_ovn_that_is_stopped_is_told_and_reads_are_answered(cloud: &Cloud) {
    let it = &cloud.machine;
    cloud.openstack("network create kept");
    // Whatever makes the pod again cannot.
    it.write("no-northbound.yaml", REFUSED);
    it.ok("kubectl apply -f no-northbound.yaml");
    it.ok("kubectl -n cloud delete pod ovn-nb-0 --grace-period=0 --force --wait=false");
    let took = connected(cloud, "False");
    assert!(took < TOLD, "told after {took:?}");
    let reason = "{.status.conditions[?(@.type==\"OVNConnected\")].reason}";
    it.says(&format!("kubectl -n cloud get neutron neutron -o jsonpath='{reason}'"), "Unreachable");
    let listed = cloud.openstack("network list -f value -c Name");
    assert_eq!(listed.trim(), "kept");

    it.ok("kubectl delete -f no-northbound.yaml");
    it.eventually("kubectl -n cloud get pod ovn-nb-0 -o jsonpath='{.status.containerStatuses[0].ready}'", "true");
    let took = connected(cloud, "True");
    assert!(took < TOLD, "told after {took:?}");
    // Clients that were cut off have come back, too.
    it.eventually(&client("network create after -f value -c name"), "after");
    let shown = it.ok(&format!("{NORTHBOUND} show"));
    assert!(shown.contains("(aka kept)") && shown.contains("(aka after)"), "{shown}");
}

/// Refuses the pod of the northbound database.
const REFUSED: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-northbound}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations: [{expression: "object.metadata.name != 'ovn-nb-0'"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-northbound}
spec: {policyName: no-northbound, validationActions: [Deny]}
"#;
