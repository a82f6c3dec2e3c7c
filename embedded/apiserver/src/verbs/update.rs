//! Replacing an object, or its status.

use std::sync::Arc;

use c5c3_kinds::Resource;
use c5c3_store::{Entry, Expect, WriteError};
use serde_json::Value;

use super::get::live;
use super::{Done, create, finish_deletion, prepare};
use crate::admission;
use crate::call::Call;
use crate::object::{asks_the_same, finalizers, is_going, is_unchanged, meta, meta_mut, put};
use crate::status::{ApiError, Reason};
use crate::{conversion, quotas, services};

/// How often an update without a resource version is tried again when it is overtaken.
const TRIES: usize = 5;

/// Replaces the object with the one in the body.
pub(super) async fn update(call: &Call<'_>) -> Result<Done, ApiError> {
    let name = call.name()?.to_owned();
    let mut object = call.object()?;
    prepare::check_kind(call, &mut object)?;
    match meta(&object, "name") {
        "" => drop(meta_mut(&mut object).insert("name".into(), name.clone().into())),
        own if own == name => {}
        own => {
            let message = format!("the name of the object ({own}) does not match the name on the URL ({name})");
            return Err(ApiError::bad_request(message));
        }
    }
    let warnings = prepare::unknown_fields(call, &mut object)?;
    let unconditional = meta(&object, "resourceVersion").is_empty();
    let overtaken = ApiError::modified(&call.served.resource, &name);
    for _ in 0..TRIES {
        let (entry, old) = match live(call).await {
            Err(error) if error.reason == Reason::NotFound && comes_by_update(call) => return come(call, object).await,
            other => other?,
        };
        if unconditional && !takes_unconditional_updates(&call.served.resource) {
            return Err(ApiError::unversioned(&call.served.resource, &name));
        }
        match replace(call, &entry, &old, object.clone()).await {
            Err(error) if unconditional && error == overtaken => {}
            other => return other.map(|done| Done { warnings, ..done }),
        }
    }
    Err(overtaken)
}

/// Kinds that many write to are only replaced by those who say what they have seen.
fn takes_unconditional_updates(resource: &Resource) -> bool {
    const CONDITIONAL: [&str; 3] = ["admissionregistration.k8s.io", "apiextensions.k8s.io", "coordination.k8s.io"];
    resource.custom().is_none() && !CONDITIONAL.contains(&resource.group.as_str())
}

