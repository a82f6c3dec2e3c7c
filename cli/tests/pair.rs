//! Two hypervisors: a server moves from one to the other and back while it is asked, by Cortex and by Nova, and agents tell where
//! it is. In the end its node loses its power, and starts it again.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

#[path = "cloud/mod.rs"]
mod cloud;
#[path = "machine/mod.rs"]
mod machine;

use cloud::{Cloud, client};
use machine::Machine;

const CONTROL_PLANE: &str = "
apiVersion: c5c3.io/v1alpha1
kind: ControlPlane
metadata: {name: lab, namespace: cloud}
spec:
  infrastructure:
    mariadb: {replicas: 1, storageSize: 2Gi}
    rabbitmq: {replicas: 1, storageSize: 1Gi}
    memcached: {replicas: 1, memory: 64Mi}
    ovn:
      replicas: 1
      storageSize: 1Gi
      bridgeMappings: [{physicalNetwork: provider, bridge: br-ex, interface: provider0}]
  services:
    keystone: {replicas: 1}
    glance: {replicas: 1, backend: {type: file}}
    placement: {replicas: 1}
    neutron: {api: {replicas: 1}}
    nova:
      api: {replicas: 1}
      scheduler: {replicas: 1}
      conductor: {replicas: 1}
      template: {storage: {backend: local}, compute: {liveMigration: {transport: tcp}}}
";

/// A server with a floating IP.
const SERVER: &str = "set -e
$C5C3 image guest --output tiny.qcow2
openstack image create tiny --disk-format qcow2 --container-format bare --file tiny.qcow2
openstack flavor create tiny --ram 128 --disk 1 --vcpus 1
openstack network create inside
openstack subnet create inside --network inside --subnet-range 10.20.0.0/24
openstack network create outside --external --provider-network-type flat --provider-physical-network provider
openstack subnet create outside --network outside --no-dhcp --subnet-range $C5C3_PROVIDER_RANGE --gateway $C5C3_PROVIDER_GATEWAY
openstack router create gate --external-gateway outside
openstack router add subnet gate inside
openstack security group create web
openstack security group rule create web --protocol tcp --dst-port 80
openstack port create first --network inside --security-group web
openstack server create first --image tiny --flavor tiny --port first --wait
";

/// How long a migration of a server with 128 MiB may take, by emulation on a busy machine.
const MIGRATION: Duration = Duration::from_mins(2);

/// What Nova says of its hypervisors.
const STATES: &str = "compute service list --service nova-compute -f value -c Host -c State | LC_ALL=C sort | xargs";

#[test]
fn a_server_moves_between_two_hypervisors_while_it_is_asked_and_outlives_its_node() {
    let cloud = Cloud::on(Machine::up_to_ready_on(2, CONTROL_PLANE, "--hypervisors 2"));
    let it = &cloud.machine;
    it.eventually(&client(STATES), "node-1 up node-2 up");
    cortex_is_there(&cloud);
    let (id, address) = server(&cloud);
    let from = host(&cloud);
    let to = if from == "node-1" { "node-2" } else { "node-1" };
    agents_count(&cloud, &from, to);
    cortex_moves_it_when_it_may(&cloud, address, (&id, &from, to));
    its_migration_is_told(&cloud, &id, (&from, to));
    nova_moves_it(&cloud, address, (to, &from));
    its_migration_is_told(&cloud, &id, (to, &from));
    its_node_goes_off_and_on(&cloud, address, &from);
}

fn cortex_is_there(cloud: &Cloud) {
    let it = &cloud.machine;
    it.import_itself();
    let patch = r#"{"spec": {"cortex": {"enabled": true, "replicas": 1}}}"#;
    it.ok(&format!("kubectl -n cloud patch controlplane lab --type=merge -p '{patch}'"));
    let ready = "{.status.conditions[?(@.type==\"Ready\")].status}";
    it.eventually(&format!("kubectl -n cloud get cortex cortex -o jsonpath='{ready}' 2>/dev/null"), "True");
    // Cortex leaves out hosts that are not ready.
    let hosts = format!("kubectl get hv node-1 node-2 -o jsonpath='{{range .items[*]}}{ready} {{end}}' | xargs");
    it.eventually(&hosts, "True True");
    cloud.settle();
}

