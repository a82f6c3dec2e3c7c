//! Collecting problems in the words of Kubernetes.

use std::fmt::Display;

use c5c3_schema::{Problem, ProblemKind, Problems};
use serde_json::Value;

/// What is said of a field that may not change.
pub(super) const IMMUTABLE: &str = "field is immutable";

/// The problems found so far.
#[derive(Default)]
pub(super) struct Report(Problems);

impl Report {
    fn push(&mut self, path: impl Into<String>, kind: ProblemKind, what: String) {
        self.0.push(Problem::new(path, kind, what, ""));
    }

    /// `Required value`, and why if there is more to say.
    pub(super) fn required(&mut self, path: impl Into<String>, why: &str) {
        self.push(path, ProblemKind::Required, with_detail("Required value", why));
    }

    /// `Invalid value: "x": why`.
    pub(super) fn invalid(&mut self, path: impl Into<String>, value: impl Into<Value>, why: impl Display) {
        let value = value.into();
        self.push(path, ProblemKind::Invalid, format!("Invalid value: {value}: {why}"));
    }

    /// `Forbidden: why`.
    pub(super) fn forbidden(&mut self, path: impl Into<String>, why: &str) {
        self.push(path, ProblemKind::Forbidden, with_detail("Forbidden", why));
    }

    /// `Duplicate value: "x"`.
    pub(super) fn duplicate(&mut self, path: impl Into<String>, value: impl Into<Value>) {
        let value = value.into();
        self.push(path, ProblemKind::Duplicate, format!("Duplicate value: {value}"));
    }

    /// `Unsupported value: "x": supported values: "a", "b"`.
    pub(super) fn unsupported(&mut self, path: impl Into<String>, value: impl Into<Value>, supported: &[&str]) {
        let supported: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
        let value = value.into();
        let what = format!("Unsupported value: {value}: supported values: {}", supported.join(", "));
        self.push(path, ProblemKind::NotSupported, what);
    }

    /// `Not found: "x"`: a name that refers to nothing.
    pub(super) fn not_found(&mut self, path: impl Into<String>, name: &str) {
        self.push(path, ProblemKind::Invalid, format!("Not found: {name:?}"));
    }

    /// `Too long: may not be more than n bytes`.
    pub(super) fn too_long(&mut self, path: impl Into<String>, most: usize) {
        self.push(path, ProblemKind::TooLong, format!("Too long: may not be more than {most} bytes"));
    }

    /// `Too many: n: must have at most m items`.
    pub(super) fn too_many(&mut self, path: impl Into<String>, count: usize, most: usize) {
        self.push(path, ProblemKind::TooMany, format!("Too many: {count}: must have at most {most} items"));
    }

    /// A number that must lie between two bounds; nothing is said of what is not a number.
    pub(super) fn between(&mut self, path: impl Into<String>, value: &Value, least: i64, most: i64) {
        if let Some(number) = value.as_i64().filter(|number| !(least..=most).contains(number)) {
            self.invalid(path, number, format!("must be between {least} and {most}, inclusive"));
        }
    }

    /// A number that may not be negative.
    pub(super) fn not_negative(&mut self, path: impl Into<String>, value: &Value) {
        if let Some(number) = value.as_i64().filter(|number| *number < 0) {
            self.invalid(path, number, "must be greater than or equal to 0");
        }
    }

    /// A name that must follow a rule.
    pub(super) fn name(&mut self, path: impl Into<String>, name: &str, rule: fn(&str) -> Option<String>) {
        if let Some(why) = rule(name) {
            self.invalid(path, name, why);
        }
    }

    /// A field that may not change.
    pub(super) fn immutable(&mut self, path: impl Into<String>, new: &Value, old: &Value) {
        if new != old && !(crate::read::is_empty(new) && crate::read::is_empty(old)) {
            self.invalid(path, new.clone(), IMMUTABLE);
        }
    }

    pub(super) fn extend(&mut self, problems: Problems) {
        self.0.extend(problems);
    }

    pub(super) fn into_problems(self) -> Problems {
        self.0
    }
}

fn with_detail(what: &str, why: &str) -> String {
    if why.is_empty() { what.to_owned() } else { format!("{what}: {why}") }
}
