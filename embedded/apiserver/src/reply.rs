//! Answers: which form the client wants an object in, and the response that carries it.

use axum::body::Body;
use bytes::Bytes;
use c5c3_kinds::{IncludeObject, Resource};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::object::bytes;
use crate::path::Query;
use crate::status::{ApiError, Reason};

/// The form that a client wants objects in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As they are.
    Object,
    /// As rows of a table.
    Table(IncludeObject),
    /// Their metadata.
    Metadata,
}

impl Form {
    /// Reads the `Accept` header. The first form that is served wins; what is answered and not stored has one form only.
    pub fn wanted(headers: &HeaderMap, query: &Query, is_stored: bool) -> Result<Self, ApiError> {
        let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("*/*");
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let form = parts.find_map(|part| part.strip_prefix("as="));
            match (media, form) {
                ("application/json" | "*/*" | "application/*" | "", None) => return Ok(Self::Object),
                ("application/json", Some("Table")) if is_stored => {
                    let include = IncludeObject::parse(query.raw("includeObject").unwrap_or_default());
                    return include
                        .map(Self::Table)
                        .ok_or_else(|| ApiError::bad_request("includeObject is None, Metadata or Object"));
                }
                ("application/json", Some("PartialObjectMetadata" | "PartialObjectMetadataList")) if is_stored => {
                    return Ok(Self::Metadata);
                }
                _ => {}
            }
        }
        let message = "only the following media types are accepted: application/json";
        Err(ApiError::new(StatusCode::NOT_ACCEPTABLE, Reason::NotAcceptable, message))
    }

    /// One object in this form.
    pub fn object(self, resource: &Resource, object: Value) -> Value {
        match self {
            Self::Object => object,
            Self::Metadata => c5c3_kinds::partial(&object),
            Self::Table(include) => {
                let version = object["metadata"]["resourceVersion"].clone();
                let mut table = c5c3_kinds::table(resource, &[object], include, Timestamp::now());
                table["metadata"] = json!({"resourceVersion": version});
                table
            }
        }
    }

    /// A list in this form.
    pub fn list(self, resource: &Resource, items: Vec<Item>, metadata: Value) -> Bytes {
        let objects = |items: Vec<Item>| items.into_iter().map(Item::into_object).collect::<Vec<Value>>();
        match self {
            Self::Object => {
                let items: Vec<Bytes> = items.into_iter().map(Item::into_bytes).collect();
                let list =
                    json!({"kind": resource.list_kind, "apiVersion": resource.api_version(), "metadata": metadata});
                with_items(&bytes(&list), &items)
            }
            Self::Metadata => bytes(&json!({
                "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
                "items": objects(items).iter().map(c5c3_kinds::partial).collect::<Vec<_>>(),
            })),
            Self::Table(include) => {
                let mut table = c5c3_kinds::table(resource, &objects(items), include, Timestamp::now());
                table["metadata"] = metadata;
                bytes(&table)
            }
        }
    }
}

/// An item of a list.
pub enum Item {
    /// As it is stored, which is how it is shown.
    Stored(Bytes),
    /// As it was made of that.
    Object(Value),
}

impl Item {
    fn into_bytes(self) -> Bytes {
        match self {
            Self::Stored(stored) => stored,
            Self::Object(object) => bytes(&object),
        }
    }

    fn into_object(self) -> Value {
        match self {
            Self::Stored(stored) => serde_json::from_slice(&stored).unwrap_or_default(),
            Self::Object(object) => object,
        }
    }
}

/// A list that has everything but its items, with them.
fn with_items(list: &[u8], items: &[Bytes]) -> Bytes {
    let open = list.strip_suffix(b"}").unwrap_or(list);
    let mut whole = Vec::with_capacity(open.len() + items.iter().map(|item| item.len() + 1).sum::<usize>() + 16);
    whole.extend_from_slice(open);
    whole.extend_from_slice(br#","items":["#);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            whole.push(b',');
        }
        whole.extend_from_slice(item);
    }
    whole.extend_from_slice(b"]}");
    whole.into()
}

/// A JSON response.
pub fn json_reply(code: StatusCode, body: &Value) -> Response<Body> {
    bytes_reply(code, "application/json", bytes(body))
}

/// A response of any kind.
pub fn bytes_reply(code: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

impl From<ApiError> for Response<Body> {
    fn from(error: ApiError) -> Self {
        let mut response = json_reply(error.code, &error.to_value());
        if let Some(seconds) = error.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// Adds warnings, as `kubectl` prints them.
pub fn warn(response: &mut Response<Body>, warnings: &[String]) {
    for warning in warnings {
        let text: String = warning.chars().filter(|c| !c.is_control()).collect();
        let text = text.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{text}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    #[test]
    fn a_list_is_the_same_of_stored_items_and_of_objects() {
        let maps = Registry::builtin().find("", "v1", "configmaps").unwrap();
        let objects = [json!({"metadata": {"name": "a"}}), json!({"metadata": {"name": "b"}})];
        for count in 0..=2 {
            let stored = objects[..count].iter().map(|object| Item::Stored(bytes(object))).collect();
            let made = objects[..count].iter().cloned().map(Item::Object).collect();
            let metadata = json!({"resourceVersion": "4"});
            let list = Form::Object.list(&maps.resource, stored, metadata.clone());
            assert_eq!(list, Form::Object.list(&maps.resource, made, metadata.clone()));
            let expected = json!({
                "apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": objects[..count],
            });
            assert_eq!(serde_json::from_slice::<Value>(&list).unwrap(), expected);
        }
    }
}
