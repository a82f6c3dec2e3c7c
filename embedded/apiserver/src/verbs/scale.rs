//! The scale subresource: how many replicas, whatever the kind calls them.

use c5c3_kinds::{ScalePaths, Verb};
use serde_json::{Value, json};

use super::get::live;
use super::patch::patch_error;
use super::{Done, update};
use crate::call::{Call, decode};
use crate::object::meta;
use crate::status::{ApiError, Reason};

/// Reads or changes the scale of an object.
pub(super) async fn scale(call: &Call<'_>, verb: Verb) -> Result<Done, ApiError> {
    let paths = paths(call);
    let (entry, old) = live(call).await?;
    if verb == Verb::Get {
        return Ok(Done::ok(of(call, &paths, &old)));
    }
    let current = of(call, &paths, &old);
    let sent = decode(&call.headers, &call.body)?;
    let wanted = if verb == Verb::Patch {
        let is_json = call
            .headers
            .get(http::header::CONTENT_TYPE)
            .is_some_and(|value| value.as_bytes().starts_with(b"application/json-patch"));
        let patched =
            if is_json { c5c3_fields::json_patch(&current, &sent) } else { c5c3_fields::merge_patch(&current, &sent) };
        patched.map_err(|error| patch_error(&error))?
    } else {
        sent
    };
    if !meta(&wanted, "resourceVersion").is_empty() && meta(&wanted, "resourceVersion") != meta(&old, "resourceVersion")
    {
        return Err(ApiError::modified(&call.served.resource, meta(&old, "name")));
    }
    let replicas = wanted["spec"]["replicas"].as_i64().unwrap_or(0);
    if replicas < 0 {
        let message = format!(
            "Scale.autoscaling \"{}\" is invalid: spec.replicas: Invalid value: {replicas}: must be greater than or equal to 0",
            meta(&old, "name")
        );
        return Err(ApiError::new(http::StatusCode::UNPROCESSABLE_ENTITY, Reason::Invalid, message));
    }
    let mut new = old.clone();
    *at_mut(&mut new, &paths.spec_replicas) = replicas.into();
    let new = call.with_writer(|writer| c5c3_fields::track_update(call.served.shape(), Some(&old), new, writer));
    let done = update::store(call, &entry, &old, new).await?;
    Ok(Done { object: of(call, &paths, &done.object), ..done })
}

/// The scale of an object.
pub(crate) fn scale_of(call: &Call<'_>, object: &Value) -> Value {
    of(call, &paths(call), object)
}

/// An object with as many replicas as a scale asks for.
pub(super) fn rescaled(call: &Call<'_>, object: &Value, scale: &Value) -> Value {
    let mut object = object.clone();
    *at_mut(&mut object, &paths(call).spec_replicas) = scale["spec"]["replicas"].as_i64().unwrap_or(0).into();
    object
}

fn paths(call: &Call<'_>) -> ScalePaths {
    call.served.resource.custom().and_then(|custom| custom.scale.clone()).unwrap_or_else(|| ScalePaths {
        spec_replicas: ".spec.replicas".into(),
        status_replicas: ".status.replicas".into(),
        label_selector: None,
    })
}

fn of(call: &Call<'_>, paths: &ScalePaths, object: &Value) -> Value {
    let mut status = json!({"replicas": at(object, &paths.status_replicas).as_i64().unwrap_or(0)});
    let selector = match &paths.label_selector {
        Some(path) => at(object, path).as_str().map(ToOwned::to_owned),
        None if call.served.resource.custom().is_none() => Some(selector_text(&object["spec"]["selector"])),
        None => None,
    };
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        status["selector"] = selector.into();
    }
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    let replicas = at(object, &paths.spec_replicas).as_i64().unwrap_or(0);
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": {"replicas": replicas}, "status": status})
}

fn selector_text(selector: &Value) -> String {
    let labels = selector.get("matchLabels").unwrap_or(selector);
    let pairs =
        labels.as_object().into_iter().flatten().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    pairs.collect::<Vec<_>>().join(",")
}

fn at<'a>(object: &'a Value, path: &str) -> &'a Value {
    path.trim_start_matches('.').split('.').fold(object, |value, field| &value[field])
}

fn at_mut<'a>(object: &'a mut Value, path: &str) -> &'a mut Value {
    path.trim_start_matches('.').split('.').fold(object, |value, field| &mut value[field])
}
