//! Which labels are copied, and what a pod lacks of them. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use kube::core::ObjectMeta;

/// The label with the name of the machine. A node without it is known by its own name.
pub const NODE_NAME: &str = "kubernetes.metal.cloud.sap/name";

/// The labels that are copied unless others are asked for.
pub const DEFAULT: [&str; 5] = [
    NODE_NAME,
    "kubernetes.metal.cloud.sap/cluster",
    "kubernetes.metal.cloud.sap/bb",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// The longest value of a label.
const LONGEST_VALUE: usize = 63;

/// Values of labels by their keys.
pub(crate) type Values = BTreeMap<String, String>;

/// The keys of the labels that are copied. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels(Arc<[String]>);

impl Default for Labels {
    fn default() -> Self {
        Self(DEFAULT.iter().map(ToString::to_string).collect())
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

impl Labels {
    /// Reads keys that are separated by commas.
    pub fn parse(text: &str) -> Result<Self, String> {
        let keys: Vec<String> =
            text.split(',').map(str::trim).filter(|key| !key.is_empty()).map(ToOwned::to_owned).collect();
        if keys.is_empty() {
            return Err("no label is named; name some, separated by commas, or omit the option".into());
        }
        match keys.iter().find(|key| !is_key(key)) {
            Some(key) => Err(format!("{key:?} is not the key of a label, such as {NODE_NAME}")),
            None => Ok(Self(keys.into())),
        }
    }

    /// What pods on a node get. A value that is empty, or that no label may have, is not among it.
    pub(crate) fn of_node(&self, node: &ObjectMeta) -> Values {
        let own =
            |key: &String| node.labels.as_ref().and_then(|labels| labels.get(key)).filter(|value| !value.is_empty());
        let name = || node.name.as_ref().filter(|name| !name.is_empty() && name.len() <= LONGEST_VALUE);
        let value = |key: &String| own(key).or_else(|| if key == NODE_NAME { name() } else { None });
        self.0.iter().filter_map(|key| Some((key.clone(), value(key)?.clone()))).collect()
    }

    /// What a pod has of them.
    pub(crate) fn of_pod(&self, pod: &ObjectMeta) -> Values {
        let labels = pod.labels.iter().flatten().filter(|(key, _)| self.0.contains(key));
        labels.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

/// What has to be written so that a pod has what it should.
pub(crate) fn difference(wanted: &Values, found: &Values) -> Values {
    let differs = |(key, value): &(&String, &String)| found.get(*key) != Some(*value);
    wanted.iter().filter(differs).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Whether this can be the key of a label: `[prefix/]name`.
fn is_key(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let framed = |text: &str, longest: usize| {
        !text.is_empty()
            && text.len() <= longest
            && text.chars().all(inner)
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    framed(name, LONGEST_VALUE) && prefix.is_none_or(|prefix| framed(prefix, 253))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(name: &str, labels: &[(&str, &str)]) -> ObjectMeta {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() }
    }

    #[test]
    fn a_node_without_the_label_of_its_name_is_known_by_its_own() {
        let labels = Labels::default();
        let plain = labels.of_node(&meta("pear", &[("topology.kubernetes.io/zone", "orchard-1"), ("other", "x")]));
        let expected = [(NODE_NAME, "pear"), ("topology.kubernetes.io/zone", "orchard-1")];
        assert_eq!(plain, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        assert_eq!(labels.of_node(&meta("pear", &[(NODE_NAME, "rack-7")]))[NODE_NAME], "rack-7");
    }

    #[test]
    fn no_value_is_empty_or_too_long() {
        let labels = Labels::default();
        assert_eq!(labels.of_node(&meta("", &[(NODE_NAME, ""), ("topology.kubernetes.io/zone", "")])), Values::new());
        assert_eq!(
            labels.of_node(&meta(&"p".repeat(64), &[])),
            Values::new(),
            "a node's name may be longer than a label"
        );
        assert_eq!(labels.of_node(&ObjectMeta::default()), Values::new());
    }

    #[test]
    fn only_what_differs_is_written_and_nothing_is_removed() {
        let labels = Labels::parse("a, b,c/d").unwrap();
        let wanted = labels.of_node(&meta("pear", &[("a", "1"), ("b", "2")]));
        let found = labels.of_pod(&meta("core", &[("a", "1"), ("b", "old"), ("c/d", "kept"), ("e", "not ours")]));
        assert_eq!(found.len(), 3);
        assert_eq!(difference(&wanted, &found), [("b".to_owned(), "2".to_owned())].into());
        assert_eq!(difference(&wanted, &wanted), Values::new());
    }

    #[test]
    fn keys_are_checked_when_they_are_read() {
        for wrong in ["", " , ", "a b", "-a", "x/", "/x", "x/y/z", &"k".repeat(64)] {
            assert!(Labels::parse(wrong).is_err(), "{wrong:?}");
        }
        assert!(Labels::parse(&DEFAULT.join(",")).is_ok_and(|parsed| parsed == Labels::default()));
    }
}
