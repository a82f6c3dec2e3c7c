//! Ownership recorded under an older schema, brought to the present one: a list or object that became atomic is owned
//! as a whole, a list or open map that became granular by what is in it.
//!
//! The second cannot be told from ownership of something that was empty and that others filled since. Upstream takes
//! every such owner for an owner of all; then no-op applies of two managers can change ownership back and forth. Here,
//! a list or open map counts as formerly atomic only if no one owns anything in it, and a declared object, which
//! defaults may have filled, never does.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::subtree;
use crate::element::Element;
use crate::set::{FieldSet, Node};
use crate::shape::{Form, Kind, List, Shape};

/// Whether a set is surely one that the shape itself would lead to, which it nearly always is.
pub(crate) fn is_current(shape: &Shape, set: &FieldSet) -> bool {
    let form = shape.form(None);
    set.nodes.iter().all(|node| {
        let shape = match (form, &node.element) {
            (Form::Map(map), Element::Field(name)) => map.field(name).shape_or_deduced(),
            (Form::List(list), Element::Key(_)) => &list.items,
            _ => return true,
        };
        let whole = node.member && node.children.is_empty();
        match (shape.form(None), &shape.0) {
            (_, Kind::Any | Kind::Scalar(_)) => true,
            (Form::Leaf, _) => whole,
            (Form::Map(map), _) if whole => !map.fields.is_empty(),
            _ => !whole && is_current(shape, &node.children),
        }
    })
}

/// The set as the shape sees it. `live` tells what a whole consists of, `claimed` what anyone owns.
pub(crate) fn reconcile(shape: &Shape, set: FieldSet, live: Option<&Value>, claimed: &FieldSet) -> FieldSet {
    let form = shape.form(None);
    let index = OnceCell::new();
    let nodes = set.nodes.into_iter().map(|node| {
        let (shape, live) = match (form, &node.element) {
            (Form::Map(map), Element::Field(name)) => {
                (map.field(name).shape_or_deduced(), live.and_then(|live| live.get(name.as_ref())))
            }
            (Form::List(list), element @ Element::Key(_)) => {
                let items = index.get_or_init(|| items_by_step(list, live));
                (&list.items, items.get(element).copied())
            }
            _ => return node,
        };
        if shape.is_deduced() {
            return node;
        }
        let claimed = claimed.get(&node.element).map(|node| &node.children);
        reconcile_node(shape, node, live, claimed.unwrap_or(&FieldSet::default()))
    });
    FieldSet { nodes: nodes.collect() }
}

fn reconcile_node(shape: &Shape, node: Node, live: Option<&Value>, claimed: &FieldSet) -> Node {
    let whole = node.member && node.children.is_empty();
    match (shape.form(None), &shape.0) {
        (Form::Leaf, Kind::List(_) | Kind::Map(_)) if !whole => {
            Node { element: node.element, member: true, children: FieldSet::default() }
        }
        (Form::Leaf, _) => node,
        (Form::Map(map), _) if whole && !map.fields.is_empty() => node,
        _ if whole && claimed.is_empty() => {
            let children = live.map(|live| subtree(shape, live).below).unwrap_or_default();
            Node { children, ..node }
        }
        _ => Node { children: reconcile(shape, node.children, live, claimed), ..node },
    }
}

fn items_by_step<'v>(list: &List, live: Option<&'v Value>) -> BTreeMap<Element, &'v Value> {
    let items = live.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| Some((list.step(item).ok()?, item))).collect()
}
