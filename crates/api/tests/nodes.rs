//! The kinds around hypervisors: OVN, Open vSwitch, hypervisors themselves, and the arbiter of their storage.

use c5c3_api::{ceph, hypervisor, ovn, ovs};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const OVN: &str = "ovn.c5c3.io/v1alpha1";
const OVS: &str = "ovs.c5c3.io/v1alpha1";
const HYPERVISOR: &str = "hypervisor.c5c3.io/v1";
const HYPERVISOR_ALPHA: &str = "hypervisor.c5c3.io/v1alpha1";
const CEPH: &str = "ceph.c5c3.io/v1alpha1";

fn object(api_version: &str, kind: &str, spec: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "plum"}, "spec": spec})
}

/// What is wrong with an object that has this spec, one problem a line.
fn problems(api_version: &str, kind: &str, spec: &Value) -> String {
    let kind_of = c5c3_api::find(api_version, kind).expect("the kind is registered");
    kind_of.check(&object(api_version, kind, spec), None).sorted().to_string()
}

/// What is wrong with a change of spec.
fn change(api_version: &str, kind: &str, old: &Value, new: &Value) -> String {
    let kind_of = c5c3_api::find(api_version, kind).expect("the kind is registered");
    let old = object(api_version, kind, old);
    assert_eq!(kind_of.check(&old, None).to_string(), "", "the old object is sound");
    kind_of.check(&object(api_version, kind, new), Some(&old)).sorted().to_string()
}

/// Checks an object as a document shows it, and that reading and writing it keeps each of its fields.
fn keeps_all<K: Serialize + DeserializeOwned>(text: &str) {
    let written: Value = serde_saphyr::from_str(text).expect("the example is YAML");
    let name = |field: &str| written[field].as_str().expect("the example has a kind").to_owned();
    let kind = c5c3_api::find(&name("apiVersion"), &name("kind")).expect("the kind is registered");
    assert_eq!(kind.check(&written, None).to_string(), "");
    let read: K = serde_json::from_value(written.clone()).expect("the type takes what the schema takes");
    let rewritten = serde_json::to_value(read).expect("the type is JSON");
    assert_eq!(lost(&written, &rewritten, ""), Vec::<String>::new());
}

fn lost(written: &Value, kept: &Value, path: &str) -> Vec<String> {
    match (written, kept) {
        (Value::Object(written), Value::Object(kept)) => written
            .iter()
            .filter(|(_, value)| **value != json!([])) // An empty list and none mean the same.
            .flat_map(|(key, value)| lost(value, kept.get(key).unwrap_or(&Value::Null), &format!("{path}.{key}")))
            .collect(),
        (Value::Array(written), Value::Array(kept)) if written.len() == kept.len() => {
            written.iter().zip(kept).enumerate().flat_map(|(i, (w, k))| lost(w, k, &format!("{path}[{i}]"))).collect()
        }
        (written, kept) if written == kept => Vec::new(),
        (written, kept) => vec![format!("{path}: {written} became {kept}")],
    }
}

fn chassis(change: &Value) -> Value {
    let mut spec = json!({"hostname": "plum", "systemId": "p-1", "encapsulation": {"ip": "10.9.8.7"}});
    for (field, value) in change.as_object().expect("a change is an object") {
        spec[field] = value.clone();
    }
    spec
}

fn arbiter(change: &Value) -> Value {
    let mut spec = json!({"remoteCluster": {"name": "island"}, "cephCluster": {"name": "reef"}});
    for (field, value) in change.as_object().expect("a change is an object") {
        spec[field] = value.clone();
    }
    spec
}

