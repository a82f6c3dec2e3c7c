//! What a node of the cluster is to be: its name, number, labels and taints.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The most nodes that one machine is divided into: what fits into the last part of an address.
pub const MOST_NODES: u8 = 100;

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSpec {
    /// The name of its Node object.
    pub name: String,
    /// Counted from one; its addresses follow from it.
    pub number: u8,
    /// Labels beside the usual ones.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Taints that it registers with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
}

/// What keeps pods away from a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taint {
    /// The key.
    pub key: String,
    /// The value; may be empty.
    pub value: String,
    /// NoSchedule, PreferNoSchedule or NoExecute.
    pub effect: String,
}

impl NodeSpec {
    /// A node without labels and taints.
    pub fn plain(name: &str, number: u8) -> Self {
        Self { name: name.to_owned(), number, labels: BTreeMap::new(), taints: Vec::new() }
    }

    /// The node of that number, by its usual name.
    pub fn numbered(number: u8) -> Self {
        Self::plain(&format!("node-{number}"), number)
    }
}

/// A label or a taint for one node, as written on the command line: `NODE:KEY=VALUE`, `NODE:KEY=VALUE:EFFECT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    node: String,
    mark: Label,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Label {
    Label(String, String),
    Taint(Taint),
}

impl Mark {
    /// Reads a label.
    pub fn label(text: &str) -> Result<Self, String> {
        let (node, label) = split(text)?;
        let (key, value) = label.split_once('=').ok_or("is not NODE:KEY=VALUE: there is no =")?;
        Ok(Self { node, mark: Label::Label(key.into(), value.into()) })
    }

    /// Reads a taint.
    pub fn taint(text: &str) -> Result<Self, String> {
        let (node, taint) = split(text)?;
        let (pair, effect) = taint.rsplit_once(':').ok_or("is not NODE:KEY=VALUE:EFFECT: there is no effect")?;
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
            return Err(format!("{effect} is no effect; there are NoSchedule, PreferNoSchedule and NoExecute"));
        }
        let taint = Taint { key: key.into(), value: value.into(), effect: effect.into() };
        Ok(Self { node, mark: Label::Taint(taint) })
    }
}

fn split(text: &str) -> Result<(String, &str), String> {
    let (node, rest) = text.split_once(':').ok_or("does not begin with NODE:")?;
    Ok((node.to_owned(), rest))
}

/// The nodes of a cluster from what it had, how many are asked for, and the marks for them.
pub(crate) fn nodes(had: Vec<NodeSpec>, asked: Option<u8>, marks: &[Mark]) -> Result<Vec<NodeSpec>, String> {
    let mut nodes = had;
    let count = asked.unwrap_or_else(|| u8::try_from(nodes.len()).unwrap_or(MOST_NODES).max(1));
    if usize::from(count) < nodes.len() {
        return Err(format!(
            "--nodes {count}: the cluster has {}, and a node that is taken away would take its pods' data along; \
            use --nodes {} or more, or another --data",
            nodes.len(),
            nodes.len()
        ));
    }
    let next = u8::try_from(nodes.len()).unwrap_or(MOST_NODES) + 1;
    nodes.extend((next..=count).map(NodeSpec::numbered));
    for mark in marks {
        let names = nodes.iter().map(|node| node.name.clone()).collect::<Vec<_>>().join(", ");
        let node = nodes.iter_mut().find(|node| node.name == mark.node);
        let node = node.ok_or_else(|| format!("there is no node {}; there are {names}", mark.node))?;
        match &mark.mark {
            Label::Label(key, value) => {
                node.labels.insert(key.clone(), value.clone());
            }
            Label::Taint(taint) => {
                node.taints.retain(|had| (&had.key, &had.effect) != (&taint.key, &taint.effect));
                node.taints.push(taint.clone());
            }
        }
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_has_one_node_unless_asked_for_more_and_keeps_what_it_has() {
        assert_eq!(nodes(vec![], None, &[]).unwrap(), [NodeSpec::numbered(1)]);
        let three = nodes(vec![NodeSpec::numbered(1)], Some(3), &[]).unwrap();
        assert_eq!(three.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["node-1", "node-2", "node-3"]);
        assert_eq!(nodes(three.clone(), None, &[]).unwrap(), three);
        assert!(nodes(three, Some(2), &[]).unwrap_err().starts_with("--nodes 2: the cluster has 3"));
    }

    #[test]
    fn marks_are_for_nodes_that_there_are() {
        let marks = [Mark::label("node-1:rack=b").unwrap(), Mark::taint("node-1:only=gpu:NoSchedule").unwrap()];
        let marked = nodes(vec![], None, &marks).unwrap().remove(0);
        assert_eq!(marked.labels["rack"], "b");
        assert_eq!(marked.taints[0].effect, "NoSchedule");
        let stray = [Mark::label("node-7:rack=b").unwrap()];
        assert_eq!(nodes(vec![], None, &stray).unwrap_err(), "there is no node node-7; there are node-1");
        assert!(Mark::taint("node-1:only=gpu:Never").unwrap_err().starts_with("Never is no effect"));
    }
}
