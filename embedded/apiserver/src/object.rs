//! Objects in storage and on the wire: metadata that the server sets, versions, bytes.

use std::sync::Arc;

use bytes::Bytes;
use c5c3_kinds::Resource;
use c5c3_store::{Entry, Expect, Store, WriteError, Written};
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use crate::registry::Served;
use crate::status::ApiError;

/// A time as Kubernetes writes it: to the second.
pub fn timestamp(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The object of an entry, in the resource's version.
pub fn read(resource: &Resource, value: &Bytes) -> Result<Value, ApiError> {
    let mut object: Value = serde_json::from_slice(value).map_err(|error| unreadable(&error))?;
    c5c3_kinds::convert(resource, &resource.api_version(), &mut object);
    Ok(object)
}

/// The object of an entry.
pub fn of_entry(resource: &Resource, entry: &Entry) -> Result<Value, ApiError> {
    read(resource, &entry.value)
}

/// Stores an object, if what is there is as expected.
pub async fn put(
    store: &Store,
    served: &Arc<Served>,
    key: &str,
    expect: Expect,
    object: &Arc<Value>,
) -> Result<Written, WriteError> {
    let (served, object) = (served.clone(), object.clone());
    store.write(key, expect, move |revision| Some(write(&served.resource, &object, revision))).await
}

/// The bytes to store: in the storage version, with the revision as resource version.
fn write(resource: &Resource, object: &Value, revision: u64) -> Bytes {
    if object["apiVersion"] == resource.storage_version {
        return kept(&AtRevision { object, revision });
    }
    let mut object = object.clone();
    c5c3_kinds::convert(resource, &resource.storage_version, &mut object);
    kept(&AtRevision { object: &object, revision })
}

/// JSON. What has only texts for keys can always be written.
pub fn bytes(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("a JSON value is written into memory").into()
}

/// JSON that is kept, in no more memory than it takes.
fn kept(value: &impl Serialize) -> Bytes {
    Bytes::copy_from_slice(&bytes(value))
}

/// An object with another resource version than its own.
struct AtRevision<'a> {
    object: &'a Value,
    revision: u64,
}

impl Serialize for AtRevision<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.object.as_object().into_iter().flatten() {
            let written = match value.as_object().filter(|_| name == "metadata") {
                Some(metadata) => map.serialize_entry(name, &MetadataAtRevision { metadata, revision: self.revision }),
                None => map.serialize_entry(name, value),
            };
            written?;
        }
        map.end()
    }
}

struct MetadataAtRevision<'a> {
    metadata: &'a Map<String, Value>,
    revision: u64,
}

impl Serialize for MetadataAtRevision<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const VERSION: &str = "resourceVersion";
        let mut map = serializer.serialize_map(None)?;
        let (before, after): (Vec<_>, Vec<_>) =
            self.metadata.iter().filter(|(name, _)| *name != VERSION).partition(|(name, _)| name.as_str() < VERSION);
        before.into_iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        map.serialize_entry(VERSION, &self.revision.to_string())?;
        after.into_iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        map.end()
    }
}

/// What an object is, and which one: as much of it as can be read without making anything of the rest.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Head {
    /// Its version, with the group.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// The first of its metadata.
    #[serde(default)]
    pub metadata: HeadMetadata,
}

/// Metadata that tells which object it is, and whether it stays.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeadMetadata {
    /// Its name.
    pub name: String,
    /// Its namespace; empty if it is in none.
    pub namespace: String,
    /// Its uid.
    pub uid: String,
    /// Its owners.
    pub owner_references: Vec<OwnerReference>,
    deletion_timestamp: Option<IgnoredAny>,
}

/// An owner of an object.
#[derive(Debug, Deserialize)]
pub struct OwnerReference {
    /// Its uid.
    #[serde(default)]
    pub uid: String,
}

impl Head {
    /// Of a stored object.
    pub fn read(value: &[u8]) -> Result<Self, ApiError> {
        serde_json::from_slice(value).map_err(|error| unreadable(&error))
    }

    /// Whether the object is being deleted.
    pub fn is_going(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

fn unreadable(error: &serde_json::Error) -> ApiError {
    ApiError::internal(format!("a stored object does not parse: {error}"))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    fn pear() -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"taste": "sweet"},
            "metadata": {
                "name": "pear", "namespace": "garden", "uid": "u-1", "resourceVersion": "3", "labels": {"a": "b"},
                "ownerReferences": [{"kind": "Tree", "name": "old", "uid": "u-0"}],
            },
        })
    }

    #[test]
    fn what_is_stored_is_the_object_at_its_revision_with_its_version_first() {
        let maps = Registry::builtin().find("", "v1", "configmaps").unwrap();
        let stored = write(&maps.resource, &pear(), 7);
        let mut expected = pear();
        expected["metadata"]["resourceVersion"] = json!("7");
        assert_eq!(stored, expected.to_string());
        assert!(maps.is_shown_as_stored(&stored));
        let unversioned = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "pear", "uid": "u-1"}});
        let read: Value = serde_json::from_slice(&write(&maps.resource, &unversioned, 8)).unwrap();
        assert_eq!(read["metadata"], json!({"name": "pear", "uid": "u-1", "resourceVersion": "8"}));
    }

    #[test]
    fn what_is_stored_in_another_version_is_not_shown_as_it_is() {
        let registry = Registry::builtin();
        let (old, new) =
            (registry.find("", "v1", "events").unwrap(), registry.find("events.k8s.io", "v1", "events").unwrap());
        let event =
            json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "note": "ripe", "metadata": {"name": "x"}});
        let stored = write(&new.resource, &event, 1);
        assert_ne!(old.is_shown_as_stored(&stored), new.is_shown_as_stored(&stored));
        assert!(!old.is_shown_as_stored(b"{\"apiVersion\":\"v11\""));
    }

    #[test]
    fn the_head_of_an_object_tells_which_one_it_is_and_whether_it_stays() {
        let head = Head::read(pear().to_string().as_bytes()).unwrap();
        assert_eq!((head.api_version.as_str(), head.kind.as_str()), ("v1", "ConfigMap"));
        assert_eq!((head.metadata.name.as_str(), head.metadata.namespace.as_str()), ("pear", "garden"));
        assert_eq!((head.metadata.uid.as_str(), head.metadata.owner_references[0].uid.as_str()), ("u-1", "u-0"));
        assert!(!head.is_going());
        let mut going = pear();
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(Head::read(going.to_string().as_bytes()).unwrap().is_going());
        going["metadata"] = json!({"deletionTimestamp": null});
        assert!(!Head::read(going.to_string().as_bytes()).unwrap().is_going());
    }
}