#[test]
fn the_documented_ovn_cluster_is_taken_as_it_stands() {
    keeps_all::<ovn::OVNCluster>(
        r#"
apiVersion: ovn.c5c3.io/v1alpha1
kind: OVNCluster
metadata:
  name: ovn
  namespace: ovn-system
spec:
  ovnImage:
    repository: ghcr.io/c5c3/ovn
    tag: "24.03.4"
  ovsImage:
    repository: ghcr.io/c5c3/ovs
    tag: "3.4.1"
  northbound:
    replicas: 3
    storage:
      size: 10Gi
      storageClass: local-path
    resources:
      requests:
        memory: 512Mi
        cpu: 250m
  southbound:
    replicas: 3
    storage:
      size: 10Gi
      storageClass: local-path
    resources:
      requests:
        memory: 512Mi
        cpu: 250m
  controller:
    nodeSelector:
      node-role.kubernetes.io/hypervisor: ""
    resources:
      requests:
        memory: 256Mi
        cpu: 100m
  ovs:
    nodeSelector:
      node-role.kubernetes.io/hypervisor: ""
    resources:
      requests:
        memory: 512Mi
        cpu: 200m
  neutronIntegration:
    nbConnection:
      service:
        name: ovn-nb
        port: 6641
    sbConnection:
      service:
        name: ovn-sb
        port: 6642
  tls:
    enabled: true
    certSecretRef:
      name: ovn-tls-certs
status:
  conditions:
    - type: Ready
      status: "True"
    - type: NorthboundReady
      status: "True"
    - type: SouthboundReady
      status: "True"
    - type: ControllersReady
      status: "True"
  endpoints:
    northbound: tcp:ovn-nb.ovn-system.svc.cluster.local:6641
    southbound: tcp:ovn-sb.ovn-system.svc.cluster.local:6642
  chassisCount: 42
  activeControllers: 42
"#,
    );
}

#[test]
fn the_documented_chassis_is_taken_as_it_stands() {
    keeps_all::<ovn::OVNChassis>(
        r#"
apiVersion: ovn.c5c3.io/v1alpha1
kind: OVNChassis
metadata:
  name: hypervisor-node-01
  namespace: ovn-system
  ownerReferences:
    - apiVersion: v1
      kind: Node
      name: hypervisor-node-01
spec:
  hostname: hypervisor-node-01
  systemId: "abc123-def456-..."
  bridgeMappings:
    - physicalNetwork: provider
      bridge: br-provider
    - physicalNetwork: external
      bridge: br-external
  encapsulation:
    type: geneve
    ip: 10.0.1.100  # Node IP
status:
  conditions:
    - type: Ready
      status: "True"
    - type: OVSConnected
      status: "True"
  registeredAt: "2024-01-15T10:30:00Z"
  lastHeartbeat: "2024-01-15T12:45:30Z"
"#,
    );
}

#[test]
fn everything_an_agent_reports_of_open_vswitch_is_kept() {
    keeps_all::<ovs::OVSNode>(
        r#"
apiVersion: ovs.c5c3.io/v1alpha1
kind: OVSNode
metadata: {name: plum, namespace: ovn-system}
spec: {nodeRef: {name: plum}}
status:
  ovsVersion: "3.4.1"
  ovsdVersion: "3.4.1"
  dpdkEnabled: true
  dpdkVersion: "23.11.1"
  bridges:
    - {name: br-int, ports: 156, flows: 2847, datapathType: netdev, status: Active}
    - {name: br-ex, ports: 2, flows: 45, datapathType: system, status: Active}
  interfaces:
    physical: [{name: eno1, status: Up, speed: 25Gbps, bond: bond0}]
    bonds: [{name: bond0, mode: balance-tcp, status: Active, members: 2, activeMembers: 1}]
  ovnController: {connected: false, sbConnection: "tcp:10.0.0.10:6642", chassisId: "a1b2-..."}
  flowStats: {totalFlows: 3015, flowsPerTable: [{table: 0, flows: 125}, {table: 10, flows: 890}]}
  metrics: {packetsReceived: 1284739847, packetsSent: 1, bytesReceived: 1847293847293, bytesSent: 2, drops: 0, errors: 0}
  issues: [{severity: Warning, message: "orphan port qvo-abc123", detectedAt: "2025-02-03T10:15:00Z"}]
  conditions: [{type: Ready, status: "True"}, {type: AllBondsHealthy, status: "False"}]
"#,
    );
}

