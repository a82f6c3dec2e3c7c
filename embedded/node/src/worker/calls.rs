//! Calls of the runtime that are carried through, also when the pod has to end meanwhile.
//!
//! containerd ends what it does for a client that has gone in the middle: of a sandbox or a container that was about to
//! start, its process may stay.

use std::panic::resume_unwind;
use std::sync::Arc;

use c5c3_cri::CallError;
use tokio::sync::Mutex;

/// The calls of one pod: one at a time.
#[derive(Debug, Default)]
pub(super) struct Calls(Arc<Mutex<()>>);

impl Calls {
    /// Makes a call, and does not give it up when the caller does.
    pub(super) async fn carry_through<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, CallError>> + Send + 'static,
    ) -> Result<T, CallError> {
        let under_way = Arc::clone(&self.0).lock_owned().await;
        let call = tokio::spawn(async move {
            let answer = call.await;
            drop(under_way);
            answer
        });
        // Nobody aborts the task.
        call.await.unwrap_or_else(|error| resume_unwind(error.into_panic()))
    }

    /// Waits for the end of a call whose caller gave up.
    pub(super) async fn finished(&self) {
        drop(self.0.lock().await);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn a_call_ends_although_its_caller_gave_up_and_what_follows_waits_for_it() {
        let (calls, answered, reply) = (Calls::default(), Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
        let call = {
            let (answered, reply) = (Arc::clone(&answered), Arc::clone(&reply));
            async move {
                reply.notified().await;
                answered.store(true, Ordering::SeqCst);
                Ok(())
            }
        };
        {
            let caller = std::pin::pin!(calls.carry_through(call));
            assert!(futures::poll!(caller).is_pending());
        }
        {
            let next = std::pin::pin!(calls.finished());
            assert!(futures::poll!(next).is_pending(), "it does not wait for the call");
        }
        reply.notify_one();
        calls.finished().await;
        assert!(answered.load(Ordering::SeqCst));
    }
}
