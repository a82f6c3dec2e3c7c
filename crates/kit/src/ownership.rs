//! Which objects are ours: labels that say so on each child, an owner reference where garbage collection can follow it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, OwnerReference};
use kube::api::DynamicObject;
use kube::core::{ApiResource, ObjectMeta};

use crate::object::Ref;

/// Which operator wrote the object; also the field manager.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The uid of the object that it belongs to.
pub const OWNER_UID: &str = "c5c3.io/owner-uid";
/// `Kind/namespace/name` of the object that it belongs to, as an annotation, for names are longer than labels may be.
pub const OWNER: &str = "c5c3.io/owner";
/// What the object is a generation of, for objects whose name ends in a content hash.
pub const BASE: &str = "c5c3.io/base";
/// The step of a graph that the object was made in.
pub const STEP: &str = "c5c3.io/step";
/// The group of a Job, of which one runs at a time.
pub const JOB_GROUP: &str = "c5c3.io/job-group";
/// The version of the software that the object runs, as an annotation.
pub const VERSION: &str = "c5c3.io/version";
/// A hash of the template that a Job was made from.
pub const TEMPLATE: &str = "c5c3.io/template";
/// `last` on a child that is deleted after the others of its kind, as an annotation; see [`crate::Child::last_of_its_kind`].
pub const TEARDOWN: &str = "c5c3.io/teardown";
/// How many times a Job that fails was made, as an annotation.
pub const ATTEMPT: &str = "c5c3.io/attempt";

/// The object that children belong to.
#[derive(Clone, Debug)]
pub struct Owner {
    /// Which object.
    pub reference: Ref,
    /// Its uid: a new object of the same name is another owner.
    pub uid: String,
    /// The operator that writes its children.
    pub manager: &'static str,
}

impl Owner {
    /// Marks a child as ours; one that is kept is not collected when we go.
    pub fn mark(&self, child: &mut DynamicObject, kept: bool) {
        let labels = child.metadata.labels.get_or_insert_default();
        labels.insert(MANAGED_BY.into(), self.manager.into());
        labels.insert(OWNER_UID.into(), self.uid.clone());
        let annotations = child.metadata.annotations.get_or_insert_default();
        annotations.insert(OWNER.into(), self.path());
        if !kept && self.garbage_collects(&child.metadata) {
            // Others may own it as well, such as the node that it is about.
            let owners = child.metadata.owner_references.get_or_insert_default();
            owners.retain(|owner| owner.controller != Some(true));
            owners.insert(0, self.as_controller());
        }
    }

    /// Marks the metadata of a template in a child, so that what another controller makes of it is found and tells of its
    /// changes; see [`crate::Controller::descendants`]. It is no child, since it has no owner reference to us.
    pub fn mark_template(&self, template: &mut ObjectMeta) {
        let labels = template.labels.get_or_insert_default();
        labels.insert(MANAGED_BY.into(), self.manager.into());
        labels.insert(OWNER_UID.into(), self.uid.clone());
        template.annotations.get_or_insert_default().insert(OWNER.into(), self.path());
    }