#[test]
fn everything_known_of_a_hypervisor_is_kept() {
    keeps_all::<hypervisor::Hypervisor>(
        r#"
apiVersion: hypervisor.c5c3.io/v1
kind: Hypervisor
metadata: {name: plum}
spec:
  version: "1.0.0"
  reboot: false
  evacuateOnReboot: true
  lifecycleEnabled: true
  skipTests: false
  customTraits: []
  aggregates: []
  allowedProjects: []
  highAvailability: true
  createCertManagerCertificate: false
  installCertificate: true
  maintenance: ""
status:
  libVirtVersion: "8.0.0"
  hypervisorVersion: "8.2.0"
  operatingSystem:
    {version: "1.0.0", variantID: metal, prettyVersion: Garden Linux 1.0.0, kernelName: Linux, kernelRelease: "6.1.0",
     kernelVersion: "1 SMP", kernelCommandLine: ro, hardwareVendor: Acme, hardwareModel: R750, hardwareSerial: A1,
     firmwareVersion: "2", firmwareVendor: Acme, firmwareDate: "2024-01-15", gardenLinuxCommitID: abc, gardenLinuxFeatures: [kvm]}
  updateStatus: {inProgress: false, installed: "1.0.0", retry: 3}
  capabilities: {cpuArch: x86_64, memory: 512Gi, cpus: "128"}
  domainCapabilities:
    {arch: x86_64, hypervisorType: kvm, supportedDevices: [video], supportedCpuModes: [host-passthrough], supportedFeatures: [sev]}
  capacity: {cpu: "128", memory: 512Gi}
  allocation: {cpu: "8", memory: 32Gi}
  effectiveCapacity: {cpu: "512", memory: 512Gi}
  cells: [{cellID: 0, allocation: {cpu: "8"}, capacity: {cpu: "64"}, effectiveCapacity: {cpu: "256"}}]
  instances: [{id: abc123, name: instance-00000001, active: true}]
  guestFailures:
    [{instance: abc123, kind: Crashed, time: "2026-01-31T12:00:00Z", state: Running, message: QEMU ended},
     {instance: abc123, kind: IoError, time: "2026-01-31T12:01:00Z", state: Paused}]
  numInstances: 1
  hypervisorId: hv-001
  serviceId: svc-001
  traits: [CUSTOM_NVME]
  aggregates: [{name: az-1, uuid: 0f4ed3a0-4e0f-4f1b-9f8a-3c2a1b7d9e55, metadata: {availability_zone: az-1}}]
  internalIp: 10.0.1.100
  evicted: false
  conditions: [{type: Ready, status: "True", reason: Ready}, {type: libvirtd.service, status: "True"}]
"#,
    );
}

#[test]
fn everything_known_of_an_eviction_and_a_migration_is_kept() {
    keeps_all::<hypervisor::Eviction>(
        r#"
apiVersion: hypervisor.c5c3.io/v1
kind: Eviction
metadata: {name: plum}
spec: {hypervisor: plum, reason: Planned maintenance}
status:
  hypervisorServiceId: svc-001
  outstandingRamMb: 16384
  outstandingInstances: [vm-001, vm-002]
  instances: [{id: vm-003, state: NonMigratable, attempts: 3, lastError: no valid host}]
  conditions: [{type: Evicting, status: "True", reason: Running}]
"#,
    );
    keeps_all::<hypervisor::Migration>(
        r#"
apiVersion: hypervisor.c5c3.io/v1alpha1
kind: Migration
metadata: {name: plum, namespace: orchard}
spec: {}
status:
  {origin: plum, destination: pear, type: live, started: "2024-01-15T10:00:00Z", operation: running,
   timeElapsed: 45s, timeRemaining: 30s, setupTime: 5s, downtime: 0s,
   dataTotal: 32Gi, dataProcessed: 20Gi, dataRemaining: 12Gi,
   memTotal: 16Gi, memProcessed: 10Gi, memRemaining: 6Gi, memBps: 1Gi, memDirtyRate: 100Mi, memIteration: 3,
   memPageSize: 4Ki, memNormal: 2621440, memNormalBytes: 10Gi, memConstant: 1048576, memPostcopyRequests: 0,
   diskTotal: 16Gi, diskProcessed: 10Gi, diskRemaining: 6Gi, diskBps: 500Mi, autoConvergeThrottle: "0", errMsg: ""}
"#,
    );
}

