//! What wakes a pod's worker: that something happened, and whether it was a change of what the pod refers to.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

#[derive(Default)]
pub(crate) struct Bell {
    notify: Notify,
    has_changed: AtomicBool,
}

impl Bell {
    /// Something happened: a container ended, a probe has a verdict.
    pub(crate) fn ring(&self) {
        self.notify.notify_one();
    }

    /// Something that the pod refers to is another now: what failed for want of it can be tried again.
    pub(crate) fn ring_for_change(&self) {
        self.has_changed.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// Waits for the bell.
    pub(crate) async fn heard(&self) {
        self.notify.notified().await;
    }

    /// Whether there was a change since this was asked last.
    pub(crate) fn take_change(&self) -> bool {
        self.has_changed.swap(false, Ordering::AcqRel)
    }
}
