//! What requests, watches and the recorder share.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use c5c3_cortex::{Decision, Request, Scheduler, SchedulingError, Shared};
use jiff::Timestamp;
use tokio::sync::{Semaphore, mpsc};

use crate::descheduling::Detecting;
use crate::metrics::SchedulerMetrics;
use crate::names::Unnamed;
use crate::token::Tokens;

/// How many decisions may wait to be written down.
const QUEUE: usize = 4096;

/// A decision and when it was made.
pub(crate) type Made = (Decision, Timestamp);

/// Cheap to clone; all clones are the same scheduler.
#[derive(Clone)]
pub struct State {
    scheduler: Arc<Shared>,
    /// As many requests are worked on as there are processors, the others in the order in which they came: with more at a time
    /// each would only wait for its processor, and the last of them longest.
    pub(crate) turns: Arc<Semaphore>,
    pub(crate) tokens: Tokens,
    pub(crate) metrics: SchedulerMetrics,
    leads: Arc<AtomicBool>,
    made: mpsc::Sender<Made>,
    /// Decisions whose server has no name yet.
    pub(crate) unnamed: Unnamed,
    /// The pipelines of detectors, and what was said last of what they find, by name.
    detecting: Arc<Mutex<BTreeMap<String, (Detecting, String)>>>,
}

impl State {
    /// A scheduler that does not lead yet, and where its decisions come out. Room is promised for as long as `promise`.
    pub(crate) fn new(promise: Duration, tokens: Tokens, metrics: SchedulerMetrics) -> (Self, mpsc::Receiver<Made>) {
        let (made, decisions) = mpsc::channel(QUEUE);
        let promise = u64::try_from(promise.as_millis()).unwrap_or(u64::MAX);
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let scheduler = Arc::new(Shared::new(Scheduler::new(promise)));
        (
            Self {
                scheduler,
                turns: Arc::new(Semaphore::new(processors)),
                tokens,
                metrics,
                leads: Arc::default(),
                made,
                unnamed: Unnamed::default(),
                detecting: Arc::default(),
            },
            decisions,
        )
    }

    /// Reads the scheduler.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Scheduler> {
        self.scheduler.read()
    }

    /// Changes the scheduler.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Scheduler> {
        self.scheduler.write()
    }

    /// Decides; other requests are read and put into words meanwhile.
    pub(crate) fn decide(&self, request: &Request, at: Timestamp) -> Result<Decision, SchedulingError> {
        self.scheduler.decide(request, millis(at))
    }

    /// Whether this process decides.
    pub(crate) fn leads(&self) -> bool {
        self.leads.load(Ordering::SeqCst)
    }

    pub(crate) fn set_leads(&self, leads: bool) {
        self.leads.store(leads, Ordering::SeqCst);
    }

    /// The pipelines of detectors, by name.
    pub(crate) fn detecting(&self) -> BTreeMap<String, Detecting> {
        let all = self.detecting.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(name, (detecting, _))| (name.clone(), detecting.clone())).collect()
    }

    /// Adds a pipeline of detectors, or replaces it.
    pub(crate) fn put_detecting(&self, name: &str, detecting: Detecting) {
        let mut all = self.detecting.lock().unwrap_or_else(PoisonError::into_inner);
        let said = all.remove(name).map(|(_, said)| said).unwrap_or_default();
        all.insert(name.to_owned(), (detecting, said));
    }

    /// Forgets a pipeline of detectors.
    pub(crate) fn remove_detecting(&self, name: &str) {
        self.detecting.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// Forgets what was said of what pipelines find: another leader may have said something else since.
    pub(crate) fn forget_said(&self) {
        let mut all = self.detecting.lock().unwrap_or_else(PoisonError::into_inner);
        all.values_mut().for_each(|(_, said)| said.clear());
    }

    /// Whether this was not said last of what a pipeline finds.
    pub(crate) fn is_new(&self, name: &str, what: &str) -> bool {
        let mut all = self.detecting.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, said)) = all.get_mut(name) else { return false };
        let is_new = said != what;
        what.clone_into(said);
        is_new
    }

    /// Hands a decision to the recorder. An answer never waits for that: when too many wait, it is counted and dropped.
    pub(crate) fn record(&self, decision: Decision, at: Timestamp) {
        if self.made.try_send((decision, at)).is_err() {
            self.metrics.dropped();
        }
    }
}

/// The clock that promises are kept by, in milliseconds.
pub(crate) fn millis(at: Timestamp) -> u64 {
    u64::try_from(at.as_millisecond()).unwrap_or(0)
}