#[test]
fn everything_known_of_a_remote_cluster_and_its_arbiter_is_kept() {
    keeps_all::<ceph::RemoteCluster>(
        r#"
apiVersion: ceph.c5c3.io/v1alpha1
kind: RemoteCluster
metadata: {name: island}
spec: {namespace: external-arbiter, accesskeyRef: {name: island-kubeconfig, key: kubeconfig.yaml}, checkInterval: 1m, timeout: 10s}
status: {state: Ready, message: reachable, conditions: [{type: SecretAvailable, status: "True"}]}
"#,
    );
    keeps_all::<ceph::RemoteArbiter>(
        r#"
apiVersion: ceph.c5c3.io/v1alpha1
kind: RemoteArbiter
metadata: {name: tiebreaker}
spec:
  remoteCluster: {name: island}
  cephCluster: {name: reef, namespace: rook-ceph}
  monIdPrefix: ext-
  checkInterval: 1m
  service: {type: NodePort, nodeIp: 10.10.0.1}
  deployment: {nodeSelector: {node-role: arbiter}}
status: {state: Ready, monId: ext-a, message: in quorum, conditions: [{type: RemoteClusterReady, status: "True"}]}
"#,
    );
}

#[test]
fn an_empty_ovn_cluster_is_a_highly_available_one() {
    let read: ovn::OVNClusterSpec = serde_json::from_value(json!({})).expect("everything has a default");
    assert_eq!(
        serde_json::to_value(&read).expect("a spec is JSON"),
        json!({
            "northbound": {"replicas": 3, "storage": {"size": "10Gi"}},
            "southbound": {"replicas": 3, "storage": {"size": "10Gi"}},
            "northd": {"replicas": 2},
            "controller": {"nodeSelector": {"node-role.kubernetes.io/hypervisor": ""}},
            "ovs": {"nodeSelector": {"node-role.kubernetes.io/hypervisor": ""}},
        })
    );
    assert_eq!((read.northbound_service(), read.southbound_service()), (None, None), "all members are named");
}

#[test]
fn a_raft_database_has_an_odd_number_of_members() {
    let with = |replicas: i64| problems(OVN, "OVNCluster", &json!({"southbound": {"replicas": replicas}}));
    assert_eq!(with(1), "");
    assert_eq!(with(5), "");
    assert_eq!(
        with(4),
        "spec.southbound.replicas: is even, so two halves can block each other; use an odd number such as 1, 3 or 5"
    );
    assert_eq!(with(-1), "spec.southbound.replicas: -1 is below the minimum; use 1 or more");
}

#[test]
fn a_volume_has_a_real_size_and_grows_but_keeps_its_class() {
    let storage = |size: &str, class: &str| json!({"northbound": {"storage": {"size": size, "storageClass": class}}});
    assert_eq!(
        problems(OVN, "OVNCluster", &storage("10GB", "fast")),
        "spec.northbound.storage.size: is not a size above zero; write a number with a unit, such as 10Gi or 512Mi"
    );
    let cluster = |old: &Value, new: &Value| change(OVN, "OVNCluster", old, new);
    assert_eq!(cluster(&storage("10Gi", "fast"), &storage("20Gi", "fast")), "");
    assert_eq!(cluster(&storage("1Gi", "fast"), &storage("1024Mi", "fast")), "");
    assert_eq!(
        cluster(&storage("10Gi", "fast"), &storage("9Gi", "fast")),
        "spec.northbound.storage: makes size smaller, and volumes only grow; keep the old size or choose a larger one"
    );
    let kept = "spec.northbound.storage: changes storageClass, and the data would not follow; \
                keep the old one, or create a new object and migrate";
    assert_eq!(cluster(&storage("10Gi", "fast"), &storage("10Gi", "slow")), kept);
    assert_eq!(cluster(&storage("10Gi", "fast"), &json!({})), kept);
    assert_eq!(cluster(&json!({}), &storage("10Gi", "fast")), kept);
}

