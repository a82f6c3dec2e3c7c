//! Versions of a custom resource that differ in more than their name: the definition's webhook makes one of the other.
//!
//! Such an object is stored in the version that was the stored one when it was written, and stays so until it is written
//! again. All other kinds are converted without asking anybody, by [`crate::object`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use c5c3_kinds::Resource;
use c5c3_store::Entry;
use serde_json::{Value, json};

use crate::admission::post;
use crate::object::{self, meta};
use crate::server::Server;
use crate::status::ApiError;

/// How long a webhook may take, as with a real server.
const PATIENCE: Duration = Duration::from_secs(30);

/// The object of an entry, in the resource's version.
pub(crate) async fn of_entry(server: &Server, resource: &Resource, entry: &Entry) -> Result<Value, ApiError> {
    read(server, resource, &entry.value).await
}

/// The object that these bytes are, in the resource's version.
pub(crate) async fn read(server: &Server, resource: &Resource, value: &Bytes) -> Result<Value, ApiError> {
    shown(server, resource, object::read(resource, value)?).await
}

/// An object, in the resource's version.
pub(crate) async fn shown(server: &Server, resource: &Resource, object: Value) -> Result<Value, ApiError> {
    one(server, resource, &resource.api_version(), object).await
}

/// An object that is to be stored, in the version that is stored.
pub(crate) async fn stored(server: &Server, resource: &Resource, object: &Arc<Value>) -> Result<Arc<Value>, ApiError> {
    if webhook(resource).is_none() {
        return Ok(object.clone());
    }
    one(server, resource, &resource.storage_version, Value::clone(object)).await.map(Arc::new)
}

async fn one(server: &Server, resource: &Resource, version: &str, object: Value) -> Result<Value, ApiError> {
    let Some(webhook) = webhook(resource).filter(|_| object["apiVersion"] != version) else { return Ok(object) };
    let mut converted = convert(server, resource, webhook, version, vec![object]).await?;
    converted.pop().ok_or_else(|| ApiError::internal("a conversion webhook returned nothing"))
}

/// Those of many entries that are stored in another version than the resource's, converted at once, by their keys.
pub(crate) async fn ahead(
    server: &Server,
    resource: &Resource,
    entries: impl Iterator<Item = &Entry>,
) -> Result<HashMap<Arc<str>, Value>, ApiError> {
    let Some(webhook) = webhook(resource) else { return Ok(HashMap::new()) };
    let version = resource.api_version();
    let (mut keys, mut others) = (Vec::new(), Vec::new());
    for entry in entries {
        let object = object::of_entry(resource, entry)?;
        if object["apiVersion"] != version {
            keys.push(entry.key.clone());
            others.push(object);
        }
    }
    if others.is_empty() {
        return Ok(HashMap::new());
    }
    let converted = convert(server, resource, webhook, &version, others).await?;
    Ok(keys.into_iter().zip(converted).collect())
}

fn webhook(resource: &Resource) -> Option<&Value> {
    resource.custom()?.conversion.as_ref()
}

async fn convert(
    server: &Server,
    resource: &Resource,
    webhook: &Value,
    version: &str,
    objects: Vec<Value>,
) -> Result<Vec<Value>, ApiError> {
    let uid = uuid::Uuid::new_v4().to_string();
    let review = json!({
        "kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
        "request": {"uid": uid, "desiredAPIVersion": version, "objects": objects},
    });
    let failed = |why: String| {
        ApiError::internal(format!("conversion webhook for {}, Kind={} failed: {why}", version, resource.kind))
    };
    let answer = post(server, webhook, PATIENCE, &review).await.map_err(failed)?;
    let answer: Value = serde_json::from_slice(&answer).map_err(|error| failed(error.to_string()))?;
    accepted(&answer, &uid, version, objects).map_err(failed)
}

/// The objects of an answer, if it is one to the request and they are what was asked for.
fn accepted(answer: &Value, uid: &str, version: &str, objects: Vec<Value>) -> Result<Vec<Value>, String> {
    let response = &answer["response"];
    if response["uid"] != uid {
        return Err(format!("invalid response.uid, expected {uid:?}"));
    }
    if response["result"]["status"] != "Success" {
        let why = response["result"]["message"].as_str().unwrap_or("it does not say why");
        return Err(why.to_owned());
    }
    let converted = response["convertedObjects"].as_array().map(Vec::as_slice).unwrap_or_default();
    if converted.len() != objects.len() {
        return Err(format!("it returned {} objects, expected {}", converted.len(), objects.len()));
    }
    objects.into_iter().zip(converted).map(|(before, after)| checked(&before, after, version)).collect()
}

/// A converted object. Of its metadata, labels and annotations are the webhook's to change.
fn checked(before: &Value, after: &Value, version: &str) -> Result<Value, String> {
    if after["apiVersion"] != version || after["kind"] != before["kind"] {
        return Err(format!("it returned an object of {} {}", after["apiVersion"], after["kind"]));
    }
    for field in ["name", "namespace", "uid"] {
        if meta(after, field) != meta(before, field) {
            return Err(format!("it must not change metadata.{field}"));
        }
    }
    let mut object = after.clone();
    object["metadata"] = before["metadata"].clone();
    for field in ["labels", "annotations"] {
        match (after["metadata"].get(field), object["metadata"].as_object_mut()) {
            (Some(value), Some(metadata)) => drop(metadata.insert(field.to_owned(), value.clone())),
            (None, Some(metadata)) => drop(metadata.remove(field)),
            (_, None) => {}
        }
    }
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(version: &str, name: &str) -> Value {
        json!({"apiVersion": version, "kind": "Tree", "metadata": {"name": name, "uid": "u", "labels": {"a": "b"}}})
    }

    fn answer(uid: &str, converted: &Value) -> Value {
        json!({"response": {"uid": uid, "result": {"status": "Success"}, "convertedObjects": converted}})
    }

    #[test]
    fn an_answer_must_be_what_was_asked_for() {
        let asked = || vec![tree("o/v1", "pear")];
        let mut converted = tree("o/v2", "pear");
        converted["metadata"]["labels"] = json!({"a": "c"});
        converted["metadata"]["resourceVersion"] = json!("9");
        let accepted = |answer: Value| accepted(&answer, "1", "o/v2", asked());
        let found = accepted(answer("1", &json!([converted]))).unwrap();
        assert_eq!(found[0]["metadata"], json!({"name": "pear", "uid": "u", "labels": {"a": "c"}}));
        for (wrong, why) in [
            (answer("2", &json!([converted])), "invalid response.uid"),
            (answer("1", &json!([])), "it returned 0 objects, expected 1"),
            (answer("1", &json!([tree("o/v3", "pear")])), "it returned an object of \"o/v3\""),
            (answer("1", &json!([tree("o/v2", "plum")])), "it must not change metadata.name"),
            (json!({"response": {"uid": "1", "result": {"status": "Failure", "message": "no idea"}}}), "no idea"),
        ] {
            let found = accepted(wrong).unwrap_err();
            assert!(found.starts_with(why), "{found}");
        }
    }
}
