//! What has to be done to have a cluster's links, given what is there.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use ipnet::Ipv4Net;

use super::{
    LinkError, Network, Node, PROVIDER_LINK, bridge, forwarding, host_links, node_link, provider_bridge, provider_link,
    table,
};
use crate::{Instance, Programs, command};

/// What there is already.
#[derive(Debug, Default)]
pub struct Found {
    /// The links of the machine.
    pub links: BTreeSet<String>,
    /// Network namespaces.
    pub namespaces: BTreeSet<PathBuf>,
}

impl Found {
    pub(super) fn read<'a>(namespaces: impl Iterator<Item = &'a Path>) -> Result<Self, LinkError> {
        let mut found = Self { links: host_links()?, namespaces: BTreeSet::new() };
        for namespace in namespaces {
            if c5c3_files::is_namespace(namespace).map_err(LinkError::file(namespace))? {
                found.namespaces.insert(namespace.to_owned());
            }
        }
        Ok(found)
    }
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make a network namespace.
    Namespace(PathBuf),
    /// Let the machine forward packets, and remember whether it did before.
    Forward,
    /// Let a node forward packets, as between its pods and its link.
    ForwardIn(PathBuf),
    /// Lines for `ip -batch`, in a namespace or on the machine.
    Ip(Option<PathBuf>, Vec<String>),
    /// Rules for `nft -f`.
    Rules(String),
}

impl Network {
    /// The steps that are missing. All can be repeated, except those that make a link or a namespace: these are left out
    /// for what was found.
    pub fn plan(&self, found: &Found) -> Vec<Step> {
        let missing = self.nodes.iter().map(|node| &node.namespace).filter(|path| !found.namespaces.contains(*path));
        let mut steps: Vec<_> = missing.cloned().map(Step::Namespace).collect();
        steps.push(Step::Ip(None, self.host_lines(found)));
        for node in &self.nodes {
            steps.push(Step::ForwardIn(node.namespace.clone()));
            steps.push(Step::Ip(Some(node.namespace.clone()), self.node_lines(node)));
        }
        steps.push(Step::Rules(self.rules()));
        steps.push(Step::Forward);
        steps
    }

    fn host_lines(&self, found: &Found) -> Vec<String> {
        let bridge = bridge(&self.instance);
        let mut lines = bridge_lines(found, &bridge, self.addresses.bridge());
        let provider = provider_bridge(&self.instance);
        if self.has_provider() {
            lines.extend(bridge_lines(found, &provider, self.addresses.gateway()));
        }
        for node in &self.nodes {
            lines.extend(pair_lines(found, node, &node_link(&self.instance, node.index), "eth0", &bridge));
            if node.is_hypervisor {
                let link = provider_link(&self.instance, node.index);
                lines.extend(pair_lines(found, node, &link, PROVIDER_LINK, &provider));
            }
            for nic in node.nics.iter().filter(|nic| found.links.contains(*nic)) {
                lines.push(format!("link set {nic} netns {}", node.namespace.display()));
            }
        }
        let to_pods = self.nodes.iter().map(|node| self.route_to_pods_of(node));
        lines.extend(to_pods);
        // A Service's address has to be routable before it is replaced by a pod's.
        lines.push(format!("route replace {} dev {bridge}", self.addresses.services));
        lines
    }

    fn has_provider(&self) -> bool {
        self.nodes.iter().any(|node| node.is_hypervisor)
    }

    fn node_lines(&self, node: &Node) -> Vec<String> {
        let (address, length) = (self.addresses.node(node.index), self.addresses.nodes.prefix_len());
        let others = self.nodes.iter().filter(|other| other.index != node.index);
        [
            "link set lo up".to_owned(),
            "link set eth0 up".to_owned(),
            format!("address replace {address}/{length} dev eth0"),
            format!("route replace default via {}", self.addresses.bridge().addr()),
        ]
        .into_iter()
        .chain(node.nics.iter().map(|nic| format!("link set {nic} up")))
        .chain(node.is_hypervisor.then(|| format!("link set {PROVIDER_LINK} up")))
        .chain(others.map(|other| self.route_to_pods_of(other)))
        .collect()
    }

