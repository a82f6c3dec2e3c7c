//! Value validations: types, bounds, patterns, formats, enumerations, required fields and junctors.

use serde_json::{Map, Value};

use crate::node::{Child, Kind, Node, is_integer};
use crate::path::Path;
use crate::problem::{Problem, ProblemKind, Problems};
use crate::words::{self, count, show, show_typed};

pub(crate) fn validate(node: &Node, object: &Value, old: Option<&Value>) -> Problems {
    let mut problems = Problems::new();
    Walk { problems: &mut problems }.changed(node, object, old, &Path::ROOT, true);
    problems
}

/// Whether a value fits, for junctors, which need no more.
fn fits(node: &Node, value: &Value) -> bool {
    problems_of(node, value, &Path::ROOT).is_empty()
}

fn problems_of(node: &Node, value: &Value, path: &Path<'_>) -> Problems {
    let mut problems = Problems::new();
    Walk { problems: &mut problems }.changed(node, value, None, path, false);
    problems
}

struct Walk<'p> {
    problems: &'p mut Problems,
}

impl Walk<'_> {
    fn say(&mut self, path: &Path<'_>, kind: ProblemKind, what: impl Into<String>, fix: impl Into<String>) {
        self.problems.push(Problem::new(path, kind, what, fix));
    }

    /// Validates a value unless it is what it was before: an update is not blamed for what it did not touch.
    fn changed(&mut self, node: &Node, value: &Value, old: Option<&Value>, path: &Path<'_>, root: bool) {
        if old == Some(value) {
            return;
        }
        if !self.typed(node, value, path) {
            // Nothing else that could be said of a value of the wrong type would help.
            return;
        }
        self.allowed(node, value, path);
        if value.is_null() {
            return;
        }
        match value {
            Value::String(text) => self.string(node, text, value, path),
            Value::Number(_) => self.number(node, value, path),
            Value::Array(items) => self.array(node, items, old, path),
            Value::Object(map) => self.object(node, map, old, path, root),
            Value::Null | Value::Bool(_) => {}
        }
        self.junctors(node, value, path);
    }

    fn typed(&mut self, node: &Node, value: &Value, path: &Path<'_>) -> bool {
        if node.int_or_string {
            if value.is_string() || is_integer(value) || (value.is_null() && node.nullable) {
                return true;
            }
            self.say(
                path,
                ProblemKind::TypeInvalid,
                format!("{}, not an integer or a string", show_typed(value)),
                "write a whole number, or text in quotes",
            );
            return false;
        }
        let Some(kind) = node.kind else {
            return true;
        };
        if kind.admits(value) || (value.is_null() && node.nullable) {
            return true;
        }
        self.say(
            path,
            ProblemKind::TypeInvalid,
            format!("{}, not {}", show_typed(value), a(kind)),
            how_to_write(kind, value),
        );
        false
    }

    fn allowed(&mut self, node: &Node, value: &Value, path: &Path<'_>) {
        let Some(allowed) = &node.allowed else {
            return;
        };
        if allowed.iter().any(|one| same(one, value)) {
            return;
        }
        let plain = |value: &Value| match value {
            Value::String(text) if !text.is_empty() => text.clone(),
            other => other.to_string(),
        };
        let list = allowed.iter().map(plain).collect::<Vec<_>>().join(", ");
        let texts: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
        let guess = value
            .as_str()
            .and_then(|text| words::closest(text, &texts))
            .map(|guess| format!("did you mean {guess:?}? "))
            .unwrap_or_default();
        let what = format!("{} is not supported", show(value));
        let fix = format!("{guess}use one of: {list}");
        self.say(path, ProblemKind::NotSupported, what, fix);
    }

    fn string(&mut self, node: &Node, text: &str, value: &Value, path: &Path<'_>) {
        let length = text.chars().count() as u64;
        let characters = |n| count(n, "character", "characters");
        if let Some(min) = node.limits.min_length
            && length < min
        {
            let (what, fix) = if length == 0 {
                ("is empty".to_owned(), about("give it a value", node))
            } else {
                let what = format!("{} is {}", show(value), characters(length));
                (what, format!("use {min} or more"))
            };
            self.say(path, ProblemKind::Invalid, what, fix);
        }
        if let Some(max) = node.limits.max_length
            && length > max
        {
            let what = format!("{} is {}", show(value), characters(length));
            let fix = format!("use {max} or fewer");
            self.say(path, ProblemKind::TooLong, what, fix);
        }
        if let Some(pattern) = &node.pattern
            && !pattern.is_match(text)
        {
            let what = format!("{} does not match {}", show(value), pattern.as_str());
            let fix = node.summary.clone().unwrap_or_default();
            self.say(path, ProblemKind::Invalid, what, fix);
        }
        if let Some(format) = node.format
            && !format.admits(text)
        {
            let what = format!("{} is not {}", show(value), format.name());
            let fix = format!("write it like {}", format.example());
            self.say(path, ProblemKind::Invalid, what, fix);
        }
    }

    fn number(&mut self, node: &Node, value: &Value, path: &Path<'_>) {
        let limits = &node.limits;
        let number = value.as_f64().unwrap_or(f64::NAN);
        let mut invalid = |what: String, fix: String| {
            self.say(path, ProblemKind::Invalid, what, fix);
        };
        if let Some(min) = limits.minimum {
            if limits.exclusive_minimum && number <= min {
                invalid(format!("{value} is too small"), format!("use more than {min}"));
            } else if number < min {
                invalid(format!("{value} is below the minimum"), format!("use {min} or more"));
            }
        }
        if let Some(max) = limits.maximum {
            if limits.exclusive_maximum && number >= max {
                invalid(format!("{value} is too large"), format!("use less than {max}"));
            } else if number > max {
                invalid(format!("{value} is above the maximum"), format!("use {max} or less"));
            }
        }
        if let Some(step) = limits.multiple_of
            && step > 0.0
        {
            // Tolerant of binary fractions: 0.3 is a multiple of 0.1.
            let quotient = number / step;
            if (quotient - quotient.round()).abs() > 1e-9 * quotient.abs().max(1.0) {
                let (below, above) = (quotient.floor() * step, quotient.ceil() * step);
                let fix = format!("use {below} or {above}");
                invalid(format!("{value} is not a multiple of {step}"), fix);
            }
        }
        if let Some(format) = node.format
            && let Some((low, high)) = format.out_of_range(value)
        {
            let what = format!("{value} does not fit into {}", format.name());
            invalid(what, format!("use a number from {low} to {high}"));
        }
    }

    fn array(&mut self, node: &Node, items: &[Value], old: Option<&Value>, path: &Path<'_>) {
        let length = items.len() as u64;
        let has = |n| format!("has {}", count(n, "item", "items"));
        if let Some(min) = node.limits.min_items
            && length < min
        {
            self.say(path, ProblemKind::Invalid, has(length), format!("use {min} or more"));
        }
        if let Some(max) = node.limits.max_items
            && length > max
        {
            self.say(path, ProblemKind::TooMany, has(length), format!("use {max} or fewer"));
        }
        if let Some(element) = node.items.as_deref() {
            let before = node.old_items(old);
            for (i, item) in items.iter().enumerate() {
                self.changed(element, item, before.of(item), &path.index(i), false);
            }
        }
    }

    fn object(&mut self, node: &Node, map: &Map<String, Value>, old: Option<&Value>, path: &Path<'_>, root: bool) {
        let size = map.len() as u64;
        let has = |n| format!("has {}", count(n, "entry", "entries"));
        if let Some(min) = node.limits.min_properties
            && size < min
        {
            self.say(path, ProblemKind::Invalid, has(size), format!("use {min} or more"));
        }
        if let Some(max) = node.limits.max_properties
            && size > max
        {
            self.say(path, ProblemKind::TooMany, has(size), format!("use {max} or fewer"));
        }
        for name in &node.required {
            if !map.contains_key(name) {
                let fix = match node.properties.get(name) {
                    Some(child) => about("add it", child),
                    None => "add it".to_owned(),
                };
                self.say(&path.field(name), ProblemKind::Required, "is missing", fix);
            }
        }
        for (key, value) in map {
            let here = match node.child(key) {
                Child::Field(_) => path.field(key),
                _ => path.key(key),
            };
            if let Child::Field(child) | Child::Key(child) = node.child(key) {
                // Conversion between versions rewrites these two, so that they always look unchanged.
                let old = if root && (key == "apiVersion" || key == "kind") { None } else { node.old_value(old, key) };
                self.changed(child, value, old, &here, false);
            }
        }
    }

    fn junctors(&mut self, node: &Node, value: &Value, path: &Path<'_>) {
        for branch in &node.all_of {
            self.changed(branch, value, None, path, false);
        }
        if !node.any_of.is_empty() && !node.any_of.iter().any(|branch| fits(branch, value)) {
            let fix = alternatives(&node.any_of, value);
            let what = format!("{} none of the alternatives", subject(value, "fits"));
            self.say(path, ProblemKind::Invalid, what, fix);
        }
        if !node.one_of.is_empty() {
            let fitting = node.one_of.iter().filter(|b| fits(b, value)).count();
            let what = subject(value, "fits");
            if fitting == 0 {
                let fix = alternatives(&node.one_of, value);
                let what = format!("{what} none of the alternatives");
                self.say(path, ProblemKind::Invalid, what, fix);
            } else if fitting > 1 {
                let what = format!("{what} {fitting} alternatives at once");
                let names = requirements(&node.one_of);
                let fix = if names.is_empty() {
                    "make it fit exactly one".to_owned()
                } else {
                    format!("keep exactly one of: {}", names.join(", "))
                };
                self.say(path, ProblemKind::Invalid, what, fix);
            }
        }
        if let Some(not) = &node.not
            && fits(not, value)
        {
            let required: Vec<&str> = not.required.iter().map(String::as_str).collect();
            let (what, fix) = if required.is_empty() {
                (subject(value, "is not allowed"), about("change it", node))
            } else {
                let what = format!("must not have {}", required.join(" together with "));
                (what, "remove one".to_owned())
            };
            self.say(path, ProblemKind::Invalid, what, fix);
        }
    }
}

