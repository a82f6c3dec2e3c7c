//! Which nodes a pod or a volume may be on, by the labels and the name of the node.

use std::collections::BTreeSet;

use c5c3_kinds::selector::meets;
use k8s_openapi::api::core::v1::{Affinity, NodeSelectorRequirement, NodeSelectorTerm, PodSpec};

use super::Labels;
use super::node::Node;

/// The one field that terms may speak of.
const NAME: &str = "metadata.name";

/// A pod's choice of nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeChoice {
    /// Labels that the node must have.
    pub labels: Labels,
    /// Terms of which one must hold; none at all leaves every node.
    pub required: Option<Vec<NodeSelectorTerm>>,
    /// Terms that are worth something, and how much.
    pub preferred: Vec<(i64, NodeSelectorTerm)>,
}

impl NodeChoice {
    /// What a pod says about its nodes.
    pub fn of(spec: &PodSpec) -> Self {
        let affinity = spec.affinity.as_ref().and_then(|Affinity { node_affinity, .. }| node_affinity.as_ref());
        let required = affinity.and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
        let preferred = affinity.and_then(|node| node.preferred_during_scheduling_ignored_during_execution.as_ref());
        Self {
            labels: spec.node_selector.clone().unwrap_or_default(),
            required: required.map(|selector| selector.node_selector_terms.clone()),
            preferred: preferred
                .into_iter()
                .flatten()
                .map(|term| (i64::from(term.weight), term.preference.clone()))
                .collect(),
        }
    }

    /// Whether the node is among them.
    pub fn allows(&self, node: &Node) -> bool {
        self.labels.iter().all(|(key, value)| node.labels.get(key) == Some(value))
            && self.required.as_ref().is_none_or(|terms| one_holds(terms, node))
    }

    /// The names of the only nodes that can be among them, where the pod names them, as those of a DaemonSet do.
    /// An empty set is a contradiction.
    pub fn names(&self) -> Option<BTreeSet<&str>> {
        let terms = self.required.as_ref().filter(|terms| !terms.is_empty())?;
        let of_each = terms.iter().map(names_of).collect::<Option<Vec<_>>>()?;
        Some(of_each.into_iter().flatten().collect())
    }
}

/// Whether one of the terms holds for the node.
pub fn one_holds(terms: &[NodeSelectorTerm], node: &Node) -> bool {
    terms.iter().any(|term| holds(term, node))
}

/// Whether all of a term holds for the node. An empty term holds for none.
pub fn holds(term: &NodeSelectorTerm, node: &Node) -> bool {
    let labels = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if labels.is_empty() && fields.is_empty() {
        return false;
    }
    let field = |key: &str| (key == NAME).then_some(node.name.as_str());
    labels.iter().all(|wanted| is_met(wanted, node.labels.get(&wanted.key).map(String::as_str)))
        && fields.iter().all(|wanted| is_met(wanted, field(&wanted.key)))
}

fn is_met(wanted: &NodeSelectorRequirement, found: Option<&str>) -> bool {
    meets(found, &wanted.operator, wanted.values.as_deref().unwrap_or_default())
}

/// The names that a term leaves, if it lists any.
fn names_of(term: &NodeSelectorTerm) -> Option<BTreeSet<&str>> {
    let lists = term.match_fields.iter().flatten().filter(|wanted| wanted.key == NAME && wanted.operator == "In");
    lists
        .map(|wanted| wanted.values.iter().flatten().map(String::as_str).collect::<BTreeSet<_>>())
        .reduce(|some, others| some.intersection(&others).copied().collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn term(term: Value) -> NodeSelectorTerm {
        serde_json::from_value(term).unwrap()
    }

    fn node() -> Node {
        Node {
            name: "oak".into(),
            labels: [("disk", "ssd"), ("cores", "8"), ("bad", "x8")].map(|(k, v)| (k.into(), v.into())).into(),
            ..Node::default()
        }
    }

    #[test]
    fn every_operator_does_what_it_says() {
        let cases = [
            ("disk", "In", json!(["ssd", "nvme"]), true),
            ("disk", "In", json!(["hdd"]), false),
            ("rack", "In", json!(["a"]), false),
            ("disk", "NotIn", json!(["hdd"]), true),
            ("disk", "NotIn", json!(["ssd"]), false),
            ("rack", "NotIn", json!(["a"]), true),
            ("disk", "Exists", json!(null), true),
            ("rack", "Exists", json!(null), false),
            ("disk", "DoesNotExist", json!(null), false),
            ("rack", "DoesNotExist", json!(null), true),
            ("cores", "Gt", json!(["7"]), true),
            ("cores", "Gt", json!(["8"]), false),
            ("cores", "Lt", json!(["9"]), true),
            ("cores", "Lt", json!(["8"]), false),
            ("rack", "Lt", json!(["8"]), false),
            ("bad", "Gt", json!(["7"]), false),
            ("cores", "Gt", json!(["many"]), false),
        ];
        for (key, operator, values, wanted) in cases {
            let term = term(json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}));
            assert_eq!(holds(&term, &node()), wanted, "{key} {operator} {values}");
        }
    }

    #[test]
    fn terms_are_alternatives_and_what_is_in_a_term_holds_together() {
        let here = json!({"key": "metadata.name", "operator": "In", "values": ["oak"]});
        let elsewhere = json!({"key": "metadata.name", "operator": "NotIn", "values": ["oak"]});
        let fast = json!({"key": "disk", "operator": "In", "values": ["ssd"]});
        let cases = [
            (json!([]), false),
            (json!([{}]), false),
            (json!([{"matchFields": [here]}]), true),
            (json!([{"matchFields": [elsewhere]}]), false),
            (json!([{"matchFields": [elsewhere], "matchExpressions": [fast]}]), false),
            (json!([{"matchFields": [elsewhere]}, {"matchExpressions": [fast]}]), true),
        ];
        for (terms, wanted) in cases {
            let terms: Vec<NodeSelectorTerm> = serde_json::from_value(terms).unwrap();
            assert_eq!(one_holds(&terms, &node()), wanted, "{terms:?}");
        }
    }

    #[test]
    fn nodes_that_are_named_are_known_before_they_are_looked_at() {
        let named = |names: Value| json!({"key": "metadata.name", "operator": "In", "values": names});
        let of =
            |terms: Value| NodeChoice { required: serde_json::from_value(terms).unwrap(), ..NodeChoice::default() };
        let oak = of(json!([{"matchFields": [named(json!(["oak"]))]}]));
        assert_eq!(oak.names(), Some(BTreeSet::from(["oak"])));
        let nobody = of(json!([{"matchFields": [named(json!(["oak"])), named(json!(["elm"]))]}]));
        assert_eq!(nobody.names(), Some(BTreeSet::new()));
        let one_term_names_none = of(json!([{"matchFields": [named(json!(["oak"]))]}, {"matchExpressions": []}]));
        assert_eq!(one_term_names_none.names(), None);
        assert_eq!(NodeChoice::default().names(), None);
    }
}
