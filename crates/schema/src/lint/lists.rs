//! `x-kubernetes-list-type`, `x-kubernetes-list-map-keys` and `x-kubernetes-map-type`.

use serde_json::Value;

use super::spot::{Spot, flag, list, text};
use crate::problem::{Problem, ProblemKind, Problems};

const LIST_TYPE: &str = "x-kubernetes-list-type";
const MAP_TYPE: &str = "x-kubernetes-map-type";
const MAP_KEYS: &str = "x-kubernetes-list-map-keys";

pub(super) fn check(spot: &Spot<'_>, problems: &mut Problems) {
    kinds(spot, MAP_TYPE, "object", &["atomic", "granular"], problems);
    kinds(spot, LIST_TYPE, "array", &["atomic", "set", "map"], problems);
    let list_type = spot.text(LIST_TYPE);
    if spot.has(MAP_KEYS) && list_type != Some("map") {
        problems.push(spot.problem(
            LIST_TYPE,
            ProblemKind::Required,
            "is not map",
            "set it to map, or remove the keys",
        ));
    }
    let Some(items) = spot.schema.get("items").filter(|items| items.is_object()) else {
        return;
    };
    let here = spot.path.field("items");
    if matches!(list_type, Some("set" | "map")) && flag(items, "nullable") {
        let what = format!("items of a {} cannot be null", list_type.unwrap_or_default());
        problems.push(Problem::new(&here.field("nullable"), ProblemKind::Forbidden, what, "remove it"));
    }
    match list_type {
        Some("set") => {
            let whole = match text(items, "type") {
                Some("array") => matches!(text(items, LIST_TYPE), None | Some("atomic")),
                Some("object") => text(items, MAP_TYPE) == Some("atomic"),
                _ => true,
            };
            if !whole {
                let keyword = if text(items, "type") == Some("array") { LIST_TYPE } else { MAP_TYPE };
                let what = "items of a set are compared as a whole";
                problems.push(Problem::new(&here.field(keyword), ProblemKind::Invalid, what, "set it to atomic"));
            }
        }
        Some("map") => keys(spot, items, problems),
        _ => {}
    }
}

fn kinds(spot: &Spot<'_>, keyword: &str, wanted: &str, allowed: &[&str], problems: &mut Problems) {
    let Some(value) = spot.text(keyword) else {
        return;
    };
    if !allowed.contains(&value) {
        let what = format!("{value:?} is not supported");
        let fix = format!("use one of: {}", allowed.join(", "));
        problems.push(spot.problem(keyword, ProblemKind::NotSupported, what, fix));
    }
    if spot.text("type") != Some(wanted) {
        let what = format!("needs type {wanted}");
        problems.push(spot.problem(keyword, ProblemKind::Invalid, what, "correct the type or remove it"));
    }
}

/// The keys of a list map tell its items apart, so every item must have them, and they must be comparable.
fn keys(spot: &Spot<'_>, items: &Value, problems: &mut Problems) {
    let here = spot.path.field("items");
    if text(items, "type") != Some("object") {
        let what = "items of a map list are not of type object";
        problems.push(Problem::new(&here.field("type"), ProblemKind::Invalid, what, "use object"));
        return;
    }
    let names: Vec<&str> = list(spot.schema, MAP_KEYS).iter().filter_map(Value::as_str).collect();
    if names.is_empty() {
        let fix = "name the fields that tell the items apart";
        problems.push(spot.problem(MAP_KEYS, ProblemKind::Required, "is missing", fix));
    }
    let required = list(items, "required");
    for (i, name) in names.iter().enumerate() {
        if names[..i].contains(name) {
            let what = format!("names {name:?} twice");
            problems.push(spot.problem(MAP_KEYS, ProblemKind::Invalid, what, "remove one"));
        }
        let Some(key) = items.get("properties").and_then(|properties| properties.get(name)) else {
            let what = format!("{name:?} is not a field of the items");
            problems.push(spot.problem(MAP_KEYS, ProblemKind::Invalid, what, "add the field or correct the name"));
            continue;
        };
        let properties = here.field("properties");
        let path = properties.key(name);
        let mut say = |keyword: &str, kind, what: &str, fix: &str| {
            problems.push(Problem::new(&path.field(keyword), kind, what, fix));
        };
        if matches!(text(key, "type"), Some("array" | "object")) {
            say("type", ProblemKind::Invalid, "a key must be a scalar", "use string, integer or boolean");
        }
        if !required.iter().any(|one| one == name) && key.get("default").is_none() {
            say("default", ProblemKind::Required, "is missing for a key that is not required", "require the key");
        }
        if flag(key, "nullable") {
            say("nullable", ProblemKind::Forbidden, "a key cannot be null", "remove it");
        }
    }
}