/// A scalar is named; an object or list is known by its path.
fn subject(value: &Value, verb: &str) -> String {
    match value {
        Value::Object(_) | Value::Array(_) => verb.to_owned(),
        _ => format!("{} {verb}", show(value)),
    }
}

/// The first complaint of each branch, which is what would have to change for it to fit.
fn alternatives(branches: &[Node], value: &Value) -> String {
    let names = requirements(branches);
    if names.len() == branches.len() {
        return format!("add one of: {}", names.join(", "));
    }
    let mut reasons: Vec<String> = Vec::new();
    for branch in branches {
        let problems = problems_of(branch, value, &Path::ROOT);
        if let Some(problem) = problems.iter().next() {
            let reason = match (problem.path.as_str(), problem.fix.as_str()) {
                ("", "") => problem.what.clone(),
                ("", fix) => fix.to_owned(),
                (path, "") => format!("{path}: {}", problem.what),
                (path, fix) => format!("{path}: {fix}"),
            };
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
    }
    reasons.join(", or ")
}

/// The commonest use of `oneOf` is to ask for one of several fields: `oneOf: [{required: [a]}, {required: [b]}]`.
fn requirements(branches: &[Node]) -> Vec<String> {
    branches.iter().map(|branch| branch.required.join(" and ")).filter(|names| !names.is_empty()).collect()
}

fn about(advice: &str, node: &Node) -> String {
    match &node.summary {
        Some(summary) => format!("{advice}: {summary}"),
        None => advice.to_owned(),
    }
}

fn a(kind: Kind) -> &'static str {
    match kind {
        Kind::Object => "an object",
        Kind::Array => "a list",
        Kind::String => "a string",
        Kind::Integer => "an integer",
        Kind::Number => "a number",
        Kind::Boolean => "a boolean",
    }
}

fn how_to_write(kind: Kind, value: &Value) -> String {
    match (kind, value) {
        (_, Value::Null) => "give it a value or remove it".to_owned(),
        (Kind::Integer, Value::Number(_)) => "write a whole number".to_owned(),
        (Kind::Integer | Kind::Number, _) => "write a number without quotes".to_owned(),
        (Kind::Boolean, _) => "write true or false without quotes".to_owned(),
        (Kind::String, Value::Number(_) | Value::Bool(_)) => format!("put it in quotes: \"{value}\""),
        (Kind::String, _) => "write text".to_owned(),
        (Kind::Array, Value::Object(_)) => "start each item with `- `".to_owned(),
        (Kind::Array, _) => "write a list, each item after `- `".to_owned(),
        (Kind::Object, Value::Array(_)) => "write its fields without `- `".to_owned(),
        (Kind::Object, _) => "write its fields below it, indented".to_owned(),
    }
}

/// Enumerated numbers may be written `1` or `1.0`.
fn same(a: &Value, b: &Value) -> bool {
    a == b || (a.is_number() && b.is_number() && a.as_f64() == b.as_f64())
}
