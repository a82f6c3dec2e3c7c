//! What was applied, as Flux writes it down: to delete what is gone from the repository, and nothing else.

use std::collections::BTreeSet;

use c5c3_kit::Ref;
use kube::core::{ApiResource, GroupVersionKind};

use super::kinds::{Entry, Inventory};

/// An object of an inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) kind: GroupVersionKind,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// The entry of an object.
pub(super) fn entry(object: &Ref) -> Entry {
    let ApiResource { group, version, kind, .. } = &object.resource;
    let namespace = object.namespace.as_deref().unwrap_or_default();
    // Names of roles may have colons, which are not in the alphabet of ids.
    let name = object.name.replace(':', "__");
    Entry { id: format!("{namespace}_{name}_{group}_{kind}"), v: version.clone() }
}

/// The object of an entry; none if it was not written by Flux or this.
pub(super) fn listed(entry: &Entry) -> Option<Listed> {
    let (namespace, rest) = entry.id.split_once('_')?;
    let (rest, kind) = rest.rsplit_once('_')?;
    let (name, group) = rest.rsplit_once('_')?;
    let kind = GroupVersionKind::gvk(group, &entry.v, kind);
    Some(Listed { kind, namespace: namespace.to_owned(), name: name.replace("__", ":") })
}

/// The objects of both, each once. What is in the newer counts where only the version differs.
pub(super) fn union(older: &[Entry], newer: &[Entry]) -> Inventory {
    let mut entries: Vec<Entry> = newer.iter().chain(&gone(older, newer)).cloned().collect();
    entries.sort();
    entries.dedup();
    Inventory { entries }
}

/// What is in the older only; the version of a kind makes no other object.
pub(super) fn gone(older: &[Entry], newer: &[Entry]) -> Vec<Entry> {
    let known: BTreeSet<&str> = newer.iter().map(|entry| entry.id.as_str()).collect();
    older.iter().filter(|entry| !known.contains(entry.id.as_str())).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(group: &str, kind: &str, namespace: Option<&str>, name: &str) -> Ref {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
        Ref { resource, namespace: namespace.map(str::to_owned), name: name.into() }
    }

    #[test]
    fn an_entry_names_its_object_as_flux_does() {
        let role = object("rbac.authorization.k8s.io", "ClusterRole", None, "system:heron");
        let written = entry(&role);
        assert_eq!(
            (written.id.as_str(), written.v.as_str()),
            ("_system__heron_rbac.authorization.k8s.io_ClusterRole", "v1")
        );
        let read = listed(&written).unwrap();
        assert_eq!(
            (read.name.as_str(), read.namespace.as_str(), read.kind.kind.as_str()),
            ("system:heron", "", "ClusterRole")
        );
        let config = listed(&entry(&object("", "ConfigMap", Some("marsh"), "wren"))).unwrap();
        assert_eq!((config.namespace.as_str(), config.kind.group.as_str()), ("marsh", ""));
        assert_eq!(listed(&Entry { id: "odd".into(), v: "v1".into() }), None);
    }

    #[test]
    fn another_version_is_the_same_object() {
        let of = |id: &str, v: &str| Entry { id: id.into(), v: v.into() };
        let (older, newer) = ([of("a", "v1"), of("b", "v1")], [of("b", "v2"), of("c", "v1")]);
        assert_eq!(gone(&older, &newer), [of("a", "v1")]);
        assert_eq!(union(&older, &newer).entries, [of("a", "v1"), of("b", "v2"), of("c", "v1")]);
    }
}
