//! What each node of a structural schema must and must not have.

use serde_json::Value;

use super::spot::{Level, META, Spot, entries};
use crate::problem::{ProblemKind, Problems};

/// Keywords of JSON Schema and OpenAPI that a CRD may not use, and what to use instead.
const FORBIDDEN: [(&str, &str); 13] = [
    ("$ref", "write the schema out where it is used"),
    ("definitions", "write the schema out where it is used"),
    ("dependencies", "use a rule in x-kubernetes-validations"),
    ("deprecated", "say so in the description"),
    ("discriminator", "use a rule in x-kubernetes-validations"),
    ("id", "remove it"),
    ("$id", "remove it"),
    ("patternProperties", "use additionalProperties"),
    ("additionalItems", "remove it"),
    ("readOnly", "use a rule: self == oldSelf"),
    ("writeOnly", "remove it"),
    ("xml", "remove it"),
    ("uniqueItems", "use x-kubernetes-list-type: set"),
];

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

pub(super) fn check(spot: &Spot<'_>, problems: &mut Problems) {
    if !spot.schema.is_object() {
        problems.push(crate::Problem::new(&spot.path, ProblemKind::Invalid, "is not an object", "write a schema"));
        return;
    }
    for (keyword, fix) in FORBIDDEN {
        if spot.has(keyword) {
            problems.push(spot.problem(keyword, ProblemKind::Forbidden, "is not supported in a CRD", fix));
        }
    }
    types(spot, problems);
    extensions(spot, problems);
    children(spot, problems);
    resource(spot, problems);
    if let Some(pattern) = spot.text("pattern")
        && let Err(error) = regex::Regex::new(pattern)
        // Go has no such limit on a pattern's size; compiling raises ours.
        && !matches!(error, regex::Error::CompiledTooBig(_))
    {
        let what = format!("{pattern:?} is not a regular expression: {error}");
        problems.push(spot.problem("pattern", ProblemKind::Invalid, what, "correct it"));
    }
}

fn types(spot: &Spot<'_>, problems: &mut Problems) {
    let mut invalid = |kind, what: &str, fix: &str| problems.push(spot.problem("type", kind, what, fix));
    let resource = spot.flag("x-kubernetes-embedded-resource");
    let Some(name) = spot.text("type") else {
        let free = spot.flag("x-kubernetes-int-or-string") || spot.flag("x-kubernetes-preserve-unknown-fields");
        if !free || resource {
            let fix = match spot.level {
                _ if resource => "set it to object: the schema has x-kubernetes-embedded-resource",
                Level::Root => "set it to object",
                _ => "say what the value is: object, array, string, integer, number or boolean",
            };
            invalid(ProblemKind::Required, "is missing", fix);
        }
        return;
    };
    if name == "null" {
        invalid(ProblemKind::Forbidden, "null is not a type here", "use nullable: true beside another type");
    } else if !TYPES.contains(&name) {
        let what = format!("{name:?} is not a type");
        invalid(ProblemKind::NotSupported, &what, &format!("use one of: {}", TYPES.join(", ")));
    } else if name != "object" && spot.level == Level::Root {
        invalid(ProblemKind::Invalid, &format!("{name:?} cannot be the root's type"), "use object");
    } else if name != "object" && resource {
        invalid(ProblemKind::Invalid, &format!("{name:?} cannot be an embedded resource's type"), "use object");
    }
    if spot.flag("x-kubernetes-int-or-string") {
        invalid(ProblemKind::Forbidden, "contradicts x-kubernetes-int-or-string", "remove it");
    }
}

fn extensions(spot: &Spot<'_>, problems: &mut Problems) {
    let preserve = "x-kubernetes-preserve-unknown-fields";
    let embedded = "x-kubernetes-embedded-resource";
    if spot.flag("x-kubernetes-int-or-string") {
        for other in [preserve, embedded].into_iter().filter(|other| spot.flag(other)) {
            let what = "contradicts x-kubernetes-int-or-string";
            problems.push(spot.problem(other, ProblemKind::Invalid, what, "remove one of the two"));
        }
    }
    if spot.schema.get(preserve) == Some(&Value::Bool(false)) {
        problems.push(spot.problem(preserve, ProblemKind::Invalid, "is false", "set it to true or remove it"));
    }
    if !spot.flag(embedded) {
        return;
    }
    if spot.inside_meta {
        let what = "cannot be used inside of metadata";
        problems.push(spot.problem(embedded, ProblemKind::Forbidden, what, "remove it"));
    }
    if spot.schema.get("additionalProperties").is_some() {
        let what = "cannot be used with x-kubernetes-embedded-resource";
        problems.push(spot.problem("additionalProperties", ProblemKind::Forbidden, what, "use properties"));
    }
    if !spot.flag(preserve) && !spot.has("properties") {
        let fix = "add them, or set x-kubernetes-preserve-unknown-fields: true";
        problems.push(spot.problem("properties", ProblemKind::Required, "are missing", fix));
    }
}

fn children(spot: &Spot<'_>, problems: &mut Problems) {
    let additional = spot.schema.get("additionalProperties").filter(|value| !value.is_null());
    let mut additional_problem = |what: &str, fix: &str| {
        problems.push(spot.problem("additionalProperties", ProblemKind::Forbidden, what, fix));
    };
    if additional.is_some() && spot.level == Level::Root {
        additional_problem("cannot be used at the root", "use properties");
    }
    if additional == Some(&Value::Bool(false)) {
        additional_problem("cannot be false", "remove it: unknown fields are pruned anyway");
    } else if spot.has("properties") && additional.is_some_and(|value| *value != Value::Bool(true)) {
        additional_problem("cannot be used together with properties", "keep one of the two");
    }
    match spot.schema.get("items") {
        Some(Value::Array(_)) => {
            let what = "is a list of schemas";
            problems.push(spot.problem("items", ProblemKind::Forbidden, what, "write one schema for all items"));
        }
        None if spot.text("type") == Some("array") => {
            problems.push(spot.problem("items", ProblemKind::Required, "is missing", "say what the items are"));
        }
        _ => {}
    }
}

/// The root and embedded resources: their type and object meta are Kubernetes', not the schema's.
fn resource(spot: &Spot<'_>, problems: &mut Problems) {
    if !spot.is_resource() {
        return;
    }
    for (name, schema) in entries(spot.schema, "properties").filter(|(name, _)| META.contains(&name.as_str())) {
        let wanted = if name == "metadata" { "object" } else { "string" };
        if schema.get("type").and_then(Value::as_str) != Some(wanted) {
            let (properties, what) = (spot.path.field("properties"), format!("is not of type {wanted}"));
            let path = properties.key(name);
            problems.push(crate::Problem::new(
                &path.field("type"),
                ProblemKind::Invalid,
                what,
                format!("use {wanted}"),
            ));
        }
        if name == "metadata" && spot.level == Level::Root && !names_only(schema) {
            let (properties, what) = (spot.path.field("properties"), "restricts more than name and generateName");
            let fix = "leave only type: object and, if need be, properties name and generateName";
            problems.push(crate::Problem::new(&properties.key(name), ProblemKind::Forbidden, what, fix));
        }
    }
}

fn names_only(metadata: &Value) -> bool {
    let keywords = metadata.as_object().is_none_or(|map| map.keys().all(|key| key == "type" || key == "properties"));
    keywords && entries(metadata, "properties").all(|(name, _)| name == "name" || name == "generateName")
}
