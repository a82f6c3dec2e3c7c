//! What the reconciles of a controller share about its remote: how much is asked at a time, and what failed or had no effect.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::backoff::Backoff;
use crate::object::Ref;
use crate::remote::{Call, Failure, Question, RemoteHandle, Reply};

/// How many questions and calls of a controller are under way at a time.
const CONCURRENCY: usize = 8;

/// How often the same calls are made in a row before it is said that they have no effect.
pub(crate) const WITHOUT_EFFECT: u32 = 3;

/// The longest back-off after a remote failed. A server that restarts is back within a minute or two, and whoever looks at
/// an object then should not read for five more that its connections are refused.
const LAST_RETRY: Duration = Duration::from_mins(1);

/// A controller's remote, and what is remembered of it between reconciles.
pub(crate) struct Outside {
    pub(crate) handle: Option<RemoteHandle>,
    /// Failures in a row, object by object.
    pub(crate) backoff: Backoff<Ref>,
    under_way: Semaphore,
    made: Mutex<HashMap<Ref, (Vec<String>, u32)>>,
    terminal: Mutex<HashMap<Ref, Refused>>,
}

/// The calls of an object that failed for good, by their digests, and the state of its inputs in which they did.
#[derive(Default)]
struct Refused {
    fingerprint: u64,
    calls: HashMap<String, Failure>,
}

impl Outside {
    pub(crate) fn new(handle: Option<RemoteHandle>, first_retry: Duration, last_retry: Duration) -> Self {
        let backoff = Backoff::new(first_retry, last_retry.min(LAST_RETRY));
        Self {
            handle,
            backoff,
            under_way: Semaphore::new(CONCURRENCY),
            made: Mutex::default(),
            terminal: Mutex::default(),
        }
    }

    /// Asks one question within the remote's patience. None if it is not one of this remote.
    pub(crate) async fn ask(&self, question: &Question) -> Option<Reply> {
        let handle = self.handle.as_ref()?;
        let answer = handle.ask(question)?;
        let _turn = self.under_way.acquire().await.ok()?;
        let patience = handle.patience();
        let answer = tokio::time::timeout(patience, answer).await;
        Some(answer.unwrap_or_else(|_| Err(Failure::timed_out(question, patience))))
    }

    /// Makes one call within the remote's patience. None if it is not one of this remote.
    pub(crate) async fn perform(&self, call: &Call) -> Option<Result<(), Failure>> {
        let handle = self.handle.as_ref()?;
        let work = handle.perform(call)?;
        let _turn = self.under_way.acquire().await.ok()?;
        let patience = handle.patience();
        let done = tokio::time::timeout(patience, work).await;
        Some(done.unwrap_or_else(|_| Err(Failure::timed_out(&call.title(), patience))))
    }

    /// The failure of the same call in the same state of the inputs, if only a change helps against it: other triggers, such as a
    /// watch that starts, are no change.
    pub(crate) fn refused(&self, object: &Ref, fingerprint: u64, call: &Call) -> Option<Failure> {
        let mut terminal = self.terminal.lock().unwrap_or_else(PoisonError::into_inner);
        terminal.retain(|other, refused| other != object || refused.fingerprint == fingerprint);
        terminal.get(object)?.calls.get(&call.digest()).cloned()
    }

    /// Remembers a failure against which only a change helps.
    pub(crate) fn refuse(&self, object: &Ref, fingerprint: u64, call: &Call, failure: &Failure) {
        let mut terminal = self.terminal.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = terminal.entry(object.clone()).or_default();
        refused.fingerprint = fingerprint;
        refused.calls.insert(call.digest(), failure.clone());
    }

    /// Notes the calls that were made for an object in one reconcile. Says how often the same ones were made in a row.
    pub(crate) fn made(&self, object: &Ref, calls: Vec<String>) -> u32 {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let times = match made.remove(object) {
            Some((before, times)) if before == calls => times + 1,
            _ => 1,
        };
        if !calls.is_empty() {
            made.insert(object.clone(), (calls, times));
        }
        times
    }

    /// Forgets an object that is gone.
    pub(crate) fn forget(&self, object: &Ref) {
        self.backoff.reset(object);
        self.made(object, Vec::new());
        self.terminal.lock().unwrap_or_else(PoisonError::into_inner).remove(object);
    }
}