#[test]
fn ovn_with_tls_needs_a_certificate() {
    assert_eq!(
        problems(OVN, "OVNCluster", &json!({"tls": {"enabled": true}})),
        "spec.tls: is enabled without a certificate; set issuerRef or certSecretRef, or set enabled to false"
    );
    assert_eq!(problems(OVN, "OVNCluster", &json!({"tls": {"enabled": true, "issuerRef": {"name": "ca"}}})), "");
}

#[test]
fn a_chassis_takes_what_is_an_address_and_nothing_else() {
    let with = |ip: &str| problems(OVN, "OVNChassis", &chassis(&json!({"encapsulation": {"ip": ip}})));
    for good in [
        "10.0.1.100",
        "255.255.255.255",
        "0.0.0.0",
        "fd00::1",
        "FD00::1",
        "::",
        "::1",
        "1::",
        "1:2:3:4:5:6:7:8",
        "1:2:3:4:5:6:7::",
        "::2:3:4:5:6:7:8",
        "2001:db8:0:1::a:b",
    ] {
        assert_eq!(with(good), "", "{good}");
        assert!(good.parse::<std::net::IpAddr>().is_ok(), "{good}");
    }
    for bad in [
        "",
        "10.0.1",
        "10.0.1.256",
        "10.0.1.100.",
        "10.0.1.100/24",
        "010.0.0.1",
        "plum",
        "1::2::3",
        "fd00:::1",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:9",
        ":1:2",
        "fe80::1%eth0",
        "10.0.1.100,10.0.2.100",
    ] {
        let message = "spec.encapsulation.ip: is not an IP address; write an IPv4 address such as 10.0.1.100 \
                       or an IPv6 address such as fd00::100, without a prefix length";
        assert_eq!(with(bad), message, "{bad}");
    }
    assert!(
        problems(OVN, "OVNChassis", &chassis(&json!({"encapsulation": {"type": "gre", "ip": "10.9.8.7"}})))
            .starts_with("spec.encapsulation.type: \"gre\" is not supported")
    );
}

#[test]
fn a_chassis_stays_who_it_is() {
    let old = chassis(&json!({}));
    let to = |new: &Value| change(OVN, "OVNChassis", &old, &chassis(new));
    assert_eq!(to(&json!({"encapsulation": {"type": "vxlan", "ip": "10.9.8.6"}})), "");
    assert_eq!(
        to(&json!({"hostname": "pear"})),
        "spec.hostname: cannot be changed; ports are bound to it, so delete the chassis and let it register again"
    );
    assert!(to(&json!({"systemId": "p-2"})).starts_with("spec.systemId: cannot be changed; "));
    assert_eq!(
        problems(OVN, "OVNChassis", &chassis(&json!({"systemId": "p 1"}))),
        "spec.systemId: is not a system id; leave out spaces, quotes, ',' and ';'"
    );
}

#[test]
fn a_chassis_maps_each_network_once_and_never_to_the_integration_bridge() {
    let with = |mappings: &Value| problems(OVN, "OVNChassis", &chassis(&json!({"bridgeMappings": mappings})));
    let to = |network: &str, bridge: &str| json!({"physicalNetwork": network, "bridge": bridge});
    assert_eq!(with(&json!([to("a", "br-ex"), to("b", "br-ex")])), "");
    assert!(with(&json!([to("a", "br-ex"), to("a", "br-2")])).contains("spec.bridgeMappings[1]"));
    assert!(with(&json!([to("a", "br-int")])).contains("is the bridge that OVN connects instances to; "));
    assert!(with(&json!([to("a:b", "br-ex")])).starts_with("spec.bridgeMappings[0].physicalNetwork: "));
    assert!(with(&json!([to("a", "br-much-too-long")])).contains("use 15 or fewer"));
}

#[test]
fn an_ovs_node_stays_on_its_node() {
    assert_eq!(
        change(OVS, "OVSNode", &json!({"nodeRef": {"name": "plum"}}), &json!({"nodeRef": {"name": "pear"}})),
        "spec.nodeRef: cannot be changed; each node has an OVSNode of its own"
    );
}

