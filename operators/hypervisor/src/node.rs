//! Node to Hypervisor: a node with the role gets a Hypervisor of its name, which goes with the node.

use std::collections::BTreeMap;

use c5c3_api::hypervisor::Hypervisor;
use c5c3_kit::{Child, Controller, Inputs, KindRef, Plan, Ref, Step, Verdict};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::ROLE;

/// On a node: names of Nova aggregates, with commas between them. The one of the node's zone is added to them.
pub(crate) const AGGREGATES: &str = "hypervisor.c5c3.io/aggregates";
/// On a node: names of traits, with commas between them.
pub(crate) const TRAITS: &str = "hypervisor.c5c3.io/custom-traits";
/// A label of a node: `skip-tests` onboards it without tests, `disabled` keeps the operator's hands off it.
pub(crate) const LIFECYCLE: &str = "hypervisor.c5c3.io/lifecycle";
/// On a Hypervisor: the address of its node.
pub(crate) const INTERNAL_IP: &str = "hypervisor.c5c3.io/internal-ip";
/// On a Hypervisor: the host names of its node, with commas between them.
pub(crate) const HOST_NAMES: &str = "hypervisor.c5c3.io/host-names";
/// On a Hypervisor: `true` while its node is going away.
pub(crate) const LEAVING: &str = "hypervisor.c5c3.io/node-terminating";
/// On a Hypervisor: `true` while its node has lost the role. A spec that is being terminated could not say it.
pub(crate) const ROLE_REMOVED: &str = "hypervisor.c5c3.io/node-role-removed";

const ZONE: &str = "topology.kubernetes.io/zone";

/// Labels of a node that its Hypervisor has too.
const COPIED: &[&str] = &[
    "kubernetes.io/hostname",
    "kubernetes.metal.cloud.sap/bb",
    "kubernetes.metal.cloud.sap/cluster",
    "kubernetes.metal.cloud.sap/name",
    "kubernetes.metal.cloud.sap/type",
    "topology.kubernetes.io/region",
    ZONE,
    "worker.garden.sapcloud.io/group",
    "worker.gardener.cloud/pool",
];

/// The controller of nodes.
pub(crate) struct Nodes;

impl Controller for Nodes {
    type Kind = Node;
    type Valid = ();
    const NAME: &'static str = "hypervisor-node";
    const CONDITIONS: &'static [&'static str] = &["HypervisorCreated"];
    const SUMMARY: &'static [&'static str] = &[];
    const REPORTS: bool = false;

    fn trigger(&self, node: &DynamicObject) -> Option<String> {
        let status = &node.data["status"];
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let leaving = conditions.filter(|condition| condition["type"] == "Terminating").map(|one| &one["status"]);
        Some(format!("{} {:?}", status["addresses"], leaving.collect::<Vec<_>>()))
    }

    fn children(&self) -> Vec<KindRef> {
        vec![KindRef::of::<Hypervisor>()]
    }

    fn observes(&self) -> Vec<KindRef> {
        self.children()
    }

    fn needs(&self, _: &Inputs<Node>) -> Vec<Ref> {
        Vec::new()
    }

    fn validate(&self, _: &Inputs<Node>) -> Verdict<()> {
        Verdict::Valid(())
    }

    fn plan(&self, (): &(), inputs: &Inputs<Node>) -> Plan {
        let node = &inputs.object;
        let live = inputs.own_named::<Hypervisor>(&node.name_any());
        let step = Step::new("HypervisorCreated");
        // A node that loses the role keeps its Hypervisor, which says so; one that is deleted then does not come back.
        let stays = live.is_some_and(|live| live.metadata.deletion_timestamp.is_none());
        if !has_role(node) && !stays {
            return Plan::new().step(step.childless().done("the node has not the role of a hypervisor"));
        }
        Plan::new().step(step.child(hypervisor(node, live).readiness_optional()))
    }
}

/// Whether the node is a hypervisor.
fn has_role(node: &Node) -> bool {
    node.labels().contains_key(ROLE)
}

/// Whether the node is going away: it is being deleted, or Gardener says so.
fn is_leaving(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let said = conditions.filter(|condition| condition.type_ == "Terminating").any(|one| one.status == "True");
    said || node.metadata.deletion_timestamp.is_some()
}

fn list(text: &str) -> Vec<String> {
    let mut all: Vec<String> =
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(ToOwned::to_owned).collect();
    all.sort();
    all.dedup();
    all
}

fn addresses(node: &Node, kinds: &[&str]) -> Vec<String> {
    let all = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    all.filter(|address| kinds.contains(&address.type_.as_str())).map(|address| address.address.clone()).collect()
}

