//! The whole cloud that `c5c3 up` makes, and the quick start on it as it is written: a server boots, gets its address and its
//! metadata, is reached by a floating IP, has a volume, outlives the pods of its hypervisor, and goes without a trace.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

#[path = "cloud/mod.rs"]
mod cloud;
#[path = "machine/mod.rs"]
mod machine;

use cloud::{Cloud, client};
use machine::Machine;

/// What `c5c3 up` makes.
const CONTROL_PLANE: &str = include_str!("../src/up/cloud.yaml");

/// The quick start, whose commands are run.
const QUICK_START: &str = include_str!("../../docs/first-server.md");

/// A command in the pod of libvirt.
const LIBVIRT: &str = "kubectl -n cloud exec ds/nova-libvirt -c libvirt --";

#[test]
fn a_server_of_the_quick_start_boots_is_reached_outlives_its_pods_and_goes() {
    let plane = CONTROL_PLANE.replace("name: c5c3", "name: lab").replace("namespace: openstack", "namespace: cloud");
    let cloud = Cloud::on(Machine::up_to_ready_with(&plane, "--hypervisors 1"));
    the_node_is_a_hypervisor(&cloud);
    follow(&cloud, "An image, a size, networks");
    cloud.machine.eventually(&client("volume show data -f value -c status"), "available");
    follow(&cloud, "The server");
    let id = cloud.openstack("server show first -f value -c id").trim().to_owned();
    it_says_who_it_is(&cloud, &id);
    agents_say_what_virsh_and_ovs_vsctl_say(&cloud, &id);
    let seen = follow(&cloud, "Its screen");
    assert!(seen.ends_with("200"), "the page of its screen: {seen}");
    it_shows_its_screen(&cloud);
    let seen = follow(&cloud, "Reach it");
    assert!(seen.ends_with("first.novalocal"), "by TCP: {seen}");
    let seen = follow(&cloud, "A volume");
    assert!(seen.ends_with("GUEST-DISK vdb 1073741824"), "in the guest: {seen}");
    it_has_a_volume_as_long_as_that_is_attached(&cloud);
    it_outlives_libvirt_and_nova_compute(&cloud);
    follow(&cloud, "The end");
    it_goes_without_a_trace(&cloud);
    cloud::leaks::search(&cloud.machine);
}

