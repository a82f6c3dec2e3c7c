//! What to do about one guest.

use c5c3_api::hypervisor::{GuestFailure, GuestFailureKind, GuestState};
use c5c3_openstack::compute::guest::{Guest, RUNNING};
use jiff::Timestamp;
use std::time::Duration;

use super::{GuestPolicy, Ledger, age};

/// For how long Nova may take a guest that crashed for one that runs: it believes an end of a domain after 15 seconds.
const STALE: Duration = Duration::from_mins(1);

/// How Nova sees a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NovaGuest {
    /// The server.
    pub guest: Guest,
    /// Whether a user switched it off last, and not Nova because it found it ended.
    pub stopped_by_user: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Restart,
    /// It is looked at again.
    Wait(String),
    /// Nothing is to be done about this failure.
    Settled(String),
    /// It was restarted often enough: a person has to look.
    GivenUp(String),
    /// It goes on without a loss once a person made space.
    NoSpace(String),
    /// The storage of several guests fails: restarts would not help.
    Storage(String),
    /// Nova does not say.
    Unknown(String),
}

/// What follows without asking Nova. `paused` guests of the host are paused by I/O errors.
pub(super) fn judge_without_nova(
    failure: &GuestFailure,
    ledger: &Ledger,
    paused: usize,
    policy: &GuestPolicy,
    now: Timestamp,
) -> Option<Verdict> {
    let guest = &failure.instance;
    let is_paused = failure.kind == GuestFailureKind::IoError && failure.state == GuestState::Paused;
    match failure.kind {
        GuestFailureKind::Watchdog | GuestFailureKind::RebootLoop => {
            return Some(Verdict::Settled("its image or flavor says what its watchdog does".into()));
        }
        GuestFailureKind::NoSpace => {
            let why = format!(
                "make space, then `openstack server reboot --hard {guest}`, or `virsh resume` on the host, which keeps its memory"
            );
            return Some(Verdict::NoSpace(why));
        }
        GuestFailureKind::IoError if is_paused && paused >= policy.crowd => {
            let why = format!(
                "{paused} guests of this host lost a disk, so that the storage is looked at first; then `openstack server reboot --hard {guest}`"
            );
            return Some(Verdict::Storage(why));
        }
        GuestFailureKind::Crashed | GuestFailureKind::Panicked | GuestFailureKind::IoError => {}
    }
    let restarts = ledger.restarts(guest, policy, now);
    if restarts.len() >= policy.attempts {
        // While the last restart is under way it is not given up.
        return match restarts.last() {
            Some(last) if age(*last, now) < back_off(policy, restarts.len()) => {
                Some(Verdict::Wait(format!("it was restarted at {last}, the last time in this hour")))
            }
            _ => Some(Verdict::GivenUp(format!(
                "it was restarted {} times and failed again; see its console, then `openstack server reboot --hard {guest}`",
                restarts.len()
            ))),
        };
    }
    if is_paused && age(failure.time.0, now) < policy.io_patience {
        return Some(Verdict::Wait(format!(
            "it is restarted unless it goes on within {} s",
            policy.io_patience.as_secs()
        )));
    }
    let last = restarts.last()?;
    let pause = back_off(policy, restarts.len());
    (age(*last, now) < pause)
        .then(|| Verdict::Wait(format!("it was restarted at {last}, and again after {} s", pause.as_secs())))
}

/// For how long the next restart waits after so many.
fn back_off(policy: &GuestPolicy, restarts: usize) -> Duration {
    let pauses = &policy.back_off;
    pauses.get(restarts.saturating_sub(1)).or(pauses.last()).copied().unwrap_or_default()
}

/// What follows from Nova's answer.
pub(super) fn judge(
    failure: &GuestFailure,
    ledger: &Ledger,
    nova: Option<&NovaGuest>,
    host: &str,
    policy: &GuestPolicy,
    now: Timestamp,
) -> Verdict {
    let Some(NovaGuest { guest, stopped_by_user }) = nova else {
        return Verdict::Settled("Nova has no such server".into());
    };
    if guest.host.as_deref() != Some(host) {
        // A migration to this host that failed ends a domain here, too.
        return Verdict::Settled(format!("it is on {} now", guest.host.as_deref().unwrap_or("no host")));
    }
    if let Some(task) = &guest.task_state {
        return Verdict::Wait(format!("Nova is busy with it ({task})"));
    }
    let was_restarted = ledger.restarts(&failure.instance, policy, now).last().is_some_and(|at| *at >= failure.time.0);
    match guest.status.as_str() {
        // A restart would end a guest that runs: the agent may be away since it was started again.
        "ACTIVE" if guest.power_state == Some(RUNNING) && (was_restarted || age(failure.time.0, now) >= STALE) => {
            Verdict::Wait("Nova says that it runs; the agent of the host has not said so yet".into())
        }
        "SHUTOFF" if *stopped_by_user => Verdict::Settled("a user stopped it".into()),
        "ACTIVE" | "SHUTOFF" | "ERROR" => Verdict::Restart,
        other => Verdict::Settled(format!("it is {other}")),
    }
}
