//! Server-side apply.

use serde_json::{Map, Value};

use crate::conflict::{ApplyError, Conflict};
use crate::depth::too_deep;
use crate::last_applied;
use crate::managed::{NOBODYS, Operation, Owner, Owners, date_entry, entries_of, put_entries};
use crate::object::{self, Comparison};
use crate::set::FieldSet;
use crate::shape::Shape;
use crate::writer::Writer;

/// The object to store after a server-side apply: `applied` merged into `live`, without what the manager applied last
/// time and now leaves out, with `metadata.managedFields` up to date. `live` is `None` if there is no object yet.
///
/// An apply that changes neither a value nor an owner returns `live`, byte for byte and with its old times.
///
/// Without `force`, changing a field that someone else owns is a conflict; with it, the field changes hands. Setting a
/// field to the value that it has is never a conflict: it then has two owners.
///
/// Defaults and the fields outside of the writer's scope are the caller's: set them after this.
pub fn apply(
    shape: &Shape,
    live: Option<&Value>,
    applied: &Value,
    writer: &Writer<'_>,
    force: bool,
) -> Result<Value, ApplyError> {
    refuse_unfit(shape, live, applied, writer)?;
    let nothing = Value::Object(Map::new());
    let apply = Apply { shape, live: live.unwrap_or(&nothing), applied, writer };
    let mut object = match apply.run(force) {
        Err(ApplyError::Conflicts(conflicts)) => {
            let conflicts = last_applied::forgive(shape, apply.live, writer, conflicts);
            if !conflicts.is_empty() {
                return Err(ApplyError::Conflicts(conflicts));
            }
            apply.run(true)?
        }
        result => result?,
    };
    last_applied::refresh(&mut object, applied, writer);
    if object != *apply.live {
        date_entry(&mut object, &Owner::new(writer, Operation::Apply), writer.now);
    }
    Ok(object)
}

fn refuse_unfit(shape: &Shape, live: Option<&Value>, applied: &Value, writer: &Writer<'_>) -> Result<(), ApplyError> {
    if too_deep(applied) || live.is_some_and(too_deep) {
        return Err(ApplyError::TooDeep);
    }
    let version = applied["apiVersion"].as_str().unwrap_or_default();
    if version != writer.api_version {
        return Err(ApplyError::BadRequest(format!(
            "Incorrect version specified in apply patch. Specified patch version: {version}, expected: {}",
            writer.api_version
        )));
    }
    if !entries_of(applied).is_null() {
        return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
    }
    match object::check(shape, applied).as_slice() {
        [] => Ok(()),
        [one] => Err(unfit(applied, one)),
        many => Err(unfit(applied, &format!("errors:\n  {}", many.join("\n  ")))),
    }
}

fn unfit(applied: &Value, what: &str) -> ApplyError {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &applied["metadata"];
    ApplyError::Invalid(format!(
        "failed to create typed patch object ({}/{}; {}, Kind={}): {what}",
        text(&metadata["namespace"]),
        text(&metadata["name"]),
        text(&applied["apiVersion"]),
        text(&applied["kind"]),
    ))
}

struct Apply<'a> {
    shape: &'a Shape,
    live: &'a Value,
    applied: &'a Value,
    writer: &'a Writer<'a>,
}

impl Apply<'_> {
    /// The merged object with its owners. The applier's time is still that of its last apply.
    fn run(&self, force: bool) -> Result<Value, ApplyError> {
        let mut me = Owner::new(self.writer, Operation::Apply);
        me.fields = self.writer.scope.filter(object::field_set(self.shape, self.applied));
        me.fields.subtract(&NOBODYS);
        let mut owners = self.recorded_owners(&me)?;
        let last = owners.place(&me).map(|place| owners.0.remove(place));
        let mut object = self.merged();
        if let Some(last) = last {
            me.as_read = last.as_read && last.fields == me.fields;
            if !me.as_read && !last.fields.is_subset(&me.fields) {
                self.prune(&mut object, &last.fields, &owners);
            }
            me.time = last.time;
        }
        let scope = self.writer.scope;
        let comparison = object::compare(self.shape, self.live, &object).map(|set| scope.filter(set));
        if !force {
            let conflicts = conflicts(&owners, &comparison);
            if !conflicts.is_empty() {
                return Err(ApplyError::Conflicts(conflicts));
            }
        }
        owners.yield_to(&comparison);
        if !me.fields.is_empty() {
            owners.put(me);
        }
        if !object["metadata"].is_object() {
            object["metadata"] = Value::Object(Map::new());
        }
        put_entries(&mut object, owners.write(entries_of(self.live)));
        Ok(object)
    }

    fn recorded_owners(&self, me: &Owner) -> Result<Owners, ApplyError> {
        let mut owners = Owners::read(entries_of(self.live))
            .map_err(|why| ApplyError::Invalid(format!("failed to decode managed fields: {why}")))?;
        if owners.is_empty() && !me.fields.is_empty() {
            // What is there was written before anyone applied. Who applies nothing has nothing to tell it from.
            let comparison = object::compare(self.shape, &Value::Object(Map::new()), self.live);
            owners.record_update(comparison, &Writer { manager: "before-first-apply", ..*self.writer });
        }
        owners.reconcile(self.shape, self.live);
        Ok(owners)
    }

    fn merged(&self) -> Value {
        let mut object = bare(self.live);
        object::merge_into(self.shape, &mut object, self.applied);
        // Generators write `creationTimestamp: null`; it means nothing, and must not count as a change.
        let created = &self.live["metadata"]["creationTimestamp"];
        if let Some(Value::Object(metadata)) = object.get_mut("metadata")
            && metadata.get("creationTimestamp").is_none_or(Value::is_null)
            && !created.is_null()
        {
            metadata.insert("creationTimestamp".to_owned(), created.clone());
        }
        object
    }

    /// Removes what the applier owned, no longer applies, and no one else owns.
    ///
    /// What the configuration names stays even if that gives it no owner: an empty list does not. Upstream removes such
    /// a list, and puts it back with the next apply of the same configuration.
    fn prune(&self, object: &mut Value, last: &FieldSet, others: &Owners) {
        let claimed = others.owned().union(&object::every_path(self.shape, self.applied));
        object::remove(self.shape, object, &object::unclaimed(self.shape, last, &claimed));
    }
}

/// A copy of an object without `managedFields`, which are often as large as the rest.
fn bare(object: &Value) -> Value {
    let Some(fields) = object.as_object() else { return object.clone() };
    let copy = fields.iter().map(|(name, value)| {
        let value = match value {
            Value::Object(metadata) if name == "metadata" => {
                let kept = metadata.iter().filter(|(name, _)| *name != "managedFields");
                Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
            }
            value => value.clone(),
        };
        (name.clone(), value)
    });
    Value::Object(copy.collect())
}

fn conflicts(others: &Owners, comparison: &Comparison) -> Vec<Conflict> {
    let changed = comparison.changed();
    if changed.is_empty() {
        return Vec::new();
    }
    let mut others: Vec<&Owner> = others.0.iter().collect();
    others.sort_by_key(|owner| (&owner.manager, owner.operation, &owner.api_version, &owner.subresource));
    let conflicts = others.into_iter().flat_map(|owner| {
        owner.fields.intersection(&changed).paths().into_iter().map(|path| Conflict::new(owner, path))
    });
    conflicts.collect()
}
