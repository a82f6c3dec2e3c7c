//! What is known of a cluster at one moment: objects, who owns whom, what was told of them. A value, read once.

use std::collections::BTreeMap;

use c5c3_kit::{Ref, Wait, readiness};
use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use serde_json::Value;

use super::names;

/// An object as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    /// Which object.
    pub(crate) reference: Ref,
    /// All of it.
    pub(crate) value: Value,
    /// What it lacks to be ready; none when it is.
    pub(crate) wait: Option<Wait>,
}

/// Something that an object says it waits for.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    /// `kind/name`, or `kind/namespace/name` elsewhere.
    pub(crate) object: String,
    pub(crate) condition: String,
    pub(crate) because: Option<String>,
    pub(crate) look_at: Option<String>,
}

impl Said {
    /// How the object is until then, in words.
    pub(crate) fn state(&self) -> String {
        match self.condition.as_str() {
            "" | "exists" => "does not exist".to_owned(),
            condition if condition.starts_with(|first: char| first.is_ascii_uppercase()) => {
                format!("is not {condition}")
            }
            condition => format!("waiting until it {condition}"),
        }
    }
}

impl Object {
    /// An object of a kind, from what the API gave.
    pub(crate) fn new(resource: &ApiResource, value: Value) -> Option<Self> {
        let object: DynamicObject = serde_json::from_value(value.clone()).ok()?;
        let reference = Ref::of(resource, &object.metadata);
        let wait = readiness::wait(&reference, &object);
        Some(Self { reference, value, wait })
    }

    pub(crate) fn kind(&self) -> &str {
        &self.reference.resource.kind
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.reference.namespace.as_deref()
    }

    pub(crate) fn text(&self, pointer: &str) -> Option<&str> {
        self.value.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    pub(crate) fn list(&self, pointer: &str) -> &[Value] {
        self.value.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    /// The condition of that type.
    pub(crate) fn condition(&self, kind: &str) -> Option<&Value> {
        self.list("/status/conditions").iter().find(|condition| condition["type"] == kind)
    }

    /// What the object says it waits for.
    pub(crate) fn said(&self) -> Vec<Said> {
        let text = |wait: &Value, field: &str| wait[field].as_str().map(ToOwned::to_owned);
        let waits = self.list("/status/waitingFor").iter();
        waits
            .filter_map(|wait| {
                Some(Said {
                    object: text(wait, "object")?,
                    condition: text(wait, "condition").unwrap_or_default(),
                    because: text(wait, "because"),
                    look_at: text(wait, "lookAt"),
                })
            })
            .collect()
    }

    /// The uids of its owners.
    fn owners(&self) -> impl Iterator<Item = &str> {
        self.list("/metadata/ownerReferences").iter().filter_map(|owner| owner["uid"].as_str())
    }

    pub(crate) fn uid(&self) -> Option<&str> {
        self.text("/metadata/uid")
    }
}

/// A cluster at one moment.
#[derive(Clone, Debug)]
pub(crate) struct World {
    /// Why the API server is not ready, if it says so.
    pub(crate) unready: Option<String>,
    pub(crate) objects: Vec<Object>,
    /// The last lines of containers that do not run, by `namespace/pod/container`.
    pub(crate) logs: BTreeMap<String, String>,
    /// What could not be read, and why.
    pub(crate) unread: Vec<String>,
    pub(crate) now: Timestamp,
}

impl World {
    /// The objects of a kind, in the order of their names.
    pub(crate) fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Object> {
        self.objects.iter().filter(move |object| object.kind() == kind)
    }

    /// The object that `kind/name` or `kind/namespace/name` means, as seen from a namespace. Of several kinds of one name
    /// the one is meant that is not ready.
    pub(crate) fn find(&self, path: &str, namespace: Option<&str>) -> Option<&Object> {
        let (kind, rest) = path.split_once('/')?;
        let (namespace, name) = match rest.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (namespace, rest),
        };
        let is_it = |object: &&Object| {
            let names = &object.reference.resource;
            let called =
                names.kind.eq_ignore_ascii_case(kind) || names.plural == kind || names::is_short(kind, &names.kind);
            let here = object.namespace().is_none() || namespace.is_none() || object.namespace() == namespace;
            called && here && object.reference.name == name
        };
        let mut found: Vec<&Object> = self.objects.iter().filter(is_it).collect();
        found.sort_by_key(|object| object.wait.is_none());
        found.first().copied()
    }

    /// What an object owns.
    pub(crate) fn owned_by<'a>(&'a self, owner: &'a Object) -> impl Iterator<Item = &'a Object> {
        self.objects.iter().filter(move |object| owner.uid().is_some_and(|uid| object.owners().any(|own| own == uid)))
    }

    /// Everything below an object that is of that kind.
    pub(crate) fn below<'a>(&'a self, owner: &'a Object, kind: &str) -> Vec<&'a Object> {
        let mut found = Vec::new();
        for child in self.owned_by(owner) {
            if child.kind() == kind {
                found.push(child);
            }
            found.extend(self.below(child, kind));
        }
        found
    }

    /// The newest warning about an object, if there is one: its reason and what it says.
    pub(crate) fn warning(&self, object: &Object) -> Option<(&str, &str)> {
        // An object of the same name before this one had another uid.
        let is_its = |event: &Object| match (event.text("/involvedObject/uid"), object.uid()) {
            (Some(about), Some(uid)) => about == uid,
            _ => true,
        };
        let about = |event: &&Object| {
            event.text("/involvedObject/name") == Some(object.reference.name.as_str())
                && event.text("/involvedObject/kind") == Some(object.kind())
                && event.namespace() == object.namespace()
                && is_its(event)
                && event.text("/type") == Some("Warning")
        };
        let when = |event: &&Object| {
            let times = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
            times.iter().find_map(|time| event.text(time)).map(ToOwned::to_owned)
        };
        let newest = self.of_kind("Event").filter(about).max_by_key(when)?;
        Some((newest.text("/reason").unwrap_or_default(), newest.text("/message").unwrap_or_default()))
    }

    /// The nodes that are not ready, with what they say.
    pub(crate) fn nodes_down(&self) -> impl Iterator<Item = (&Object, &str)> {
        let down = |node: &Object| node.condition("Ready").is_none_or(|ready| ready["status"] != "True");
        self.of_kind("Node").filter(move |node| down(node)).map(|node| {
            let message = node.condition("Ready").and_then(|ready| ready["message"].as_str());
            (node, message.unwrap_or("its kubelet has not said anything yet"))
        })
    }

    /// How long ago that was, in one unit or two.
    pub(crate) fn ago(&self, time: &str) -> Option<String> {
        let time: Timestamp = time.parse().ok()?;
        let seconds = self.now.duration_since(time).as_secs().max(0);
        Some(match seconds {
            0..60 => format!("{seconds}s"),
            60..3600 => format!("{}m{}s", seconds / 60, seconds % 60),
            3600..86400 => format!("{}h{}m", seconds / 3600, seconds % 3600 / 60),
            _ => format!("{}d", seconds / 86400),
        })
    }
}
