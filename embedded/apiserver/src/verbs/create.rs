//! Creating an object.

use std::sync::Arc;

use c5c3_store::{Expect, WriteError};
use http::StatusCode;
use jiff::Timestamp;
use serde_json::Value;

use super::{Done, prepare};
use crate::admission;
use crate::call::Call;
use crate::object::{generate_name, meta, meta_mut, put, timestamp};
use crate::status::{ApiError, Reason};
use crate::{conversion, quotas, services};

/// How often a generated name is tried again when it is taken.
const GENERATED_NAME_TRIES: usize = 8;

/// Creates the object in the body.
pub(super) async fn create(call: &Call<'_>) -> Result<Done, ApiError> {
    if call.target.name.is_some() {
        return Err(ApiError::not_allowed());
    }
    let mut object = call.object()?;
    prepare::check_kind(call, &mut object)?;
    if let Some(done) = crate::reviews::review(call, &object).await? {
        return Ok(done);
    }
    begin_and_store(call, object).await
}

/// Creates an object of the right kind.
pub(super) async fn begin_and_store(call: &Call<'_>, mut object: Value) -> Result<Done, ApiError> {
    let warnings = prepare::unknown_fields(call, &mut object)?;
    let object = call.with_writer(|writer| {
        begin(call, &mut object)?;
        prepare::default(call, &mut object);
        Ok(c5c3_fields::track_update(call.served.shape(), None, object, writer))
    })?;
    let done = store(call, object).await?;
    Ok(Done { warnings, ..done })
}

/// Sets the metadata of a new object.
pub(super) fn begin(call: &Call<'_>, object: &mut Value) -> Result<(), ApiError> {
    let resource = &call.served.resource;
    if !meta(object, "resourceVersion").is_empty() {
        return Err(ApiError::bad_request("resourceVersion should not be set on objects to be created"));
    }
    let name = match (meta(object, "name"), meta(object, "generateName")) {
        ("", "") => {
            let message = "name or generateName is required";
            return Err(ApiError::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                Reason::Invalid,
                format!("{} \"\" is invalid: metadata.name: Required value: {message}", resource.kind),
            ));
        }
        ("", prefix) => generate_name(prefix),
        (name, _) => name.to_owned(),
    };
    let has_status = call.served.has_status();
    let fields = meta_mut(object);
    for field in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"] {
        fields.remove(field);
    }
    fields.insert("name".into(), name.into());
    fields.insert("uid".into(), uuid::Uuid::new_v4().to_string().into());
    fields.insert("creationTimestamp".into(), timestamp(Timestamp::now()).into());
    if resource.generation {
        fields.insert("generation".into(), 1.into());
    } else {
        fields.remove("generation");
    }
    if has_status {
        object.as_object_mut().map(|object| object.remove("status"));
    }
    Ok(())
}

/// Checks and stores a new object that is complete.
pub(super) async fn store(call: &Call<'_>, mut object: Value) -> Result<Done, ApiError> {
    let resource = &call.served.resource;
    let generated = !meta(&object, "generateName").is_empty()
        && object["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(meta(&object, "generateName")));
    call.server.may_be_created(call, &object)?;
    object = admission::mutate(call, "CREATE", object, None).await?;
    c5c3_kinds::prepare_create(resource, &mut object);
    let _claim = services::allocate(call, None, &mut object)?;
    prepare::validate(call, &object, None)?;
    admission::admit(call, "CREATE", &object, None).await?;
    // Webhooks may have taken their time: the namespace may be gone by now, and the object would outlive it.
    call.server.may_be_created(call, &object)?;
    let _turn = quotas::admit(call, None, &object).await?;
    let mut object = Arc::new(object);
    for _ in 0..GENERATED_NAME_TRIES {
        let key = call.key(meta(&object, "name"));
        if call.is_dry_run()? {
            return match call.server.store().get(&key) {
                Some(_) => Err(ApiError::already_exists(resource, meta(&object, "name"))),
                None => Ok(Done { code: StatusCode::CREATED, ..Done::ok(Arc::unwrap_or_clone(object)) }),
            };
        }
        let to_write = conversion::stored(call.server, resource, &object).await?;
        let written = put(call.server.store(), &call.served, &key, Expect::Absent, &to_write).await;
        drop(to_write);
        match written {
            Ok(written) => {
                let done = Done::written(Arc::unwrap_or_clone(object), written);
                call.server.written(&call.served, &done.object);
                return Ok(Done { code: StatusCode::CREATED, ..done });
            }
            Err(WriteError::Conflict { .. }) if generated => {
                let name = generate_name(meta(&object, "generateName"));
                meta_mut(Arc::make_mut(&mut object)).insert("name".into(), name.into());
            }
            Err(WriteError::Conflict { .. }) => return Err(ApiError::already_exists(resource, meta(&object, "name"))),
            Err(error) => return Err(ApiError::internal(error.to_string())),
        }
    }
    Err(ApiError::already_exists(resource, meta(&object, "name")))
}
