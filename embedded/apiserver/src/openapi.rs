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
    if parts == ["v2"] && accepts_json(headers).is_err() && accepts(headers, &PROTOBUF) {
        let mut reply = bytes_reply(StatusCode::OK, PROTOBUF[1], without_definitions(version));
        reply.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
        return Ok(reply);
    }
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

/// Version 3 is in JSON alone: Go clients ask for protobuf, and take that when they are refused.
fn accepts_json(headers: &HeaderMap) -> Result<(), ApiError> {
    if accepts(headers, &["application/json", "application/*", "*/*", ""]) {
        return Ok(());
    }
    let message = "only the following media types are accepted: application/json";
    Err(ApiError::new(StatusCode::NOT_ACCEPTABLE, Reason::NotAcceptable, message))
}

fn accepts(headers: &HeaderMap, types: &[&str]) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("*/*");
    accept.split(',').any(|range| types.contains(&range.split(';').next().unwrap_or_default().trim()))
}

/// The only format in which kubectl takes a document of version 2, which it wants for what version 3 does not have: a `List`.
/// It asks for the first, which is no media type that it could read in an answer: that has the second, as upstream's.
const PROTOBUF: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
];

/// A document of version 2 in protobuf: what this server is, and no definitions. What kubectl finds no definition of it
/// leaves to the server, which checks fields by the same schemas; definitions are in the document in JSON and in version 3.
fn without_definitions(version: &str) -> Vec<u8> {
    let title = field(1, b"Kubernetes");
    let info = [title, field(2, version.as_bytes())].concat();
    [field(1, b"2.0"), field(2, &info), field(8, b"")].concat()
}

/// A field of a protobuf message that holds fewer than 128 bytes.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap_or(u8::MAX).min(127);
    [&[number << 3 | 2, length][..], &content[..usize::from(length)]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_in_protobuf_says_what_the_server_is_and_has_no_definitions() {
        let document = without_definitions("v1.33.0");
        assert_eq!(document, b"\x0a\x032.0\x12\x15\x0a\x0aKubernetes\x12\x07v1.33.0\x42\x00");
    }
}