#[test]
fn a_hypervisor_takes_custom_traits_overcommit_and_unique_aggregates() {
    let with = |spec: &Value| problems(HYPERVISOR, "Hypervisor", spec);
    assert_eq!(
        with(&json!({"customTraits": ["CUSTOM_NVME", "CUSTOM_A_1"], "overcommit": {"cpu": 1, "memory": 1.5}})),
        ""
    );
    assert!(
        with(&json!({"customTraits": ["NVME"]})).starts_with("spec.customTraits[0]: \"NVME\" does not match ^CUSTOM_")
    );
    assert!(with(&json!({"customTraits": ["CUSTOM_nvme"]})).starts_with("spec.customTraits[0]: "));
    let long = format!("CUSTOM_{}", "A".repeat(249));
    assert!(with(&json!({"customTraits": [long]})).contains("use 255 or fewer"));
    assert_eq!(
        with(&json!({"overcommit": {"cpu": 0.5}})),
        "spec.overcommit.cpu: 0.5 is below the minimum; use 1 or more"
    );
    assert!(with(&json!({"aggregates": ["az-1", "az-1"]})).starts_with("spec.aggregates[1]: "));
    assert_eq!(
        with(&json!({"groups": [{"trait": {"name": "HW_A"}, "aggregate": {"name": "a"}}]})),
        "spec.groups[0]: needs exactly one of trait and aggregate; set one of them"
    );
    assert!(with(&json!({"groups": [{"aggregate": {"name": "a", "uuid": "plum"}}]})).contains("uuid"));
}

#[test]
fn manual_maintenance_says_why() {
    let with = |spec: &Value| problems(HYPERVISOR, "Hypervisor", spec);
    let why = "spec: is in manual maintenance without a reason; set maintenanceReason to what is done and by whom";
    assert_eq!(with(&json!({"maintenance": "manual"})), why);
    assert_eq!(with(&json!({"maintenance": "manual", "maintenanceReason": ""})), why);
    assert_eq!(with(&json!({"maintenance": "manual", "maintenanceReason": "new DIMM"})), "");
    assert_eq!(with(&json!({"maintenance": "auto"})), "");
    assert_eq!(with(&json!({"maintenance": ""})), "");
    assert!(with(&json!({"maintenance": "none"})).starts_with("spec.maintenance: \"none\" is not supported"));
}

#[test]
fn a_hypervisor_that_is_terminated_is_frozen() {
    let old = json!({"maintenance": "termination", "aggregates": ["az-1"]});
    let to = |new: &Value| change(HYPERVISOR, "Hypervisor", &old, new);
    assert_eq!(to(&old), "");
    assert_eq!(to(&json!({"maintenance": "ha", "aggregates": ["az-1"]})), "");
    let frozen = "spec: is of a host that is being terminated and cannot be changed; only maintenance may be set to ha";
    assert_eq!(to(&json!({"maintenance": "", "aggregates": ["az-1"]})), frozen);
    assert_eq!(to(&json!({"maintenance": "termination", "aggregates": []})), frozen);
    assert_eq!(change(HYPERVISOR, "Hypervisor", &json!({}), &old), "");
}

#[test]
fn an_eviction_keeps_its_hypervisor_and_its_reason() {
    let eviction = |hypervisor: &str, reason: &str| json!({"hypervisor": hypervisor, "reason": reason});
    assert!(problems(HYPERVISOR, "Eviction", &eviction("plum", "")).starts_with("spec.reason: is empty; "));
    assert!(problems(HYPERVISOR, "Eviction", &json!({"hypervisor": "plum"})).starts_with("spec.reason: is missing; "));
    let to = |new: &Value| change(HYPERVISOR, "Eviction", &eviction("plum", "new DIMM"), new);
    assert_eq!(
        to(&eviction("pear", "new DIMM")),
        "spec.hypervisor: cannot be changed; delete the Eviction and create one for the other hypervisor"
    );
    assert!(to(&eviction("plum", "boredom")).starts_with("spec.reason: cannot be changed; "));
}

