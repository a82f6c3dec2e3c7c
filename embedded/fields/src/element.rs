//! One step of a path into an object, and the order that upstream sorts steps by.

use std::cmp::Ordering;
use std::fmt::{self, Display, Formatter, Write};
use std::sync::Arc;

use serde_json::Value;

use crate::scalar;

/// One step from an object or list to something in it.
#[derive(Clone, Debug)]
pub enum Element {
    /// A field of an object: `.spec`.
    Field(Arc<str>),
    /// An item of a list map, by its keys in the order of their names: `[name="api"]`.
    Key(Arc<[(Arc<str>, Value)]>),
    /// An item of a set, by its value: `[="kubernetes"]`.
    Item(Arc<Value>),
    /// An item of a list by its place. Only found in ownership written by old servers.
    Index(i64),
}

impl Element {
    /// The step to a field.
    pub fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// The step to a list-map item; keys may come in any order.
    pub fn key(mut keys: Vec<(Arc<str>, Value)>) -> Self {
        if keys.len() > 1 {
            keys.sort_by(|a, b| a.0.cmp(&b.0));
        }
        Self::Key(keys.into())
    }

    /// The step to a set item.
    pub fn item(value: Value) -> Self {
        Self::Item(value.into())
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Item(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => compare_keys(a, b),
            (Self::Item(a), Self::Item(b)) => scalar::compare(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

fn compare_keys(a: &[(Arc<str>, Value)], b: &[(Arc<str>, Value)]) -> Ordering {
    for ((an, av), (bn, bv)) in a.iter().zip(b) {
        let order = an.cmp(bn).then_with(|| scalar::compare(av, bv));
        if order != Ordering::Equal {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Element {}

impl Display for Element {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(keys) => {
                f.write_char('[')?;
                for (i, (name, value)) in keys.iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={value}")?;
                }
                f.write_char(']')
            }
            Self::Item(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// The steps from the root of an object to a field, printed as `.spec.containers[name="api"].image`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<Element>);

impl Display for Path {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}
