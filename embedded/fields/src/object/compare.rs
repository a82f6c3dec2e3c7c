//! What differs between two objects, as field sets.

use serde_json::{Map as Object, Value};

use crate::element::Element;
use crate::scalar::same;
use crate::set::{FieldSet, Node};
use crate::shape::{Form, List, Map, Shape};

/// The fields that one object has over another, lacks, and has with another value.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) added: FieldSet,
    pub(crate) removed: FieldSet,
    pub(crate) modified: FieldSet,
}

impl Comparison {
    /// What the new object says that the old one did not.
    pub(crate) fn changed(&self) -> FieldSet {
        self.modified.union(&self.added)
    }

    /// The comparison seen through a filter.
    pub(crate) fn map(self, filter: impl Fn(FieldSet) -> FieldSet) -> Self {
        Self { added: filter(self.added), removed: filter(self.removed), modified: filter(self.modified) }
    }
}

/// Compares two objects of a shape.
pub(crate) fn compare(shape: &Shape, old: &Value, new: &Value) -> Comparison {
    let changes = value(shape, Some(old), Some(new)).below;
    let set = |nodes| FieldSet::from_nodes(nodes);
    Comparison { added: set(changes.added), removed: set(changes.removed), modified: set(changes.modified) }
}

/// How a value itself changed, and what changed below it.
#[derive(Default)]
struct Change {
    own: Own,
    below: Below,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Own {
    #[default]
    Same,
    Added,
    Removed,
    Modified,
}

#[derive(Default)]
struct Below {
    added: Vec<Node>,
    removed: Vec<Node>,
    modified: Vec<Node>,
}

impl Below {
    fn push(&mut self, element: impl FnOnce() -> Element, change: Change) {
        let Change { own, below } = change;
        let sides = [(below.added, Own::Added), (below.removed, Own::Removed), (below.modified, Own::Modified)];
        if own == Own::Same && sides.iter().all(|(nodes, _)| nodes.is_empty()) {
            return;
        }
        let element = element();
        for ((nodes, kind), into) in sides.into_iter().zip([&mut self.added, &mut self.removed, &mut self.modified]) {
            let (member, children) = (own == kind, FieldSet::from_nodes(nodes));
            if member || !children.is_empty() {
                into.push(Node { element: element.clone(), member, children });
            }
        }
    }

    fn join(&mut self, other: Self) {
        let union = |a: &mut Vec<Node>, b: Vec<Node>| {
            *a = FieldSet::from_nodes(std::mem::take(a)).union(&FieldSet::from_nodes(b)).nodes;
        };
        union(&mut self.added, other.added);
        union(&mut self.removed, other.removed);
        union(&mut self.modified, other.modified);
    }
}

fn value(shape: &Shape, old: Option<&Value>, new: Option<&Value>) -> Change {
    let (was, is) = (shape.form(old), shape.form(new));
    match (old, new) {
        (_, None) => as_form(was, old, new),
        (None, _) => as_form(is, old, new),
        _ if was.is_like(&is) => as_form(is, old, new),
        // An object became a scalar or the other way round: what was inside is gone, what is inside is new.
        _ => {
            let mut change = as_form(was, old, new);
            let now = as_form(is, old, new);
            change.below.join(now.below);
            change.own = if now.own == Own::Same { change.own } else { now.own };
            change
        }
    }
}

fn as_form(form: Form<'_>, old: Option<&Value>, new: Option<&Value>) -> Change {
    let below = match form {
        Form::Leaf => return leaf(old, new),
        Form::Map(map) => {
            let (old, new) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
            let filled = |object: Option<&Object<_, _>>| object.is_some_and(|object| !object.is_empty());
            (filled(old) || filled(new)).then(|| fields(map, old, new))
        }
        Form::List(list) => {
            let items = |value: Option<&Value>| value.and_then(Value::as_array).is_some_and(|items| !items.is_empty());
            (items(old) || items(new)).then(|| list_items(list, old, new))
        }
    };
    // Two empty ones are values, so that {} and null can be told apart.
    let Some(below) = below else { return leaf(old, new) };
    let own = match (old, new) {
        (None, _) => Own::Added,
        (_, None) => Own::Removed,
        _ => Own::Same,
    };
    Change { own, below }
}

fn leaf(old: Option<&Value>, new: Option<&Value>) -> Change {
    let own = match (old, new) {
        (None, _) => Own::Added,
        (_, None) => Own::Removed,
        (Some(old), Some(new)) if same(old, new) => Own::Same,
        _ => Own::Modified,
    };
    Change { own, below: Below::default() }
}

fn fields(map: &Map, old: Option<&Object<String, Value>>, new: Option<&Object<String, Value>>) -> Below {
    let mut below = Below::default();
    for (name, was) in old.into_iter().flatten() {
        let known = map.field(name);
        let is = new.and_then(|new| new.get(name));
        below.push(|| known.step(name), value(known.shape_or_deduced(), Some(was), is));
    }
    for (name, is) in new.into_iter().flatten() {
        if old.is_none_or(|old| !old.contains_key(name)) {
            let known = map.field(name);
            below.push(|| known.step(name), value(known.shape_or_deduced(), None, Some(is)));
        }
    }
    below
}

fn list_items(list: &List, old: Option<&Value>, new: Option<&Value>) -> Below {
    let mut below = Below::default();
    if old == new {
        return below;
    }
    let (old, new) = (by_step(list, old), by_step(list, new));
    let (mut old, mut new) = (old.chunk_by(same_step).peekable(), new.chunk_by(same_step).peekable());
    loop {
        let order = match (old.peek(), new.peek()) {
            (Some(was), Some(is)) => was[0].0.cmp(&is[0].0),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => return below,
        };
        let was = if order.is_le() { old.next() } else { None }.unwrap_or_default();
        let is = if order.is_ge() { new.next() } else { None }.unwrap_or_default();
        let Some((element, _)) = was.first().or(is.first()) else { return below };
        below.push(|| element.clone(), twins(&list.items, was, is));
    }
}

type Stepped<'v> = (Element, &'v Value);

fn same_step(a: &Stepped<'_>, b: &Stepped<'_>) -> bool {
    a.0 == b.0
}

fn by_step<'v>(list: &List, value: Option<&'v Value>) -> Vec<Stepped<'v>> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    let mut steps: Vec<_> = items.filter_map(|item| Some((list.step(item).ok()?, item))).collect();
    steps.sort_by(|a, b| a.0.cmp(&b.0));
    steps
}

/// Compares the items of one key. More than one of them are one value, owned by a marker at the key.
fn twins(items: &Shape, old: &[Stepped<'_>], new: &[Stepped<'_>]) -> Change {
    let (was, is) = (old.first().map(|(_, item)| *item), new.first().map(|(_, item)| *item));
    match (old.len(), new.len()) {
        (0 | 1, 0 | 1) => value(items, was, is),
        (2.., 2..) => {
            let equal = old.len() == new.len() && old.iter().zip(new).all(|(a, b)| same(a.1, b.1));
            Change { own: if equal { Own::Same } else { Own::Modified }, below: Below::default() }
        }
        (2.., _) => {
            let below = is.map(|item| value(items, None, Some(item)).below).unwrap_or_default();
            Change { own: Own::Removed, below }
        }
        _ => {
            let below = was.map(|item| value(items, Some(item), None).below).unwrap_or_default();
            Change { own: Own::Added, below }
        }
    }
}
