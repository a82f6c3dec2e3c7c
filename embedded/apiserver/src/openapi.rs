//! OpenAPI documents: made once for what is served, and told apart by clients that have them already.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use bytes::Bytes;
use c5c3_kinds::Resource;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::Value;

use crate::path::Query;
use crate::registry::Registry;
use crate::reply::bytes_reply;
use crate::status::{ApiError, Reason};

/// A document that is ready to be sent.
#[derive(Clone)]
struct Document {
    body: Bytes,
    etag: String,
}

/// The documents of one registry, by path.
#[derive(Default)]
pub(crate) struct Documents(Mutex<HashMap<String, Arc<Document>>>);

impl Documents {
    fn get(&self, path: &str, make: impl FnOnce() -> Option<Value>) -> Option<Arc<Document>> {
        // Made under the lock: of many clients that ask at once, one makes it, and the others wait for it.
        let mut documents = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = documents.get(path) {
            return Some(known.clone());
        }
        let body = make()?.to_string();
        let mut hasher = DefaultHasher::new();
        body.hash(&mut hasher);
        let document = Arc::new(Document { body: Bytes::from(body), etag: format!("\"{:016X}\"", hasher.finish()) });
        documents.insert(path.to_owned(), document.clone());
        Some(document)
    }
}

/// Serves `/openapi/v2`, `/openapi/v3` and what is below that.
pub(crate) fn serve(
    registry: &Registry,
    parts: &[&str],
    query: &Query,
    headers: &HeaderMap,
    version: &str,
) -> Result<Response<Body>, ApiError> {
    accepts_json(headers)?;
    let all = registry.all();
    let resources: Vec<&Resource> = all.iter().map(|served| &served.resource).collect();
    let path = parts.join("/");
    let document = registry.documents().get(&path, || match parts {
        ["v2"] => Some(c5c3_kinds::openapi_v2(&resources, version)),
        ["v3"] => Some(c5c3_kinds::openapi_v3_index(&resources)),
        ["v3", "api", of] => c5c3_kinds::openapi_v3(&resources, "", of, version),
        ["v3", "apis", group, of] => c5c3_kinds::openapi_v3(&resources, group, of, version),
        _ => None,
    });
    let document = document.ok_or_else(ApiError::no_such_path)?;
    // The address of a document of version 3 names what is in it: one that is out of date leads to the new one.
    let index = || c5c3_kinds::openapi_v3_index(&resources);
    if let (["v3", "api" | "apis", ..], Some(asked)) = (parts, query.get("hash")) {
        let current =
            index()["paths"][parts[1..].join("/")]["serverRelativeURL"].as_str().unwrap_or_default().to_owned();
        if !current.ends_with(&format!("?hash={asked}")) {
            let mut moved = bytes_reply(StatusCode::MOVED_PERMANENTLY, "text/plain; charset=utf-8", "");
            if let Ok(location) = HeaderValue::from_str(&current) {
                moved.headers_mut().insert(header::LOCATION, location);
            }
            return Ok(moved);
        }
        let mut reply = answer(&document, headers);
        reply.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
        return Ok(reply);
    }
    Ok(answer(&document, headers))
}

/// The document, or that the client has it.
fn answer(document: &Document, headers: &HeaderMap) -> Response<Body> {
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let has_it = known.split(',').any(|tag| tag.trim().trim_start_matches("W/") == document.etag);
    let mut reply = if has_it {
        bytes_reply(StatusCode::NOT_MODIFIED, "application/json", "")
    } else {
        bytes_reply(StatusCode::OK, "application/json", document.body.clone())
    };
    if let Ok(etag) = HeaderValue::from_str(&document.etag) {
        reply.headers_mut().insert(header::ETAG, etag);
    }
    reply.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    reply
}

/// Go clients ask for protobuf, and do with version 3 when they are refused.
fn accepts_json(headers: &HeaderMap) -> Result<(), ApiError> {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("*/*");
    let json = |range: &str| {
        matches!(range.split(';').next().unwrap_or_default().trim(), "application/json" | "application/*" | "*/*" | "")
    };
    if accept.split(',').any(json) {
        return Ok(());
    }
    let message = "only the following media types are accepted: application/json";
    Err(ApiError::new(StatusCode::NOT_ACCEPTABLE, Reason::NotAcceptable, message))
}