/// The Hypervisor of a node. Only what the node says is in it: all other fields are a user's to set.
fn hypervisor(node: &Node, live: Option<&DynamicObject>) -> Child {
    let kind = KindRef::of::<Hypervisor>();
    let mut object = DynamicObject::new(&node.name_any(), &kind.resource);
    let labels = COPIED.iter().filter_map(|key| Some(((*key).to_owned(), node.labels().get(*key)?.clone())));
    object.metadata.labels = Some(labels.collect::<BTreeMap<_, _>>()).filter(|labels| !labels.is_empty());
    let mut annotations = BTreeMap::new();
    let ips = addresses(node, &["InternalIP"]);
    annotations.extend(ips.first().map(|ip| (INTERNAL_IP.to_owned(), ip.clone())));
    let mut names = addresses(node, &["Hostname", "InternalDNS"]);
    names.push(node.name_any());
    names.sort();
    names.dedup();
    annotations.insert(HOST_NAMES.to_owned(), names.join(","));
    if is_leaving(node) {
        annotations.insert(LEAVING.to_owned(), "true".into());
    }
    if !has_role(node) {
        annotations.insert(ROLE_REMOVED.to_owned(), "true".into());
    }
    object.metadata.annotations = Some(annotations);
    object.data = json!({ "spec": spec(node, live) });
    Child::dynamic(kind.resource, object)
}

fn spec(node: &Node, live: Option<&DynamicObject>) -> Value {
    let mut spec = json!({});
    let zone = node.labels().get(ZONE).map(String::as_str).unwrap_or_default();
    if let Some(aggregates) = node.annotations().get(AGGREGATES) {
        spec["aggregates"] = json!(list(&format!("{aggregates},{zone}")));
    }
    if let Some(traits) = node.annotations().get(TRAITS) {
        spec["customTraits"] = json!(list(traits));
    }
    match node.labels().get(LIFECYCLE).map(String::as_str) {
        Some("skip-tests") => spec["skipTests"] = true.into(),
        Some("disabled") => spec["lifecycleEnabled"] = false.into(),
        _ => {}
    }
    let live = live.map(|live| &live.data["spec"]);
    if live.is_some_and(|live| live["maintenance"] == "termination") {
        // The spec of a host that is being terminated cannot be changed.
        let fields: Vec<String> = spec.as_object().into_iter().flatten().map(|(field, _)| field.clone()).collect();
        for field in fields {
            spec[&field] = live.map(|live| live[&field].clone()).unwrap_or_default();
        }
        spec["maintenance"] = "termination".into();
    } else if is_leaving(node) && live.is_none_or(|live| live["maintenance"] != "ha") {
        spec["maintenance"] = "termination".into();
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(extra: &Value) -> Node {
        let mut node = json!({
            "metadata": {"name": "hv-1.rack.example", "uid": "n1",
                "labels": {ROLE: "", ZONE: "az-1", "kubernetes.io/hostname": "hv-1", "unrelated": "x"},
                "annotations": {AGGREGATES: "gold, silver", TRAITS: "CUSTOM_NVME"}},
            "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.7"}, {"type": "Hostname", "address": "hv-1"}]}
        });
        for (path, value) in extra.as_object().unwrap() {
            *node.pointer_mut(path).unwrap() = value.clone();
        }
        serde_json::from_value(node).unwrap()
    }

    fn plan(node: Node, live: Option<Value>) -> String {
        let mut inputs = Inputs::new(node, jiff::Timestamp::UNIX_EPOCH);
        if let Some(live) = live {
            let live: DynamicObject = serde_json::from_value(live).unwrap();
            inputs.insert_own(live);
        }
        Nodes.plan(&(), &inputs).golden()
    }

    #[test]
    fn a_node_with_the_role_gets_a_hypervisor() {
        insta::assert_snapshot!(plan(node(&json!({})), None));
    }

    #[test]
    fn a_node_that_is_going_away_terminates_its_hypervisor_whose_spec_stays_then() {
        let leaving = json!({"/status": {"conditions": [{"type": "Terminating", "status": "True"}]},
            "/metadata/annotations": {AGGREGATES: "bronze"}});
        let live = json!({"apiVersion": "hypervisor.c5c3.io/v1", "kind": "Hypervisor",
            "metadata": {"name": "hv-1.rack.example"},
            "spec": {"maintenance": "termination", "aggregates": ["gold"], "customTraits": ["CUSTOM_NVME"]}});
        insta::assert_snapshot!(plan(node(&leaving), Some(live)));
    }
}
