//! The field set of an object: what an applied configuration owns.

use serde_json::Value;

use crate::element::Element;
use crate::set::{FieldSet, Node};
use crate::shape::{Form, List, Map, Shape};

/// What someone who applies this object owns: values, items, keys of open maps, and what is explicitly empty; not the
/// declared objects around them.
pub(crate) fn field_set(shape: &Shape, object: &Value) -> FieldSet {
    Walk { all: false }.value(shape, object).below
}

/// Every path there is in an object.
pub(crate) fn every_path(shape: &Shape, object: &Value) -> FieldSet {
    Walk { all: true }.value(shape, object).below
}

#[derive(Clone, Copy)]
struct Walk {
    all: bool,
}

/// Whether the path to a value is a member, and which paths below it are.
pub(super) struct Subtree {
    pub(super) member: bool,
    pub(super) below: FieldSet,
}

impl Walk {
    fn value(self, shape: &Shape, value: &Value) -> Subtree {
        let below = match (shape.form(Some(value)), value) {
            (Form::Leaf, _) => return Subtree { member: true, below: FieldSet::default() },
            (Form::Map(map), Value::Object(_)) => self.map(map, value),
            (Form::List(list), Value::Array(items)) => self.list(list, items),
            _ => FieldSet::default(),
        };
        Subtree { member: self.all, below }
    }

    fn map(self, map: &Map, object: &Value) -> FieldSet {
        let fields = object.as_object().into_iter().flatten();
        let nodes = fields.map(|(name, value)| {
            let known = map.field(name);
            let Subtree { member, below } = self.value(known.shape_or_deduced(), value);
            let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
            Node { element: known.step(name), member: member || empty || !known.is_declared(), children: below }
        });
        // A declared empty list is no one's, and has nothing below.
        FieldSet::from_nodes(nodes.filter(|node| node.member || !node.children.is_empty()).collect())
    }

    fn list(self, list: &List, items: &[Value]) -> FieldSet {
        let mut steps: Vec<(Element, &Value)> =
            items.iter().filter_map(|item| Some((list.step(item).ok()?, item))).collect();
        steps.sort_by(|a, b| a.0.cmp(&b.0));
        let nodes = steps.chunk_by(|a, b| a.0 == b.0).map(|twins| {
            // Items that share a key are owned together and as a whole.
            let children = match twins {
                [(_, item)] => self.value(&list.items, item).below,
                _ => FieldSet::default(),
            };
            Node { element: twins[0].0.clone(), member: true, children }
        });
        FieldSet { nodes: nodes.collect() }
    }
}

/// What an item of a list map or set owns at a path, for ownership that changes from whole to granular.
pub(super) fn subtree(shape: &Shape, value: &Value) -> Subtree {
    Walk { all: false }.value(shape, value)
}
