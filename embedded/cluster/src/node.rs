//! What a node of the cluster is to be: its name, number, labels, taints and network cards.

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
    /// Links of the machine that are moved into the node, such as a network card for provider networks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nics: Vec<String>,
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
        Self { name: name.to_owned(), number, labels: BTreeMap::new(), taints: Vec::new(), nics: Vec::new() }
    }

    /// Whether virtual machines run on it.
    pub(crate) fn is_hypervisor(&self) -> bool {
        self.labels.contains_key(HYPERVISOR)
    }

    /// The node of that number, by its usual name.
    pub fn numbered(number: u8) -> Self {
        Self::plain(&format!("node-{number}"), number)
    }
}

/// A label, a taint or a network card for one node, as written on the command line: `NODE:KEY=VALUE`,
/// `NODE:KEY=VALUE:EFFECT`, `NODE:LINK`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    node: String,
    mark: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Label(String, String),
    Taint(Taint),
    Nic(String),
}

impl Mark {
    /// Reads a label.
    pub fn label(text: &str) -> Result<Self, String> {
        let (node, label) = split(text)?;
        let (key, value) = label.split_once('=').ok_or("is not NODE:KEY=VALUE: there is no =")?;
        Ok(Self { node, mark: Kind::Label(key.into(), value.into()) })
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
        Ok(Self { node, mark: Kind::Taint(taint) })
    }

    /// Reads a network card.
    pub fn nic(text: &str) -> Result<Self, String> {
        let (node, link) = split(text)?;
        // What the kernel accepts as the name of a link.
        let is_name = (1..16).contains(&link.len()) && !link.contains(|c: char| c == '/' || c.is_whitespace());
        if !is_name {
            return Err(format!("{link:?} is not the name of a link; `ip link` lists them"));
        }
        Ok(Self { node, mark: Kind::Nic(link.to_owned()) })
    }
}

fn split(text: &str) -> Result<(String, &str), String> {
    let (node, rest) = text.split_once(':').ok_or("does not begin with NODE:")?;
    Ok((node.to_owned(), rest))
}

/// What is asked for on the command line about the nodes of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// How many nodes; as many as there are when absent.
    pub nodes: Option<u8>,
    /// How many of them are hypervisors: the last ones.
    pub hypervisors: Option<u8>,
    /// How many nodes of a new cluster are hypervisors when `hypervisors` is absent. No node is added for them.
    pub usual_hypervisors: u8,
    /// Labels, taints and network cards.
    pub marks: Vec<Mark>,
}

/// The role of a node that runs virtual machines, as a label and as a taint.
const HYPERVISOR: &str = "node-role.kubernetes.io/hypervisor";

/// The nodes of a cluster from what it had and what is asked for.
pub(crate) fn nodes(had: Vec<NodeSpec>, asked: &Asked) -> Result<Vec<NodeSpec>, String> {
    let Asked { nodes: count, hypervisors, usual_hypervisors, marks } = asked;
    let is_new = had.is_empty();
    // A machine with hypervisors has one more node, for everything else.
    let enough = hypervisors.map(|hypervisors| hypervisors.saturating_add(1).min(MOST_NODES));
    let asked = count.or(enough.filter(|enough| usize::from(*enough) > had.len()));
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
    let usual = Some(*usual_hypervisors).filter(|usual| is_new && *usual > 0);
    if let Some(hypervisors) = hypervisors.or(usual) {
        make_hypervisors(&mut nodes, usize::from(hypervisors))?;
    }
    for mark in marks {
        let names = nodes.iter().map(|node| node.name.clone()).collect::<Vec<_>>().join(", ");
        let node = nodes.iter_mut().find(|node| node.name == mark.node);
        let node = node.ok_or_else(|| format!("there is no node {}; there are {names}", mark.node))?;
        match &mark.mark {
            Kind::Label(key, value) => {
                node.labels.insert(key.clone(), value.clone());
            }
            Kind::Taint(taint) => {
                node.taints.retain(|had| (&had.key, &had.effect) != (&taint.key, &taint.effect));
                node.taints.push(taint.clone());
            }
            Kind::Nic(link) => {
                if let Some(other) = nodes.iter().find(|node| node.nics.contains(link) && node.name != mark.node) {
                    return Err(format!("--nic {}:{link}: {link} is in {} already", mark.node, other.name));
                }
                let node = nodes.iter_mut().find(|node| node.name == mark.node && !node.nics.contains(link));
                if let Some(node) = node {
                    node.nics.push(link.clone());
                }
            }
        }
    }
    Ok(nodes)
}

