//! `metadata.managedFields`: reading, writing, and what a write does to the ownership of others.

mod cap;
mod entries;

use std::sync::LazyLock;

use serde_json::Value;

use crate::object::{self, Comparison};
use crate::set::FieldSet;
use crate::shape::Shape;
use crate::writer::Writer;

pub(crate) use entries::{date_entry, entries_of, is_reset, put_entries, take_entries};

/// How an owner came to own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// By server-side apply.
    Apply,
    /// By create, update or another patch.
    Update,
}

impl Operation {
    /// As it is written in `managedFields`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// An entry of `managedFields`.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) manager: String,
    pub(crate) operation: Operation,
    pub(crate) api_version: String,
    pub(crate) subresource: String,
    pub(crate) time: Option<String>,
    pub(crate) fields: FieldSet,
    /// Whether the fields are still those of the entry that the owner was read from, which then need not be spelt again.
    pub(crate) as_read: bool,
}

impl Owner {
    /// An owner of nothing yet.
    pub(crate) fn new(writer: &Writer<'_>, operation: Operation) -> Self {
        Self {
            manager: writer.name().to_owned(),
            operation,
            api_version: writer.api_version.to_owned(),
            subresource: writer.subresource.to_owned(),
            time: None,
            fields: FieldSet::default(),
            as_read: false,
        }
    }

    /// Whether two entries are one owner. An applier stays itself when it moves to another version.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.operation == other.operation
            && self.manager == other.manager
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }
}

/// Everyone who owns fields of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owners(pub(crate) Vec<Owner>);

impl Owners {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn place(&self, owner: &Owner) -> Option<usize> {
        self.0.iter().position(|other| other.is(owner))
    }

    /// Puts an owner in, in place of itself if it is there already.
    pub(crate) fn put(&mut self, owner: Owner) {
        match self.place(&owner) {
            Some(place) => self.0[place] = owner,
            None => self.0.push(owner),
        }
    }

    /// Brings ownership recorded under an older schema to the present one.
    pub(crate) fn reconcile(&mut self, shape: &Shape, live: &Value) {
        if self.0.iter().all(|owner| object::is_current(shape, &owner.fields)) {
            return;
        }
        let claimed = self.owned();
        for owner in &mut self.0 {
            owner.fields = object::reconcile(shape, std::mem::take(&mut owner.fields), Some(live), &claimed);
            owner.as_read = false;
        }
    }

    /// What anyone owns.
    pub(crate) fn owned(&self) -> FieldSet {
        self.0.iter().fold(FieldSet::default(), |owned, owner| owned.union(&owner.fields))
    }

    /// Takes from everyone the fields that someone gave a value or removed.
    pub(crate) fn yield_to(&mut self, comparison: &Comparison) {
        for owner in &mut self.0 {
            for taken in [&comparison.modified, &comparison.added, &comparison.removed] {
                owner.as_read &= !owner.fields.subtract(taken);
            }
        }
        self.0.retain(|owner| !owner.fields.is_empty());
    }

    /// Records that `writer` changed fields by other means than apply.
    pub(crate) fn record_update(&mut self, comparison: Comparison, writer: &Writer<'_>) {
        let comparison = comparison.map(|set| writer.scope.filter(set));
        self.yield_to(&comparison);
        let mut changed = comparison.changed();
        changed.subtract(&NOBODYS);
        if !changed.is_empty() {
            let mut owner = Owner::new(writer, Operation::Update);
            owner.time = Some(writer.now.to_owned());
            owner.fields = match self.place(&owner) {
                Some(place) => self.0[place].fields.union(&changed),
                None => changed,
            };
            self.put(owner);
        }
        self.cap();
    }
}

/// Fields that have no owner: who an object is, and what the server alone writes.
pub(crate) static NOBODYS: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of(&[
        "apiVersion",
        "kind",
        "metadata",
        "metadata.name",
        "metadata.namespace",
        "metadata.creationTimestamp",
        "metadata.selfLink",
        "metadata.uid",
        "metadata.clusterName",
        "metadata.generation",
        "metadata.managedFields",
        "metadata.resourceVersion",
    ])
});
