//! What the node says about pods: events, told in order by one task so that no one waits for the API.

use c5c3_events::{Events, News};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Client, Resource};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::pod::Pod;

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Voice {
    queue: mpsc::UnboundedSender<Said>,
}

struct Said {
    about: ObjectReference,
    news: News,
    reason: &'static str,
    message: String,
}

impl Voice {
    /// The voice, and the task that speaks.
    pub(crate) fn new(client: Client) -> (Self, AbortOnDropHandle<()>) {
        let (queue, mut said) = mpsc::unbounded_channel::<Said>();
        let events = Events::new(client, "kubelet");
        let task = tokio::spawn(async move {
            while let Some(one) = said.recv().await {
                events.tell(&one.about, one.news, one.reason, one.message).await;
            }
        });
        (Self { queue }, AbortOnDropHandle::new(task))
    }

    /// Good news about a pod or one of its containers.
    pub(crate) fn normal(&self, pod: &Pod, container: Option<&str>, reason: &'static str, message: String) {
        self.say(pod, container, News::Normal, reason, message);
    }

    /// Bad news about a pod or one of its containers.
    pub(crate) fn warning(&self, pod: &Pod, container: Option<&str>, reason: &'static str, message: String) {
        self.say(pod, container, News::Warning, reason, message);
    }

    fn say(&self, pod: &Pod, container: Option<&str>, news: News, reason: &'static str, message: String) {
        let mut about = pod.object().object_ref(&());
        about.field_path = container.map(|name| pod.field_path(name));
        // After the end of the node's work no one listens.
        let _ = self.queue.send(Said { about, news, reason, message });
    }
}
