//! Fields the schema does not know: found by strict validation, dropped by pruning. One walk serves both.

use serde_json::Value;

use crate::node::{Additional, Child, Node};
use crate::path::Path;
use crate::problem::{Problem, ProblemKind, Problems};
use crate::words;

/// Known to every resource, whatever its schema says; their content is the concern of ObjectMeta's own validation.
const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

pub(crate) fn unknown_fields(node: &Node, object: &Value) -> Problems {
    unknown_from(Here::root(node), object)
}

pub(crate) fn unknown_below(node: &Node, value: &Value) -> Problems {
    unknown_from(Here::at(Some(node)), value)
}

fn unknown_from(here: Here<'_>, object: &Value) -> Problems {
    let mut problems = Problems::new();
    let mut report = |path: &Path<'_>, parent: Option<&Node>, name: &str| {
        problems.push(unknown(path, parent, name));
    };
    find(here, object, &Path::ROOT, &mut report);
    problems
}

pub(crate) fn prune(node: &Node, object: &mut Value) -> Vec<String> {
    let mut paths = Vec::new();
    let mut report = |path: &Path<'_>, _: Option<&Node>, _: &str| paths.push(path.to_string());
    find(Here::root(node), object, &Path::ROOT, &mut report);
    // Most objects have nothing to drop, and then they are not touched.
    if !paths.is_empty() {
        drop_unknown(Here::root(node), object);
    }
    paths
}

type Report<'r> = dyn FnMut(&Path<'_>, Option<&Node>, &str) + 'r;

/// Where the walk stands: `None` is below a map of anything, where objects have no known fields at all.
#[derive(Clone, Copy)]
struct Here<'a> {
    node: Option<&'a Node>,
    root: bool,
    /// Unknown fields stay. A preserving list hands this on to its items, a preserving object not to its fields.
    keep: bool,
}

impl<'a> Here<'a> {
    fn root(node: &'a Node) -> Self {
        Self { root: true, ..Self::at(Some(node)) }
    }

    fn at(node: Option<&'a Node>) -> Self {
        Self { node, root: false, keep: node.is_some_and(|node| node.preserve_unknown) }
    }

    fn items(self) -> Self {
        let items = Self::at(self.node.and_then(|node| node.items.as_deref()));
        Self { keep: items.keep || self.keep, ..items }
    }

    fn next(self, key: &str) -> Next<'a> {
        let unknown = if self.keep { Next::Known } else { Next::Unknown };
        let Some(node) = self.node else {
            return unknown;
        };
        if (self.root || node.embedded) && META.contains(&key) {
            return Next::Known;
        }
        match node.child(key) {
            Child::Field(child) => Next::Field(Self::at(Some(child))),
            Child::Key(child) => Next::Key(Self::at(Some(child))),
            Child::Anything => Next::Key(Self::at(None)),
            Child::Unknown => unknown,
        }
    }
}

/// What pruning does with one key of an object.
enum Next<'a> {
    /// Keep it and all below.
    Known,
    Field(Here<'a>),
    Key(Here<'a>),
    Unknown,
}

fn find(here: Here<'_>, value: &Value, path: &Path<'_>, report: &mut Report<'_>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match here.next(key) {
                    Next::Known => {}
                    Next::Field(child) => find(child, value, &path.field(key), report),
                    Next::Key(child) => find(child, value, &path.key(key), report),
                    Next::Unknown => report(&path.key(key), here.node, key),
                }
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                find(here.items(), item, &path.index(i), report);
            }
        }
        _ => {}
    }
}

fn drop_unknown(here: Here<'_>, value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|key, value| match here.next(key) {
            Next::Known => true,
            Next::Field(child) | Next::Key(child) => {
                drop_unknown(child, value);
                true
            }
            Next::Unknown => false,
        }),
        Value::Array(items) => {
            for item in items {
                drop_unknown(here.items(), item);
            }
        }
        _ => {}
    }
}

fn unknown(path: &Path<'_>, parent: Option<&Node>, name: &str) -> Problem {
    let known: Vec<&str> = parent.map(|node| node.properties.keys().map(String::as_str).collect()).unwrap_or_default();
    let elsewhere = parent.and_then(|node| one_level_down(node, name));
    let fix = if let Some(guess) = words::closest(name, &known) {
        format!("did you mean {guess:?}?")
    } else if let Some(place) = elsewhere {
        format!("it belongs under {place:?}")
    } else if known.is_empty() || known.len() > 8 {
        "remove it".to_owned()
    } else {
        format!("remove it, or use one of: {}", known.join(", "))
    };
    Problem::new(path, ProblemKind::Unknown, "is not a known field", fix)
}

/// A field written one level too high is the second most common mistake after a misspelt one.
fn one_level_down<'a>(node: &'a Node, name: &str) -> Option<&'a str> {
    let mut places = node
        .properties
        .iter()
        .filter(|(_, child)| child.properties.contains_key(name) && matches!(child.additional, Additional::None));
    match (places.next(), places.next()) {
        (Some((place, _)), None) => Some(place),
        _ => None,
    }
}