/// Whether an update of what is not there creates it.
fn comes_by_update(call: &Call<'_>) -> bool {
    const KINDS: [(&str, &str); 9] = [
        ("", "Endpoints"),
        ("", "Event"),
        ("", "LimitRange"),
        ("", "Service"),
        ("coordination.k8s.io", "Lease"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        ("rbac.authorization.k8s.io", "Role"),
        ("rbac.authorization.k8s.io", "RoleBinding"),
    ];
    let resource = &call.served.resource;
    call.target.subresource.is_none() && KINDS.iter().any(|(group, kind)| resource.is(group, kind))
}

/// Creates an object by an update. Who may only update may not, and one that names a uid is not a new one.
async fn come(call: &Call<'_>, mut object: Value) -> Result<Done, ApiError> {
    call.server.may_create_by_update(call)?;
    if !meta(&object, "uid").is_empty() {
        let why = format!("Precondition failed: UID in precondition: {}, UID in object meta: ", meta(&object, "uid"));
        return Err(ApiError::conflict(&call.served.resource, meta(&object, "name"), &why));
    }
    meta_mut(&mut object).remove("resourceVersion");
    create::begin_and_store(call, object).await
}

/// Stores `new` in the place of `old`, if it may be.
async fn replace(call: &Call<'_>, entry: &Entry, old: &Value, mut new: Value) -> Result<Done, ApiError> {
    let resource = &call.served.resource;
    let name = meta(old, "name");
    if !meta(&new, "resourceVersion").is_empty() && meta(&new, "resourceVersion") != meta(old, "resourceVersion") {
        return Err(ApiError::modified(resource, name));
    }
    if !meta(&new, "uid").is_empty() && meta(&new, "uid") != meta(old, "uid") {
        let why = format!(
            "Precondition failed: UID in precondition: {}, UID in object meta: {}",
            meta(&new, "uid"),
            meta(old, "uid")
        );
        return Err(ApiError::conflict(resource, name, &why));
    }
    keep_what_is_not_written(call, old, &mut new);
    prepare::default(call, &mut new);
    prepare::update(call, old, &mut new);
    let new = call.with_writer(|writer| c5c3_fields::track_update(call.served.shape(), Some(old), new, writer));
    store(call, entry, old, new).await
}

/// Puts back what a write to this endpoint does not touch: the status, or everything but it, and what the server set.
pub(super) fn keep_what_is_not_written(call: &Call<'_>, old: &Value, new: &mut Value) {
    let subresource = call.target.subresource.as_deref().unwrap_or_default();
    match subresource {
        "status" => {
            let (status, sent) = (new.get("status").cloned(), new["metadata"].clone());
            *new = old.clone();
            match status {
                Some(status) => new["status"] = status,
                None => drop(new.as_object_mut().map(|object| object.remove("status"))),
            }
            // A built-in kind's status is reported with its metadata, such as annotations; of a custom resource's, only
            // the field owners are taken.
            if call.served.resource.custom().is_none() {
                new["metadata"] = sent;
            } else if let Some(fields) = sent.get("managedFields") {
                new["metadata"]["managedFields"] = fields.clone();
            }
        }
        "approval" => {
            let (conditions, sent) = (new["status"]["conditions"].clone(), new["metadata"].clone());
            *new = old.clone();
            new["metadata"] = sent;
            if conditions.is_array() {
                new["status"]["conditions"] = conditions;
            }
        }
        "ephemeralcontainers" => {
            let (added, fields) =
                (new["spec"]["ephemeralContainers"].take(), new["metadata"].get("managedFields").cloned());
            *new = old.clone();
            if let Some(fields) = fields {
                new["metadata"]["managedFields"] = fields;
            }
            match new["spec"].as_object_mut() {
                Some(spec) if added.is_null() => drop(spec.remove("ephemeralContainers")),
                _ => new["spec"]["ephemeralContainers"] = added,
            }
        }
        "finalize" => {
            let finalizers = new["spec"]["finalizers"].clone();
            *new = old.clone();
            new["spec"]["finalizers"] = finalizers;
        }
        _ if call.served.has_status() => match old.get("status") {
            Some(status) => new["status"] = status.clone(),
            None => drop(new.as_object_mut().map(|object| object.remove("status"))),
        },
        _ => {}
    }
    let fields = meta_mut(new);
    for field in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "selfLink",
        "generateName",
    ] {
        match old["metadata"].get(field) {
            Some(value) => drop(fields.insert(field.into(), value.clone())),
            None => drop(fields.remove(field)),
        }
    }
    fields.insert("resourceVersion".into(), old["metadata"]["resourceVersion"].clone());
}

/// Checks and stores a changed object that is complete. One that says nothing new is not stored.
pub(super) async fn store(call: &Call<'_>, entry: &Entry, old: &Value, mut new: Value) -> Result<Done, ApiError> {
    let resource = &call.served.resource;
    call.server.may_be_changed(call, old, &new)?;
    new = admission::mutate(call, "UPDATE", new, Some(old)).await?;
    let _claim = services::allocate(call, Some(old), &mut new)?;
    if resource.generation && call.target.subresource.as_deref() != Some("status") && !asks_the_same(old, &new) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
        meta_mut(&mut new).insert("generation".into(), generation.into());
    }
    prepare::validate(call, &new, Some(old))?;
    if is_going(&new) && finalizers(&new).iter().any(|finalizer| !finalizers(old).contains(finalizer)) {
        let why = "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted";
        return Err(ApiError::forbidden_object(resource, meta(&new, "name"), why));
    }
    admission::admit(call, "UPDATE", &new, Some(old)).await?;
    let _turn = quotas::admit(call, Some(old), &new).await?;
    let new = c5c3_fields::settle(old, new);
    if is_unchanged(old, &new) || call.is_dry_run()? {
        return Ok(Done::ok(new));
    }
    let name = meta(&new, "name").to_owned();
    if finish_deletion(call.server, &call.served, entry, &new).await? {
        return Ok(Done::ok(new));
    }
    let new = Arc::new(new);
    let to_write = conversion::stored(call.server, resource, &new).await?;
    let expect = Expect::Revision(entry.revision);
    let written = put(call.server.store(), &call.served, &entry.key, expect, &to_write).await;
    drop(to_write);
    match written {
        Ok(written) => {
            let done = Done::written(Arc::unwrap_or_clone(new), written);
            call.server.written(&call.served, &done.object);
            Ok(done)
        }
        Err(WriteError::Conflict { .. }) => Err(ApiError::modified(resource, &name)),
        Err(error) => Err(ApiError::internal(error.to_string())),
    }
}
