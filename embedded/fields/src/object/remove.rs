//! Removing fields and items from an object.

use serde_json::Value;

use crate::element::Element;
use crate::set::FieldSet;
use crate::shape::{Form, Shape};

/// Removes every field and item of the set. A container that this empties stays, empty: someone may own it.
pub(crate) fn remove(shape: &Shape, value: &mut Value, set: &FieldSet) {
    match shape.form(Some(value)) {
        Form::Leaf => {}
        Form::Map(map) => {
            let Value::Object(fields) = value else { return };
            for node in &set.nodes {
                let Element::Field(name) = &node.element else { continue };
                if node.member {
                    fields.remove(name.as_ref());
                } else if let Some(field) = fields.get_mut(name.as_ref()) {
                    remove(map.field(name).shape_or_deduced(), field, &node.children);
                }
            }
        }
        Form::List(list) => {
            let Value::Array(items) = value else { return };
            items.retain_mut(|item| {
                let Some(node) = list.step(item).ok().and_then(|step| set.get(&step)) else { return true };
                if !node.member {
                    remove(&list.items, item, &node.children);
                }
                !node.member
            });
        }
    }
}
