//! Guests that crash or lose their disk: what to do about them, as a pure function of what their host's agent reports, of what was done
//! before and of what Nova knows.

mod judge;
mod ledger;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use c5c3_api::hypervisor::{GuestFailure, GuestFailureKind, GuestState};
use jiff::Timestamp;

pub use judge::NovaGuest;
use judge::{Verdict, judge, judge_without_nova};
pub(crate) use ledger::{LEDGER, Ledger};

use crate::report::Report;

/// When and how often a guest is restarted, and how many crashes speak against its host.
#[derive(Clone, Debug)]
pub struct GuestPolicy {
    /// How often a guest is restarted in the window.
    pub attempts: usize,
    /// The window.
    pub window: Duration,
    /// For how long the next restart waits, after the first restart, the second ...; the last one counts for all others.
    pub back_off: Vec<Duration>,
    /// For how long a guest that is paused by an I/O error is left as it is. The storage may come back, and a restart costs what is
    /// in its memory.
    pub io_patience: Duration,
    /// So many guests that crash speak against their host, which is evicted; so many that are paused speak against the storage.
    pub crowd: usize,
    /// In which time they have to crash for that.
    pub crowd_window: Duration,
}

impl Default for GuestPolicy {
    fn default() -> Self {
        Self {
            attempts: 3,
            window: Duration::from_hours(1),
            back_off: vec![Duration::from_mins(1), Duration::from_mins(5)],
            io_patience: Duration::from_mins(2),
            crowd: 3,
            crowd_window: Duration::from_mins(10),
        }
    }
}

/// How long ago; none for a clock that is ahead.
pub(crate) fn age(time: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(time)).unwrap_or_default()
}

/// What is known of the guests of a host without asking Nova.
#[derive(Clone, Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) host: &'a str,
    /// What the agent of the host reports.
    pub(crate) failures: &'a [GuestFailure],
    pub(crate) ledger: Ledger,
    /// Why guests of this host are left alone, if they are: a reason for programs and a text for people.
    pub(crate) barrier: Option<(&'static str, String)>,
    /// Whether there is an Eviction of this host that we created.
    pub(crate) is_evicted: bool,
    /// A host that is being evicted because of crashes, if it is another one.
    pub(crate) evicted_elsewhere: Option<String>,
    /// The reason for which `GuestsFailed` is true, if it is.
    pub(crate) told: Option<String>,
}

/// What is to be done and told, and what is to be written down before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decided {
    pub(crate) ledger: Ledger,
    /// Failures that were not told by an event yet.
    pub(crate) news: Vec<GuestFailure>,
    /// Guests about which nothing is to be done, and why.
    pub(crate) left: Vec<(String, String)>,
    pub(crate) restarts: Vec<String>,
    /// Why the host is to be evicted, if it is.
    pub(crate) evict: Option<String>,
    pub(crate) report: Option<Report>,
}

impl<'a> Scene<'a> {
    /// The newest failure of each guest.
    fn newest(&self) -> BTreeMap<&'a str, &'a GuestFailure> {
        newest(self.failures.iter())
    }

    /// The newest failure of each guest that has not gone on since, unless it is settled.
    fn open(&self, ledger: &Ledger) -> BTreeMap<&'a str, &'a GuestFailure> {
        let mut open = newest(self.failures.iter().filter(|failure| failure.state != GuestState::Running));
        open.retain(|guest, _| ledger.guests.get(*guest).is_none_or(|entry| entry.left.is_none()));
        open
    }

