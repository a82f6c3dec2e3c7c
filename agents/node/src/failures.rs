//! What happens to guests that no one asked for: crashes, panics, I/O errors, watchdogs, loops of reboots. The last time for each
//! guest and kind is kept, and how the guest is since. Nothing is done about it here.

use std::collections::{BTreeMap, HashMap, VecDeque};

use c5c3_api::hypervisor::{GuestFailure, GuestFailureKind, GuestState, HypervisorStatus};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::protocol::{Domain, Event};
use GuestFailureKind::{Crashed, IoError, NoSpace, Panicked, RebootLoop, Watchdog};
use GuestState::{Paused, Running, Stopped};

/// The most failures that the schema of a Hypervisor takes, and the longest message.
const MOST: usize = 128;
const LONGEST: usize = 512;

/// For how long a failure is told: of a guest that runs, of one that does not, and of one that libvirt no longer has.
const TOLD: SignedDuration = SignedDuration::from_hours(1);
const TOLD_WHILE_DOWN: SignedDuration = SignedDuration::from_hours(24);

/// A guest that runs may report errors many times a second. One is told in this time.
const REPEATED: SignedDuration = SignedDuration::from_mins(10);

/// So many reboots in that time are a loop. An update of an operating system takes two or three.
const LOOP: usize = 5;
const LOOP_TIME: SignedDuration = SignedDuration::from_mins(10);

/// libvirt's numbers of lifecycle events, and of details of a domain that stopped.
const STARTED: i32 = 2;
const SUSPENDED: i32 = 3;
const RESUMED: i32 = 4;
const STOPPED: i32 = 5;
const CRASHED: i32 = 8;
const STOPPED_CRASHED: i32 = 2;
const STOPPED_FAILED: i32 = 5;
const SUSPENDED_IO_ERROR: i32 = 2;
/// The kernel of the guest panicked, and nothing catches it. Otherwise a crash kernel runs now.
const PANICKED: i32 = 0;

/// libvirt's numbers of states with their reasons, as far as they are failures, and of the state of a domain that runs.
const STATE_RUNNING: i32 = 1;
const PAUSED_IO_ERROR: (i32, i32) = (3, 5);
const SHUT_OFF: i32 = 5;
const SHUT_OFF_CRASHED: (i32, i32) = (SHUT_OFF, 3);
const SHUT_OFF_FAILED: (i32, i32) = (SHUT_OFF, 6);
const CRASHED_PANICKED: (i32, i32) = (6, 1);

/// The failures of the guests of this host.
#[derive(Debug, Default)]
pub struct Failures {
    all: BTreeMap<(String, GuestFailureKind), GuestFailure>,
    reboots: HashMap<String, VecDeque<Timestamp>>,
    adopted: bool,
    /// How many there were, for metrics.
    pub count: u64,
}

impl Failures {
    /// Takes over what was published before the agent was started. Done once: afterwards this is the truth.
    pub fn adopt(&mut self, status: Option<&HypervisorStatus>) {
        if std::mem::replace(&mut self.adopted, true) {
            return;
        }
        for failure in status.map(|status| status.guest_failures.as_slice()).unwrap_or_default() {
            self.all.entry((failure.instance.clone(), failure.kind)).or_insert_with(|| failure.clone());
        }
    }

    /// What is published.
    pub fn list(&self) -> Vec<GuestFailure> {
        self.all.values().cloned().collect()
    }

    /// Whether something was told of the guest.
    pub fn concern(&self, instance: &str) -> bool {
        self.all.keys().any(|(of, _)| of == instance)
    }

    /// Notes what happened.
    pub fn on(&mut self, event: &Event, now: Timestamp) {
        match event {
            Event::Lifecycle { domain, event, detail } => self.on_lifecycle(domain, (*event, *detail), now),
            Event::Reboot { domain } => self.on_reboot(&domain.uuid.to_string(), now),
            Event::Watchdog { domain, action } => {
                let (state, what) = match action {
                    0 => (Running, "nothing is done"),
                    1 => (Paused, "it is paused"),
                    2 => (Running, "it is reset"),
                    3 => (Stopped, "it is switched off"),
                    4 => (Running, "it is shut down"),
                    5 => (Running, "the host logs it"),
                    _ => (Running, "it gets an NMI"),
                };
                let message = format!("the watchdog was not fed; {what}, as its image or flavor says");
                self.note(domain, (Watchdog, state), &message, now);
            }
            Event::IoError { domain, path, device, action, reason } => {
                let kind = if reason == "enospc" { NoSpace } else { IoError };
                let reason = if reason.is_empty() { "no reason is given" } else { reason };
                let (state, what) = match action {
                    1 => (Paused, "QEMU paused it"),
                    2 => (Running, "it was told of the error"),
                    _ => (Running, "the error was ignored"),
                };
                self.note(domain, (kind, state), &format!("{device} ({path}): {reason}; {what}"), now);
            }
            Event::Iteration { .. } | Event::JobCompleted { .. } => {}
        }
    }

