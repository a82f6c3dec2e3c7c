//! The directives of a strategic merge patch: `$patch`, `$retainKeys`, `$setElementOrder/…`,
//! `$deleteFromPrimitiveList/…`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map as Object, Value};

use super::PatchError;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ORDER: &str = "$setElementOrder";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";

/// A patch of an object, its directives apart from its fields.
pub(super) struct Directives<'p> {
    pub(super) whole: Option<Whole>,
    retained: Option<BTreeSet<&'p str>>,
    /// The order of a list's items.
    pub(super) order: BTreeMap<&'p str, &'p [Value]>,
    /// Items to delete from lists of scalars.
    pub(super) deleted: BTreeMap<&'p str, &'p [Value]>,
    /// Everything that is not a directive.
    pub(super) fields: BTreeMap<&'p str, &'p Value>,
}

/// What happens to an object, an item or a list as a whole.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Whole {
    Replace,
    Delete,
}

impl Whole {
    /// The `$patch` directive of an object.
    pub(super) fn of(patch: &Object<String, Value>) -> Result<Option<Self>, PatchError> {
        match patch.get(PATCH).map(Value::as_str) {
            None => Ok(None),
            Some(Some("replace")) => Ok(Some(Self::Replace)),
            Some(Some("delete")) => Ok(Some(Self::Delete)),
            // Merging is what happens anyway; upstream refuses to be told so.
            Some(other) => Err(PatchError::Malformed(format!("unknown patch type: {}", other.unwrap_or_default()))),
        }
    }
}

impl<'p> Directives<'p> {
    pub(super) fn read(patch: &'p Object<String, Value>) -> Result<Self, PatchError> {
        let (mut order, mut deleted, mut fields) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut retained = None;
        for (name, value) in patch {
            if name == RETAIN_KEYS {
                retained = Some(list_of(value, RETAIN_KEYS)?.iter().filter_map(Value::as_str).collect());
            } else if let Some(field) = name.strip_prefix(SET_ORDER) {
                order.insert(field_name(field, SET_ORDER)?, list_of(value, SET_ORDER)?);
            } else if let Some(field) = name.strip_prefix(DELETE_FROM) {
                deleted.insert(field_name(field, DELETE_FROM)?, list_of(value, DELETE_FROM)?);
            } else if name != PATCH {
                fields.insert(name.as_str(), value);
            }
        }
        Ok(Self { whole: Whole::of(patch)?, retained, order, deleted, fields })
    }

    /// Clears the fields that `$retainKeys` leaves out.
    pub(super) fn retain_keys(&self, target: &mut Object<String, Value>) -> Result<(), PatchError> {
        let Some(retained) = &self.retained else { return Ok(()) };
        let unlisted = self.fields.iter().any(|(name, value)| !value.is_null() && !retained.contains(name));
        if unlisted {
            return Err(bad_format(RETAIN_KEYS));
        }
        target.retain(|name, _| retained.contains(name.as_str()));
        Ok(())
    }
}

fn list_of<'p>(value: &'p Value, directive: &str) -> Result<&'p [Value], PatchError> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| bad_format(directive))
}

fn field_name<'p>(rest: &'p str, directive: &str) -> Result<&'p str, PatchError> {
    rest.strip_prefix('/').ok_or_else(|| bad_format(directive))
}

pub(super) fn bad_set_order() -> PatchError {
    bad_format(SET_ORDER)
}

fn bad_format(directive: &str) -> PatchError {
    PatchError::Malformed(format!("invalid patch format of {directive}"))
}

/// A value of a patch where the object has none: without nulls, which delete, and without directives. `None` if the
/// value is itself a deletion.
pub(super) fn fresh(value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Array(items) => {
            let marked = |item: &Value| item.as_object().is_some_and(|item| item.contains_key(PATCH));
            Some(items.iter().filter(|item| !marked(item)).map(|item| fresh(item).unwrap_or_default()).collect())
        }
        Value::Object(fields) if fields.get(PATCH).is_some_and(|word| word == "delete") => None,
        Value::Object(fields) => Some(Value::Object(fresh_fields(fields))),
        scalar => Some(scalar.clone()),
    }
}

pub(super) fn fresh_fields(fields: &Object<String, Value>) -> Object<String, Value> {
    let is_directive = |name: &str| {
        name == PATCH || name == RETAIN_KEYS || name.starts_with(SET_ORDER) || name.starts_with(DELETE_FROM)
    };
    let kept = fields.iter().filter(|(name, _)| !is_directive(name));
    kept.filter_map(|(name, value)| Some((name.clone(), fresh(value)?))).collect()
}
