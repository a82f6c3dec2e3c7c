//! A call as data: what a remote is told to do, and why.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::hash;
use crate::remote::outside::WITHOUT_EFFECT;
use crate::remote::{Failure, Remote, reference};
use crate::wait::Wait;

/// What a call does, for events and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Creates something.
    Create,
    /// Changes something that exists.
    Update,
    /// Deletes something.
    Delete,
}

impl Verb {
    /// The label of the metric.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }

    /// The reason of the event when the call was made.
    pub(crate) fn made(self) -> &'static str {
        match self {
            Self::Create => "RemoteCreated",
            Self::Update => "RemoteUpdated",
            Self::Delete => "RemoteDeleted",
        }
    }

    /// The reason of the event when the call failed.
    pub(crate) fn failed(self) -> &'static str {
        match self {
            Self::Create => "RemoteCreateFailed",
            Self::Update => "RemoteUpdateFailed",
            Self::Delete => "RemoteDeleteFailed",
        }
    }
}

/// Something that a remote can be told to do. Its `Display` names the resource and the fields, in the form `create user nova`;
/// of a secret value it says at most that it is one.
pub trait Action: fmt::Display + Send + Sync + 'static {
    /// What it does.
    fn verb(&self) -> Verb;

    /// A digest of the secret values, so that a plan in which only such a value differs differs in its text.
    fn secret_digest(&self) -> Option<String> {
        None
    }
}

/// A call of a plan.
#[derive(Clone)]
pub struct Call {
    remote: &'static str,
    action: Arc<dyn AnyAction>,
    because: String,
}

impl Call {
    /// Tells a remote to do something, for this reason.
    pub fn to<R: Remote>(action: R::Action, because: impl Into<String>) -> Self {
        Self { remote: R::NAME, action: Arc::new(action), because: because.into() }
    }

    /// What it does.
    pub fn verb(&self) -> Verb {
        self.action.verb()
    }

    /// Why it is made.
    pub fn because(&self) -> &str {
        &self.because
    }

    /// The action, as the type of its remote.
    pub fn action(&self) -> &dyn Any {
        self.action.as_any()
    }

    /// What it does, without why.
    pub fn title(&self) -> String {
        self.action.to_string()
    }

    /// The wait for the call to be made.
    pub(crate) fn pending(&self) -> Wait {
        self.wait().because(self.because.clone()).with_reason("CallPending")
    }

    /// The wait for the effect of a call that was made `times` in a row.
    pub(crate) fn confirmed(&self, times: u32) -> Wait {
        if times < WITHOUT_EFFECT {
            return self.wait().now("done, and asked for again").because(self.because.clone()).with_reason("CallMade");
        }
        let now = format!("did not change although it was told {times} times to: {}", self.title());
        self.wait().now(now).because(self.because.clone()).failed("CallWithoutEffect")
    }

    /// The wait that a failure leads to.
    pub(crate) fn failed(&self, failure: &Failure) -> Wait {
        failure.wait(self.wait(), &format!("does not carry out \"{}\"", self.title())).because(self.because.clone())
    }

    fn wait(&self) -> Wait {
        Wait::on(&reference(self.remote)).condition(format!("carries out: {}", self.title()))
    }

    /// Equal for calls that do the same.
    pub(crate) fn digest(&self) -> String {
        hash::of_json(&serde_json::json!([self.title(), self.action.secret_digest()]))
    }
}

trait AnyAction: Action {
    fn as_any(&self) -> &dyn Any;
}

impl<A: Action> AnyAction for A {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.action, self.because)
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({self})")
    }
}
