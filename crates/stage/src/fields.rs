//! Every field of a kind: whether a change of it takes effect, or is refused with a reason.

use std::collections::BTreeSet;

use kube::Resource as _;
use serde_json::{Value, json};

use crate::World;
use c5c3_service::Service;

/// What becomes of a change.
#[derive(Clone, Copy, Debug)]
pub enum Becomes {
    /// The plan is another.
    Effect,
    /// It is refused, with this in the reason.
    Refused(&'static str),
}

/// A field, the spec before (merged over an empty one), the change to it, and what becomes of that.
pub type Row = (&'static str, &'static str, &'static str, Becomes);

/// The fields of a schema that are no objects of ours themselves.
pub fn leaves(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    let foreign = path.ends_with("scheduling.affinity");
    let Some(fields) = schema["properties"].as_object().filter(|_| !foreign) else {
        found.insert(path.to_owned());
        return;
    };
    for (name, field) in fields {
        leaves(field, &if path.is_empty() { name.clone() } else { format!("{path}.{name}") }, found);
    }
}

/// Merges a change into a value; null takes a field away.
pub fn merge(target: &mut Value, change: &Value) {
    let Some(change) = change.as_object() else { return *target = change.clone() };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in change {
        if value.is_null() {
            target.as_object_mut().map(|target| target.remove(name));
        } else {
            merge(&mut target[name], value);
        }
    }
}

/// Every row whose change has another outcome than it says, and every field of the kind that no row is about.
///
/// # Panics
/// If a row is not JSON.
pub fn outcome<S: Service>(world: &World<S>, rows: &[Row]) -> Vec<String>
where
    <S::Kind as kube::Resource>::Scope: 'static,
{
    let kind = c5c3_api::find(&S::Kind::api_version(&()), &S::Kind::kind(&())).expect("a kind of ours");
    let plan = |object: &Value| world.plan(object).map(|plan| plan.golden());
    let change = |before: &Value, after: &Value| -> Result<bool, String> {
        let refused = kind.check(after, Some(before));
        if !refused.is_empty() {
            return Err(refused.to_string());
        }
        Ok(plan(before).map_err(|error| format!("the spec before is wrong: {error}"))? != plan(after)?)
    };
    let mut wrong = Vec::new();
    for (field, before, after, becomes) in rows {
        let mut spec: Value = serde_json::from_str(before).unwrap_or_else(|error| panic!("{field}: {error}"));
        let old = World::<S>::object(&spec);
        merge(&mut spec, &serde_json::from_str(after).unwrap_or_else(|error| panic!("{field}: {error}")));
        match (change(&old, &World::<S>::object(&spec)), becomes) {
            (Ok(true), Becomes::Effect) => {}
            (Err(reason), Becomes::Refused(word)) if reason.contains(word) => {}
            (outcome, _) => wrong.push(format!("{field}: {outcome:?}")),
        }
    }
    let mut known = BTreeSet::new();
    leaves(&kind.open_api()["properties"]["spec"], "", &mut known);
    let tried: BTreeSet<String> = rows.iter().map(|(field, ..)| (*field).to_owned()).collect();
    wrong.extend(known.difference(&tried).map(|field| format!("{field}: no row is about it")));
    wrong.extend(tried.difference(&known).map(|field| format!("{field}: the schema has no such field")));
    wrong
}
