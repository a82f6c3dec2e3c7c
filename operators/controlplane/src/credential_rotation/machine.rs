//! The state machine: from what is remembered and what is seen to what is remembered next. Pure; one step at a time.
//!
//! ```text
//! Creating ─► Delivering ─► Verifying ─► Grace ─► Revoking ─► VerifyingRevoked ─► Idle
//!     ▲            └ the first credential has nothing to replace ─────────────────► │
//!     └──────────────── the schedule, a request, a change of roles ─────────────────┘
//! ```
//!
//! A plan does what is remembered, and the next state is written with it. So each step is in the status before anything of it
//! is done, and a crash at any point repeats at most one step, all of which can be repeated.

use std::collections::BTreeMap;

use c5c3_api::c5c3::{CredentialRotationSpec, RotatedCredential, RotationPhase, RotationReason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::state::State;

/// The days of a spec.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    interval: SignedDuration,
    before: SignedDuration,
    grace: SignedDuration,
}

impl Schedule {
    pub(crate) fn new(spec: &CredentialRotationSpec) -> Self {
        let days = |days: i32| SignedDuration::from_hours(i64::from(days) * 24);
        Self {
            interval: days(spec.schedule.interval_days),
            before: days(spec.schedule.pre_rotation_days),
            grace: days(spec.grace_period_days),
        }
    }

    /// A credential that is made now.
    pub(crate) fn credential(self, version: i64, now: Timestamp) -> RotatedCredential {
        RotatedCredential {
            version,
            created_at: Some(Time(now)),
            expires_at: Some(Time(now + self.interval + self.grace)),
            ..RotatedCredential::default()
        }
    }

    /// When a credential is replaced. One that was made for a shorter interval is replaced in time for its own end.
    pub(crate) fn next_rotation(self, credential: &RotatedCredential) -> Option<Timestamp> {
        let by_age = credential.created_at.as_ref().map(|created| created.0 + self.interval - self.before);
        let by_end = credential.expires_at.as_ref().map(|expires| expires.0 - self.grace - self.before);
        by_age.into_iter().chain(by_end).min()
    }

    /// When a credential that is replaced now is revoked.
    fn revoke_at(self, old: &RotatedCredential, reason: RotationReason, now: Timestamp) -> Timestamp {
        let end = old.expires_at.as_ref().map(|expires| expires.0);
        match (reason, end) {
            (RotationReason::Scheduled, Some(end)) => end,
            (_, end) => end.into_iter().chain([now + self.grace]).min().unwrap_or(now),
        }
    }
}

/// What is seen of a rotation.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, seen of another object")]
pub(crate) struct Seen {
    /// The ids of the credentials that are in Keystone, by version.
    pub(crate) ids: BTreeMap<i64, String>,
    /// The ApplicationCredential objects that exist, also those that are being deleted.
    pub(crate) objects: Vec<i64>,
    /// Whether services can read the active credential.
    pub(crate) delivered: bool,
    /// Whether all consumers use it, and Keystone accepts it.
    pub(crate) verified: bool,
    /// Whether Keystone refuses the previous credential.
    pub(crate) refused: bool,
    /// The value of the annotation that asks for a rotation.
    pub(crate) request: Option<String>,
    /// Whether the credential in use is not the one that the spec asks for.
    pub(crate) outdated: bool,
}

/// The next state.
pub(crate) fn advance(state: &State, schedule: Schedule, seen: &Seen, now: Timestamp) -> State {
    let mut next = state.clone();
    // K-ORC creates a credential again that was deleted from Keystone, and it has another id then.
    for credential in next.all_mut() {
        if let Some(id) = seen.ids.get(&credential.version) {
            credential.id = Some(id.clone());
        }
    }
    match state.phase {
        RotationPhase::Creating => {
            if next.next.as_ref().is_some_and(|made| seen.ids.contains_key(&made.version)) {
                next.enter(RotationPhase::Delivering, now);
            }
        }
        RotationPhase::Delivering if seen.delivered && state.current.is_some() => {
            next.enter(RotationPhase::Verifying, now);
        }
        RotationPhase::Delivering if seen.delivered => {
            next.current = next.next.take();
            next.last_rotation = Some(Time(now));
            next.enter(RotationPhase::Idle, now);
        }
        RotationPhase::Verifying if seen.delivered && seen.verified => {
            let old = next.current.take();
            next.previous = old.map(|old| RotatedCredential {
                revoke_at: Some(Time(schedule.revoke_at(&old, state.reason, now))),
                ..old
            });
            next.current = next.next.take();
            next.last_rotation = Some(Time(now));
            next.enter(RotationPhase::Grace, now);
        }
        RotationPhase::Grace => {
            let due = state.previous.as_ref().and_then(|old| old.revoke_at.as_ref()).is_none_or(|at| at.0 <= now);
            // There are never more than two, and nothing uses the old one: it makes room for the next.
            if due || trigger(&next, schedule, seen, now).is_some() {
                next.enter(RotationPhase::Revoking, now);
            }
        }
        RotationPhase::Revoking => {
            if state.previous.as_ref().is_none_or(|old| !seen.objects.contains(&old.version)) {
                next.enter(RotationPhase::VerifyingRevoked, now);
            }
        }
        RotationPhase::VerifyingRevoked if seen.refused || state.previous.is_none() => {
            next.previous = None;
            next.enter(RotationPhase::Idle, now);
        }
        RotationPhase::Idle => {
            if let Some(reason) = trigger(&next, schedule, seen, now) {
                let newest = next.all().map(|credential| credential.version).max().unwrap_or_default();
                next.next = Some(schedule.credential(newest + 1, now));
                next.reason = reason;
                next.handled.clone_from(&seen.request);
                next.enter(RotationPhase::Creating, now);
            }
        }
        RotationPhase::Delivering | RotationPhase::Verifying | RotationPhase::VerifyingRevoked => {}
    }
    next
}

/// Why the credential in use has to be replaced now, if it has.
fn trigger(state: &State, schedule: Schedule, seen: &Seen, now: Timestamp) -> Option<RotationReason> {
    if seen.request.is_some() && seen.request != state.handled {
        return Some(RotationReason::Requested);
    }
    if seen.outdated {
        return Some(RotationReason::Outdated);
    }
    let due = schedule.next_rotation(state.current.as_ref()?)?;
    (due <= now).then_some(RotationReason::Scheduled)
}
