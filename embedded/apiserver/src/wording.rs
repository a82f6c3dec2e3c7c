//! What is wrong with a custom resource, in the words that clients know from a real API server.
//!
//! The schema crate speaks to people at a terminal. Here its findings are said again, from the schema and the value that
//! each is about.

use c5c3_schema::{Problem, ProblemKind, Problems};
use serde_json::{Value, json};

/// The problems of an object, reworded.
pub fn reworded(problems: &Problems, schema: &Value, object: &Value) -> Problems {
    let mut said = Problems::new();
    for problem in problems {
        said.push(Problem::new(problem.path.clone(), problem.kind, words(problem, schema, object), ""));
    }
    said
}

fn words(problem: &Problem, schema: &Value, object: &Value) -> String {
    let place = Place::find(&problem.path, schema, object);
    let (path, value, schema) = (&problem.path, place.value, place.schema);
    let is_missing = problem.what == "is missing";
    match problem.kind {
        ProblemKind::Required if is_missing => "Required value".into(),
        ProblemKind::Required => format!("Required value: {}", problem.message()),
        ProblemKind::TypeInvalid => {
            let (wanted, found) = (schema["type"].as_str().unwrap_or("integer or string"), type_of(value));
            format!("Invalid value: \"{found}\": {path} in body must be of type {wanted}: \"{found}\"")
        }
        ProblemKind::NotSupported => {
            let supported: Vec<String> =
                schema["enum"].as_array().into_iter().flatten().map(ToString::to_string).collect();
            format!("Unsupported value: {value}: supported values: {}", supported.join(", "))
        }
        ProblemKind::Duplicate => format!("Duplicate value: {}", place.key()),
        ProblemKind::TooLong => format!("Too long: may not be more than {} bytes", schema["maxLength"]),
        ProblemKind::TooMany => {
            let (limit, count) = match value {
                Value::Array(items) => (&schema["maxItems"], items.len()),
                other => (&schema["maxProperties"], other.as_object().map_or(0, serde_json::Map::len)),
            };
            format!("Too many: {count}: must have at most {limit} items")
        }
        ProblemKind::Forbidden => format!("Forbidden: {}", problem.message()),
        ProblemKind::Invalid | ProblemKind::Unknown => match bound(path, value, schema) {
            Some(why) => format!("Invalid value: {value}: {why}"),
            // A rule, or a combination of schemas: the value may be large, and is named by its type.
            None => format!("Invalid value: \"{}\": {}", type_of(value), problem.message()),
        },
    }
}

/// The bound that a value breaks.
fn bound(path: &str, value: &Value, schema: &Value) -> Option<String> {
    let number = |name: &str| schema[name].as_f64();
    let count = |name: &str| schema[name].as_u64();
    let exclusive = |name: &str| schema[name] == true;
    match value {
        Value::Number(found) => {
            let found = found.as_f64()?;
            if let Some(least) = number("minimum") {
                if exclusive("exclusiveMinimum") && found <= least {
                    return Some(format!("{path} in body should be greater than {}", schema["minimum"]));
                }
                if found < least {
                    return Some(format!("{path} in body should be greater than or equal to {}", schema["minimum"]));
                }
            }
            if let Some(most) = number("maximum") {
                if exclusive("exclusiveMaximum") && found >= most {
                    return Some(format!("{path} in body should be less than {}", schema["maximum"]));
                }
                if found > most {
                    return Some(format!("{path} in body should be less than or equal to {}", schema["maximum"]));
                }
            }
            number("multipleOf").map(|_| format!("{path} in body should be a multiple of {}", schema["multipleOf"]))
        }
        Value::String(text) => {
            let length = text.chars().count() as u64;
            if let Some(least) = count("minLength").filter(|least| length < *least) {
                return Some(format!("{path} in body should be at least {least} chars long"));
            }
            if let Some(pattern) = schema["pattern"].as_str()
                && !matches_pattern(schema, value)
            {
                return Some(format!("{path} in body should match '{pattern}'"));
            }
            None
        }
        Value::Array(items) => {
            let least = count("minItems").filter(|least| (items.len() as u64) < *least)?;
            Some(format!("{path} in body should have at least {least} items"))
        }
        Value::Object(fields) => {
            let least = count("minProperties").filter(|least| (fields.len() as u64) < *least)?;
            Some(format!("{path} in body should have at least {least} properties"))
        }
        Value::Null | Value::Bool(_) => None,
    }
}

