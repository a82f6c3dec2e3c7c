//! What is remembered of a rotation. It is kept in the status, and lost there, read off the objects that exist.

use c5c3_api::c5c3::{CredentialRotationStatus, RotatedCredential, RotationPhase, RotationReason, RotationStep};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

/// How far a rotation is, and which credentials there are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct State {
    /// How far it is.
    pub(crate) phase: RotationPhase,
    /// Why it was started.
    pub(crate) reason: RotationReason,
    /// The credential in use.
    pub(crate) current: Option<RotatedCredential>,
    /// The one that takes its place.
    pub(crate) next: Option<RotatedCredential>,
    /// The one that was in use before.
    pub(crate) previous: Option<RotatedCredential>,
    /// The request that was acted on last.
    pub(crate) handled: Option<String>,
    /// When the credential in use became so.
    pub(crate) last_rotation: Option<Time>,
    /// The steps so far.
    pub(crate) steps: Vec<RotationStep>,
}

impl State {
    /// What the status says; none before the first rotation, and when the status was lost.
    pub(crate) fn recorded(status: Option<&CredentialRotationStatus>) -> Option<Self> {
        let status = status?;
        let state = Self {
            phase: status.phase?,
            reason: status.reason.unwrap_or(RotationReason::Created),
            current: status.current_credential.clone(),
            next: status.next_credential.clone(),
            previous: status.previous_credential.clone(),
            handled: status.handled_request.clone(),
            last_rotation: status.last_rotation.clone(),
            steps: status.steps.clone(),
        };
        // Without a credential there is nothing to go on with.
        (state.current.is_some() || state.next.is_some()).then_some(state)
    }

    /// Begins with a first credential.
    pub(crate) fn first(credential: RotatedCredential, request: Option<String>, now: Timestamp) -> Self {
        Self {
            phase: RotationPhase::Creating,
            reason: RotationReason::Created,
            current: None,
            next: Some(credential),
            previous: None,
            handled: request,
            last_rotation: None,
            steps: vec![step(RotationPhase::Creating, now)],
        }
    }

    /// Goes on with the credentials that are there after the status was lost. Both of two stay until services are known to use
    /// the newer one, whichever of them was in use.
    pub(crate) fn recovered(
        mut existing: Vec<RotatedCredential>,
        request: Option<String>,
        now: Timestamp,
    ) -> Option<Self> {
        existing.sort_by_key(|credential| credential.version);
        let newest = existing.pop()?;
        let is_made = newest.id.is_some();
        let mut state = Self::first(newest, request, now);
        state.current = existing.pop();
        if is_made {
            state.enter(RotationPhase::Delivering, now);
        }
        Some(state)
    }

    /// The credential that services get.
    pub(crate) fn active(&self) -> Option<&RotatedCredential> {
        match self.phase {
            RotationPhase::Delivering | RotationPhase::Verifying => self.next.as_ref(),
            _ => self.current.as_ref(),
        }
    }

    /// The credential of before, as long as it must work.
    pub(crate) fn kept_previous(&self) -> Option<&RotatedCredential> {
        self.previous.as_ref().filter(|_| self.phase == RotationPhase::Grace)
    }

    /// Every credential that has to work.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &RotatedCredential> {
        self.current.iter().chain(&self.next).chain(self.kept_previous())
    }

    /// Every credential that has objects.
    pub(crate) fn all(&self) -> impl Iterator<Item = &RotatedCredential> {
        self.current.iter().chain(&self.next).chain(&self.previous)
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut RotatedCredential> {
        self.current.iter_mut().chain(&mut self.next).chain(&mut self.previous)
    }

    /// Ends the step that was under way and begins the next one, if the phase has something to do.
    pub(crate) fn enter(&mut self, phase: RotationPhase, now: Timestamp) {
        for step in &mut self.steps {
            step.done = true;
            step.message = None;
        }
        if phase == RotationPhase::Creating {
            self.steps.clear();
        }
        if phase != RotationPhase::Idle {
            self.steps.push(step(phase, now));
        }
        self.phase = phase;
    }

    /// The same, with what the present step waits for.
    pub(crate) fn saying(mut self, message: Option<String>) -> Self {
        if let Some(step) = self.steps.last_mut().filter(|step| !step.done) {
            step.message = message;
        }
        self
    }
}

fn step(name: RotationPhase, now: Timestamp) -> RotationStep {
    RotationStep { name, since: Time(now), done: false, message: None }
}
