//! What a create, an update or a patch other than apply does to ownership.

use serde_json::{Map, Value};

use crate::depth::too_deep;
use crate::managed::{Owners, entries_of, is_reset, put_entries, take_entries};
use crate::object;
use crate::shape::Shape;
use crate::writer::Writer;

/// The object to store after a create, update or patch: `new` with `metadata.managedFields` brought up to date.
///
/// What `new` changes relative to `live` belongs to the writer from now on and to no one else; what it removes belongs
/// to no one. `live` is `None` for a create. A `live` without `metadata.uid` counts as a create too: for built-in kinds
/// the real server compares with an empty object of the type, so `{"spec": {}, "status": {}}` yields exactly its
/// entries (no `.` in `f:spec`).
///
/// `new` may carry `managedFields` itself: an empty list or a list of one empty entry makes the server forget all
/// owners, entries that can be read replace the recorded ones, anything else is ignored, and so is everything that
/// comes through a subresource. An object without recorded owners stays without until it is applied.
///
/// Defaults belong into `new` before this, as the real server sets them when it decodes a request.
pub fn track_update(shape: &Shape, live: Option<&Value>, mut new: Value, writer: &Writer<'_>) -> Value {
    if !new["metadata"].is_object() {
        return new;
    }
    let nothing = Value::Object(Map::new());
    let before = live.unwrap_or(&nothing);
    let sent = take_entries(&mut new);
    if too_deep(&new) || too_deep(&sent) || too_deep(before) {
        put_entries(&mut new, entries_of(before).clone());
        return new;
    }
    let mut owners = recorded_owners(before, &sent, writer);
    let exists = before["metadata"]["uid"].as_str().is_some_and(|uid| !uid.is_empty());
    if owners.is_empty() && exists {
        return new;
    }
    owners.reconcile(shape, before);
    owners.record_update(object::compare(shape, before, &new), writer);
    put_entries(&mut new, owners.write(entries_of(before)));
    new
}

fn recorded_owners(live: &Value, sent: &Value, writer: &Writer<'_>) -> Owners {
    let recorded = || Owners::read(entries_of(live)).unwrap_or_default();
    if !writer.subresource.is_empty() || sent == entries_of(live) {
        return recorded();
    }
    if is_reset(sent) {
        return Owners::default();
    }
    // Clients that do not know managedFields leave them out; that is not a wish to delete them.
    match Owners::read(sent) {
        Ok(mut owners) if !owners.is_empty() => {
            owners.0.iter_mut().for_each(|owner| owner.as_read = false);
            owners
        }
        _ => recorded(),
    }
}

/// Takes back a write that changed nothing but the times in `managedFields`: returns `new` with the times of `live`.
///
/// For the end of a write, after defaults, admission and the strategy of the kind. If the result equals `live`, there is
/// nothing to store and the resource version stays.
pub fn settle(live: &Value, new: Value) -> Value {
    let timeless = |object: &Value| {
        let mut entries: Vec<Value> = entries_of(object).as_array().cloned().unwrap_or_default();
        for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
            entry.remove("time");
        }
        entries.sort_by(crate::scalar::compare);
        entries
    };
    if entries_of(live) == entries_of(&new) || too_deep(live) || timeless(live) != timeless(&new) {
        return new;
    }
    let mut settled = new.clone();
    put_entries(&mut settled, entries_of(live).clone());
    if settled == *live { settled } else { new }
}
