//! What must happen at a remote before an object goes. A deletion that cannot say farewell is visible, and can always be released.

use kube::runtime::controller::Action;
use serde_json::Value;

use crate::controller::Controller;
use crate::error::Error;
use crate::finalizer::{self, SKIP_CLEANUP};
use crate::inputs::Inputs;
use crate::reconcile::{CLEANUP_INTERVAL, Reconcile};
use crate::remote::{Call, Made};
use crate::report::Outcome;
use crate::wait::Wait;

/// What must happen at the remote before the object goes.
#[derive(Clone, Debug, Default)]
pub struct Farewell {
    /// What the remote is told to do, in order, when nothing is waited for.
    pub calls: Vec<Call>,
    /// What must come true first.
    pub waits: Vec<Wait>,
    /// What stays at the remote if the deletion does not wait, in words such as `user nova (id 4f1e)`.
    pub leaves: Vec<String>,
}

impl Farewell {
    /// Nothing is left at the remote: the object may go.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a call.
    pub fn call(mut self, call: Call) -> Self {
        self.calls.push(call);
        self
    }

    /// Adds a wait.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.waits.push(wait);
        self
    }

    /// Names what stays at the remote if the deletion does not wait.
    pub fn leaves(mut self, what: impl Into<String>) -> Self {
        self.leaves.push(what.into());
        self
    }
}

impl<C: Controller> Reconcile<'_, C> {
    /// Says farewell at the remote; none when the finalizer may be removed.
    pub(crate) async fn farewell(&self) -> Result<Option<Action>, Error> {
        if self.context.outside.handle.is_none() {
            return Ok(None);
        }
        let age = finalizer::age(self.object, self.now);
        let gives_up =
            finalizer::is_skipped(self.object) || C::FAREWELL_PATIENCE.is_some_and(|patience| age >= patience);
        let inputs = match self.last_inputs().await {
            Ok(Some(inputs)) => inputs,
            Ok(None) if gives_up => return self.abandon("it is not known what, because the object is invalid").await,
            Ok(None) => {
                let wait = Wait::on(self.about)
                    .condition("is valid")
                    .now("is invalid, so that it is not known what it has created at the remote")
                    .look_at(format!("correct it, or leave that behind: annotate the object with {SKIP_CLEANUP}=true"))
                    .failed("InvalidSpec");
                self.write_status(&Outcome::Deleting(&[wait])).await?;
                return Ok(Some(Action::await_change()));
            }
            Err(error) if gives_up => return self.abandon(&format!("it is not known what: {error}")).await,
            Err(error) => return Err(error),
        };
        let farewell = self.context.controller.farewell(&inputs);
        let mut waits = farewell.waits;
        waits.extend(self.untold(&inputs, &waits));
        if waits.is_empty() && farewell.calls.is_empty() {
            return Ok(None);
        }
        if gives_up {
            let leaves = farewell.leaves;
            let leaves = if leaves.is_empty() { "it is not known what".to_owned() } else { leaves.join(", ") };
            return self.abandon(&leaves).await;
        }
        let made = if waits.is_empty() {
            let (made, called) = self.perform(&[&farewell.calls], &inputs).await?;
            waits.extend(called.into_iter().flatten());
            made
        } else {
            Made::default()
        };
        let hint = format!("to leave it behind: annotate the object with {SKIP_CLEANUP}=true");
        let waits: Vec<Wait> = waits
            .into_iter()
            .map(|wait| if wait.look_at.is_some() { wait } else { wait.look_at(hint.clone()) })
            .collect();
        self.write_status(&Outcome::Deleting(&waits)).await?;
        Ok(Some(self.paced(&made, &inputs, None).unwrap_or_else(|| Action::requeue(CLEANUP_INTERVAL))))
    }

    /// Everything that the object refers to and that the remote answers, of the object as it is or as it was last valid. None
    /// if it never was.
    async fn last_inputs(&self) -> Result<Option<Inputs<C::Kind>>, Error> {
        let value = serde_json::to_value(self.object).unwrap_or(Value::Null);
        let Some(object) = self.context.controller.parse(&value).ok().or_else(|| self.last_valid()) else {
            return Ok(None);
        };
        let existing = self.context.children.of(&self.owner);
        let inputs = self.read_inputs(object, &existing).await?;
        self.watch_only(&[&inputs], &existing);
        Ok(Some(inputs))
    }

    async fn abandon(&self, leaves: &str) -> Result<Option<Action>, Error> {
        let note = format!("left behind at the remote, delete by hand: {leaves}");
        tracing::warn!(note, "farewell given up");
        self.context.events.publish(self.about, &self.owner.uid, true, "CleanupAbandoned", &note).await;
        Ok(None)
    }
}
