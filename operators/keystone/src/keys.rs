//! Sets of Fernet keys, and when one may follow another. Pure.
//!
//! Keys are numbered. The highest is the primary, which new tokens are made with; 0 is staged, and becomes the primary next;
//! the others only read. A key is staged everywhere before anybody makes a token with it, and goes only when every token
//! that was made with it has ended: so every pod can read every token at every moment, whichever set it has.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use c5c3_kit::hash;
use jiff::Timestamp;
use k8s_openapi::ByteString;

/// How long a changed Secret may take until every pod has it: a kubelet looks at least once a minute and may be late.
pub const PROPAGATION: Duration = Duration::from_mins(2);

/// A key: 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl Key {
    /// A key of random bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    fn read(text: &[u8]) -> Option<Self> {
        URL_SAFE.decode(text.trim_ascii()).ok()?.try_into().ok().map(Self)
    }

    fn text(&self) -> Vec<u8> {
        URL_SAFE.encode(self.0).into_bytes()
    }
}

/// Never the key.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<key>")
    }
}

/// Keys by their numbers, with at least a staged and a primary one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySet(BTreeMap<u32, Key>);

impl KeySet {
    /// The first set.
    pub fn new(staged: Key, primary: Key) -> Self {
        Self([(0, staged), (1, primary)].into())
    }

    /// The set in a Secret, or what is wrong with it.
    pub fn read(data: &BTreeMap<String, ByteString>) -> Result<Self, String> {
        let mut keys = BTreeMap::new();
        for (name, value) in data {
            let number: u32 = name.parse().map_err(|_| format!("{name:?} is not the number of a key"))?;
            keys.insert(number, Key::read(&value.0).ok_or_else(|| format!("key {number} is not 32 bytes in base64"))?);
        }
        if !keys.contains_key(&0) || keys.len() < 2 {
            return Err("a staged and a primary key must both exist".into());
        }
        let distinct =
            keys.values().enumerate().all(|(index, key)| !keys.values().take(index).any(|other| other == key));
        if distinct { Ok(Self(keys)) } else { Err("a key is present twice".into()) }
    }

    /// The set as a Secret holds it.
    pub fn data(&self) -> BTreeMap<String, ByteString> {
        self.0.iter().map(|(number, key)| (number.to_string(), ByteString(key.text()))).collect()
    }

    /// The number of the primary.
    pub fn primary(&self) -> u32 {
        self.0.last_key_value().map_or(0, |(number, _)| *number)
    }

    /// The key of a number.
    pub fn get(&self, number: u32) -> Option<Key> {
        self.0.get(&number).copied()
    }

    /// How many keys there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The set in ten digits.
    pub fn fingerprint(&self) -> String {
        let content: Vec<u8> =
            self.0.iter().flat_map(|(number, key)| [&number.to_be_bytes()[..], &key.0].concat()).collect();
        hash::short(&content)
    }

    /// The next set: the staged key is the primary, a new one is staged, and none goes.
    pub fn rotated(&self, staged: Key) -> Self {
        let mut keys = self.0.clone();
        keys.extend(self.0.get(&0).map(|promoted| (self.primary() + 1, *promoted)));
        keys.insert(0, staged);
        Self(keys)
    }
}

/// Since when each key is, or was, the primary.
pub type History = BTreeMap<u32, Timestamp>;

/// Writes a history down, for an annotation.
pub fn written(history: &History) -> String {
    history.iter().map(|(number, since)| format!("{number}={since}")).collect::<Vec<_>>().join(",")
}

/// Reads a history back; what cannot be read is unknown.
pub fn history(text: &str) -> History {
    let entry = |entry: &str| {
        let (number, since) = entry.split_once('=')?;
        Some((number.parse().ok()?, since.parse().ok()?))
    };
    text.split(',').filter_map(entry).collect()
}

/// A set, and since when its keys are what they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The keys.
    pub keys: KeySet,
    /// Since when each is, or was, the primary.
    pub since: History,
}

/// How long keys stay.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// How many, unless a token may still need one more.
    pub most: usize,
    /// How long something that was made with a key may have to be read.
    pub life: Duration,
}

/// What became of a proposed set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is none, or it is the set that there is.
    Nothing,
    /// It is the new set.
    Taken,
    /// It comes too early, and is looked at again after this time.
    Later(Duration),
    /// It waits for something else.
    Held(String),
    /// It does not follow from the set that there is.
    Refused(String),
}

impl State {
    /// The set at the beginning.
    pub fn new(keys: KeySet, now: Timestamp) -> Self {
        let since = [(keys.primary(), now)].into();
        Self { keys, since }
    }

    /// The state with every key's time known. A time that is not recorded is taken to be now, so that no key is removed early.
    pub fn known(keys: KeySet, mut since: History, now: Timestamp) -> Self {
        since.retain(|number, _| keys.0.contains_key(number));
        for number in keys.0.keys().filter(|number| **number > 0) {
            since.entry(*number).or_insert(now);
        }
        Self { keys, since }
    }

    /// Takes a proposed set if it is the next one, and every pod has the present one.
    pub fn propose(self, proposed: Option<Result<KeySet, String>>, now: Timestamp) -> (Self, Outcome) {
        let proposed = match proposed {
            None => return (self, Outcome::Nothing),
            Some(Err(wrong)) => return (self, Outcome::Refused(wrong)),
            Some(Ok(proposed)) => proposed,
        };
        let staged = proposed.get(0).filter(|staged| self.keys.get(0) != Some(*staged));
        let Some(staged) = staged else { return (self, Outcome::Nothing) };
        let next = self.keys.rotated(staged);
        if next != proposed || self.keys.0.values().any(|key| *key == staged) {
            return (self, Outcome::Refused("it is not the next set after the present one".into()));
        }
        let early = left(self.since.get(&self.keys.primary()), PROPAGATION, now);
        if !early.is_zero() {
            return (self, Outcome::Later(early));
        }
        let mut since = self.since;
        since.insert(next.primary(), now);
        (Self { keys: next, since }, Outcome::Taken)
    }

    /// Drops keys that are too many and that nothing valid was made with, and says when to look again.
    pub fn prune(mut self, keep: Keep, now: Timestamp) -> (Self, Option<Duration>) {
        while self.keys.count() > keep.most.max(3) {
            let mut numbers = self.keys.0.keys().copied().filter(|number| *number > 0);
            let (Some(oldest), Some(successor)) = (numbers.next(), numbers.next()) else { break };
            // A pod that has not heard of the successor yet goes on using the key for a while.
            let wait = left(self.since.get(&successor), keep.life + PROPAGATION, now);
            if !wait.is_zero() {
                return (self, Some(wait));
            }
            self.keys.0.remove(&oldest);
            self.since.remove(&oldest);
        }
        (self, None)
    }
}

/// What is left of a time that began at `since`.
fn left(since: Option<&Timestamp>, time: Duration, now: Timestamp) -> Duration {
    let passed =
        since.map_or(Duration::ZERO, |since| Duration::try_from(now.duration_since(*since)).unwrap_or_default());
    time.saturating_sub(passed)
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
