//! Events for people: one when something changes, counted when it repeats.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use crate::object::Ref;
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
