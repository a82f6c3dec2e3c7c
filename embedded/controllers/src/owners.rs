//! Who owns an object: references to owners, made and followed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;
use kube::runtime::reflector::ObjectRef;

use crate::watched::Kind;

/// The one owner that controls an object.
pub(crate) fn controller(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Whether the object of that uid controls it.
pub(crate) fn controlled_by(meta: &ObjectMeta, uid: &str) -> bool {
    controller(meta).is_some_and(|owner| owner.uid == uid)
}

/// The owner that controls an object, if it is of the kind.
pub(crate) fn controller_ref<O: Kind>(meta: &ObjectMeta) -> Option<ObjectRef<O>> {
    let owner = controller(meta)?;
    let group = |version: &str| version.split_once('/').map_or(String::new(), |(group, _)| group.to_owned());
    let same = owner.kind == O::kind(&()) && group(&owner.api_version) == O::group(&());
    same.then(|| ObjectRef::new(&owner.name).within(meta.namespace.as_deref().unwrap_or_default()))
}

/// The reference that makes `owner` the controller of what carries it.
pub(crate) fn reference<O: Kind>(owner: &O) -> OwnerReference {
    OwnerReference {
        api_version: O::api_version(&()).into_owned(),
        kind: O::kind(&()).into_owned(),
        name: owner.meta().name.clone().unwrap_or_default(),
        uid: owner.meta().uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Whether an object is on its way out.
pub(crate) fn is_going(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some()
}
