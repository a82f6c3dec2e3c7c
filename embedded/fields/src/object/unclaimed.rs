//! What goes from an object when its owner leaves it out and no one else claims it.

use crate::element::Element;
use crate::set::{FieldSet, Node};
use crate::shape::{DEDUCED, Form, Shape};

/// The paths of `last` that go. A path goes if it, or an item, entry or field around it that was the owner's, is not
/// claimed; so whoever brings an item takes all of its own along, and what is not its own only hangs on.
///
/// To own or claim something in a declared object or list is to own or claim the object or list; items and keys of
/// open maps exist in their own right.
pub(crate) fn unclaimed(shape: &Shape, last: &FieldSet, claimed: &FieldSet) -> FieldSet {
    Above { owned: false, goes: false }.below(shape, last, claimed)
}

/// What is known of the path above: whether a part of it was the owner's, and whether such a part goes.
#[derive(Clone, Copy)]
struct Above {
    owned: bool,
    goes: bool,
}

impl Above {
    fn below(self, shape: &Shape, last: &FieldSet, claimed: &FieldSet) -> FieldSet {
        let form = shape.form(None);
        let nodes = last.nodes.iter().filter_map(|node| {
            let (shape, declared) = match (form, &node.element) {
                (Form::Map(map), Element::Field(name)) => {
                    let known = map.field(name);
                    (known.shape_or_deduced(), known.is_declared())
                }
                (Form::List(of), Element::Key(_)) => (&of.items, false),
                _ => (&DEDUCED, false),
            };
            let claim = claimed.get(&node.element);
            let mine = node.member || declared;
            let owned = self.owned || mine;
            let goes = self.goes || (owned && !claim.is_some_and(|claim| claim.member || declared));
            let children = match (goes && mine, claim) {
                (true, _) => FieldSet::default(),
                (_, Some(claim)) => Self { owned, goes }.below(shape, &node.children, &claim.children),
                (_, None) => Self { owned, goes }.below(shape, &node.children, &FieldSet::default()),
            };
            let node = Node { element: node.element.clone(), member: goes && mine, children };
            node.holds_something().then_some(node)
        });
        FieldSet { nodes: nodes.collect() }
    }
}
