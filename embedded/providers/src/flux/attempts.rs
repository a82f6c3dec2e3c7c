//! When an object was tried last, and what it asked for then: a change asks for another try at once.
//!
//! In memory only, so that every object is tried when the process starts, as by Flux.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::core::ObjectMeta;

use super::report::REQUESTED;

/// What an object asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    generation: Option<i64>,
    requested: Option<String>,
    revision: Option<String>,
}

impl Asked {
    /// What an object asks for, with the revision of its source if it has one.
    pub(super) fn by(meta: &ObjectMeta, revision: Option<&str>) -> Self {
        Self { generation: meta.generation, requested: requested(meta), revision: revision.map(str::to_owned) }
    }
}

/// The request to look at once, if there was one.
pub(super) fn requested(meta: &ObjectMeta) -> Option<String> {
    meta.annotations.as_ref()?.get(REQUESTED).cloned()
}

/// What is to be done with an object now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Try it.
    Try,
    /// Look whether what was applied is healthy.
    Look,
    /// Nothing, for so long.
    Rest(Duration),
}

#[derive(Debug)]
struct Attempt {
    asked: Asked,
    /// When it is tried again; none while its objects are looked at.
    due: Option<Instant>,
}

/// The last attempts, by the unique identifier of the object.
#[derive(Debug, Default)]
pub(super) struct Attempts(Mutex<HashMap<String, Attempt>>);

impl Attempts {
    /// What is to be done with an object now.
    pub(super) fn next(&self, meta: &ObjectMeta, asked: &Asked, now: Instant) -> Next {
        let attempts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match attempts.get(&key(meta)).filter(|attempt| attempt.asked == *asked) {
            None => Next::Try,
            Some(Attempt { due: None, .. }) => Next::Look,
            Some(Attempt { due: Some(due), .. }) if *due <= now => Next::Try,
            Some(Attempt { due: Some(due), .. }) => Next::Rest(due.duration_since(now)),
        }
    }

    /// Notes that an object was tried, and is tried again after a while.
    pub(super) fn tried(&self, meta: &ObjectMeta, asked: Asked, again: Duration) {
        // An interval that no clock can hold never ends.
        let far = Duration::from_hours(24 * 365);
        self.note(meta, Attempt { asked, due: Some(Instant::now() + again.min(far)) });
    }

    /// Notes that what was applied has yet to become healthy.
    pub(super) fn applied(&self, meta: &ObjectMeta, asked: Asked) {
        self.note(meta, Attempt { asked, due: None });
    }

    fn note(&self, meta: &ObjectMeta, attempt: Attempt) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key(meta), attempt);
    }

    /// Forgets an object that is gone.
    pub(super) fn forget(&self, meta: &ObjectMeta) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key(meta));
    }
}

fn key(meta: &ObjectMeta) -> String {
    meta.uid.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_rests_until_it_is_due_or_asks_for_something_else() {
        let (attempts, minute) = (Attempts::default(), Duration::from_mins(1));
        let mut meta = ObjectMeta { uid: Some("0000-1111".into()), generation: Some(3), ..ObjectMeta::default() };
        let asked = Asked::by(&meta, Some("main@sha1:a"));
        let (early, late) = (Instant::now(), Instant::now() + 2 * minute);
        assert_eq!(attempts.next(&meta, &asked, early), Next::Try);
        attempts.applied(&meta, asked.clone());
        assert_eq!(attempts.next(&meta, &asked, late), Next::Look);
        attempts.tried(&meta, asked.clone(), minute);
        assert!(matches!(attempts.next(&meta, &asked, early), Next::Rest(rest) if rest >= minute));
        assert_eq!(attempts.next(&meta, &asked, late), Next::Try);
        assert_eq!(attempts.next(&meta, &Asked::by(&meta, Some("main@sha1:b")), early), Next::Try);
        meta.annotations = Some([(REQUESTED.to_owned(), "now".to_owned())].into());
        assert_eq!(attempts.next(&meta, &Asked::by(&meta, Some("main@sha1:a")), early), Next::Try);
        attempts.forget(&meta);
        assert_eq!(attempts.next(&meta, &asked, early), Next::Try);
        attempts.tried(&meta, asked.clone(), Duration::MAX);
        assert!(matches!(attempts.next(&meta, &asked, late), Next::Rest(_)));
    }
}
