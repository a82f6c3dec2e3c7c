//! What lives outside Kubernetes, such as the users of a Keystone: it is reached by questions whose answers are inputs of a
//! plan, and by calls that are data of a plan. The kit asks, makes the calls, and asks again.
//!
//! ```text
//! questions ─► ask ─► replies ─► plan ─► children ─► calls ─► questions again
//!              │                                     └ in order, each step's after its children
//!              └ bounded in time and number; a failure is an input too, and always a visible wait
//! ```
//!
//! - The effect of a call is never assumed: the next reconcile asks. A create whose answer was lost is found by that question
//!   and adopted, and a call that had no effect is planned again, later each time.
//! - A deletion makes the calls of [`crate::Controller::farewell`] before the finalizer is removed.
//! - A question and a call print what they are about, and no secret: their `Display` is in conditions, events and logs.

mod asking;
mod call;
mod calling;
mod failure;
mod farewell;
mod outside;

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::core::ApiResource;

pub use call::{Action, Call, Verb};
pub(crate) use calling::Made;
pub use failure::{Class, Failure};
pub use farewell::Farewell;
pub(crate) use outside::Outside;

use crate::object::Ref;

/// A system outside Kubernetes, with what it can be asked and told to do.
pub trait Remote: Send + Sync + 'static {
    /// What can be asked. Equal questions of one reconcile are asked once.
    type Question: Clone + Eq + Hash + fmt::Display + Send + Sync + 'static;
    /// What it answers. That something does not exist is an answer, not a failure.
    type Answer: Send + Sync + 'static;
    /// What it can be told to do.
    type Action: Action;

    /// Its name in messages, such as `keystone`.
    const NAME: &'static str;

    /// How long an answer may take, for a question and for a call. It includes the tries of the client.
    const PATIENCE: Duration = Duration::from_secs(35);

    /// Answers a question. Answers may come from a list that several questions share, if [`Remote::perform`] drops what it
    /// changes.
    fn ask(&self, question: &Self::Question) -> impl Future<Output = Result<Self::Answer, Failure>> + Send;

    /// Does something. It is idempotent as far as the system allows: what is gone already need not be deleted.
    fn perform(&self, action: &Self::Action) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// A remote of any type; see [`crate::Controller::remote`].
#[derive(Clone)]
pub struct RemoteHandle(Arc<dyn AnyRemote>);

impl RemoteHandle {
    /// The remote itself.
    pub fn new<R: Remote>(remote: Arc<R>) -> Self {
        Self(Arc::new(Typed(remote)))
    }

    /// The system as something to wait for.
    pub(crate) fn reference(&self) -> Ref {
        reference(self.0.name())
    }

    pub(crate) fn patience(&self) -> Duration {
        self.0.patience()
    }

    /// The answer, or none if the question is one of another remote.
    pub(crate) fn ask<'a>(&'a self, question: &'a Question) -> Option<BoxFuture<'a, Reply>> {
        self.0.ask(question)
    }

    /// What came of it, or none if the call is one of another remote.
    pub(crate) fn perform<'a>(&'a self, call: &'a Call) -> Option<BoxFuture<'a, Result<(), Failure>>> {
        self.0.perform(call.action())
    }
}

/// The system of that name as something to wait for. It is no object of the cluster.
pub(crate) fn reference(name: &str) -> Ref {
    let resource = ApiResource {
        group: String::new(),
        version: String::new(),
        api_version: String::new(),
        kind: "Remote".into(),
        plural: String::new(),
    };
    Ref { resource, namespace: None, name: name.to_owned() }
}

trait AnyRemote: Send + Sync {
    fn name(&self) -> &'static str;
    fn patience(&self) -> Duration;
    fn ask<'a>(&'a self, question: &'a Question) -> Option<BoxFuture<'a, Reply>>;
    fn perform<'a>(&'a self, action: &'a dyn Any) -> Option<BoxFuture<'a, Result<(), Failure>>>;
}

struct Typed<R>(Arc<R>);

impl<R: Remote> AnyRemote for Typed<R> {
    fn name(&self) -> &'static str {
        R::NAME
    }

    fn patience(&self) -> Duration {
        R::PATIENCE
    }

    fn ask<'a>(&'a self, question: &'a Question) -> Option<BoxFuture<'a, Reply>> {
        let question: &R::Question = question.0.as_any().downcast_ref()?;
        let answer =
            async move { self.0.ask(question).await.map(|answer| Arc::new(answer) as Arc<dyn Any + Send + Sync>) };
        Some(answer.boxed())
    }

    fn perform<'a>(&'a self, action: &'a dyn Any) -> Option<BoxFuture<'a, Result<(), Failure>>> {
        let action: &R::Action = action.downcast_ref()?;
        Some(self.0.perform(action).boxed())
    }
}

/// What came of a question: an answer of the remote's type, or why there is none.
pub(crate) type Reply = Result<Arc<dyn Any + Send + Sync>, Failure>;

/// A question to a remote, as data.
#[derive(Clone)]
pub struct Question(Arc<dyn AnyQuestion>);

impl Question {
    /// A question to this remote.
    pub fn to<R: Remote>(question: R::Question) -> Self {
        Self(Arc::new(question))
    }
}

trait AnyQuestion: fmt::Display + Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn is_same(&self, other: &dyn Any) -> bool;
    fn hash_into(&self, state: &mut dyn Hasher);
}

impl<Q: Eq + Hash + fmt::Display + Send + Sync + 'static> AnyQuestion for Q {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn is_same(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<Q>() == Some(self)
    }

    fn hash_into(&self, mut state: &mut dyn Hasher) {
        self.hash(&mut state);
    }
}

impl PartialEq for Question {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_same(other.0.as_any())
    }
}

impl Eq for Question {}

impl Hash for Question {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash_into(state);
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Question({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_equal_if_their_types_and_values_are() {
        let text = |text: &str| Question(Arc::new(text.to_owned()));
        assert_eq!(text("the user nova"), text("the user nova"));
        assert_ne!(text("the user nova"), text("the user glance"));
        assert_ne!(text("7"), Question(Arc::new(7)));
        assert_eq!(format!("{:?}", text("the user nova")), "Question(the user nova)");
    }
}
