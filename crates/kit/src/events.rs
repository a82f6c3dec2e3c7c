//! Events for people: one when something changes, counted when it repeats.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use crate::object::Ref;
use crate::plan::PlannedEvent;
use crate::wait::shortened;

/// The longest note that the API takes, in bytes.
const LONGEST_NOTE: usize = 1024;

/// How many objects and reasons are remembered. One that is forgotten begins a new series.
const MOST: usize = 4096;

/// Publishes events in the name of one operator. Repeated ones become a series: kube's recorder keeps count. It keeps the
/// first note of a series, so that another note begins a series of its own.
#[derive(Clone)]
pub struct Events {
    client: Client,
    reporter: Reporter,
    series: Arc<Mutex<HashMap<SeriesKey, Series>>>,
}

/// The uid of the object, and the reason.
type SeriesKey = (String, String);

struct Series {
    note: String,
    recorder: Recorder,
}

impl Events {
    /// Publishes in the name of `operator`.
    pub fn new(client: Client, operator: &str) -> Self {
        let reporter = Reporter { controller: operator.to_owned(), instance: std::env::var("POD_NAME").ok() };
        Self { client, reporter, series: Arc::default() }
    }

    /// The recorder of the series that an event belongs to.
    fn recorder(&self, uid: &str, reason: &str, note: &str) -> Recorder {
        let mut all = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (uid.to_owned(), reason.to_owned());
        if let Some(series) = all.get(&key).filter(|series| series.note == note) {
            return series.recorder.clone();
        }
        if all.len() >= MOST {
            all.clear();
        }
        let recorder = Recorder::new(self.client.clone(), self.reporter.clone());
        all.insert(key, Series { note: note.to_owned(), recorder: recorder.clone() });
        recorder
    }

    /// Publishes one event. A failure to do so is logged and holds up nothing.
    pub async fn publish(&self, about: &Ref, uid: &str, warning: bool, reason: &str, note: &str) {
        let note = shortened(note.to_owned(), LONGEST_NOTE);
        let recorder = self.recorder(uid, reason, &note);
        let event = Event {
            type_: if warning { EventType::Warning } else { EventType::Normal },
            reason: reason.to_owned(),
            note: Some(note),
            action: "Reconcile".into(),
            secondary: None,
        };
        let reference = ObjectReference {
            api_version: Some(about.resource.api_version.clone()),
            kind: Some(about.resource.kind.clone()),
            name: Some(about.name.clone()),
            namespace: about.namespace.clone(),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        };
        if let Err(error) = recorder.publish(&event, &reference).await {
            tracing::warn!(%error, reason, "cannot publish an event");
        }
    }
}

/// The events of the last plan of each object, to publish only those that are new.
#[derive(Debug, Default)]
pub struct Published {
    plans: Mutex<HashMap<Ref, Vec<PlannedEvent>>>,
}

impl Published {
    /// The events that were not in the last plan, which this one replaces.
    pub(crate) fn take_new(&self, object: &Ref, events: &[PlannedEvent]) -> Vec<PlannedEvent> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let before = plans.remove(object).unwrap_or_default();
        if !events.is_empty() {
            plans.insert(object.clone(), events.to_vec());
        }
        events.iter().filter(|event| !before.contains(event)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;

    use super::*;
    use crate::Plan;
    use crate::testing::FakeApi;

    #[tokio::test]
    async fn another_note_of_the_same_reason_is_told_and_the_same_one_is_counted() {
        let (api, tree) = (FakeApi::default(), Ref::namespaced::<Secret>("orchard", "tree"));
        let events = Events::new(api.client(), "gardener");
        for note in ["spec.a is wrong", "spec.a is wrong", "spec.b is wrong"] {
            events.publish(&tree, "1", true, "InvalidSpec", note).await;
        }
        let told = api.all("events.k8s.io/v1", "Event");
        let mut notes: Vec<(&str, i64)> = told
            .iter()
            .map(|event| (event["note"].as_str().unwrap(), event["series"]["count"].as_i64().unwrap_or(1)))
            .collect();
        notes.sort_unstable();
        assert_eq!(notes, [("spec.a is wrong", 2), ("spec.b is wrong", 1)]);
    }

    #[test]
    fn an_event_is_new_until_it_was_in_a_plan_and_again_when_it_comes_back() {
        let (published, tree) = (Published::default(), Ref::namespaced::<Secret>("orchard", "tree"));
        let ripe = Plan::new().event("Ripened", "12 apples").events;
        let both = Plan::new().event("Ripened", "12 apples").failed_event("Fallen", "1 apple").events;
        assert_eq!(published.take_new(&tree, &ripe), ripe);
        assert_eq!(published.take_new(&tree, &both), both[1..]);
        assert!(published.take_new(&tree, &both).is_empty());
        published.take_new(&tree, &[]);
        assert_eq!(published.take_new(&tree, &ripe), ripe);
    }
}