    /// The owner as a child names it.
    pub(crate) fn as_controller(&self) -> OwnerReference {
        OwnerReference {
            api_version: self.reference.resource.api_version.clone(),
            kind: self.reference.resource.kind.clone(),
            name: self.reference.name.clone(),
            uid: self.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    /// Whether garbage collection takes the child with its owner: an owner reference does not cross namespaces.
    pub fn garbage_collects(&self, child: &ObjectMeta) -> bool {
        self.reference.namespace.is_none() || self.reference.namespace == child.namespace
    }

    /// Whether the child belongs to this owner. Labels alone do not prove it where an owner reference could stand: other
    /// operators copy labels from the objects that we make to those that they make of them.
    pub fn owns(&self, child: &ObjectMeta) -> bool {
        let labelled =
            label(child, OWNER_UID) == Some(&self.uid) && label(child, MANAGED_BY).is_some_and(|by| by == self.manager);
        let controlled = || {
            child.owner_references.iter().flatten().any(|owner| owner.controller == Some(true) && owner.uid == self.uid)
        };
        labelled && (!self.garbage_collects(child) || controlled())
    }

    /// Whether the object was made for this owner, or for one of the same name before it: what is kept outlives its owner.
    pub fn created(&self, object: &ObjectMeta) -> bool {
        annotation(object, OWNER) == Some(&self.path())
            && label(object, MANAGED_BY).is_some_and(|by| by == self.manager)
    }

    /// Whether the object is a child of ours that lost its labels or its owner reference: one of the two still has our uid,
    /// no other controller has claimed the object, and its fields are ours. Copies of our labels on an object of another
    /// operator do not make it ours, because that operator is the field manager of the copy.
    pub(crate) fn has_lost(&self, object: &ObjectMeta) -> bool {
        let controllers = || object.owner_references.iter().flatten().filter(|owner| owner.controller == Some(true));
        let is_ours =
            |entry: &&ManagedFieldsEntry| entry.manager.as_deref() == Some(self.manager) && entry.subresource.is_none();
        (label(object, OWNER_UID) == Some(&self.uid) || controllers().any(|owner| owner.uid == self.uid))
            && controllers().all(|owner| owner.uid == self.uid)
            && object.managed_fields.iter().flatten().any(|entry| is_ours(&entry))
    }

    /// Whether the child's labels, annotation and owner reference are those that [`Owner::mark`] gives it.
    pub(crate) fn is_marked(&self, child: &ObjectMeta, kept: bool) -> bool {
        let is_controlled = child.owner_references.iter().flatten().any(|owner| *owner == self.as_controller());
        self.created(child)
            && label(child, OWNER_UID) == Some(&self.uid)
            && is_controlled == (!kept && self.garbage_collects(child))
    }

    fn path(&self) -> String {
        let Ref { resource, namespace, name } = &self.reference;
        format!("{}/{}/{name}", resource.kind, namespace.as_deref().unwrap_or_default())
    }
}

/// Whether labels, annotations or owner references claim the object for an owner or a manager.
pub(crate) fn is_claimed(object: &ObjectMeta) -> bool {
    let labelled = [MANAGED_BY, OWNER_UID].iter().any(|key| label(object, key).is_some());
    labelled
        || annotation(object, OWNER).is_some()
        || object.owner_references.as_ref().is_some_and(|all| !all.is_empty())
}

/// The owner that a child names, if it is of that kind.
pub fn owner_of(child: &ObjectMeta, kind: &ApiResource) -> Option<Ref> {
    let path = child.annotations.as_ref()?.get(OWNER)?;
    let mut parts = path.splitn(3, '/');
    let (owner_kind, namespace, name) = (parts.next()?, parts.next()?, parts.next()?);
    let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
    (owner_kind == kind.kind).then(|| Ref { resource: kind.clone(), namespace, name: name.to_owned() })
}

/// A label of an object.
pub fn label<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a String> {
    meta.labels.as_ref().and_then(|labels: &BTreeMap<String, String>| labels.get(key))
}

/// An annotation of an object.
pub(crate) fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a String> {
    meta.annotations.as_ref().and_then(|annotations| annotations.get(key))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};

    use super::*;

    fn owner() -> Owner {
        Owner {
            reference: Ref::namespaced::<ConfigMap>("orchard", "tree"),
            uid: "11111111-2222".into(),
            manager: "gardener",
        }
    }

    fn child(namespace: &str) -> DynamicObject {
        DynamicObject::new("leaf", &ApiResource::erase::<Secret>(&())).within(namespace)
    }

    #[test]
    fn a_child_in_the_same_namespace_is_garbage_collected_and_one_elsewhere_is_labelled() {
        let (mut near, mut far) = (child("orchard"), child("cellar"));
        owner().mark(&mut near, false);
        owner().mark(&mut far, false);
        assert_eq!(near.metadata.owner_references.as_ref().map(Vec::len), Some(1));
        assert_eq!(far.metadata.owner_references, None);
        assert_eq!(owner_of(&far.metadata, &owner().reference.resource), Some(owner().reference));
        assert_eq!(owner_of(&far.metadata, &ApiResource::erase::<Secret>(&())), None);
        assert!(owner().owns(&near.metadata) && owner().owns(&far.metadata));
    }

    #[test]
    fn an_object_that_only_carries_copies_of_our_labels_is_not_ours() {
        let mut copy = child("orchard");
        owner().mark(&mut copy, false);
        copy.metadata.owner_references = None;
        assert!(!owner().owns(&copy.metadata));
    }

    #[test]
    fn a_namesake_with_another_uid_owns_nothing_of_ours() {
        let mut leaf = child("orchard");
        owner().mark(&mut leaf, false);
        assert!(!Owner { uid: "99999999".into(), ..owner() }.owns(&leaf.metadata));
    }
}
