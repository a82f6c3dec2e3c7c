//! What every write goes through before it is stored: unknown fields, defaults, metadata, validation.

use c5c3_kinds::Resource;
use serde_json::{Map, Value};

use super::scale;
use super::update::keep_what_is_not_written;
use crate::call::{Call, FieldValidation};
use crate::object::{meta, meta_mut};
use crate::status::ApiError;
use crate::{duplicates, wording};

/// Checks that the object is of the kind and version of the path, and fills in what it leaves out.
pub(super) fn check_kind(call: &Call<'_>, object: &mut Value) -> Result<(), ApiError> {
    let resource = &call.served.resource;
    if !object.is_object() {
        return Err(ApiError::bad_request("the object provided is unrecognized: it is not an object"));
    }
    if object.get("metadata").is_some_and(|metadata| !metadata.is_object() && !metadata.is_null()) {
        return Err(unreadable(resource, "metadata is not an object"));
    }
    for (field, wanted) in [("kind", resource.kind.clone()), ("apiVersion", resource.api_version())] {
        match object[field].as_str() {
            Some(found) if found == wanted => {}
            None | Some("") => object[field] = wanted.into(),
            Some(found) => {
                let message =
                    format!("the {field} in the data ({found}) does not match the expected {field} ({wanted})");
                return Err(ApiError::bad_request(message));
            }
        }
    }
    if resource.namespaced {
        let asked = call.target.namespace.as_deref().unwrap_or_default();
        match meta(object, "namespace") {
            "" => drop(meta_mut(object).insert("namespace".into(), asked.into())),
            own if own == asked => {}
            own => {
                let message = format!(
                    "the namespace of the provided object does not match the namespace sent on the request: {own} and {asked}"
                );
                return Err(ApiError::bad_request(message));
            }
        }
    } else {
        meta_mut(object).remove("namespace");
    }
    Ok(())
}

/// Meets unknown fields as the client wishes, and drops them. Returns what it should be warned of.
pub(super) fn unknown_fields(call: &Call<'_>, object: &mut Value) -> Result<Vec<String>, ApiError> {
    let Some(schema) = call.served.schema() else { return Ok(Vec::new()) };
    let how = call.field_validation()?;
    let mut found = unknown_metadata(object);
    if how != FieldValidation::Ignore {
        found.extend(schema.unknown_fields(object).iter().map(|problem| format!("unknown field \"{}\"", problem.path)));
        found.extend(duplicates_in(call));
    }
    schema.prune(object);
    met(call, found)
}

/// Meets keys that are there twice as the client wishes. An apply refuses unknown fields by itself.
pub(super) fn duplicates(call: &Call<'_>) -> Result<Vec<String>, ApiError> {
    if call.field_validation()? == FieldValidation::Ignore { Ok(Vec::new()) } else { met(call, duplicates_in(call)) }
}

fn duplicates_in(call: &Call<'_>) -> Vec<String> {
    let Ok(text) = std::str::from_utf8(&call.body) else { return Vec::new() };
    if call.is_yaml() { duplicates::in_yaml(text).into_iter().collect() } else { duplicates::in_json(text) }
}

/// Refuses what was found, or has the client warned of it.
fn met(call: &Call<'_>, found: Vec<String>) -> Result<Vec<String>, ApiError> {
    match call.field_validation()? {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(found),
        FieldValidation::Strict if found.is_empty() => Ok(found),
        FieldValidation::Strict => {
            let strict = format!("strict decoding error: {}", found.join(", "));
            Err(unreadable(&call.served.resource, &strict))
        }
    }
}

/// The object cannot be read as one of its kind.
fn unreadable(resource: &Resource, why: &str) -> ApiError {
    let (kind, version) = (&resource.kind, &resource.version);
    ApiError::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"))
}

/// Drops fields of the metadata that no object has, and names them.
fn unknown_metadata(object: &mut Value) -> Vec<String> {
    const KNOWN: [&str; 15] = [
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "managedFields",
        "name",
        "namespace",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    ];
    let fields = meta_mut(object);
    let unknown: Vec<String> = fields.keys().filter(|name| !KNOWN.contains(&name.as_str())).cloned().collect();
    fields.retain(|name, _| KNOWN.contains(&name.as_str()));
    unknown.iter().map(|name| format!("unknown field \"metadata.{name}\"")).collect()
}

