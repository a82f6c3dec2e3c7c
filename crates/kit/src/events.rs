//! Events for people: one when something changes, counted when it repeats.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use crate::object::Ref;
use crate::plan::PlannedEvent;
use crate::wait::shortened;

/// The longest note that the API takes, in bytes.
const LONGEST_NOTE: usize = 1024;

/// Publishes events in the name of one operator. Repeated ones become a series: kube's recorder keeps count.
#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
}

impl Events {
    /// Publishes in the name of `operator`.
    pub fn new(client: Client, operator: &str) -> Self {
        let reporter = Reporter { controller: operator.to_owned(), instance: std::env::var("POD_NAME").ok() };
        Self { recorder: Recorder::new(client, reporter) }
    }

    /// Publishes one event. A failure to do so is logged and holds up nothing.
    pub async fn publish(&self, about: &Ref, uid: &str, warning: bool, reason: &str, note: &str) {
        let event = Event {
            type_: if warning { EventType::Warning } else { EventType::Normal },
            reason: reason.to_owned(),
            note: Some(shortened(note.to_owned(), LONGEST_NOTE)),
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
        if let Err(error) = self.recorder.publish(&event, &reference).await {
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
