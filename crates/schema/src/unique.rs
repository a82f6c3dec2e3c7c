//! `x-kubernetes-list-type: set` and `map`: no element, no key twice.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::node::{Child, ListType, Node};
use crate::path::Path;
use crate::problem::{Problem, ProblemKind, Problems};
use crate::words::show;

/// As the API server does, duplicates are forgiven as long as the old object has some: an object that was accepted
/// before its list had keys must stay editable.
pub(crate) fn validate(node: &Node, object: &Value, old: Option<&Value>) -> Problems {
    let mut problems = Problems::new();
    walk(node, object, &Path::ROOT, &mut problems);
    let forgiven = |old: &Value| {
        let mut before = Problems::new();
        walk(node, old, &Path::ROOT, &mut before);
        !before.is_empty()
    };
    if !problems.is_empty() && old.is_some_and(forgiven) {
        return Problems::new();
    }
    problems
}

fn walk(node: &Node, value: &Value, path: &Path<'_>, problems: &mut Problems) {
    if !node.keyed {
        return;
    }
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match node.child(key) {
                    Child::Field(child) => walk(child, value, &path.field(key), problems),
                    Child::Key(child) => walk(child, value, &path.key(key), problems),
                    Child::Anything | Child::Unknown => {}
                }
            }
        }
        Value::Array(items) => {
            match &node.list {
                ListType::Atomic => {}
                ListType::Set => set(items, path, problems),
                ListType::Map(keys) => map(keys, items, path, problems),
            }
            if let Some(element) = node.items.as_deref() {
                for (i, item) in items.iter().enumerate() {
                    walk(element, item, &path.index(i), problems);
                }
            }
        }
        _ => {}
    }
}

fn set(items: &[Value], path: &Path<'_>, problems: &mut Problems) {
    for (first, again) in repeats(items.iter().map(Value::to_string)) {
        problems.push(Problem::new(
            &path.index(again),
            ProblemKind::Duplicate,
            format!("{} is already item {first} of this set", show(&items[again])),
            "remove one of the two",
        ));
    }
}

fn map(keys: &[String], items: &[Value], path: &Path<'_>, problems: &mut Problems) {
    let identity = |item: &Value| -> Map<String, Value> {
        keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone()))).collect()
    };
    let identities: Vec<Map<String, Value>> = items.iter().map(identity).collect();
    let written = identities.iter().map(|key| Value::Object(key.clone()).to_string());
    for (first, again) in repeats(written) {
        let key = keys
            .iter()
            .filter_map(|key| Some(format!("{key} {}", show(identities[again].get(key)?))))
            .collect::<Vec<_>>();
        let what = if key.is_empty() {
            format!("has no {}, like item {first}", keys.join(" and no "))
        } else {
            format!("{} is already that of item {first}", key.join(" with "))
        };
        problems.push(Problem::new(
            &path.index(again),
            ProblemKind::Duplicate,
            what,
            format!("give each item its own {}", keys.join(" and ")),
        ));
    }
}

/// The positions of elements that occurred before, each with its first position. Like the API server, names only the
/// first repetition of an element.
fn repeats(elements: impl Iterator<Item = String>) -> Vec<(usize, usize)> {
    let mut seen: HashMap<String, (usize, bool)> = HashMap::new();
    let mut repeats = Vec::new();
    for (i, element) in elements.enumerate() {
        let (first, reported) = seen.entry(element).or_insert((i, true));
        if *first != i && *reported {
            repeats.push((*first, i));
            *reported = false;
        }
    }
    repeats
}