/// Fills in defaults, and drops what says nothing.
pub(super) fn default(call: &Call<'_>, object: &mut Value) {
    let resource = &call.served.resource;
    if resource.custom().is_some() {
        if let Some(schema) = call.served.schema() {
            schema.default(object);
        }
    } else {
        c5c3_kinds::default(resource, object);
    }
    // Empty is as good as absent in metadata: kubectl compares what it would send with what it reads.
    let empty =
        |value: &Value| value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty);
    meta_mut(object).retain(|_, value| !value.is_null() && !empty(value));
}

/// Puts back what a change of a built-in kind does not touch, such as the cluster address of a Service.
pub(super) fn update(call: &Call<'_>, old: &Value, new: &mut Value) {
    let resource = &call.served.resource;
    match call.target.subresource.as_deref() {
        None => c5c3_kinds::prepare_update(resource, new, old),
        Some("status") => c5c3_kinds::prepare_status_update(resource, new, old),
        Some(_) => {}
    }
}

/// Takes what an admission webhook made of an object, as a client's own write is taken: completed, and without what may
/// not be written here. `before` is the object before the webhook, `old` the one that is stored.
pub(crate) fn mutated(
    call: &Call<'_>,
    before: &Value,
    old: Option<&Value>,
    mut object: Value,
) -> Result<Value, ApiError> {
    if call.target.subresource.as_deref() == Some("scale") {
        return Ok(scale::rescaled(call, before, &object));
    }
    if !call.is_about_own_kind() {
        return Ok(object);
    }
    check_kind(call, &mut object)?;
    if let Some(schema) = call.served.schema() {
        schema.prune(&mut object);
    }
    default(call, &mut object);
    if let Some(old) = old {
        keep_what_is_not_written(call, old, &mut object);
        update(call, old, &mut object);
    } else {
        restore(before, &mut object, call.served.has_status());
    }
    meta_mut(&mut object).remove("managedFields");
    if let Some(fields) = before["metadata"].get("managedFields") {
        object["metadata"]["managedFields"] = fields.clone();
    }
    Ok(object)
}

/// Puts back what the server has set in a new object.
fn restore(before: &Value, object: &mut Value, status: bool) {
    let fields = meta_mut(object);
    for field in ["uid", "creationTimestamp", "generation", "resourceVersion", "deletionTimestamp", "selfLink"] {
        match before["metadata"].get(field) {
            Some(value) => drop(fields.insert(field.into(), value.clone())),
            None => drop(fields.remove(field)),
        }
    }
    if status {
        match before.get("status") {
            Some(status) => object["status"] = status.clone(),
            None => drop(object.as_object_mut().map(|object| object.remove("status"))),
        }
    }
}

/// Everything that is wrong with an object that is to be stored.
pub(super) fn validate(call: &Call<'_>, object: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    let resource = &call.served.resource;
    let schema = call.served.schema().ok_or_else(|| ApiError::internal("the schema of this kind does not compile"))?;
    let metadata = || {
        let old = old.map(|old| &old["metadata"]);
        c5c3_kinds::validate_metadata(&object["metadata"], old, resource.namespaced, resource.name_rule)
    };
    let mut problems = if resource.custom().is_some() {
        let mut problems = metadata();
        let found = schema.validate(object, old);
        if !found.is_empty() {
            problems.extend(wording::reworded(&found, &c5c3_kinds::schema(resource), object));
        }
        problems
    } else {
        let found = schema.validate(object, None);
        if let Some(problem) = found.iter().next() {
            // The schemas of built-in kinds are their types, which a real server's decoder checks.
            return Err(unreadable(resource, &format!("{}: {}", problem.path, problem.message())));
        }
        found
    };
    if resource.custom().is_none() {
        // What an object may become is decided where it is written, not where its status is.
        problems = match (call.target.subresource.as_deref(), old) {
            (None, _) => c5c3_kinds::validate(resource, object, old),
            (Some("ephemeralcontainers"), Some(old)) => c5c3_kinds::validate_ephemeral_containers(object, old),
            (Some(_), _) => metadata(),
        };
    }
    if problems.is_empty() { Ok(()) } else { Err(ApiError::invalid(resource, meta(object, "name"), &problems)) }
}