/// Makes the last nodes hypervisors, by the labels that operators of hypervisors read. As long as there are other nodes,
/// a taint keeps ordinary pods away from them.
fn make_hypervisors(nodes: &mut [NodeSpec], count: usize) -> Result<(), String> {
    let all = nodes.len();
    if count > all {
        return Err(format!("--hypervisors {count}: the cluster has {all} nodes; use --nodes {count} or more"));
    }
    for node in &mut nodes[all - count..] {
        let labels = [
            (HYPERVISOR, ""),
            ("kubernetes.metal.cloud.sap/name", &*node.name.clone()),
            ("kubernetes.metal.cloud.sap/cluster", "embedded"),
            ("kubernetes.metal.cloud.sap/bb", "embedded"),
        ];
        node.labels.extend(labels.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let taint = Taint { key: HYPERVISOR.into(), value: String::new(), effect: "NoSchedule".into() };
        if count < all && !node.taints.contains(&taint) {
            node.taints.push(taint);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(had: Vec<NodeSpec>, nodes: Option<u8>, marks: &[Mark]) -> Result<Vec<NodeSpec>, String> {
        super::nodes(had, &Asked { nodes, marks: marks.to_vec(), ..Asked::default() })
    }

    #[test]
    fn a_cluster_has_one_node_unless_asked_for_more_and_keeps_what_it_has() {
        assert_eq!(asked(vec![], None, &[]).unwrap(), [NodeSpec::numbered(1)]);
        let three = asked(vec![NodeSpec::numbered(1)], Some(3), &[]).unwrap();
        assert_eq!(three.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["node-1", "node-2", "node-3"]);
        assert_eq!(asked(three.clone(), None, &[]).unwrap(), three);
        assert!(asked(three, Some(2), &[]).unwrap_err().starts_with("--nodes 2: the cluster has 3"));
    }

    #[test]
    fn marks_are_for_nodes_that_there_are() {
        let marks = [Mark::label("node-1:rack=b").unwrap(), Mark::taint("node-1:only=gpu:NoSchedule").unwrap()];
        let marked = asked(vec![], None, &marks).unwrap().remove(0);
        assert_eq!(marked.labels["rack"], "b");
        assert_eq!(marked.taints[0].effect, "NoSchedule");
        let stray = [Mark::label("node-7:rack=b").unwrap()];
        assert_eq!(asked(vec![], None, &stray).unwrap_err(), "there is no node node-7; there are node-1");
        assert!(Mark::taint("node-1:only=gpu:Never").unwrap_err().starts_with("Never is no effect"));
    }

    #[test]
    fn hypervisors_are_the_last_nodes_and_ordinary_pods_stay_away_from_them() {
        let two = Asked { hypervisors: Some(2), ..Asked::default() };
        let nodes = super::nodes(vec![], &two).unwrap();
        let roles: Vec<_> = nodes.iter().map(|node| node.labels.contains_key(HYPERVISOR)).collect();
        assert_eq!(roles, [false, true, true]);
        assert_eq!(nodes[2].labels["kubernetes.metal.cloud.sap/name"], "node-3");
        assert_eq!(nodes[2].taints.iter().map(|taint| taint.key.as_str()).collect::<Vec<_>>(), [HYPERVISOR]);
        assert_eq!(super::nodes(nodes.clone(), &two).unwrap(), nodes, "asking again changes nothing");
        let alone = Asked { nodes: Some(1), hypervisors: Some(1), ..Asked::default() };
        assert!(super::nodes(vec![], &alone).unwrap()[0].taints.is_empty(), "ordinary pods have no other place");
        let usual = Asked { usual_hypervisors: 1, ..Asked::default() };
        let made = super::nodes(vec![], &usual).unwrap();
        assert!(made.len() == 1 && made[0].is_hypervisor() && made[0].taints.is_empty(), "{made:?}");
        let had = vec![NodeSpec::numbered(1)];
        assert_eq!(super::nodes(had.clone(), &usual).unwrap(), had, "a cluster that is there stays as it is");
        let short = Asked { nodes: Some(1), hypervisors: Some(2), ..Asked::default() };
        assert!(super::nodes(vec![], &short).unwrap_err().contains("use --nodes 2 or more"));
    }

    #[test]
    fn a_network_card_is_in_one_node_only() {
        let nic = |text| Mark::nic(text).unwrap();
        let nodes = asked(vec![], Some(2), &[nic("node-1:eth1"), nic("node-1:eth1"), nic("node-2:eth2")]).unwrap();
        assert_eq!((&nodes[0].nics[..], &nodes[1].nics[..]), (&["eth1".to_owned()][..], &["eth2".to_owned()][..]));
        let error = asked(nodes, None, &[nic("node-2:eth1")]).unwrap_err();
        assert_eq!(error, "--nic node-2:eth1: eth1 is in node-1 already");
        assert!(Mark::nic("node-1:an interface").is_err() && Mark::nic("node-1:").is_err());
    }
}