    fn unseen(&self) -> Vec<&'a GuestFailure> {
        let seen = |failure: &GuestFailure| self.ledger.guests.get(&failure.instance).map(|entry| entry.failed);
        self.newest().into_values().filter(|failure| seen(failure) != Some(failure.time.0)).collect()
    }

    /// Whether there may be something to do or to tell.
    pub(crate) fn is_of_interest(&self) -> bool {
        let is_told = self.told.as_deref().is_some_and(|reason| reason != EVICTING || !self.is_evicted);
        is_told || !self.unseen().is_empty() || !self.open(&self.ledger).is_empty()
    }

    /// Guests that Nova has to be asked about.
    pub(crate) fn questions(&self, policy: &GuestPolicy, now: Timestamp) -> Vec<String> {
        if self.barrier.is_some() {
            return Vec::new();
        }
        let ledger = self.noted();
        let open = self.open(&ledger);
        let paused = paused(&open);
        let is_asked = |failure: &GuestFailure| judge_without_nova(failure, &ledger, paused, policy, now).is_none();
        open.into_iter().filter(|(_, failure)| is_asked(failure)).map(|(guest, _)| guest.to_owned()).collect()
    }

    /// The ledger with the failures that are new.
    fn noted(&self) -> Ledger {
        let mut ledger = self.ledger.clone();
        self.unseen().into_iter().for_each(|failure| ledger.see(failure));
        ledger
    }

    /// Guests that crashed lately, unless their host was evicted for it.
    fn crowd(&self, policy: &GuestPolicy, now: Timestamp) -> (BTreeSet<&'a str>, Option<Timestamp>) {
        use GuestFailureKind::{Crashed, Panicked};
        let counts = |failure: &&GuestFailure| {
            matches!(failure.kind, Crashed | Panicked)
                && age(failure.time.0, now) < policy.crowd_window
                && self.ledger.evicted.is_none_or(|evicted| failure.time.0 > evicted)
        };
        let counted: Vec<&GuestFailure> = self.failures.iter().filter(counts).collect();
        let last = counted.iter().map(|failure| failure.time.0).max();
        (counted.into_iter().map(|failure| failure.instance.as_str()).collect(), last)
    }
}

fn newest<'a>(failures: impl Iterator<Item = &'a GuestFailure>) -> BTreeMap<&'a str, &'a GuestFailure> {
    let mut newest: BTreeMap<&str, &GuestFailure> = BTreeMap::new();
    for failure in failures {
        let known = newest.entry(failure.instance.as_str()).or_insert(failure);
        if failure.time.0 > known.time.0 {
            *known = failure;
        }
    }
    newest
}

/// How many guests are paused by I/O errors.
fn paused(open: &BTreeMap<&str, &GuestFailure>) -> usize {
    open.values()
        .filter(|failure| failure.kind == GuestFailureKind::IoError && failure.state == GuestState::Paused)
        .count()
}

/// The reason of a host that is evicted.
const EVICTING: &str = "Evicting";

/// Restarts of one host in one turn. Many guests that start at once slow each other down.
const MOST_RESTARTS: usize = 4;

/// How Nova sees guests; none of those that it does not have.
pub(crate) type Answers = BTreeMap<String, Result<Option<NovaGuest>, String>>;

/// What to do about the guests of a host. `answers` are Nova's to [`Scene::questions`].
pub(crate) fn decide(scene: &Scene<'_>, answers: &Answers, policy: &GuestPolicy, now: Timestamp) -> Decided {
    let news = scene.unseen().into_iter().cloned().collect();
    let mut decided = Decided { ledger: scene.noted(), news, ..Decided::default() };
    let open = scene.open(&decided.ledger);
    let mut down = Down::default();
    for (guest, failure) in &open {
        if scene.barrier.is_some() {
            down.tell(guest, failure, None);
            continue;
        }
        let verdict = judge_without_nova(failure, &decided.ledger, paused(&open), policy, now).or_else(|| {
            Some(match answers.get(*guest)? {
                Ok(nova) => judge(failure, &decided.ledger, nova.as_ref(), scene.host, policy, now),
                Err(why) => Verdict::Unknown(why.clone()),
            })
        });
        match verdict.unwrap_or_else(|| Verdict::Unknown("Nova was not asked yet".into())) {
            Verdict::Settled(why) => {
                if let Some(entry) = decided.ledger.guests.get_mut(*guest) {
                    entry.left = Some(why.clone());
                }
                decided.left.push(((*guest).to_owned(), why));
            }
            Verdict::Restart if decided.restarts.len() < MOST_RESTARTS => {
                if let Some(entry) = decided.ledger.guests.get_mut(*guest) {
                    entry.restarted.push(now);
                }
                decided.restarts.push((*guest).to_owned());
                down.tell(guest, failure, Some(&Verdict::Restart));
            }
            verdict => down.tell(guest, failure, Some(&verdict)),
        }
    }
    crowd(scene, &down, &mut decided, policy, now);
    decided.ledger.prune(scene.failures, policy, now);
    decided
}

