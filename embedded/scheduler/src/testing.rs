//! Small clusters for tests, written down as their users would.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::decide::{Decision, decide};
use crate::filter::Search;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::snapshot::{ClaimStep, Snapshot};

/// A cluster with three cpus, 3Gi and ten places for pods on each node.
#[derive(Default)]
pub(crate) struct Cluster(pub(crate) Snapshot);

/// A node as the API has it, with its own host name for a label, and more as given.
pub(crate) fn node(name: &str, labels: &Value, spec: &Value) -> Node {
    let mut all = json!({"kubernetes.io/hostname": name});
    merge(&mut all, labels);
    let allocatable = json!({"cpu": "3", "memory": "3Gi", "pods": "10"});
    let node = json!({"metadata": {"name": name, "labels": all}, "spec": spec, "status": {"allocatable": allocatable}});
    Node::of(serde_json::from_value(node).unwrap())
}

/// A pod of the namespace `grove` with one container, and more as given: its name is its uid, too.
pub(crate) fn pod(name: &str, more: Value) -> Pod {
    let mut pod = json!({
        "metadata": {"namespace": "grove", "name": name, "uid": name},
        "spec": {"containers": [{"name": "main"}]},
    });
    merge(&mut pod, &more);
    Pod::of(serde_json::from_value(pod).unwrap())
}

/// The spec of a pod that asks for so much.
pub(crate) fn asking(requests: Value) -> Value {
    json!({"spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]}})
}

impl Cluster {
    /// A cluster of nodes that have just these names.
    pub(crate) fn of(names: &[&str]) -> Self {
        names.iter().fold(Self::default(), |cluster, name| cluster.node(name, json!({}), json!({})))
    }

    /// Adds a node, with labels and a spec.
    pub(crate) fn node(mut self, name: &str, labels: Value, spec: Value) -> Self {
        self.0.nodes.insert(name.into(), node(name, &labels, &spec));
        self
    }

    /// Adds a pod on a node.
    pub(crate) fn pod(mut self, on: &str, name: &str, more: Value) -> Self {
        self.0.place(Arc::new(Pod { node: Some(on.into()), ..pod(name, more) }));
        self
    }

    /// Adds a namespace with labels.
    pub(crate) fn namespace(mut self, name: &str, labels: Value) -> Self {
        self.0.namespaces.insert(name.into(), serde_json::from_value(labels).unwrap());
        self
    }

    /// Adds a claim of the namespace `grove`.
    pub(crate) fn claim(mut self, name: &str, more: Value) -> Self {
        let mut claim = json!({"metadata": {"namespace": "grove", "name": name, "uid": name}});
        merge(&mut claim, &more);
        self.0.claim_is(("grove".into(), name.into()), serde_json::from_value(claim).unwrap());
        self
    }

    /// Adds a volume.
    pub(crate) fn volume(mut self, name: &str, more: Value) -> Self {
        let mut volume = json!({"metadata": {"name": name}});
        merge(&mut volume, &more);
        self.0.volumes.insert(name.into(), serde_json::from_value(volume).unwrap());
        self
    }

    /// Adds a storage class.
    pub(crate) fn class(mut self, name: &str, more: Value) -> Self {
        let mut class = json!({"metadata": {"name": name}, "provisioner": "example.com/maker"});
        merge(&mut class, &more);
        self.0.classes.insert(name.into(), serde_json::from_value(class).unwrap());
        self
    }

    /// Where a pod goes, or what it is told.
    pub(crate) fn says(&self, more: Value) -> String {
        match decide(&self.0, &pod("new", more)) {
            Decision::Place { node, .. } => node,
            Decision::Wait { message, .. } => message,
        }
    }

    /// What a pod is told, without what is said of preemption.
    pub(crate) fn says_first(&self, more: Value) -> String {
        let said = self.says(more);
        said.split(" preemption: ").next().unwrap_or(&said).to_owned()
    }

    /// The nodes that do for a pod, one after the other.
    pub(crate) fn suitable(&self, more: Value) -> String {
        let pod = pod("new", more);
        let Ok(search) = Search::new(&self.0, &pod) else { return String::new() };
        let fits = self.0.nodes.values().filter(|node| crate::filter::filter(&search, node).is_ok());
        fits.map(|node| node.name.as_str()).collect::<Vec<_>>().join(" ")
    }

    /// What must happen for the claims of a pod.
    pub(crate) fn steps(&self, more: Value) -> Vec<ClaimStep> {
        match decide(&self.0, &pod("new", more)) {
            Decision::Place { steps, .. } => steps,
            Decision::Wait { message, .. } => panic!("{message}"),
        }
    }

    /// What each node is worth to a pod.
    pub(crate) fn scores(&self, more: Value) -> BTreeMap<&str, i64> {
        let pod = pod("new", more);
        let Ok(search) = Search::new(&self.0, &pod) else { panic!("the pod is kept from all nodes") };
        let nodes: Vec<&Node> = self.0.nodes.values().collect();
        nodes.iter().map(|node| node.name.as_str()).zip(crate::score::score(&search, &nodes)).collect()
    }
}

/// Lays one object over another; lists are replaced.
fn merge(base: &mut Value, more: &Value) {
    match (base, more) {
        (Value::Object(base), Value::Object(more)) => {
            for (key, value) in more {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, more) => *base = more.clone(),
    }
}
