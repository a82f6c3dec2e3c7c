//! `allOf`, `anyOf`, `oneOf` and `not`: they may restrict values, but not say what the fields are; that is the spine's.

use serde_json::Value;

use super::spot::{Spot, entries, has, list, text};
use crate::path::Path;
use crate::problem::{Problem, ProblemKind, Problems};

/// What a branch may not have.
const SPINE_ONLY: [&str; 13] = [
    "type",
    "additionalProperties",
    "default",
    "title",
    "description",
    "nullable",
    "externalDocs",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
];

pub(super) fn check(spot: &Spot<'_>, problems: &mut Problems) {
    let skip = Skip {
        any_of: is_int_or_string(spot.schema),
        first_all_of: list(spot.schema, "allOf").first().is_some_and(is_int_or_string),
    };
    branches(spot.schema, Some(spot.schema), &spot.path, &skip, problems);
}

/// `anyOf: [{type: integer}, {type: string}]` is how an int-or-string is written and the one place for types.
#[derive(Default)]
struct Skip {
    any_of: bool,
    first_all_of: bool,
}

fn is_int_or_string(schema: &Value) -> bool {
    let only_type = |branch: &Value, name| {
        branch.as_object().is_some_and(|map| map.len() == 1) && text(branch, "type") == Some(name)
    };
    matches!(list(schema, "anyOf"), [a, b] if only_type(a, "integer") && only_type(b, "string"))
}

fn branches(schema: &Value, spine: Option<&Value>, path: &Path<'_>, skip: &Skip, problems: &mut Problems) {
    for junctor in ["allOf", "anyOf", "oneOf"] {
        if junctor == "anyOf" && skip.any_of {
            continue;
        }
        let here = path.field(junctor);
        for (i, one) in list(schema, junctor).iter().enumerate() {
            let skip = Skip { any_of: junctor == "allOf" && i == 0 && skip.first_all_of, first_all_of: false };
            branch(one, spine, &here.index(i), &skip, problems);
        }
    }
    if let Some(not) = schema.get("not") {
        branch(not, spine, &path.field("not"), &Skip::default(), problems);
    }
}

fn branch(schema: &Value, spine: Option<&Value>, path: &Path<'_>, skip: &Skip, problems: &mut Problems) {
    for keyword in SPINE_ONLY.into_iter().filter(|keyword| has(schema, keyword)) {
        let what = "cannot stand inside allOf, anyOf, oneOf or not";
        let fix = "move it to the schema outside";
        problems.push(Problem::new(&path.field(keyword), ProblemKind::Forbidden, what, fix));
    }
    if has(schema, "x-kubernetes-validations") {
        let what = "cannot stand inside allOf, anyOf, oneOf or not";
        let fix = "move the rules to the schema outside";
        problems.push(Problem::new(&path.field("x-kubernetes-validations"), ProblemKind::Forbidden, what, fix));
    }
    branches(schema, spine, path, skip, problems);
    if let Some(items) = schema.get("items") {
        let spine = spine.and_then(|spine| spine.get("items"));
        below(items, spine, &path.field("items"), problems);
    }
    let properties = path.field("properties");
    for (name, child) in entries(schema, "properties") {
        let here = properties.key(name);
        if name == "metadata" {
            let what = "cannot be restricted inside allOf, anyOf, oneOf or not";
            problems.push(Problem::new(&here, ProblemKind::Forbidden, what, "remove it"));
        }
        let spine = spine.and_then(|spine| spine.get("properties")?.get(name));
        below(child, spine, &here, problems);
    }
}

/// A field that a branch restricts must exist outside of it.
fn below(schema: &Value, spine: Option<&Value>, path: &Path<'_>, problems: &mut Problems) {
    if spine.is_none() {
        let what = "restricts a field that the schema does not have";
        let fix = "add the field, with its type, to the schema outside";
        problems.push(Problem::new(path, ProblemKind::Required, what, fix));
    }
    branch(schema, spine, path, &Skip::default(), problems);
}