#[test]
fn a_migration_reports_quantities_not_prose() {
    let with = |status: Value| {
        let mut migration = object(HYPERVISOR_ALPHA, "Migration", &json!({}));
        migration["status"] = status;
        let kind = c5c3_api::find(HYPERVISOR_ALPHA, "Migration").expect("the kind is registered");
        kind.check(&migration, None).to_string()
    };
    assert_eq!(
        with(
            json!({"memBps": 31_384_655, "memDirtyRate": 0, "autoConvergeThrottle": "20%", "operation": "migration_out"})
        ),
        ""
    );
    assert!(with(json!({"memTotal": "1.2 GiB"})).starts_with("status.memTotal: \"1.2 GiB\" does not match"));
    assert!(with(json!({"timeElapsed": "45"})).starts_with("status.timeElapsed: is not a duration; "));
    assert!(with(json!({"memNormal": "many"})).starts_with("status.memNormal: "));
}

#[test]
fn an_arbiter_names_a_remote_cluster_or_writes_it_out() {
    let with = |remote: &Value| problems(CEPH, "RemoteArbiter", &arbiter(&json!({"remoteCluster": remote})));
    let one = "spec.remoteCluster: needs exactly one of name and spec; \
               set name for a RemoteCluster that exists, or spec to have one made";
    assert_eq!(with(&json!({})), one);
    assert_eq!(with(&json!({"name": "island", "spec": {}})), one);
    assert_eq!(with(&json!({"spec": {}})), "");
    assert_eq!(
        with(&json!({"spec": {"timeout": "0s"}})),
        "spec.remoteCluster.spec.timeout: 0s is no time at all; write a duration above zero, such as 1m"
    );
    assert_eq!(
        with(&json!({"spec": {"checkInterval": "often"}})),
        "spec.remoteCluster.spec.checkInterval: is not a duration; write numbers with units, such as 30s, 5m or 24h"
    );
}

#[test]
fn an_arbiter_stays_with_its_ceph_cluster_and_its_site() {
    let to = |new: &Value| change(CEPH, "RemoteArbiter", &arbiter(&json!({})), &arbiter(new));
    assert_eq!(to(&json!({"checkInterval": "5m", "service": {"type": "LoadBalancer"}})), "");
    assert!(to(&json!({"cephCluster": {"name": "lagoon"}})).starts_with("spec.cephCluster: cannot be changed; "));
    assert!(to(&json!({"monIdPrefix": "out-"})).starts_with("spec.monIdPrefix: cannot be changed; "));
    let moved = "spec.remoteCluster: changes to another cluster, and the monitor would stay behind; ";
    assert!(to(&json!({"remoteCluster": {"name": "shore"}})).starts_with(moved));
    assert!(to(&json!({"remoteCluster": {"spec": {}}})).starts_with(moved));
    assert!(
        change(CEPH, "RemoteCluster", &json!({"namespace": "a"}), &json!({"namespace": "b"}))
            .starts_with("spec.namespace: cannot be changed; ")
    );
}

#[test]
fn an_arbiter_behind_a_node_port_says_which_node() {
    let with = |service: &Value| problems(CEPH, "RemoteArbiter", &arbiter(&json!({"service": service})));
    assert_eq!(with(&json!({})), "");
    assert_eq!(with(&json!({"type": "NodePort", "nodeIp": "2001:db8::5"})), "");
    assert!(
        with(&json!({"type": "NodePort"}))
            .starts_with("spec.service: needs nodeIp with type NodePort, and only then; ")
    );
    assert!(with(&json!({"type": "ClusterIP", "nodeIp": "192.0.2.1"})).starts_with("spec.service: needs nodeIp"));
    assert!(
        with(&json!({"type": "NodePort", "nodeIp": "island"}))
            .starts_with("spec.service.nodeIp: is not an IP address; ")
    );
    assert!(
        problems(CEPH, "RemoteArbiter", &arbiter(&json!({"monIdPrefix": "Ext_"})))
            .starts_with("spec.monIdPrefix: cannot begin a monitor's id; ")
    );
}
