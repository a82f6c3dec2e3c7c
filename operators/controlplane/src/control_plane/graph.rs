//! What stands on what: one node for each child of a ControlPlane, with the nodes that it needs. Data, and nothing else.

use std::fmt;

/// A part of a ControlPlane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name, which is that of its object too.
    pub name: &'static str,
    /// The condition that it is a part of.
    pub condition: &'static str,
    /// What must be ready before it starts.
    pub needs: &'static [&'static str],
}

pub(crate) const INFRASTRUCTURE: &str = "InfrastructureReady";
pub(crate) const KEYSTONE: &str = "KeystoneReady";
pub(crate) const KORC: &str = "KORCReady";
pub(crate) const SERVICES: &str = "ServicesReady";

/// Every node, each after those that it needs. Keystone waits for no RabbitMQ, and nobody waits for Valkey.
pub const GRAPH: &[Node] = &[
    node("mariadb", INFRASTRUCTURE, &[]),
    node("rabbitmq", INFRASTRUCTURE, &[]),
    node("valkey", INFRASTRUCTURE, &[]),
    node("memcached", INFRASTRUCTURE, &[]),
    node("keystone", KEYSTONE, &["mariadb", "memcached"]),
    node("korc", KORC, &["keystone"]),
    node("glance", SERVICES, &["mariadb", "memcached", "keystone"]),
    node("placement", SERVICES, &["mariadb", "memcached", "keystone"]),
    node("nova", SERVICES, &["mariadb", "rabbitmq", "memcached", "keystone", "placement", "glance"]),
    node("neutron", SERVICES, &["mariadb", "rabbitmq", "memcached", "keystone"]),
    node("cinder", SERVICES, &["mariadb", "rabbitmq", "memcached", "keystone"]),
    node("cortex", SERVICES, &["nova"]),
    node("tempest", SERVICES, &["keystone", "glance", "nova", "neutron", "cinder"]),
];

const fn node(name: &'static str, condition: &'static str, needs: &'static [&'static str]) -> Node {
    Node { name, condition, needs }
}

/// The node of that name.
pub(crate) fn find(name: &str) -> Option<&'static Node> {
    GRAPH.iter().find(|node| node.name == name)
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<10} {:<20} {}", self.name, self.condition, self.needs.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of everything that stands on a node, directly or not.
    fn standing_on(name: &str) -> Vec<&'static str> {
        let mut found: Vec<&'static str> = Vec::new();
        for node in GRAPH {
            if node.needs.iter().any(|need| *need == name || found.contains(need)) {
                found.push(node.name);
            }
        }
        found
    }

    #[test]
    fn the_graph_as_it_is_printed() {
        let lines: Vec<String> = GRAPH.iter().map(|node| node.to_string().trim_end().to_owned()).collect();
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn every_node_comes_after_what_it_needs() {
        for (index, node) in GRAPH.iter().enumerate() {
            for need in node.needs {
                assert!(GRAPH[..index].iter().any(|earlier| earlier.name == *need), "{} needs {need}", node.name);
            }
        }
    }

    #[test]
    fn keystone_stands_on_mariadb_and_not_on_rabbitmq() {
        assert!(standing_on("mariadb").contains(&"keystone"));
        assert_eq!(standing_on("rabbitmq"), ["nova", "neutron", "cinder", "cortex", "tempest"]);
        assert!(standing_on("valkey").is_empty());
    }
}