/// Runs the commands of a section of the quick start, and returns what they print. Whoever follows the page has one shell for all of
/// it, and so still has the address of the server.
fn follow(cloud: &Cloud, section: &str) -> String {
    let (_, text) = QUICK_START.split_once(&format!("\n## {section}\n")).unwrap_or_else(|| panic!("no {section}"));
    let text = text.split("\n## ").next().unwrap_or(text);
    let commands: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    assert!(!commands.is_empty(), "{section} has no commands");
    let script = format!(
        "set -e
if [ -e address ]; then address=$(cat address); fi
c5c3() {{ \"$C5C3\" \"$@\"; }}
openstack() {{ {} \"$@\"; }}
command -v ping >/dev/null || ping() {{ busybox ping \"$@\"; }}
eval \"$(c5c3 env --data $PWD/data)\"
{}
if [ -n \"$address\" ]; then echo \"$address\" > address; fi
",
        cloud::program(),
        commands.join("\n").replace("-n openstack", "-n cloud")
    );
    cloud.machine.write("section.sh", &script);
    // Some commands wait for as long as it takes.
    cloud.machine.ok("timeout 900 sh section.sh")
}

fn the_node_is_a_hypervisor(cloud: &Cloud) {
    let it = &cloud.machine;
    it.eventually(&client("compute service list --service nova-compute -f value -c Host -c State"), "node-1 up");
    it.eventually("kubectl -n cloud get nova nova -o jsonpath='{.status.cells[*].computeNodes}'", "1");
    it.eventually("kubectl -n cloud get ovncluster ovn -o jsonpath='{.status.chassisCount}'", "1");
}

/// A guest that runs sees the disk come and go. In the quick start the volume stays until the end.
fn it_has_a_volume_as_long_as_that_is_attached(cloud: &Cloud) {
    let it = &cloud.machine;
    let status = client("volume show data -f value -c status");
    let disks = format!("{LIBVIRT} virsh -q -c qemu:///system domblklist instance-00000001 | grep -c volumes/volume-");
    let is = |wanted: &str, count: &str| {
        it.eventually(&status, wanted);
        it.eventually(&disks, count);
    };
    is("in-use", "1");
    cloud.openstack("server remove volume first data");
    is("available", "0");
    cloud.openstack("server add volume first data");
    is("in-use", "1");
}

/// What the guest says on its console: DHCP and metadata work only with the whole of OVN, Neutron and Nova.
fn it_says_who_it_is(cloud: &Cloud, id: &str) {
    let says = |text: &str| client(&format!("console log show first | grep -c '{text}'"));
    let address = cloud.openstack("port list --server first -f value -c \"Fixed IP Addresses\"");
    let address = address.split('\'').find(|part| part.starts_with("10.20.0.")).unwrap_or_else(|| panic!("{address}"));
    cloud.machine.eventually(&says(&format!("GUEST-LEASE eth0 {address} 1442")), "1");
    cloud.machine.eventually(&says(&format!("GUEST-METADATA .* {id} ")), "1");
}

/// What is in `kubectl get hv,ovsn` is what the programs of libvirt and Open vSwitch say.
fn agents_say_what_virsh_and_ovs_vsctl_say(cloud: &Cloud, id: &str) {
    let it = &cloud.machine;
    let daemon = format!("{LIBVIRT} virsh -q -c qemu:///system version --daemon | sed -n 's/.*daemon: *//p'");
    let version = it.ok(&daemon);
    let libvirt = "{.status.conditions[?(@.type==\"LibVirtConnection\")].status}";
    let said = "{.status.libVirtVersion} {.status.numInstances} {.status.instances[*].id}";
    it.eventually(
        &format!("kubectl get hv node-1 -o jsonpath='{libvirt} {said}'"),
        &format!("True {} 1 {id}", version.trim()),
    );
    let pod = it.ok("kubectl -n cloud get pods -l app.kubernetes.io/component=ovs -o name");
    let switch = format!("kubectl -n cloud exec {pod} -c vswitchd -- ovs-vsctl -t 10");
    let bridges = it.ok(&format!("{switch} list-br | LC_ALL=C sort | xargs"));
    let ready = "{.status.conditions[?(@.type==\"Ready\")].status}";
    let ovsn = |path: &str| format!("kubectl -n ovn-system get ovsn node-1 -o jsonpath='{path}'");
    it.eventually(&ovsn(ready), "True");
    it.eventually(&format!("{} | tr ' ' '\\n' | LC_ALL=C sort | xargs", ovsn("{.status.bridges[*].name}")), &bridges);
    // Open vSwitch does not list the bridge's own port.
    let ports = it.ok(&format!("echo $(($({switch} list-ports br-int | wc -l) + 1))"));
    it.eventually(&ovsn("{.status.bridges[?(@.name==\"br-int\")].ports}"), &ports);
}

/// What the page of a screen does in a browser: it upgrades a connection to a WebSocket, through which QEMU speaks VNC.
fn it_shows_its_screen(cloud: &Cloud) {
    let url = cloud.openstack("console url show first --novnc -f value -c url");
    let (address, page) = url.trim().strip_prefix("http://").and_then(|rest| rest.split_once('/')).unwrap();
    let (_, token) = page.split_once("token%3D").unwrap_or_else(|| panic!("no token in {page}"));
    let first = |token: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        let upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13";
        let key = "Sec-WebSocket-Key: YSBzY3JlZW4gdGhhdCBpcyE=\r\nSec-WebSocket-Protocol: binary";
        write!(stream, "GET /?token={token} HTTP/1.1\r\nHost: {address}\r\n{upgrade}\r\n{key}\r\n\r\n").unwrap();
        let (mut said, mut part) = (String::new(), [0; 1024]);
        while !said.contains("RFB 003.008\n") {
            match stream.read(&mut part) {
                Ok(count) if count > 0 => said += &String::from_utf8_lossy(&part[..count]),
                // What came is judged below.
                _ => break,
            }
        }
        said
    };
    let said = first(token);
    assert!(said.starts_with("HTTP/1.1 101 ") && said.ends_with("RFB 003.008\n"), "{said}");
    assert!(!first("00000000-0000-0000-0000-000000000000").contains("RFB"), "without a token there is no screen");
    let logs = cloud.machine.ok("kubectl -n cloud logs deploy/nova-console -c console");
    assert!(!logs.contains(token), "a log has the token of a screen");
}

/// The emulator is the same process before and after, and Nova is in charge of it again.
fn it_outlives_libvirt_and_nova_compute(cloud: &Cloud) {
    let it = &cloud.machine;
    let emulator = format!("{LIBVIRT} cat /run/libvirt/qemu/instance-00000001.pid");
    let before = it.ok(&emulator);
    let seen = follow(cloud, "Without its pods");
    assert!(seen.contains("first.novalocal") && seen.matches("GUEST-READY").count() == 1, "{seen}");
    it.eventually(
        &format!("{LIBVIRT} virsh -q -c qemu:///system list --state-running --name | xargs"),
        "instance-00000001",
    );
    it.says(&emulator, &before);
    it.eventually(&client("compute service list --service nova-compute -f value -c State"), "up");
    cloud.openstack("server reboot --hard first");
    it.eventually(&client("server show first -f value -c status"), "ACTIVE");
}

/// A client that fails prints nothing as well, so that every line prints something when its client succeeds.
fn it_goes_without_a_trace(cloud: &Cloud) {
    let it = &cloud.machine;
    let empty = |list: &str| it.eventually(&format!("rows=$({list}) && echo \"left: $rows\""), "left:");
    for list in ["server list", "volume list", "floating ip list", "port list --device-owner compute:nova"] {
        empty(&client(&format!("{list} -f value")));
    }
    for (what, name) in [
        ("port", "first"),
        ("router", "gate"),
        ("network", "inside"),
        ("network", "outside"),
        ("security group", "web"),
    ] {
        let names = client(&format!("{what} list -f value -c Name"));
        it.eventually(&format!("names=$({names}) && echo \"$names\" | grep -cx {name}"), "0");
    }
    empty("kubectl -n rook-ceph exec deploy/rook-ceph-mon-a -- rbd ls volumes");
    it.eventually(&format!("{LIBVIRT} virsh -q -c qemu:///system list --all --name | xargs"), "");
    // What Placement holds for servers is given back.
    let providers = client("resource provider list -f value -c uuid");
    let usage = client("resource provider usage show $provider -f value -c usage");
    it.eventually(&format!("for provider in $({providers}); do {usage}; done | sort -u | xargs"), "0");
}
