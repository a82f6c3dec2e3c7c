//! A condition of a search: compared here, and passed on to Keystone where it filters by it.

use std::fmt;

use serde_json::Value;

use crate::table::{Filter, Test};

/// A condition that a resource of Keystone fulfils or does not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Condition {
    /// The field of Keystone.
    field: &'static str,
    /// The parameter of Keystone's query, if it has one.
    query: Option<&'static str>,
    test: Test,
    value: Value,
}

impl Condition {
    /// A field with this value, which Keystone filters by.
    pub fn equal(field: &'static str, query: Option<&'static str>, value: Value) -> Self {
        Self { field, query, test: Test::Equal, value }
    }

    /// The condition of a filter.
    pub fn of(filter: &Filter, value: Value) -> Self {
        Self { field: filter.remote, query: filter.query, test: filter.test, value }
    }

    /// Whether a resource fulfils it.
    pub fn holds(&self, resource: &Value) -> bool {
        let has = |one: &Value| resource[self.field].as_array().is_some_and(|list| list.contains(one));
        let wanted = || self.value.as_array().into_iter().flatten();
        match self.test {
            Test::Equal => resource[self.field] == self.value,
            Test::All => wanted().all(has),
            Test::Any => wanted().any(has),
            Test::NotAll => !wanted().all(has),
            Test::NotAny => !wanted().any(has),
        }
    }

    /// The parameter of Keystone's query.
    pub fn parameter(&self) -> Option<(String, String)> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), Into::into);
        let value = match &self.value {
            Value::Array(list) => list.iter().map(text).collect::<Vec<String>>().join(","),
            other => text(other),
        };
        Some((self.query?.to_owned(), value))
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.query.unwrap_or(self.field), self.value)
    }
}