/// Many guests that crashed, and what is told in the end.
fn crowd(scene: &Scene<'_>, down: &Down, decided: &mut Decided, policy: &GuestPolicy, now: Timestamp) {
    let (crashed, last) = scene.crowd(policy, now);
    if scene.is_evicted {
        decided.ledger.evicted = last.max(scene.ledger.evicted);
    }
    let is_crowd = crashed.len() >= policy.crowd && !scene.is_evicted;
    let many = || {
        let minutes = policy.crowd_window.as_secs() / 60;
        format!(
            "{} guests crashed within {minutes} minutes ({}): the host may be at fault",
            crashed.len(),
            some(&crashed)
        )
    };
    // Guests that run move live: they are restarted first.
    if is_crowd && scene.barrier.is_none() && scene.evicted_elsewhere.is_none() && !down.is_worked_on {
        decided.evict = Some(many());
    }
    decided.report = match (&scene.barrier, down.report()) {
        (Some((reason, why)), Some((_, guests))) => Some((true, *reason, format!("{guests}; {why}"))),
        (Some((reason, why)), None) if is_crowd || scene.is_evicted => {
            let many = if is_crowd { format!("{}; ", many()) } else { String::new() };
            Some((true, *reason, format!("{many}{why}")))
        }
        (None, Some((reason, guests))) => Some((true, reason, guests)),
        (None, None) if is_crowd => {
            let then = match &scene.evicted_elsewhere {
                Some(host) => format!("it is not evicted while {host} is, for the same reason: look at both"),
                None => "its guests are moved away".to_owned(),
            };
            Some((true, "ManyGuests", format!("{}; {then}", many())))
        }
        _ => scene.told.as_ref().map(|_| (false, "Recovered", "no guest is down after a failure".to_owned())),
    };
}

/// The guests that are down, for people.
#[derive(Debug, Default)]
struct Down {
    /// By the weight of the reason, so that the one that needs a person is told first.
    lines: BTreeMap<(u8, &'static str), Vec<String>>,
    /// Whether a guest is still to be restarted.
    is_worked_on: bool,
}

impl Down {
    fn tell(&mut self, guest: &str, failure: &GuestFailure, verdict: Option<&Verdict>) {
        let what = failure.message.as_deref().unwrap_or("no more is known");
        let (key, then) = match verdict {
            None => ((9, ""), String::new()),
            Some(Verdict::Unknown(why)) => ((0, "NovaUnavailable"), format!(": Nova cannot be asked: {why}")),
            Some(Verdict::GivenUp(why)) => ((1, "GivenUp"), format!(": {why}")),
            Some(Verdict::NoSpace(why)) => ((2, "NoSpace"), format!(": {why}")),
            Some(Verdict::Storage(why)) => ((3, "StorageFailed"), format!(": {why}")),
            Some(Verdict::Wait(why)) => ((4, "Restarting"), format!(": {why}")),
            Some(Verdict::Restart | Verdict::Settled(_)) => ((4, "Restarting"), ": it is started again".to_owned()),
        };
        self.is_worked_on |= matches!(verdict, Some(Verdict::Restart | Verdict::Wait(_) | Verdict::Unknown(_)));
        self.lines
            .entry(key)
            .or_default()
            .push(format!("{guest} ({:?} at {}, {what}){then}", failure.kind, failure.time.0));
    }

    /// The reason that weighs most, and all guests.
    fn report(&self) -> Option<(&'static str, String)> {
        let ((_, reason), _) = self.lines.first_key_value()?;
        let lines: Vec<&String> = self.lines.values().flatten().collect();
        let more = lines.len().saturating_sub(SHOWN);
        let shown = lines.iter().take(SHOWN).map(|line| line.as_str()).collect::<Vec<_>>().join("; ");
        let more = if more == 0 { String::new() } else { format!("; and {more} more") };
        let (count, s) = (lines.len(), if lines.len() == 1 { " is" } else { "s are" });
        Some((reason, format!("{count} guest{s} down: {shown}{more}")))
    }
}

/// How many guests a message names.
const SHOWN: usize = 10;

fn some(guests: &BTreeSet<&str>) -> String {
    let shown = guests.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    if guests.len() > SHOWN { format!("{shown} ...") } else { shown }
}

#[cfg(test)]
mod tests;
