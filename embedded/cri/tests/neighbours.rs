//! A neighbour on the network that has routes to a cluster's ranges reaches nothing in it, and the cluster reaches out.

use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use c5c3_cri::testing::Machine;

/// The machine's end and the neighbour's of the link between them. Of other tests that may run at the same time none has
/// 198.51.100.0/24.
const HERE: &str = "198.51.100.1";
const THERE: &str = "198.51.100.2";

fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(done.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Another machine on the same network: a namespace with a link to this one.
struct Neighbour {
    name: String,
}

impl Neighbour {
    fn new(machine: &Machine) -> Self {
        let neighbour = Self { name: format!("c5c3nb-{}", machine.instance) };
        neighbour.remove();
        let (name, ranges) = (&neighbour.name, machine.network.addresses);
        ip(&format!("netns add {name}"));
        ip(&format!("link add {name} type veth peer name eth0 netns {name}"));
        ip(&format!("address add {HERE}/24 dev {name}"));
        ip(&format!("link set {name} up"));
        ip(&format!("-n {name} link set lo up"));
        ip(&format!("-n {name} address add {THERE}/24 dev eth0"));
        ip(&format!("-n {name} link set eth0 up"));
        for range in [ranges.nodes, ranges.pods, ranges.services] {
            ip(&format!("-n {name} route add {range} via {HERE}"));
        }
        neighbour
    }

    fn namespace(&self) -> String {
        format!("/run/netns/{}", self.name)
    }

    fn remove(&self) {
        for arguments in [["link", "del", &self.name], ["netns", "del", &self.name]] {
            let _ = Command::new("ip").args(arguments).stderr(Stdio::null()).status();
        }
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.remove();
    }
}

/// A web server in a namespace, until it is dropped.
struct Web(Child);

impl Web {
    fn start(namespace: &Path) -> Self {
        let mut command = within(namespace);
        Self(command.args(["/bin/busybox", "httpd", "-f", "-p", "8080", "-h", "/proc/self"]).spawn().unwrap())
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn within(namespace: &Path) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={}", namespace.display()));
    command
}

/// Whether a connection can be made from a namespace.
fn connects(namespace: &Path, address: &str, port: u16) -> bool {
    let mut command = within(namespace);
    command.args(["timeout", "2", "bash", "-c", &format!("exec 3<>/dev/tcp/{address}/{port}")]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
}

/// Answers each datagram with itself, for as long as this process lives.
fn echo(address: (&str, u16)) {
    let socket = UdpSocket::bind(address).unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((length, client)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..length], client);
        }
    });
}

/// Whether a datagram that is sent from a namespace is answered.
fn is_answered(namespace: &Path, address: &str, port: u16) -> bool {
    let mut command = within(namespace);
    // One byte, because that is how bash reads: the rest of a datagram would be lost.
    let script = format!("exec 3<>/dev/udp/{address}/{port} && echo >&3 && read -t 2 -u 3 answer");
    command.args(["bash", "-c", &script]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
}

fn eventually(what: &str, is: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !is() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_neighbour_with_a_route_reaches_nothing_and_the_cluster_reaches_out() {
    let machine = Machine::new(1);
    let addresses = machine.network.addresses;
    let (bridge, node) = (addresses.bridge().addr().to_string(), addresses.node(0).to_string());
    let pod = addresses.pods_of(0).hosts().nth(4).unwrap().to_string();
    let inside = machine.sites[0].network_namespace();
    // Stands for a pod: an address of the node's range, on the node.
    let added = within(&inside).args(["ip", "address", "add", &format!("{pod}/32"), "dev", "lo"]).status().unwrap();
    assert!(added.success());
    let neighbour = Neighbour::new(&machine);
    let outside = neighbour.namespace();
    let outside = Path::new(&outside);
    // What stands for the API, the store and the resolver; and a server of the node, of a pod, of the neighbour.
    let api = TcpListener::bind((bridge.as_str(), 0)).unwrap();
    let port = api.local_addr().unwrap().port();
    for address in [bridge.as_str(), HERE] {
        echo((address, 53));
    }
    let (_of_node, _of_neighbour) = (Web::start(&inside), Web::start(outside));

    let here = Path::new("/proc/self/ns/net");
    eventually("the machine reaches the node", || connects(here, &node, 8080));
    eventually("the machine reaches the pod", || connects(here, &pod, 8080));
    eventually("the machine reaches itself", || connects(here, &bridge, port));
    eventually("the node reaches the machine", || connects(&inside, &bridge, port));
    eventually("the node reaches the neighbour", || connects(&inside, THERE, 8080));
    eventually("the machine asks the resolver", || is_answered(here, &bridge, 53));
    eventually("the node asks the resolver", || is_answered(&inside, &bridge, 53));
    for (what, address, port) in [("the API", &bridge, port), ("a node", &node, 8080), ("a pod", &pod, 8080)] {
        assert!(!connects(outside, address, port), "a neighbour reaches {what} at {address}:{port}");
    }
    assert!(!is_answered(outside, &bridge, 53), "a neighbour asks the resolver");
    // The neighbour is not cut off from the machine itself.
    let own = TcpListener::bind((HERE, 0)).unwrap();
    assert!(connects(outside, HERE, own.local_addr().unwrap().port()), "the machine's own address");
    assert!(is_answered(outside, HERE, 53), "the machine's own address, by UDP");
}
