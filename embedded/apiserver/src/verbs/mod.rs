//! What can be done with a resource.

mod bind;
mod create;
mod delete;
mod evict;
mod get;
mod list;
mod patch;
mod prepare;
mod reading;
mod scale;
mod update;
mod watch;

use axum::body::Body;
use bytes::Bytes;
use c5c3_kinds::Verb;
use c5c3_store::Written;
use http::{Method, Response, StatusCode};
use serde_json::Value;

use crate::call::Call;
use crate::nodes::{self, Way};
use crate::path::verb;
use crate::reply::{Form, bytes_reply, json_reply, warn};
use crate::status::ApiError;

pub(crate) use delete::{
    Deleted, FOREGROUND, ORPHAN, Options as DeleteOptions, delete_as, delete_object, finish_deletion,
};
pub(crate) use prepare::mutated;
pub(crate) use scale::scale_of;

/// An object to answer with, its status code, and what the client should be warned of.
pub(crate) struct Done {
    pub(crate) code: StatusCode,
    pub(crate) object: Value,
    /// The object as it is stored, if it is.
    pub(crate) stored: Option<Bytes>,
    pub(crate) warnings: Vec<String>,
}

impl Done {
    pub(crate) fn ok(object: Value) -> Self {
        Self { code: StatusCode::OK, object, stored: None, warnings: Vec::new() }
    }

    /// What was written, at its revision.
    fn written(mut object: Value, written: Written) -> Self {
        object["metadata"]["resourceVersion"] = written.revision.to_string().into();
        Self { stored: written.value, ..Self::ok(object) }
    }
}

/// Serves a request whose user may do what it asks for.
pub(crate) async fn serve(call: Call<'_>, method: &Method) -> Result<Response<Body>, ApiError> {
    let verb = verb(method, &call.target, &call.query);
    if let Some(way) = call.target.subresource.as_deref().and_then(Way::of) {
        return nodes::serve(&call, way, method, verb).await;
    }
    let verb = verb.ok_or_else(ApiError::not_allowed)?;
    let form = Form::wanted(&call.headers, &call.query, call.served.resource.allows(Verb::Get))?;
    if let Some(subresource) = call.target.subresource.clone() {
        return serve_below(call, &subresource, verb, form).await;
    }
    if !call.served.resource.allows(verb) {
        return Err(ApiError::not_allowed());
    }
    match verb {
        Verb::Watch => watch::watch(&call, form).await,
        Verb::List => list::list(&call, form).await,
        Verb::Get => {
            let entry = get::entry(&call)?;
            if form == Form::Object && call.served.is_shown_as_stored(&entry.value) {
                return Ok(bytes_reply(StatusCode::OK, "application/json", entry.value));
            }
            let object = get::shown(&call, &entry).await?;
            Ok(reply(&call, &Done::ok(form.object(&call.served.resource, object))))
        }
        Verb::Create if call.served.resource.is("", "Binding") => {
            bind::bind(&call).await.map(|done| reply(&call, &done))
        }
        Verb::Create => create::create(&call).await.map(|done| formed(&call, form, done)),
        Verb::Update => update::update(&call).await.map(|done| formed(&call, form, done)),
        Verb::Patch => patch::patch(&call).await.map(|done| formed(&call, form, done)),
        Verb::Delete => delete::delete(&call).await.map(|done| reply(&call, &done)),
        Verb::DeleteCollection => delete::delete_collection(&call).await.map(|done| reply(&call, &done)),
    }
}

async fn serve_below(call: Call<'_>, subresource: &str, verb: Verb, form: Form) -> Result<Response<Body>, ApiError> {
    let resource = &call.served.resource;
    let known = resource.subresource(subresource).ok_or_else(ApiError::no_such_path)?;
    if !known.verbs.contains(&verb) {
        return Err(ApiError::not_allowed());
    }
    match (subresource, verb) {
        ("status" | "finalize" | "approval" | "ephemeralcontainers", Verb::Get) => {
            let object = get::shown(&call, &get::entry(&call)?).await?;
            Ok(reply(&call, &Done::ok(form.object(resource, object))))
        }
        ("status" | "finalize" | "approval" | "ephemeralcontainers", Verb::Update) => {
            update::update(&call).await.map(|done| formed(&call, form, done))
        }
        ("status" | "finalize" | "approval" | "ephemeralcontainers", Verb::Patch) => {
            patch::patch(&call).await.map(|done| formed(&call, form, done))
        }
        ("scale", _) => scale::scale(&call, verb).await.map(|done| reply(&call, &done)),
        ("eviction", Verb::Create) => evict::evict(&call).await.map(|done| reply(&call, &done)),
        ("binding", Verb::Create) => bind::bind(&call).await.map(|done| reply(&call, &done)),
        ("token", Verb::Create) => crate::reviews::token(&call).await.map(|done| reply(&call, &done)),
        _ => Err(ApiError::not_allowed()),
    }
}

fn formed(call: &Call<'_>, form: Form, done: Done) -> Response<Body> {
    let stored = done.stored.filter(|stored| form == Form::Object && call.served.is_shown_as_stored(stored));
    let response = match stored {
        Some(stored) => bytes_reply(done.code, "application/json", stored),
        None => json_reply(done.code, &form.object(&call.served.resource, done.object)),
    };
    warned(call, response, &done.warnings)
}

fn reply(call: &Call<'_>, done: &Done) -> Response<Body> {
    warned(call, json_reply(done.code, &done.object), &done.warnings)
}

fn warned(call: &Call<'_>, mut response: Response<Body>, warnings: &[String]) -> Response<Body> {
    warn(&mut response, warnings);
    if let Some(deprecation) = call.served.resource.custom().and_then(|custom| custom.deprecation.clone()) {
        warn(&mut response, &[deprecation]);
    }
    response
}
