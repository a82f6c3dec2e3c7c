//! What the scheduler knows of pods and nodes: the parts of them that decide, read once from the API's objects.

pub mod node;
pub mod node_terms;
pub mod pod;
pub mod pod_terms;
pub mod resources;

use std::collections::BTreeMap;

/// Labels of any object.
pub type Labels = BTreeMap<String, String>;

/// A namespace and a name in it.
pub type Key = (String, String);