    fn route_to_pods_of(&self, node: &Node) -> String {
        format!("route replace {} via {}", self.addresses.pods_of(node.index), self.addresses.node(node.index))
    }

    /// What leaves the cluster is masqueraded. What comes in by another way than our bridge or from the machine itself is
    /// dropped: the machine forwards packets, so that a neighbour with a route to our ranges would reach the API, the
    /// store, the resolver and every pod. What was sent to an address that is exposed on purpose passes to the pods behind it: it
    /// was not sent to our ranges. Answers to what pods have asked outside are not new, and pass. Servers on the provider
    /// network are such neighbours, too: they reach the world, the machine and each other, and nothing of the cluster.
    fn rules(&self) -> String {
        let (table, all) = (table(&self.instance), &self.addresses);
        let (provider, to_servers) = if self.has_provider() {
            // Bridges pass what servers send each other through this chain, too, on some machines.
            let bridges = format!("\"{}\", \"{}\"", bridge(&self.instance), provider_bridge(&self.instance));
            let rule = format!("ip daddr {} ct state != {{ established, related }} drop", all.provider);
            (format!(", {}", all.provider), format!("\t\tiifname != {{ {bridges} }} {rule}\n"))
        } else {
            (String::new(), String::new())
        };
        format!(
            "{}table inet {table} {{
	chain postrouting {{
		type nat hook postrouting priority srcnat; policy accept;
		ip saddr {{ {nodes}, {pods}{provider} }} ip daddr != {{ {nodes}, {pods}, {services}{provider} }} masquerade
	}}
	chain input {{
		type filter hook input priority filter; policy accept;
		iifname != {{ \"{bridge}\", \"lo\" }} ip daddr {{ {nodes}, {pods}, {services} }} ct state != {{ established, related }} drop
	}}
	chain forward {{
		type filter hook forward priority filter; policy accept;
		iifname != \"{bridge}\" ip daddr {{ {nodes}, {pods}, {services} }} ct original ip daddr {{ {nodes}, {pods}, {services} }} ct state != {{ established, related }} drop
{to_servers}	}}
}}
",
            without_table(&table),
            bridge = bridge(&self.instance),
            nodes = all.nodes,
            pods = all.pods,
            services = all.services,
        )
    }
}

/// A bridge of the machine with its address.
fn bridge_lines(found: &Found, bridge: &str, address: Ipv4Net) -> Vec<String> {
    let mut lines = Vec::new();
    if !found.links.contains(bridge) {
        // Without an address of its own a bridge takes the lowest of its links', and changes it when nodes come and
        // go; neighbours would lose it for a while each time.
        let [a, b, c, d] = address.addr().octets();
        lines.push(format!("link add {bridge} address 02:c5:{a:02x}:{b:02x}:{c:02x}:{d:02x} type bridge"));
    }
    lines.push(format!("address replace {address} dev {bridge}"));
    lines.push(format!("link set {bridge} up"));
    lines
}

/// A pair of links between a bridge of the machine and a node.
fn pair_lines(found: &Found, node: &Node, link: &str, inner: &str, bridge: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let has_namespace = found.namespaces.contains(&node.namespace);
    let has_link = found.links.contains(link);
    if has_link && !has_namespace {
        // Its other end is in a namespace that has no name any more.
        lines.push(format!("link del {link}"));
    }
    if !(has_link && has_namespace) {
        let namespace = node.namespace.display();
        lines.push(format!("link add {link} type veth peer name {inner} netns {namespace}"));
        // Only a new one: a node that was cut off stays so.
        lines.push(format!("link set {link} master {bridge} up"));
    }
    lines
}

/// Rules that remove a table. It is made first because removing what is not there is an error.
pub(super) fn without_table(table: &str) -> String {
    format!("table inet {table}\ndelete table inet {table}\n")
}