/// Whether a text matches its pattern.
fn matches_pattern(schema: &Value, text: &Value) -> bool {
    let pattern = json!({"type": "object", "properties": {"text": {"type": "string", "pattern": schema["pattern"]}}});
    c5c3_schema::Schema::compile(&pattern)
        .is_ok_and(|pattern| pattern.validate(&json!({"text": text}), None).is_empty())
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() || number.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A value, its schema, and the schema of the list that it is in.
struct Place<'a> {
    value: &'a Value,
    schema: &'a Value,
    list: &'a Value,
}

impl<'a> Place<'a> {
    /// Follows a path such as `spec.hosts[0].names[a.b]`.
    fn find(path: &str, schema: &'a Value, object: &'a Value) -> Self {
        let mut place = Self { value: object, schema, list: &Value::Null };
        for step in steps(path) {
            if let (Value::Array(items), Ok(index)) = (place.value, step.parse::<usize>()) {
                let value = items.get(index).unwrap_or(&Value::Null);
                place = Self { value, schema: &place.schema["items"], list: place.schema };
            } else {
                let field = &place.schema["properties"][step];
                let schema = if field.is_null() { &place.schema["additionalProperties"] } else { field };
                place = Self { value: &place.value[step], schema, list: &Value::Null };
            }
        }
        place
    }

    /// What an item of a list is known by: its keys, or all of it.
    fn key(&self) -> Value {
        let keys = self.list["x-kubernetes-list-map-keys"].as_array();
        match keys {
            Some(keys) => {
                let pairs = keys.iter().filter_map(Value::as_str).map(|key| (key.to_owned(), self.value[key].clone()));
                Value::Object(pairs.collect())
            }
            None => self.value.clone(),
        }
    }
}

fn steps(path: &str) -> Vec<&str> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(bracketed) = rest.strip_prefix('[') {
            let (step, after) = bracketed.split_once(']').unwrap_or((bracketed, ""));
            steps.push(step);
            rest = after;
        } else {
            rest = rest.trim_start_matches('.');
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            steps.push(&rest[..end]);
            rest = &rest[end..];
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use c5c3_schema::Schema;

    use super::*;

    #[test]
    fn findings_read_like_those_of_a_real_server() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["must"], "properties": {
            "must": {"type": "string"},
            "size": {"type": "integer", "minimum": 1, "maximum": 9},
            "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 3},
            "sort": {"type": "string", "enum": ["a", "b"]},
            "list": {"type": "array", "maxItems": 2, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                     "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "string"}}}},
        }}}});
        let object = json!({"spec": {"size": 0, "name": "A", "sort": "c", "list": [{"k": "x", "v": "1"}, {"k": "x", "v": "2"}]}});
        let problems = Schema::compile(&schema).unwrap().validate(&object, None);
        let said: Vec<String> =
            reworded(&problems, &schema, &object).iter().map(|p| format!("{}: {}", p.path, p.message())).collect();
        for words in [
            "spec.must: Required value",
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
            "spec.name: Invalid value: \"A\": spec.name in body should match '^[a-z]+$'",
            "spec.sort: Unsupported value: \"c\": supported values: \"a\", \"b\"",
            "spec.list[1]: Duplicate value: {\"k\":\"x\"}",
        ] {
            assert!(said.iter().any(|said| said == words), "{words} is not in {said:#?}");
        }
    }

    #[test]
    fn paths_are_followed_through_lists_and_keys() {
        assert_eq!(steps("spec.hosts[0].names[a.b/c].x"), ["spec", "hosts", "0", "names", "a.b/c", "x"]);
        assert_eq!(steps(""), Vec::<&str>::new());
    }
}
