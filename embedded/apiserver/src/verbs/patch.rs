//! Changing a part of an object: JSON patch, merge patch, strategic merge patch, server-side apply.

use c5c3_fields::{ApplyError, PatchError};
use http::{StatusCode, header};
use serde_json::Value;

use super::get::live;
use super::update::{keep_what_is_not_written, store};
use super::{Done, create, prepare};
use crate::call::{Call, decode};
use crate::object::{meta, meta_mut};
use crate::status::{ApiError, Reason};

/// How often a patch is applied again to an object that changed under it.
const TRIES: usize = 10;

/// The kinds of patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Json,
    Merge,
    Strategic,
    Apply,
}

/// Patches the object.
pub(super) async fn patch(call: &Call<'_>) -> Result<Done, ApiError> {
    let kind = kind(call)?;
    let patch = decode(&call.headers, &call.body)?;
    if kind != Kind::Apply && call.query.get("force").is_some() {
        return Err(ApiError::bad_request("force: may not be specified for non-apply patch"));
    }
    if kind == Kind::Apply && call.query.get("fieldManager").is_none() {
        return Err(ApiError::bad_request(
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
        ));
    }
    for _ in 0..TRIES {
        match once(call, kind, &patch).await {
            Err(error)
                if error.reason == Reason::Conflict
                    && error.details.get("causes").is_none()
                    && !names_a_version(kind, &patch) => {}
            // It was created since an apply found it missing: what is there now is merged with.
            Err(error) if kind == Kind::Apply && error.reason == Reason::AlreadyExists => {}
            other => return other,
        }
    }
    Err(ApiError::modified(&call.served.resource, call.name()?))
}

fn kind(call: &Call<'_>) -> Result<Kind, ApiError> {
    let content_type = call.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match content_type.split(';').next().unwrap_or_default().trim() {
        "application/json-patch+json" => Ok(Kind::Json),
        "application/merge-patch+json" => Ok(Kind::Merge),
        "application/strategic-merge-patch+json" if call.served.resource.custom().is_none() => Ok(Kind::Strategic),
        "application/apply-patch+yaml" | "application/apply-patch+json" => Ok(Kind::Apply),
        other => {
            let message = format!(
                "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml (not {other})"
            );
            Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Reason::UnsupportedMediaType, message))
        }
    }
}

/// A patch with a resource version is for that version and no other.
fn names_a_version(kind: Kind, patch: &Value) -> bool {
    kind != Kind::Json && !meta(patch, "resourceVersion").is_empty()
}

async fn once(call: &Call<'_>, kind: Kind, patch: &Value) -> Result<Done, ApiError> {
    let (entry, old) = match live(call).await {
        Ok(found) => found,
        Err(error) if kind == Kind::Apply && error.reason == Reason::NotFound && call.target.subresource.is_none() => {
            return apply_new(call, patch).await;
        }
        Err(error) => return Err(error),
    };
    let resource = &call.served.resource;
    let mut warnings = Vec::new();
    let new = if kind == Kind::Apply {
        let mut applied = patch.clone();
        prepare::check_kind(call, &mut applied)?;
        if !meta(&applied, "resourceVersion").is_empty()
            && meta(&applied, "resourceVersion") != meta(&old, "resourceVersion")
        {
            return Err(ApiError::modified(resource, meta(&old, "name")));
        }
        if !meta(&applied, "uid").is_empty() && meta(&applied, "uid") != meta(&old, "uid") {
            let why = format!(
                "Precondition failed: UID in precondition: {}, UID in object meta: {}",
                meta(&applied, "uid"),
                meta(&old, "uid")
            );
            return Err(ApiError::conflict(resource, meta(&old, "name"), &why));
        }
        warnings = prepare::duplicates(call)?;
        let mut new = call
            .with_writer(|writer| {
                c5c3_fields::apply(call.served.shape(), Some(&old), &applied, writer, call.query.is_on("force"))
            })
            .map_err(apply_error)?;
        let fields = new["metadata"]["managedFields"].clone();
        keep_what_is_not_written(call, &old, &mut new);
        new["metadata"]["managedFields"] = fields;
        prepare::default(call, &mut new);
        prepare::update(call, &old, &mut new);
        new
    } else {
        let mut new = patched(call, kind, &old, patch)?;
        if !meta(&new, "resourceVersion").is_empty() && meta(&new, "resourceVersion") != meta(&old, "resourceVersion") {
            return Err(ApiError::modified(resource, meta(&old, "name")));
        }
        if meta(&new, "name") != meta(&old, "name")
            || (!meta(&new, "uid").is_empty() && meta(&new, "uid") != meta(&old, "uid"))
        {
            return Err(ApiError::bad_request("the name and uid of an object cannot be patched"));
        }
        prepare::check_kind(call, &mut new)?;
        warnings.extend(prepare::unknown_fields(call, &mut new)?);
        keep_what_is_not_written(call, &old, &mut new);
        prepare::default(call, &mut new);
        prepare::update(call, &old, &mut new);
        call.with_writer(|writer| c5c3_fields::track_update(call.served.shape(), Some(&old), new, writer))
    };
    store(call, &entry, &old, new).await.map(|done| Done { warnings, ..done })
}

fn patched(call: &Call<'_>, kind: Kind, old: &Value, patch: &Value) -> Result<Value, ApiError> {
    let patched = match kind {
        Kind::Json => c5c3_fields::json_patch(old, patch),
        Kind::Strategic => c5c3_fields::strategic_merge_patch(call.served.shape(), old, patch),
        Kind::Merge | Kind::Apply => c5c3_fields::merge_patch(old, patch),
    };
    patched.map_err(|error| patch_error(&error))
}

/// An apply of what is not there creates it.
async fn apply_new(call: &Call<'_>, patch: &Value) -> Result<Done, ApiError> {
    let mut applied = patch.clone();
    prepare::check_kind(call, &mut applied)?;
    let name = call.name()?;
    if meta(&applied, "name").is_empty() {
        meta_mut(&mut applied).insert("name".into(), name.into());
    }
    if !meta(&applied, "uid").is_empty() || !meta(&applied, "resourceVersion").is_empty() {
        return Err(ApiError::conflict(
            &call.served.resource,
            name,
            "the object does not exist, and the apply is for one that does",
        ));
    }
    let warnings = prepare::duplicates(call)?;
    let mut object = call
        .with_writer(|writer| {
            c5c3_fields::apply(call.served.shape(), None, &applied, writer, call.query.is_on("force"))
        })
        .map_err(apply_error)?;
    create::begin(call, &mut object)?;
    prepare::default(call, &mut object);
    create::store(call, object).await.map(|done| Done { warnings, ..done })
}

pub(super) fn patch_error(error: &PatchError) -> ApiError {
    let code = StatusCode::from_u16(error.code()).unwrap_or(StatusCode::BAD_REQUEST);
    let reason = match error.code() {
        422 => Reason::Invalid,
        413 => Reason::RequestEntityTooLarge,
        _ => Reason::BadRequest,
    };
    ApiError::new(code, reason, error.to_string())
}

#[allow(clippy::needless_pass_by_value)] // For `map_err`.
fn apply_error(error: ApplyError) -> ApiError {
    let status = error.status();
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(500);
    let reason = match &error {
        ApplyError::Conflicts(_) => Reason::Conflict,
        ApplyError::Invalid(_) => Reason::InternalError,
        ApplyError::BadRequest(_) | ApplyError::TooDeep => Reason::BadRequest,
    };
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    ApiError { details: status["details"].clone(), ..ApiError::new(code, reason, error.to_string()) }
}
