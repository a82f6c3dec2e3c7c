//! Second spellings: fields that later documents renamed, accepted beside the ones that are the wire format.
//!
//! A kind lists its aliases as data. The list does two things: it adds the alias to the CRD's schema (so that an API
//! server keeps it), and it moves the value to the canonical field before an object is read. Both spellings with
//! different values are an error; equal values are not.

use c5c3_schema::{Problem, ProblemKind, Problems};
use serde_json::{Map, Value};

/// One second spelling, as paths below `spec`: dots between fields, `[]` after a list that each item of is meant.
#[derive(Clone, Copy, Debug)]
pub struct Alias {
    /// The spelling that is accepted too.
    pub alias: &'static str,
    /// The spelling that is the wire format.
    pub canonical: &'static str,
}

/// Shorthand for a table of aliases.
pub(crate) const fn alias(alias: &'static str, canonical: &'static str) -> Alias {
    Alias { alias, canonical }
}

impl Alias {
    /// What both spellings have in common: the list whose items they are in, if any.
    fn split_list(&self) -> Option<(&'static str, Alias)> {
        let (list, rest) = self.alias.split_once("[].")?;
        let canonical = self.canonical.strip_prefix(list)?.strip_prefix("[].")?;
        Some((list, Alias { alias: rest, canonical }))
    }
}

/// Moves every alias in `spec` to its canonical field, in the table's order: a table goes from the outside in, first
/// `openstack` to `services`, then `services.neutron.replicas` to its place.
pub(crate) fn normalize(aliases: &[Alias], spec: &mut Value) -> Problems {
    let mut problems = Problems::default();
    for alias in aliases {
        move_one(alias, "spec", spec, &mut problems);
    }
    problems
}

fn move_one(alias: &Alias, at: &str, value: &mut Value, problems: &mut Problems) {
    if let Some((list, inner)) = alias.split_list() {
        if let Some(Value::Array(items)) = find_mut(value, list) {
            for (index, item) in items.iter_mut().enumerate() {
                move_one(&inner, &format!("{at}.{list}[{index}]"), item, problems);
            }
        }
        return;
    }
    let Some(found) = take(value, alias.alias) else { return };
    let place = entry(value, alias.canonical);
    let both = Both { alias: format!("{at}.{}", alias.alias), canonical: format!("{at}.{}", alias.canonical) };
    merge(place, found, &both, problems);
}

struct Both {
    alias: String,
    canonical: String,
}

fn merge(into: &mut Value, from: Value, both: &Both, problems: &mut Problems) {
    match (into, from) {
        (into @ Value::Null, from) => *into = from,
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                let inner =
                    Both { alias: format!("{}.{key}", both.alias), canonical: format!("{}.{key}", both.canonical) };
                merge(into.entry(key).or_insert(Value::Null), value, &inner, problems);
            }
        }
        (into, from) if *into == from => {}
        (into, from) => problems.push(Problem {
            path: both.alias.clone(),
            kind: ProblemKind::Invalid,
            what: format!("is {from}, but {} is {into}, and both mean the same", both.canonical),
            fix: format!("remove {}", both.alias),
        }),
    }
}

fn find_mut<'a>(value: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    path.split('.').try_fold(value, |value, field| value.get_mut(field))
}

/// Takes the value at `path` out, and the objects on the way that are empty without it.
fn take(value: &mut Value, path: &str) -> Option<Value> {
    let object = value.as_object_mut()?;
    match path.split_once('.') {
        None => object.remove(path),
        Some((field, rest)) => {
            let inner = object.get_mut(field)?;
            let taken = take(inner, rest)?;
            if inner.as_object().is_some_and(Map::is_empty) {
                object.remove(field);
            }
            Some(taken)
        }
    }
}

/// The place at `path`, made if it is not there.
fn entry<'a>(value: &'a mut Value, path: &str) -> &'a mut Value {
    path.split('.').fold(value, |value, field| {
        if !value.is_object() {
            *value = Value::Object(Map::new());
        }
        match value {
            Value::Object(object) => object.entry(field).or_insert(Value::Null),
            other => other,
        }
    })
}