    fn on_lifecycle(&mut self, domain: &Domain, what: (i32, i32), now: Timestamp) {
        let instance = domain.uuid.to_string();
        match what {
            (STOPPED, STOPPED_CRASHED | STOPPED_FAILED) => self.crashed(domain, "", now),
            (STOPPED, _) => self.ended(&instance),
            (STARTED | RESUMED, _) => self.runs(&instance),
            (SUSPENDED, SUSPENDED_IO_ERROR) => self.paused(domain, now),
            (CRASHED, PANICKED) => self.note(domain, (Panicked, Stopped), "its kernel panicked", now),
            (CRASHED, _) => self.note(domain, (Panicked, Running), "its kernel panicked; a crash kernel runs", now),
            _ => {}
        }
    }

    /// Notes the state in which a guest was found by an agent that was away. `was_active` is how it was before that.
    pub fn found(&mut self, domain: &Domain, what: (i32, i32), was_active: bool, now: Timestamp) {
        let instance = domain.uuid.to_string();
        match what {
            // Without having run before it is an old crash, which may have been told a day ago.
            SHUT_OFF_CRASHED | SHUT_OFF_FAILED if was_active => self.crashed(domain, " while the agent was away", now),
            CRASHED_PANICKED => self.note(domain, (Panicked, Stopped), "its kernel panicked", now),
            PAUSED_IO_ERROR => self.paused(domain, now),
            (STATE_RUNNING, _) => self.runs(&instance),
            (SHUT_OFF, _) => self.ended(&instance),
            _ => {}
        }
    }

    fn crashed(&mut self, domain: &Domain, when: &str, now: Timestamp) {
        // A guest that panicked is ended by libvirt: that is one failure.
        let panicked = self.all.get(&(domain.uuid.to_string(), Panicked));
        if panicked.is_none_or(|before| before.state == Running) {
            let message = format!("its QEMU ended, or libvirt had to end it{when}");
            self.note(domain, (Crashed, Stopped), &message, now);
        }
    }

    /// A guest is paused because of an I/O error. Events with the disk come before this one, if any.
    fn paused(&mut self, domain: &Domain, now: Timestamp) {
        let instance = domain.uuid.to_string();
        let is_known = [IoError, NoSpace]
            .into_iter()
            .any(|kind| self.all.get(&(instance.clone(), kind)).is_some_and(|before| before.state == Paused));
        if !is_known {
            self.note(domain, (IoError, Paused), "a disk returned an error; QEMU paused it", now);
        }
    }

    /// Someone ended the guest: one that was paused need not go on. What crashed is shut off all the same.
    fn ended(&mut self, instance: &str) {
        self.all.retain(|(of, _), failure| of != instance || failure.state != Paused);
    }

    fn runs(&mut self, instance: &str) {
        for failure in self.all.values_mut().filter(|failure| failure.instance == instance) {
            failure.state = Running;
        }
    }

    fn on_reboot(&mut self, instance: &str, now: Timestamp) {
        let times = self.reboots.entry(instance.to_owned()).or_default();
        times.push_back(now);
        times.retain(|time| now.duration_since(*time) < LOOP_TIME);
        if times.len() >= LOOP {
            let message = format!("it restarted itself {} times in {} minutes", times.len(), LOOP_TIME.as_mins());
            self.insert(instance, (RebootLoop, Running), &message, now);
        }
    }

    fn note(&mut self, domain: &Domain, what: (GuestFailureKind, GuestState), message: &str, now: Timestamp) {
        self.insert(&domain.uuid.to_string(), what, message, now);
    }

    fn insert(&mut self, instance: &str, what: (GuestFailureKind, GuestState), message: &str, now: Timestamp) {
        let (kind, state) = what;
        let key = (instance.to_owned(), kind);
        let is_told = self.all.get(&key).is_some_and(|before| {
            // One that does not run cannot fail once more.
            before.state == state && (state != Running || now.duration_since(before.time.0) < REPEATED)
        });
        if is_told {
            return;
        }
        self.count += 1;
        tracing::warn!(instance, ?kind, ?state, why = message, "a guest failed");
        let message = Some(message.chars().take(LONGEST).collect());
        // The API keeps seconds; more would look like a difference.
        let time = Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
        self.all.insert(key, GuestFailure { instance: instance.to_owned(), kind, time, state, message });
    }

    /// Forgets what is old, and the oldest where there are too many. `listed` are the domains that libvirt has.
    pub fn expire(&mut self, listed: impl Fn(&str) -> bool, now: Timestamp) {
        self.reboots.retain(|_, times| times.back().is_some_and(|last| now.duration_since(*last) < LOOP_TIME));
        self.all.retain(|_, failure| {
            let age = now.duration_since(failure.time.0);
            age < TOLD || (age < TOLD_WHILE_DOWN && failure.state != Running && listed(&failure.instance))
        });
        while self.all.len() > MOST {
            let oldest = self.all.iter().min_by_key(|(_, failure)| failure.time.0).map(|(key, _)| key.clone());
            if let Some(key) = oldest {
                self.all.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests;
