//! What can fail in a reconcile. A variant's name is the reason of the event and the label of the metric.

use std::time::Duration;

use crate::object::{Ref, said};

/// A failure that is retried with back-off. What waits for something else is a [`crate::Wait`], not an error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API did not give an object.
    #[error("cannot read {object}: {}", said(source))]
    ReadFailed {
        /// What was read.
        object: Box<Ref>,
        /// What the API said.
        source: Box<kube::Error>,
    },
    /// The API did not take a child.
    #[error("cannot apply {object}: {}", said(source))]
    ApplyFailed {
        /// What was applied.
        object: Box<Ref>,
        /// What the API said.
        source: Box<kube::Error>,
    },
    /// The API refused something of a child, which the object's conditions tell already.
    #[error("{0}")]
    ChildRefused(String),
    /// The API did not delete a child that is no longer wanted.
    #[error("cannot delete {object}: {}", said(source))]
    DeleteFailed {
        /// What was deleted.
        object: Box<Ref>,
        /// What the API said.
        source: Box<kube::Error>,
    },
    /// The API did not take the status.
    #[error("cannot write the status of {object}: {}", said(source))]
    ReportFailed {
        /// Whose status.
        object: Box<Ref>,
        /// What the API said.
        source: Box<kube::Error>,
    },
    /// The API did not take a change of the finalizer.
    #[error("cannot change the finalizers of {object}: {}", said(source))]
    FinalizerFailed {
        /// Whose finalizer.
        object: Box<Ref>,
        /// What the API said.
        source: Box<kube::Error>,
    },
    /// An operator's plan is broken, which is a bug in the operator.
    #[error("the plan of {controller} is broken: {what}")]
    BrokenPlan {
        /// Which controller.
        controller: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// An operator panicked over one object, which is a bug in the operator. Others go on.
    #[error("{controller} panicked: {what}")]
    Panicked {
        /// Which controller.
        controller: &'static str,
        /// What it said.
        what: String,
    },
    /// A reconcile did not end.
    #[error("the reconcile did not end within {0:?}: does the API answer?")]
    TimedOut(Duration),
}

/// A step of a reconcile, for metrics and messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Fetching what the object refers to.
    Read,
    /// Proving that the input is good.
    Validate,
    /// Making the plan.
    Plan,
    /// Bringing the cluster to the plan.
    Apply,
    /// Saying how it went.
    Report,
}

impl Stage {
    /// The label of the metric.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Validate => "validate",
            Self::Plan => "plan",
            Self::Apply => "apply",
            Self::Report => "report",
        }
    }
}

impl Error {
    /// The failure in one word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::ReadFailed { .. } => "ReadFailed",
            Self::ApplyFailed { .. } => "ApplyFailed",
            Self::ChildRefused(_) => "ChildRefused",
            Self::DeleteFailed { .. } => "DeleteFailed",
            Self::ReportFailed { .. } => "ReportFailed",
            Self::FinalizerFailed { .. } => "FinalizerFailed",
            Self::BrokenPlan { .. } => "BrokenPlan",
            Self::Panicked { .. } => "Panicked",
            Self::TimedOut(_) => "TimedOut",
        }
    }

    /// Where in the reconcile it happened.
    pub fn stage(&self) -> Stage {
        match self {
            Self::ReadFailed { .. } => Stage::Read,
            Self::BrokenPlan { .. } | Self::Panicked { .. } => Stage::Plan,
            Self::ApplyFailed { .. }
            | Self::ChildRefused(_)
            | Self::DeleteFailed { .. }
            | Self::FinalizerFailed { .. }
            | Self::TimedOut(_) => Stage::Apply,
            Self::ReportFailed { .. } => Stage::Report,
        }
    }
}