/// Makes the server, and says its id and where it answers.
fn server(cloud: &Cloud) -> (String, SocketAddr) {
    let it = &cloud.machine;
    let script =
        format!("openstack() {{ {} \"$@\"; }}\neval \"$($C5C3 env --data $PWD/data)\"\n{SERVER}", cloud::program());
    it.write("server.sh", &script);
    it.ok("sh server.sh");
    let id = cloud.openstack("server show first -f value -c id").trim().to_owned();
    let floating = cloud.openstack("floating ip create outside --port first -f value -c floating_ip_address");
    let address = format!("{}:80", floating.trim());
    it.eventually(&its_name(&address), "first.novalocal");
    (id, address.parse().unwrap())
}

/// Asks the server for its name, which it knows from its metadata.
fn its_name(address: &impl std::fmt::Display) -> String {
    format!("curl -sf -m 5 http://{address}/hostname")
}

fn host(cloud: &Cloud) -> String {
    cloud.openstack("server show first -f value -c OS-EXT-SRV-ATTR:host").trim().to_owned()
}

/// What the Hypervisors say of the servers on them, as the agents of their nodes see them.
fn agents_count(cloud: &Cloud, with: &str, without: &str) {
    for (host, count) in [(with, "1"), (without, "0")] {
        let connected = "{.status.conditions[?(@.type==\"LibVirtConnection\")].status}";
        let look = format!("kubectl get hv {host} -o jsonpath='{connected} {{.status.numInstances}}'");
        cloud.machine.eventually(&look, &format!("True {count}"));
    }
}

/// A dry run tells where it would go, and moves nothing.
fn cortex_moves_it_when_it_may(cloud: &Cloud, address: SocketAddr, (id, from, to): (&str, &str, &str)) {
    let it = &cloud.machine;
    let object = serde_json::json!({"apiVersion": "cortex.c5c3.io/v1alpha1", "kind": "Descheduling",
        "metadata": {"name": "relief", "namespace": "cloud"},
        "spec": {"resourceID": id, "prevHost": from, "reason": "the rack is too warm"}});
    it.write("relief.json", &object.to_string());
    it.ok("kubectl apply -f relief.json");
    let reason = "{.status.conditions[?(@.type==\"Ready\")].reason}";
    let told =
        format!("kubectl -n cloud get descheduling.cortex.c5c3.io relief -o jsonpath='{reason} {{.status.newHost}}'");
    it.eventually(&told, &format!("DryRun {to}"));
    assert_eq!(host(cloud), from, "a dry run moves nothing");
    let asked = Asked::all_the_time(address);
    it.ok(
        "kubectl -n cloud patch descheduling.cortex.c5c3.io relief --type=merge -p '{\"spec\": {\"dryRun\": false}}'",
    );
    it.eventually(&told, &format!("Migrated {to}"));
    asked.end("moved by Cortex");
    assert_eq!(host(cloud), to);
    agents_count(cloud, to, from);
    let why = it.ok(&format!("$C5C3 why server/{id} -n cloud --data $PWD/data"));
    assert!(why.contains("the rack is too warm") && why.contains(&format!("it is on {to}")), "{why}");
}

fn nova_moves_it(cloud: &Cloud, address: SocketAddr, (from, to): (&str, &str)) {
    let asked = Asked::all_the_time(address);
    cloud.openstack(&format!("--os-compute-api-version 2.79 server migrate --live-migration --host {to} --wait first"));
    asked.end("moved by Nova");
    assert_eq!(host(cloud), to);
    agents_count(cloud, to, from);
}

