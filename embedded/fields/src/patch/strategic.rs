//! Strategic merge patch: a merge patch that knows which lists to merge and by which key, and takes directives.

mod directives;
mod list;

use std::sync::Arc;

use serde_json::{Map as Object, Value};

use self::directives::{Directives, Whole, fresh, fresh_fields};
use super::PatchError;
use crate::depth::too_deep;
use crate::shape::{Kind, Shape, Strategy};

/// The object with a strategic merge patch applied. Only for built-in kinds: a custom resource has no strategies, and
/// the real server answers 415.
///
/// A list merges only if its schema says so (`x-kubernetes-patch-strategy: merge`). Unlike upstream, which fails on
/// them, fields that the schema does not declare are merged like any other object, and replaced if they are lists.
pub fn strategic_merge_patch(shape: &Shape, target: &Value, patch: &Value) -> Result<Value, PatchError> {
    if too_deep(target) || too_deep(patch) {
        return Err(PatchError::TooDeep);
    }
    let (Value::Object(target), Value::Object(patch)) = (target, patch) else {
        return Err(PatchError::Malformed("a strategic merge patch changes an object and is one".to_owned()));
    };
    merge_object(shape, target.clone(), patch).map(Value::Object)
}

fn merge_object(
    shape: &Shape,
    mut target: Object<String, Value>,
    patch: &Object<String, Value>,
) -> Result<Object<String, Value>, PatchError> {
    let directives = Directives::read(patch)?;
    match directives.whole {
        Some(Whole::Replace) => return Ok(fresh_fields(patch)),
        Some(Whole::Delete) => return Ok(Object::new()),
        None => directives.retain_keys(&mut target)?,
    }
    for (&name, &value) in &directives.fields {
        let field = FieldKind::of(shape, name);
        let order = directives.order.get(name).copied();
        let merged = merge_field(&field, target.remove(name), value, order)?;
        target.extend(merged.map(|merged| (name.to_owned(), merged)));
    }
    for (&name, &order) in directives.order.iter().filter(|(name, _)| !directives.fields.contains_key(*name)) {
        if let Some(Value::Array(items)) = target.get_mut(name) {
            *items = list::reorder(&FieldKind::of(shape, name), std::mem::take(items), order);
        }
    }
    for (&name, &deleted) in &directives.deleted {
        if let Some(Value::Array(items)) = target.get_mut(name) {
            items.retain(|item| !deleted.contains(item));
        }
    }
    Ok(target)
}

fn merge_field(
    field: &FieldKind,
    old: Option<Value>,
    new: &Value,
    order: Option<&[Value]>,
) -> Result<Option<Value>, PatchError> {
    match (old, new) {
        (Some(Value::Object(old)), Value::Object(new)) if !field.strategy.replace => {
            merge_object(&field.shape, old, new).map(|merged| Some(Value::Object(merged)))
        }
        (Some(Value::Array(old)), Value::Array(new)) if field.strategy.merge => {
            list::merge(field, old, new, order).map(|merged| Some(Value::Array(merged)))
        }
        (_, new) => Ok(fresh(new)),
    }
}

/// What a patch needs to know of a field.
struct FieldKind {
    shape: Shape,
    strategy: Strategy,
}

impl FieldKind {
    fn of(shape: &Shape, name: &str) -> Self {
        let deduced = || Self { shape: Shape::deduced(), strategy: Strategy::default() };
        let Kind::Map(map) = &shape.0 else { return deduced() };
        match map.fields.get(name) {
            Some(field) => Self { shape: field.shape.clone(), strategy: field.strategy.clone() },
            None => Self { shape: map.field(name).shape_or_deduced().clone(), ..deduced() },
        }
    }

    fn items(&self) -> Shape {
        match &self.shape.0 {
            Kind::List(list) => list.items.clone(),
            _ => Shape::deduced(),
        }
    }

    /// The merge key of a list of objects.
    fn key(&self) -> Result<&Arc<str>, PatchError> {
        let message = "cannot merge lists without merge key for type map";
        self.strategy.key.as_ref().ok_or_else(|| PatchError::Malformed(message.to_owned()))
    }
}
