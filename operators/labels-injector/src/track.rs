//! What is known of nodes and pods, and which pods have to be looked at. Pure.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use kube::core::ObjectMeta;

use crate::labels::{Labels, Values, difference};

/// A pod by namespace and name.
pub(crate) type Key = (String, String);

/// What is known of a pod.
#[derive(Clone, Debug)]
struct Known {
    uid: String,
    /// The node, once it was read: a watch of metadata does not tell it, and it never changes.
    node: Option<Arc<str>>,
    found: Values,
}

/// What has to be done for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Find out on which node it is.
    Locate,
    /// Write these labels to the pod with this uid.
    Write(String, Values),
}

/// What is known of nodes and pods.
pub(crate) struct Track {
    labels: Labels,
    nodes: HashMap<String, Values>,
    pods: HashMap<Key, Known>,
    due: BTreeSet<Key>,
    /// The pods of a list that is being read.
    listed: Option<HashSet<Key>>,
}

impl Track {
    pub(crate) fn new(labels: Labels) -> Self {
        Self { labels, nodes: HashMap::new(), pods: HashMap::new(), due: BTreeSet::new(), listed: None }
    }

    /// A node is there. Only one whose labels changed makes its pods due.
    pub(crate) fn node(&mut self, node: &ObjectMeta) {
        let Some(name) = node.name.clone() else { return };
        let wanted = self.labels.of_node(node);
        if self.nodes.get(&name) == Some(&wanted) {
            return;
        }
        let on_it = self.pods.iter().filter(|(_, pod)| pod.node.as_deref() == Some(name.as_str()));
        self.due.extend(on_it.map(|(key, _)| key.clone()));
        self.nodes.insert(name, wanted);
    }

    /// A node is gone. Its pods keep their labels.
    pub(crate) fn node_gone(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// The list of pods is read from its beginning.
    pub(crate) fn list_begins(&mut self) {
        self.listed = Some(HashSet::new());
    }

    /// The list was read: a pod that is not in it is gone.
    pub(crate) fn list_ends(&mut self) {
        if let Some(listed) = self.listed.take() {
            self.pods.retain(|key, _| listed.contains(key));
        }
    }

    /// A pod that has a node and has not finished is there.
    pub(crate) fn pod(&mut self, pod: &ObjectMeta) {
        let key = key(pod);
        if let Some(listed) = &mut self.listed {
            listed.insert(key.clone());
        }
        let (uid, found) = (pod.uid.clone().unwrap_or_default(), self.labels.of_pod(pod));
        if pod.deletion_timestamp.is_some() {
            self.gone(&key);
            return;
        }
        let node = self.pods.get(&key).filter(|known| known.uid == uid).and_then(|known| known.node.clone());
        self.pods.insert(key.clone(), Known { uid, node, found });
        self.due.insert(key);
    }

    /// A pod is gone, has finished or is being deleted.
    pub(crate) fn gone(&mut self, key: &Key) {
        self.pods.remove(key);
        self.due.remove(key);
    }

    /// It was read on which node a pod is.
    pub(crate) fn located(&mut self, key: &Key, uid: &str, node: &str) {
        if let Some(pod) = self.pods.get_mut(key).filter(|pod| pod.uid == uid) {
            pod.node = Some(node.into());
            self.due.insert(key.clone());
        }
    }

    /// How many pods are due whose node has to be found.
    pub(crate) fn unlocated(&self) -> usize {
        self.due.iter().filter(|key| self.pods.get(*key).is_some_and(|pod| pod.node.is_none())).count()
    }

    /// A pod has to be looked at again.
    pub(crate) fn again(&mut self, key: Key) {
        if self.pods.contains_key(&key) {
            self.due.insert(key);
        }
    }

    /// The next pod for which something has to be done. A pod on a node that is not known, or that has everything, needs nothing.
    pub(crate) fn next(&mut self) -> Option<(Key, Work)> {
        while let Some(key) = self.due.pop_first() {
            let Some(pod) = self.pods.get(&key) else { continue };
            let Some(node) = &pod.node else { return Some((key, Work::Locate)) };
            let Some(wanted) = self.nodes.get(&**node) else { continue };
            let missing = difference(wanted, &pod.found);
            if !missing.is_empty() {
                let work = Work::Write(pod.uid.clone(), missing);
                return Some((key, work));
            }
        }
        None
    }
}

/// The namespace and the name of a pod.
pub(crate) fn key(pod: &ObjectMeta) -> Key {
    (pod.namespace.clone().unwrap_or_default(), pod.name.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(name: &str, uid: &str, labels: &[(&str, &str)]) -> ObjectMeta {
        ObjectMeta {
            namespace: Some("cellar".into()),
            name: Some(name.into()),
            uid: Some(uid.into()),
            labels: Some(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()),
            ..ObjectMeta::default()
        }
    }

    fn track() -> Track {
        let mut track = Track::new(Labels::parse("zone").unwrap());
        track.node(&meta("pear", "n", &[("zone", "a")]));
        track
    }

    fn cider() -> Key {
        ("cellar".into(), "cider".into())
    }

    #[test]
    fn a_pod_is_located_once_and_written_only_where_it_differs() {
        let mut track = track();
        track.pod(&meta("cider", "1", &[]));
        assert_eq!(track.next(), Some((cider(), Work::Locate)));
        track.located(&cider(), "1", "pear");
        let write = |value: &str| Some((cider(), Work::Write("1".into(), [("zone".into(), value.to_owned())].into())));
        assert_eq!(track.next(), write("a"));
        track.pod(&meta("cider", "1", &[("zone", "a")]));
        assert_eq!(track.next(), None, "it has what it should have");
        track.node(&meta("pear", "n", &[("zone", "a"), ("other", "x")]));
        assert_eq!(track.next(), None, "the node changed in something else");
        track.node(&meta("pear", "n", &[("zone", "b")]));
        assert_eq!(track.next(), write("b"));
    }

    #[test]
    fn a_pod_on_an_unknown_node_waits_for_the_node() {
        let mut track = track();
        track.pod(&meta("cider", "1", &[]));
        track.next();
        track.located(&cider(), "1", "quince");
        assert_eq!(track.next(), None);
        track.node(&meta("quince", "n", &[("zone", "c")]));
        assert!(matches!(track.next(), Some((_, Work::Write(..)))));
        track.node_gone("quince");
        track.again(cider());
        assert_eq!(track.next(), None, "a node that is gone gives no labels");
    }

    #[test]
    fn another_pod_of_the_same_name_is_located_anew_and_old_answers_are_ignored() {
        let mut track = track();
        track.pod(&meta("cider", "1", &[]));
        track.next();
        track.pod(&meta("cider", "2", &[]));
        track.located(&cider(), "1", "pear");
        assert_eq!(track.next(), Some((cider(), Work::Locate)));
        assert_eq!(track.next(), None);
    }

    #[test]
    fn pods_that_are_gone_when_a_list_ends_are_forgotten_and_deleted_ones_left_alone() {
        let mut track = track();
        track.pod(&meta("cider", "1", &[]));
        track.list_begins();
        track.list_ends();
        assert_eq!((track.unlocated(), track.next()), (0, None));
        track.pod(&meta("cider", "1", &[]));
        let mut going = meta("cider", "1", &[]);
        going.deletion_timestamp = Some(serde_json::from_value("2026-01-31T12:00:00Z".into()).unwrap());
        track.pod(&going);
        assert_eq!(track.next(), None);
    }
}
