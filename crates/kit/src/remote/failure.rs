//! Why a remote did not answer a question or do what it was told, by what has to happen next.

use std::time::Duration;

use crate::object::Ref;
use crate::remote::Question;
use crate::wait::Wait;

/// What has to happen before it is worth trying again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The remote does not answer, or cannot work now. It is tried again with back-off. Whether a call had an effect is not
    /// known.
    Unreachable,
    /// The remote does not accept the credential, or the credential does not allow this. It is tried again with back-off, and
    /// at once when the Secret changes.
    Unauthorized,
    /// The remote answered that it will not do this now. It is tried again with back-off.
    Refused,
    /// The state of the remote contradicts what is asked for, such as another resource with that name. It is tried again with
    /// the resync.
    Conflict,
    /// The same thing would be refused again, until the object or something that it refers to changes.
    Terminal,
}

impl Class {
    /// Whether time alone may help, so that it is tried again with back-off.
    pub fn is_retried(self) -> bool {
        matches!(self, Self::Unreachable | Self::Unauthorized | Self::Refused)
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Unreachable => "RemoteUnreachable",
            Self::Unauthorized => "RemoteUnauthorized",
            Self::Refused => "RemoteRefused",
            Self::Conflict => "RemoteConflict",
            Self::Terminal => "RemoteTerminal",
        }
    }
}

/// A question that was not answered, or a call that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What has to happen next.
    pub class: Class,
    /// The failure in one word, the label of its metric: the variant of the client's error.
    pub reason: &'static str,
    /// What the remote said, without a secret in it.
    pub message: String,
    /// How long the remote asks to wait.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// A failure.
    pub fn new(class: Class, reason: &'static str, message: impl Into<String>) -> Self {
        Self { class, reason, message: message.into(), retry_after: None }
    }

    /// Says how long the remote asks to wait.
    pub fn retry_after(self, delay: Option<Duration>) -> Self {
        Self { retry_after: delay, ..self }
    }

    pub(crate) fn timed_out(what: &impl std::fmt::Display, patience: Duration) -> Self {
        let message = format!("{what}: no answer within {} s", patience.as_secs_f64());
        Self::new(Class::Unreachable, "TimedOut", message)
    }

    /// Turns a wait for the remote into one that says why there is no success. An outage is expected to pass; everything else
    /// does not end by itself, and begins with what the remote does not do.
    pub(crate) fn wait(&self, wait: Wait, does_not: &str) -> Wait {
        let wait = wait.error(self.message.clone());
        match self.class {
            Class::Unreachable => wait.now(self.message.clone()).with_reason(self.class.reason()),
            Class::Unauthorized | Class::Refused | Class::Conflict | Class::Terminal => {
                wait.now(format!("{does_not}: {}", self.message)).failed(self.class.reason())
            }
        }
    }

    /// The wait for a remote to answer a question.
    pub(crate) fn unanswered(&self, remote: &Ref, question: &Question) -> Wait {
        let wait = Wait::on(remote).condition(format!("answers: {question}"));
        self.wait(wait, &format!("does not answer \"{question}\""))
    }
}
