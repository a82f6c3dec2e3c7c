//! Which nodes do for a pod, and why the others do not.
//!
//! The rules are asked in upstream's order, and the first that says no speaks for the node; that order is what makes our
//! messages the same as theirs.

mod neighbours;
mod ports;
mod resources;
pub(crate) mod spread;
pub(crate) mod taints;
mod volumes;

use std::collections::BTreeSet;

use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::reason::Reason;
use crate::snapshot::{ClaimStep, Snapshot};

/// A pod that is looking for a node, and what is the same for all nodes: counted once.
pub struct Search<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) snapshot: &'a Snapshot,
    named: Option<BTreeSet<&'a str>>,
    volumes: volumes::Wanted<'a>,
    spread: Vec<spread::Count<'a>>,
    neighbours: neighbours::Whereabouts,
}

impl<'a> Search<'a> {
    /// Looks at all that does not depend on the node. An error holds for every node.
    pub fn new(snapshot: &'a Snapshot, pod: &'a Pod) -> Result<Self, Reason> {
        let named = pod.wants.nodes.names();
        if named.as_ref().is_some_and(BTreeSet::is_empty) {
            return Err(Reason::Contradiction);
        }
        Ok(Self {
            pod,
            snapshot,
            named,
            volumes: volumes::Wanted::of(snapshot, pod)?,
            spread: spread::counts(snapshot, pod),
            neighbours: neighbours::Whereabouts::of(snapshot, pod),
        })
    }
}

/// Whether a node does: what must happen for the pod's claims there, or why not.
pub fn filter(search: &Search<'_>, node: &Node) -> Result<Vec<ClaimStep>, Vec<Reason>> {
    let Search { pod, snapshot, named, volumes, spread, neighbours } = search;
    let occupants = snapshot.on(&node.name);
    let one = |found: Option<Reason>| found.map_or(Ok(()), |reason| Err(vec![reason]));
    if named.as_ref().is_some_and(|named| !named.contains(node.name.as_str())) {
        return Err(vec![Reason::NotNamed]);
    }
    one(taints::cordoned(pod, node))?;
    one(taints::untolerated(pod, node))?;
    one((!pod.wants.nodes.allows(node)).then_some(Reason::NotChosen))?;
    one(ports::taken(pod, occupants))?;
    resources::missing(pod, node, occupants)?;
    let steps = volumes.on(snapshot, node)?;
    one(spread::uneven(pod, spread, node))?;
    one(neighbours.quarrel(pod, node))?;
    Ok(steps)
}
