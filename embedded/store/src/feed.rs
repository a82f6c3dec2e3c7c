//! The bounded history of changes, and the topics that watches read it by.
//!
//! A watch has no queue of its own. Watches of the same prefix share a topic, which points to the matching changes of
//! the history, so a change costs its topics one pointer and wakes only those who asked for it, and an idle watch of a
//! quiet prefix is never behind, however much happens elsewhere.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::snapshot::Change;
use crate::{Compacted, Options};

/// How many changes a reader that starts far back looks at before it lets writers on.
const AT_ONCE: u64 = 1000;

#[derive(Debug)]
pub(crate) struct Feed {
    /// One change per revision, up to the current one.
    changes: VecDeque<Arc<Change>>,
    bytes: usize,
    current: u64,
    most_changes: usize,
    most_bytes: usize,
    topics: HashMap<Box<str>, Arc<Topic>>,
    /// How many topics have a prefix of each length: to find the topics of a key without asking all of them.
    lengths: BTreeMap<usize, usize>,
    closed: bool,
}

impl Feed {
    pub fn new(options: &Options, current: u64) -> Self {
        Self {
            changes: VecDeque::new(),
            bytes: 0,
            current,
            most_changes: options.history,
            most_bytes: options.history_bytes,
            topics: HashMap::new(),
            lengths: BTreeMap::new(),
            closed: false,
        }
    }

    /// The same history without its watches, and open.
    pub fn copy(&self) -> Self {
        Self { changes: self.changes.clone(), topics: HashMap::new(), lengths: BTreeMap::new(), closed: false, ..*self }
    }

    pub fn current(&self) -> u64 {
        self.current
    }

    pub fn compacted(&self) -> Compacted {
        Compacted { oldest: self.current - self.changes.len() as u64, current: self.current }
    }

    pub fn push(&mut self, change: Arc<Change>) {
        self.current = change.revision;
        self.bytes += change.size();
        for topic in self.topics_of(change.key()) {
            topic.push(&change);
        }
        self.changes.push_back(change);
        // The newest stays whatever its size: a watch that waits for it must get it.
        while self.changes.len() > 1 && (self.changes.len() > self.most_changes || self.bytes > self.most_bytes) {
            if let Some(oldest) = self.changes.pop_front() {
                self.bytes -= oldest.size();
                for topic in self.topics_of(oldest.key()) {
                    topic.forget(oldest.revision);
                }
            }
        }
    }

    /// The changes after `revision` to keys that begin with `prefix`, newest first.
    pub fn since(&self, prefix: &str, revision: u64) -> Result<Vec<Arc<Change>>, Compacted> {
        if revision < self.compacted().oldest {
            return Err(self.compacted());
        }
        Ok(self.newest_first(prefix, revision).cloned().collect())
    }

    fn newest_first(&self, prefix: &str, after: u64) -> impl Iterator<Item = &Arc<Change>> {
        let newer = self.changes.iter().rev().take_while(move |change| change.revision > after);
        newer.filter(move |change| change.key().starts_with(prefix))
    }

    /// The topic of `prefix`. It is complete from `after` on once [`Feed::reach_back`] says so. Each call wants one
    /// [`Feed::leave`].
    pub fn join(&mut self, prefix: &str, after: u64) -> Result<Arc<Topic>, Compacted> {
        if after < self.compacted().oldest {
            return Err(self.compacted());
        }
        let topic = match self.topics.get(prefix) {
            Some(topic) => Arc::clone(topic),
            None => self.begin(prefix),
        };
        topic.log().readers += 1;
        Ok(topic)
    }

    /// Fetches older changes from the history for a reader of a topic that starts before those who are there. False: there
    /// are more to fetch. Writers wait while this looks at changes, so it looks at a few at a time.
    pub fn reach_back(&self, topic: &Topic, after: u64) -> Result<bool, Compacted> {
        let oldest = self.compacted().oldest;
        if after < oldest {
            return Err(self.compacted());
        }
        let mut log = topic.log();
        if after >= log.since {
            return Ok(true);
        }
        let from = after.max(log.since.saturating_sub(AT_ONCE));
        // There is one change for each revision, so that they are found by counting.
        let at = |revision: u64| usize::try_from(revision - oldest).unwrap_or(usize::MAX);
        for change in self.changes.range(at(from)..at(log.since)).rev() {
            if change.key().starts_with(&*topic.prefix) {
                log.changes.push_front(Arc::clone(change));
            }
        }
        log.since = from;
        Ok(from == after)
    }

    pub fn leave(&mut self, topic: &Topic) {
        let readers = {
            let mut log = topic.log();
            log.readers -= 1;
            log.readers
        };
        if readers == 0 && self.topics.remove(&topic.prefix).is_some() {
            let length = topic.prefix.len();
            match self.lengths.get_mut(&length) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(self.lengths.remove(&length)),
            }
        }
    }

    /// Ends every watch once it has read what there is.
    pub fn close(&mut self) {
        self.closed = true;
        for topic in self.topics.values() {
            topic.log().closed = true;
            topic.news.notify_waiters();
        }
    }

    pub fn is_closed(&self) -> bool {
        self.closed
    }

    fn begin(&mut self, prefix: &str) -> Arc<Topic> {
        let log = Log { changes: VecDeque::new(), since: self.current, readers: 0, closed: self.closed };
        let topic = Arc::new(Topic { prefix: prefix.into(), log: Mutex::new(log), news: Notify::new() });
        self.topics.insert(prefix.into(), Arc::clone(&topic));
        *self.lengths.entry(prefix.len()).or_default() += 1;
        topic
    }

    fn topics_of(&self, key: &str) -> impl Iterator<Item = &Arc<Topic>> {
        let prefixes = self.lengths.keys().map_while(|length| key.as_bytes().get(..*length));
        // A length that is the middle of a character in this key is no prefix of it.
        prefixes.filter_map(|prefix| self.topics.get(std::str::from_utf8(prefix).ok()?))
    }
}

