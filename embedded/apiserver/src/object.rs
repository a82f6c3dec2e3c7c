//! Objects in storage and on the wire: metadata that the server sets, versions, bytes.

use bytes::Bytes;
use c5c3_kinds::Resource;
use c5c3_store::Entry;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::status::ApiError;

/// A time as Kubernetes writes it: to the second.
pub fn timestamp(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The object of an entry, in the resource's version.
pub fn read(resource: &Resource, value: &Bytes) -> Result<Value, ApiError> {
    let mut object: Value = serde_json::from_slice(value)
        .map_err(|error| ApiError::internal(format!("a stored object does not parse: {error}")))?;
    c5c3_kinds::convert(resource, &resource.api_version(), &mut object);
    Ok(object)
}

/// The object of an entry.
pub fn of_entry(resource: &Resource, entry: &Entry) -> Result<Value, ApiError> {
    read(resource, &entry.value)
}

/// The bytes to store: in the storage version, with the revision as resource version.
pub fn write(resource: &Resource, mut object: Value, revision: u64) -> Bytes {
    c5c3_kinds::convert(resource, &resource.storage_version, &mut object);
    object["metadata"]["resourceVersion"] = revision.to_string().into();
    Bytes::from(object.to_string())
}

/// The metadata of an object, made if it is not there.
pub fn meta_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    object["metadata"].as_object_mut().expect("made an object above")
}

/// A text in the metadata.
pub fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// The finalizers of an object.
pub fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Whether an object is being deleted.
pub fn is_going(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// A name from a prefix, with five letters that make it unique enough.
pub fn generate_name(prefix: &str) -> String {
    // No vowels and no digits that look like letters: no words come of it.
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let prefix: String = prefix.chars().take(58).collect();
    let letters = (0..5).map(|_| char::from(LETTERS[rand::random_range(0..LETTERS.len())]));
    prefix.chars().chain(letters).collect()
}

/// Whether two objects ask for the same: everything but metadata and status.
pub fn asks_the_same(a: &Value, b: &Value) -> bool {
    let rest = |object: &Value| -> Map<String, Value> {
        let fields = object.as_object().into_iter().flatten();
        let kept = fields.filter(|(name, _)| !matches!(name.as_str(), "metadata" | "status" | "apiVersion" | "kind"));
        kept.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    rest(a) == rest(b)
}

/// Whether two objects are the same but for their resource version.
pub fn is_unchanged(a: &Value, b: &Value) -> bool {
    let plain = |object: &Value| {
        let mut object = object.clone();
        meta_mut(&mut object).remove("resourceVersion");
        object
    };
    plain(a) == plain(b)
}
