//! The OVNChassis of each node, and what its Open vSwitch is told.

use std::net::IpAddr;

use c5c3_api::ovn::{BridgeMapping, OVNChassis};
use c5c3_kit::Child;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use serde_json::{Map, Value, json};

use crate::layout::{Database, Layout};
use crate::remote::{NodeSeen, Nodes};

/// The label of these objects.
const COMPONENT: &str = "chassis";

impl Layout {
    /// The OVNChassis of the nodes, and the ConfigMap made of them. A node without an address has none yet.
    pub(crate) fn chassis_children(&self, nodes: &Nodes) -> Vec<Child> {
        let mut files = Map::new();
        let mut children = Vec::new();
        for node in &nodes.nodes {
            let Some(address) = node.address else { continue };
            let spec = spec(node, address, nodes);
            files.insert(node.name.clone(), self.file(&spec, address).into());
            children.push(self.chassis(node, spec));
        }
        let config = json!({ "data": files });
        children.insert(0, self.child_of::<ConfigMap>(&self.chassis_config(), COMPONENT, config));
        children
    }

    fn chassis(&self, node: &NodeSeen, mut spec: Value) -> Child {
        if let Some(fields) = spec.as_object_mut() {
            // Theirs who wrote them.
            fields.remove("bridgeMappings");
        }
        let mut child = self.child::<OVNChassis>(&node.name, COMPONENT, &spec).adoptable().readiness_optional();
        child.object.metadata.owner_references = Some(vec![OwnerReference {
            api_version: Node::api_version(&()).into_owned(),
            kind: Node::kind(&()).into_owned(),
            name: node.name.clone(),
            uid: node.uid.clone(),
            controller: Some(false),
            block_owner_deletion: Some(false),
        }]);
        child
    }

    /// The bridge mappings of a node: its own, or else those of all nodes.
    fn mappings(&self, spec: &Value) -> Vec<BridgeMapping> {
        let own: Vec<BridgeMapping> = serde_json::from_value(spec["bridgeMappings"].clone()).unwrap_or_default();
        if own.is_empty() { self.spec.bridge_mappings.clone() } else { own }
    }

    /// What `configure.sh` reads: a key and a value in each line.
    fn file(&self, spec: &Value, node: IpAddr) -> String {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mappings = self.mappings(spec);
        let listed = |pairs: Vec<(&str, &str)>| {
            pairs.into_iter().map(|(from, to)| format!("{from}:{to}")).collect::<Vec<_>>().join(",")
        };
        let networks = mappings.iter().map(|one| (one.physical_network.as_str(), one.bridge.as_str())).collect();
        let uplinks =
            mappings.iter().filter_map(|one| Some((one.bridge.as_str(), one.interface.as_deref()?))).collect();
        let lines = [
            ("system-id", text(&spec["systemId"])),
            ("hostname", text(&spec["hostname"])),
            ("encap-type", text(&spec["encapsulation"]["type"])),
            ("encap-ip", text(&spec["encapsulation"]["ip"])),
            ("node-ip", node.to_string()),
            ("remote", self.endpoint(Database::Southbound)),
            ("mappings", listed(networks)),
            ("uplinks", listed(uplinks)),
        ];
        lines.map(|(key, value)| format!("{key} {value}\n")).concat()
    }
}

/// What the OVNChassis says already, or what is made of the node.
fn spec(node: &NodeSeen, address: IpAddr, nodes: &Nodes) -> Value {
    match nodes.chassis.get(&node.name) {
        Some(written) => json!(written),
        None => json!({
            "hostname": node.name, "systemId": node.name, "encapsulation": {"type": "geneve", "ip": address.to_string()},
        }),
    }
}