/// The part of the history under one prefix.
#[derive(Debug)]
pub(crate) struct Topic {
    prefix: Box<str>,
    log: Mutex<Log>,
    news: Notify,
}

#[derive(Debug)]
struct Log {
    changes: VecDeque<Arc<Change>>,
    /// All matching changes after this revision are in `changes`.
    since: u64,
    readers: usize,
    closed: bool,
}

/// What a topic has for a reader.
pub(crate) enum Next {
    Change(Arc<Change>),
    Nothing,
    Lagged,
    Closed,
}

impl Topic {
    /// The first change after `seen`.
    pub fn after(&self, seen: u64) -> Next {
        let log = self.log();
        if seen < log.since {
            return Next::Lagged;
        }
        match log.changes.get(log.changes.partition_point(|change| change.revision <= seen)) {
            Some(change) => Next::Change(Arc::clone(change)),
            None if log.closed => Next::Closed,
            None => Next::Nothing,
        }
    }

    /// Whether a reader that has seen revision `seen` has seen all there is.
    pub fn is_read_by(&self, seen: u64) -> bool {
        let log = self.log();
        seen >= log.since && log.changes.back().is_none_or(|last| last.revision <= seen)
    }

    /// Resolves at the next change after the call, polled or not.
    pub fn news(&self) -> Notified<'_> {
        self.news.notified()
    }

    fn push(&self, change: &Arc<Change>) {
        self.log().changes.push_back(Arc::clone(change));
        self.news.notify_waiters();
    }

    fn forget(&self, revision: u64) {
        let mut log = self.log();
        while log.changes.front().is_some_and(|change| change.revision <= revision) {
            log.changes.pop_front();
        }
        log.since = log.since.max(revision);
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().expect("nothing that runs under this lock panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Entry;

    fn change(revision: u64, key: &str) -> Arc<Change> {
        let entry = Entry { key: key.into(), value: "value".into(), revision, created: revision };
        Arc::new(Change { revision, before: None, after: Some(Arc::new(entry)) })
    }

    #[test]
    fn a_prefix_that_nobody_watches_any_more_costs_nothing() {
        let mut feed = Feed::new(&Options::default(), 0);
        let one = feed.join("/pods/", 0).unwrap();
        let other = feed.join("/pods/", 0).unwrap();
        let nodes = feed.join("/n/", 0).unwrap();
        feed.leave(&one);
        feed.push(change(1, "/pods/web"));
        assert!(matches!(other.after(0), Next::Change(change) if change.revision == 1));
        feed.leave(&other);
        feed.leave(&nodes);
        assert!(feed.topics.is_empty() && feed.lengths.is_empty());
    }

    #[test]
    fn a_reader_from_far_back_looks_at_a_part_of_the_history_at_a_time_and_misses_nothing() {
        let mut feed = Feed::new(&Options::default(), 0);
        for revision in 1..=5 * AT_ONCE {
            feed.push(change(revision, if revision % 2 == 0 { "/pods/web" } else { "/nodes/one" }));
        }
        let topic = feed.join("/pods/", 10).unwrap();
        let mut steps = 0;
        while !feed.reach_back(&topic, 10).unwrap() {
            steps += 1;
            assert!(topic.log().since <= 5 * AT_ONCE - steps * AT_ONCE);
            // What is written in between is there as well, and once.
            let next = feed.current() + 1;
            feed.push(change(next, "/pods/new"));
        }
        assert_eq!(steps, 4);
        let held: Vec<_> = topic.log().changes.iter().map(|change| change.revision).collect();
        let expected = (12..=5 * AT_ONCE).step_by(2).chain(5 * AT_ONCE + 1..=5 * AT_ONCE + 4);
        assert_eq!(held, expected.collect::<Vec<_>>());
        assert!(matches!(topic.after(10), Next::Change(change) if change.revision == 12));
    }

    #[test]
    fn a_reader_is_refused_when_the_history_moves_on_before_it_has_reached_back() {
        let mut feed = Feed::new(&Options { history: 2000, ..Options::default() }, 0);
        (1..=2000).for_each(|revision| feed.push(change(revision, "/pods/web")));
        let topic = feed.join("/pods/", 0).unwrap();
        assert_eq!(feed.reach_back(&topic, 0), Ok(false));
        feed.push(change(2001, "/pods/web"));
        assert_eq!(feed.reach_back(&topic, 0), Err(Compacted { oldest: 1, current: 2001 }));
    }

    #[test]
    fn a_topic_holds_no_more_than_the_history() {
        let mut feed = Feed::new(&Options { history: 3, ..Options::default() }, 0);
        let topic = feed.join("/pods/", 0).unwrap();
        assert_eq!(feed.reach_back(&topic, 0), Ok(true));
        for revision in 1..=10 {
            feed.push(change(revision, if revision % 2 == 0 { "/pods/web" } else { "/nodes/one" }));
        }
        let held: Vec<_> = topic.log().changes.iter().map(|change| change.revision).collect();
        assert_eq!(held, [8, 10]);
    }
}