/// The agents at both ends tell of the last migration.
fn its_migration_is_told(cloud: &Cloud, id: &str, (origin, destination): (&str, &str)) {
    let told = "{.status.origin} {.status.destination} {.status.type}";
    let look = format!("kubectl -n cloud get migrations.hypervisor.c5c3.io {id} -o jsonpath='{told}'");
    cloud.machine.eventually(&look, &format!("{origin} {destination} success"));
}

/// Without power the guest is gone, and whatever else runs on the node. Nova starts the guest again when the node is back.
fn its_node_goes_off_and_on(cloud: &Cloud, address: SocketAddr, node: &str) {
    let it = &cloud.machine;
    // A node that takes long to come back would be fenced, and its server would start on the other one.
    it.ok(&format!("kubectl patch hv {node} --type=merge -p '{{\"spec\": {{\"highAvailability\": false}}}}'"));
    let pod = |component: &str| {
        let labels = format!("-l app.kubernetes.io/component={component} --field-selector spec.nodeName={node}");
        format!("kubectl -n cloud get pods {labels}")
    };
    let started = "{.items[0].status.containerStatuses[0].containerID}";
    let compute = format!("{} -o jsonpath='{started}'", pod("compute-cell1"));
    // The number, the program and the start of the emulator: a number alone may be given again.
    let stat = "cut -d\" \" -f1,2,22 /proc/$(cat /run/libvirt/qemu/instance-00000001.pid)/stat | grep qemu";
    let emulator = format!("kubectl -n cloud exec $({} -o name) -c libvirt -- sh -c '{stat}'", pod("libvirt"));
    let another = |look: &str, before: &str| format!("now=$({look}) && [ \"$now\" != '{before}' ] && echo another");
    let (compute_before, emulator_before) = (it.ok(&compute), it.ok(&emulator));
    it.says(&format!("$C5C3 node stop {node} --data $PWD/data"), &format!("{node} is off"));
    assert!(TcpStream::connect_timeout(&address, Duration::from_secs(2)).is_err(), "{address} answers without power");
    it.says(&format!("$C5C3 node start {node} --data $PWD/data"), &format!("{node} is on"));
    it.eventually(&another(&compute, &compute_before), "another");
    // nova-compute is ready when it hears conductors, which takes all that ran on the node.
    it.ok("kubectl -n cloud rollout status daemonset/nova-compute-cell1 --timeout=600s");
    it.eventually(&client(STATES), "node-1 up node-2 up");
    it.eventually(&another(&emulator, &emulator_before), "another");
    it.eventually(&its_name(&address), "first.novalocal");
    it.eventually(&client("server show first -f value -c status"), "ACTIVE");
    assert_eq!(host(cloud), node);
}

/// Asks a server again and again whether it takes connections.
struct Asked {
    begun: Instant,
    ends: Arc<AtomicBool>,
    asking: JoinHandle<Duration>,
}

impl Asked {
    fn all_the_time(address: SocketAddr) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let told = ends.clone();
        let asking = std::thread::spawn(move || {
            let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
            while !told.load(Ordering::SeqCst) {
                if TcpStream::connect_timeout(&address, Duration::from_millis(500)).is_ok() {
                    longest = longest.max(last.elapsed());
                    last = Instant::now();
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            longest.max(last.elapsed())
        });
        Self { begun: Instant::now(), ends, asking }
    }

    /// Prints how long all took, and for how long the server did not answer at most: the aim is two seconds, which emulation may
    /// miss.
    fn end(self, what: &str) {
        let took = self.begun.elapsed();
        self.ends.store(true, Ordering::SeqCst);
        let longest = self.asking.join().unwrap();
        eprintln!("{what} in {took:.1?}: no answer for {longest:.1?} at most");
        assert!(longest < Duration::from_secs(30), "{what}: no answer for {longest:?}");
        assert!(took < MIGRATION, "{what} in {took:?}");
    }
}
