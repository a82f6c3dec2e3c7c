//! What the parts of a cluster tell its users: events in the form that `kubectl describe` shows.
//!
//! kube's own recorder takes two events of one reason for the same whatever they say; "Created pod: a" and "Created pod:
//! b" must both be seen.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Client, Resource};
use serde_json::json;

/// How long an event that repeats itself is counted rather than told again.
const COUNTED: SignedDuration = SignedDuration::from_mins(10);
/// The longest message that an API server takes.
const LONGEST: usize = 1024;

/// Whether an event is good or bad news.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum News {
    /// Good news, or none.
    Normal,
    /// Bad news.
    Warning,
}

/// One component's voice. Cheap to clone.
#[derive(Clone)]
pub struct Events {
    client: Client,
    component: &'static str,
    told: Arc<Mutex<HashMap<Told, Tally>>>,
}

/// What makes two events the same one.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Told {
    component: &'static str,
    uid: String,
    reason: &'static str,
    message: String,
}

#[derive(Clone)]
struct Tally {
    name: String,
    count: i32,
    last: Timestamp,
}

impl Events {
    /// The voice of that component.
    pub fn new(client: Client, component: &'static str) -> Self {
        Self { client, component, told: Arc::default() }
    }

    /// The voice of another component, which remembers the same.
    pub fn of(&self, component: &'static str) -> Self {
        Self { component, ..self.clone() }
    }

    /// Good news about an object.
    pub async fn normal<K: Resource<DynamicType = ()>>(&self, about: &K, reason: &'static str, message: String) {
        self.tell(&about.object_ref(&()), News::Normal, reason, message).await;
    }

    /// Bad news about an object.
    pub async fn warning<K: Resource<DynamicType = ()>>(&self, about: &K, reason: &'static str, message: String) {
        self.tell(&about.object_ref(&()), News::Warning, reason, message).await;
    }

    /// Tells about an object. That an event cannot be written is logged, and stops no one.
    pub async fn tell(&self, about: &ObjectReference, news: News, reason: &'static str, mut message: String) {
        message.truncate(message.floor_char_boundary(LONGEST));
        let uid = about.uid.clone().unwrap_or_default();
        let key = Told { component: self.component, uid, reason, message };
        let now = Timestamp::now();
        let tally = self.tally(&key, about, now);
        let api = Api::<Event>::namespaced(self.client.clone(), about.namespace.as_deref().unwrap_or("default"));
        let mut written = Ok(());
        if tally.count > 1 {
            let again = json!({"count": tally.count, "lastTimestamp": Time(now)});
            written = api.patch(&tally.name, &PatchParams::default(), &Patch::Merge(again)).await.map(drop);
        }
        // The first time, or when what was told has been forgotten since.
        if tally.count == 1 || written.is_err() {
            let event = self.event(&key, &tally, about, news, now);
            written = api.create(&PostParams::default(), &event).await.map(drop);
        }
        if let Err(error) = written {
            tracing::debug!(reason, %error, "an event is not written");
        }
    }

    fn tally(&self, key: &Told, about: &ObjectReference, now: Timestamp) -> Tally {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|_, tally| now.duration_since(tally.last) < COUNTED);
        let name = || format!("{}.{:x}", about.name.as_deref().unwrap_or_default(), now.as_nanosecond());
        let tally = told.entry(key.clone()).or_insert_with(|| Tally { name: name(), count: 0, last: now });
        tally.count += 1;
        tally.last = now;
        tally.clone()
    }

    fn event(&self, key: &Told, tally: &Tally, about: &ObjectReference, news: News, now: Timestamp) -> Event {
        Event {
            metadata: ObjectMeta {
                name: Some(tally.name.clone()),
                namespace: Some(about.namespace.clone().unwrap_or_else(|| "default".into())),
                ..ObjectMeta::default()
            },
            involved_object: about.clone(),
            type_: Some(format!("{news:?}")),
            reason: Some(key.reason.into()),
            message: Some(key.message.clone()),
            source: Some(EventSource { component: Some(self.component.into()), host: None }),
            reporting_component: Some(self.component.into()),
            count: Some(tally.count),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            ..Event::default()
        }
    }
}