/// Adds every alias to the schema of `spec`, as a copy of the canonical field's schema.
///
/// The canonical field loses its default: an API server would write it beside the alias, and the two would differ.
/// The Rust type has the same default and applies it after normalisation.
pub(crate) fn extend_schema(aliases: &[Alias], spec: &mut Value) {
    // From the inside out, so that an alias of a whole section carries the aliases within it.
    for alias in aliases.iter().rev() {
        extend_one(alias, spec);
    }
}

fn extend_one(alias: &Alias, schema: &mut Value) {
    if let Some((list, inner)) = alias.split_list() {
        let items = list.split('.').fold(schema, |schema, field| &mut schema["properties"][field]);
        return extend_one(&inner, &mut items["items"]);
    }
    let mut canonical = &mut *schema;
    for field in alias.canonical.split('.') {
        let object = canonical.as_object_mut().expect("a schema is an object");
        object.remove("default");
        if let Some(Value::Array(required)) = object.get_mut("required") {
            required.retain(|name| name != field);
        }
        canonical = &mut canonical["properties"][field];
        assert!(canonical.is_object(), "{} is not in the schema", alias.canonical);
    }
    canonical.as_object_mut().expect("a schema is an object").remove("default");
    let mut copy = canonical.clone();
    copy["description"] = format!("Another spelling of `{}`.", alias.canonical).into();

    let mut place = schema;
    let mut fields = alias.alias.split('.').peekable();
    while let Some(field) = fields.next() {
        let object = place.as_object_mut().expect("a schema is an object");
        let properties = object.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        let properties = properties.as_object_mut().expect("properties are an object");
        if fields.peek().is_none() {
            properties.insert(field.into(), copy);
            return;
        }
        place = properties.entry(field).or_insert_with(
            || serde_json::json!({"type": "object", "description": "Accepts other spellings of fields of this object; see the section Other spellings."}),
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TABLE: &[Alias] = &[
        alias("shop", "market"),
        alias("market.fruit.count", "market.fruit.basket.count"),
        alias("stalls[].fee", "stalls[].rent.sum"),
    ];

    fn normalized(mut spec: Value) -> (Value, Vec<String>) {
        let problems = normalize(TABLE, &mut spec);
        (spec, problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn an_alias_moves_to_the_canonical_field() {
        let (spec, problems) =
            normalized(json!({"shop": {"fruit": {"count": 2}}, "stalls": [{"fee": 5}, {"rent": {"sum": 6}}]}));
        assert_eq!(
            spec,
            json!({"market": {"fruit": {"basket": {"count": 2}}}, "stalls": [{"rent": {"sum": 5}}, {"rent": {"sum": 6}}]})
        );
        assert!(problems.is_empty());
    }

    #[test]
    fn equal_values_in_both_spellings_are_fine_and_different_ones_are_named() {
        let (_, problems) = normalized(json!({"shop": {"open": true}, "market": {"open": true}}));
        assert!(problems.is_empty());
        let (_, problems) = normalized(json!({"shop": {"open": true}, "market": {"open": false}}));
        assert_eq!(
            problems,
            ["spec.shop.open: is true, but spec.market.open is false, and both mean the same; remove spec.shop.open"]
        );
    }

    #[test]
    fn the_schema_takes_both_spellings_and_loses_the_default() {
        let mut schema = json!({"type": "object", "properties": {"market": {"type": "object", "properties": {
            "fruit": {"type": "object", "default": {}, "properties": {"basket": {"type": "object", "required": ["count"], "properties": {
                "count": {"type": "integer", "default": 1}}}}}}}}});
        extend_schema(&TABLE[..2], &mut schema);
        assert_eq!(schema["properties"]["shop"]["properties"]["fruit"]["properties"]["count"]["type"], "integer");
        assert!(schema["properties"]["market"]["properties"]["fruit"].get("default").is_none());
        assert_eq!(
            schema["properties"]["market"]["properties"]["fruit"]["properties"]["basket"]["required"],
            json!([])
        );
    }
}