impl Step {
    pub(super) fn execute(&self, instance: &Instance, programs: &Programs) -> Result<(), LinkError> {
        match self {
            Self::Namespace(path) => {
                let folder = path.parent().unwrap_or(path);
                fs::create_dir_all(folder).map_err(LinkError::file(folder))?;
                File::create(path).map_err(LinkError::file(path))?;
                // The program is over at once; the namespace stays because it is mounted on the file.
                command::run(Command::new(&programs.unshare).arg(option("--net=", path)).arg("true"), "")?;
            }
            Self::Forward => forwarding::hold(instance)?,
            Self::ForwardIn(namespace) => {
                let set = ["sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"];
                command::run(within(namespace, programs).args(set), "")?;
            }
            Self::Ip(None, lines) => {
                command::run(Command::new(&programs.ip).args(["-batch", "-"]), &lines.join("\n"))?;
            }
            Self::Ip(Some(namespace), lines) => {
                command::run(within(namespace, programs).arg(&programs.ip).args(["-batch", "-"]), &lines.join("\n"))?;
            }
            Self::Rules(rules) => {
                command::run(Command::new(&programs.nft).args(["-f", "-"]), rules)?;
            }
        }
        Ok(())
    }
}

/// What runs a program in a namespace. Unlike `ip netns exec`, it does not mount `/sys` again, which would hide cgroups.
pub(super) fn within(namespace: &Path, programs: &Programs) -> Command {
    let mut command = Command::new(&programs.nsenter);
    command.arg(option("--net=", namespace));
    command
}

fn option(name: &str, path: &Path) -> std::ffi::OsString {
    let mut option = std::ffi::OsString::from(name);
    option.push(path);
    option
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace(path) => writeln!(f, "new namespace {}", path.display()),
            Self::Forward => writeln!(f, "forward"),
            Self::ForwardIn(namespace) => writeln!(f, "forward in {}", namespace.display()),
            Self::Ip(namespace, lines) => {
                let place = namespace.as_ref().map(|path| format!(" in {}", path.display())).unwrap_or_default();
                writeln!(f, "ip{place}:")?;
                lines.iter().try_for_each(|line| writeln!(f, "  {line}"))
            }
            Self::Rules(rules) => write!(f, "nft:\n{rules}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Addresses, Site};

    fn zoo() -> Network {
        let instance = Instance::new("zoo").unwrap();
        let node = |(index, name)| Node::new(index, &Site::new(instance.clone(), name, "/data").unwrap());
        let nodes = [(0, "lion"), (1, "bear")].map(node).to_vec();
        Network { instance, addresses: Addresses::within(10, 77), nodes }
    }

    fn printed(steps: &[Step]) -> String {
        steps.iter().map(Step::to_string).collect()
    }

    #[test]
    fn two_nodes_on_a_fresh_machine() {
        insta::assert_snapshot!(printed(&zoo().plan(&Found::default())));
    }

    #[test]
    fn a_hypervisor_is_connected_to_the_provider_network_too() {
        let mut network = zoo();
        network.nodes[1].is_hypervisor = true;
        insta::assert_snapshot!(printed(&network.plan(&Found::default())));
    }

    #[test]
    fn a_node_is_added_and_one_that_is_cut_off_stays_so() {
        let network = zoo();
        let found = Found {
            links: ["c5c3br-zoo", "c5c3v0-zoo", "eth0"].map(str::to_owned).into(),
            namespaces: [network.nodes[0].namespace.clone()].into(),
        };
        insta::assert_snapshot!(printed(&network.plan(&found)));
    }

    #[test]
    fn a_network_card_is_moved_into_its_node_once() {
        let mut network = zoo();
        network.nodes[1].nics.push("eth1".to_owned());
        let found = Found { links: ["eth0", "eth1"].map(str::to_owned).into(), namespaces: BTreeSet::new() };
        let moves = format!("link set eth1 netns {}", network.nodes[1].namespace.display());
        assert!(network.host_lines(&found).contains(&moves));
        assert!(network.node_lines(&network.nodes[1]).contains(&"link set eth1 up".to_owned()));
        assert!(!network.host_lines(&Found::default()).contains(&moves), "it is in the node already");
    }

    #[test]
    fn a_link_into_a_namespace_that_is_gone_is_made_anew() {
        let network = zoo();
        let found = Found { links: ["c5c3v1-zoo".to_owned()].into(), namespaces: BTreeSet::new() };
        let lines = network.host_lines(&found);
        let about: Vec<_> = lines.iter().filter(|line| line.contains("c5c3v1-zoo")).collect();
        assert_eq!(about[0], "link del c5c3v1-zoo");
        assert!(about[1].starts_with("link add c5c3v1-zoo type veth"), "{about:?}");
    }
}
