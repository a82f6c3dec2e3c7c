//! Lists that merge: items by key or by value, and the order of what comes out.

use std::collections::HashMap;

use serde_json::Value;

use super::directives::{Whole, bad_set_order, fresh};
use super::{FieldKind, PatchError, merge_object};

/// Merges the items of a patch into a list. The order is that of `order` (`$setElementOrder`) or else of the patch;
/// items that only the list has keep their place among each other and stay before the items that they were before.
pub(super) fn merge(
    field: &FieldKind,
    list: Vec<Value>,
    patch: &[Value],
    order: Option<&[Value]>,
) -> Result<Vec<Value>, PatchError> {
    if !list.iter().chain(patch).any(Value::is_object) {
        if list.iter().chain(patch).any(Value::is_array) {
            return Err(PatchError::DoesNotApply("lists of lists are not supported".to_owned()));
        }
        return Ok(merge_scalars(list, patch, order));
    }
    if !list.iter().chain(patch).all(Value::is_object) {
        return Err(PatchError::DoesNotApply("list element types are not identical".to_owned()));
    }
    merge_objects(field, list, patch, order)
}

/// Puts the items of a list that no patch changes into the order of `$setElementOrder`.
pub(super) fn reorder(field: &FieldKind, list: Vec<Value>, order: &[Value]) -> Vec<Value> {
    let key = field.strategy.key.as_deref();
    let was = Places::of(key, &list);
    arrange(list, &Places::of(key, order), &was)
}

fn merge_scalars(mut list: Vec<Value>, patch: &[Value], order: Option<&[Value]>) -> Vec<Value> {
    let was = Places::of(None, &list);
    list.extend_from_slice(patch);
    let mut seen = Places::of(None, &[]);
    list.retain(|item| seen.add(item));
    arrange(list, &Places::of(None, order.unwrap_or(patch)), &was)
}

fn merge_objects(
    field: &FieldKind,
    mut list: Vec<Value>,
    patch: &[Value],
    order: Option<&[Value]>,
) -> Result<Vec<Value>, PatchError> {
    let key = field.key()?;
    let mut patch = Marked::read(key, patch)?;
    if let Some(order) = order {
        check_order(key, &patch.plain, order)?;
    }
    if patch.replaces {
        list = std::mem::take(&mut patch.plain).iter().filter_map(fresh).collect();
    }
    list.retain(|item| patch.deleted.place(item).is_none());
    let was = Places::of(Some(key), &list);
    for change in &patch.plain {
        match (was.place(change), change) {
            (Some(place), Value::Object(change)) => {
                if let Value::Object(item) = &mut list[place] {
                    *item = merge_object(&field.items(), std::mem::take(item), change)?;
                }
            }
            _ => list.extend(fresh(change)),
        }
    }
    Ok(arrange(list, &Places::of(Some(key), order.unwrap_or(&patch.plain)), &was))
}

/// The items of a patch, those with a `$patch` directive apart.
struct Marked<'k> {
    plain: Vec<Value>,
    deleted: Places<'k>,
    replaces: bool,
}

impl<'k> Marked<'k> {
    fn read(key: &'k str, patch: &[Value]) -> Result<Self, PatchError> {
        let mut marked = Self { plain: Vec::new(), deleted: Places::of(Some(key), &[]), replaces: false };
        for item in patch {
            let whole = item.as_object().map(Whole::of).transpose()?.flatten();
            if whole == Some(Whole::Replace) {
                marked.replaces = true;
                continue;
            }
            if item.get(key).is_none() {
                let message = format!("map: {item} does not contain declared merge key: {key}");
                return Err(PatchError::DoesNotApply(message));
            }
            if whole == Some(Whole::Delete) {
                marked.deleted.add(item);
            } else {
                marked.plain.push(item.clone());
            }
        }
        Ok(marked)
    }
}

/// `$setElementOrder` must name every item of the patch, in the order of the patch.
fn check_order(key: &str, patch: &[Value], order: &[Value]) -> Result<(), PatchError> {
    let places = Places::of(Some(key), order);
    let found: Option<Vec<usize>> = patch.iter().map(|item| places.place(item)).collect();
    if order.is_empty() || found.is_some_and(|found| found.is_sorted()) { Ok(()) } else { Err(bad_set_order()) }
}

/// Sorts the items that the patch names by their order there, the others by where they were, and zips the two: an item
/// that is not named goes before a named one only if it was before it.
fn arrange(items: Vec<Value>, named: &Places<'_>, was: &Places<'_>) -> Vec<Value> {
    let (mut in_patch, mut others): (Vec<_>, Vec<_>) = items.into_iter().partition(|item| named.place(item).is_some());
    in_patch.sort_by_cached_key(|item| named.place(item));
    others.sort_by_cached_key(|item| was.place(item));
    let mut arranged = Vec::with_capacity(in_patch.len() + others.len());
    let (mut in_patch, mut others) = (in_patch.into_iter().peekable(), others.into_iter().peekable());
    while let (Some(named), Some(other)) = (in_patch.peek(), others.peek()) {
        let before = match (was.place(other), was.place(named)) {
            (Some(other), Some(named)) => other < named,
            _ => false,
        };
        arranged.extend(if before { others.next() } else { in_patch.next() });
    }
    arranged.extend(in_patch);
    arranged.extend(others);
    arranged
}

/// Where items are in a list, by their key or, for scalars, by their value.
struct Places<'k> {
    key: Option<&'k str>,
    places: HashMap<String, usize>,
}

impl<'k> Places<'k> {
    fn of(key: Option<&'k str>, items: &[Value]) -> Self {
        let mut places = Self { key, places: HashMap::with_capacity(items.len()) };
        for (place, item) in items.iter().enumerate() {
            if let Some(identity) = places.identity(item) {
                places.places.entry(identity).or_insert(place);
            }
        }
        places
    }

    fn place(&self, item: &Value) -> Option<usize> {
        self.places.get(&self.identity(item)?).copied()
    }

    /// Adds an item; whether it was not there yet.
    fn add(&mut self, item: &Value) -> bool {
        let place = self.places.len();
        self.identity(item).is_none_or(|identity| self.places.insert(identity, place).is_none())
    }

    fn identity(&self, item: &Value) -> Option<String> {
        match self.key {
            Some(key) => item.get(key).map(Value::to_string),
            None => Some(item.to_string()),
        }
    }
}
