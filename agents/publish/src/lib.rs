//! How an agent publishes what it sees on its node: by server-side apply of its own fields of one object's status, and only
//! when they changed. Other writers of the same status keep their fields.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod access;

use std::fmt::Debug;

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

pub use access::Access;

/// What an object of a kind needs, to be watched and to have its status applied.
pub trait Published:
    Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Published for K where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

/// The object of this name, each time that it changes, and nothing once it is deleted. A watch that fails is started again
/// with back-off.
pub fn watch<K: Published>(api: Api<K>, name: &str) -> BoxStream<'static, Option<K>> {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    watcher(api, config)
        .default_backoff()
        .filter_map(|event| {
            futures::future::ready(match event {
                Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => Some(Some(object)),
                Ok(watcher::Event::Delete(_) | watcher::Event::Init) => Some(None),
                Ok(watcher::Event::InitDone) => None,
                Err(error) => {
                    tracing::warn!(%error, "cannot watch the object of this node; trying again");
                    None
                }
            })
        })
        .boxed()
}

/// What was written last, and how the API server stored it.
#[derive(Debug)]
struct Written {
    uid: Option<String>,
    desired: Value,
    stored: Value,
}

/// The writer of one field manager's part of a status.
#[derive(Debug)]
pub struct Publisher<K> {
    api: Api<K>,
    manager: &'static str,
    last: Option<Written>,
}

impl<K: Published> Publisher<K> {
    /// A writer that has written nothing yet.
    pub fn new(api: Api<K>, manager: &'static str) -> Self {
        Self { api, manager, last: None }
    }

    /// Applies `status`, the agent's own fields, to the live object unless that was done before and they are still there.
    /// Returns the object as it is stored after a write, and nothing when none was needed.
    pub async fn publish(&mut self, live: &K, status: Value) -> Result<Option<K>, kube::Error> {
        let seen = json!(live);
        let is_current = self.last.as_ref().is_some_and(|last| {
            last.uid == live.uid() && last.desired == status && own_part(&seen["status"], &status) == last.stored
        });
        if is_current {
            return Ok(None);
        }
        let patch = json!({
            "apiVersion": K::api_version(&()), "kind": K::kind(&()),
            "metadata": {"name": live.name_any(), "uid": live.uid()}, "status": status,
        });
        let parameters = PatchParams::apply(self.manager).force();
        let stored = self.api.patch_status(&live.name_any(), &parameters, &Patch::Apply(&patch)).await?;
        let part = own_part(&json!(stored)["status"], &status);
        self.last = Some(Written { uid: stored.uid(), desired: status, stored: part });
        Ok(Some(stored))
    }
}

/// The part of a status that the fields of `own` are about: these fields, and of conditions those of the same types.
fn own_part(status: &Value, own: &Value) -> Value {
    let Some(fields) = own.as_object() else { return Value::Null };
    let part = fields.iter().map(|(field, wanted)| {
        let found = &status[field];
        let found = if field == "conditions" { own_conditions(found, wanted) } else { found.clone() };
        (field.clone(), found)
    });
    Value::Object(part.collect::<Map<_, _>>())
}

fn own_conditions(found: &Value, wanted: &Value) -> Value {
    let types: Vec<&Value> = wanted.as_array().into_iter().flatten().map(|condition| &condition["type"]).collect();
    let own = found.as_array().into_iter().flatten().filter(|condition| types.contains(&&condition["type"]));
    own.cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_writers_fields_and_conditions_are_no_part_of_ours() {
        let own = json!({"numInstances": 2, "conditions": [{"type": "LibVirtConnection", "status": "True"}]});
        let status = json!({"numInstances": 2, "traits": ["A"], "conditions": [
            {"type": "Ready", "status": "False"}, {"type": "LibVirtConnection", "status": "True"}]});
        assert_eq!(own_part(&status, &own), own);
    }

    #[test]
    fn a_field_that_was_removed_by_another_is_missed() {
        let own = json!({"numInstances": 2});
        assert_ne!(own_part(&json!({}), &own), own);
    }
}
