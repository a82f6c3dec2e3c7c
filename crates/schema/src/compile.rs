//! From a CRD's JSON to [`Node`]s. Reads only what it needs and refuses only what it cannot apply; whether a schema is
//! one that Kubernetes would install is [`lint`](crate::lint())'s question.

use regex::RegexBuilder;
use serde_json::{Map, Value};

use crate::cel::Rule;
use crate::format::Format;
use crate::node::{Additional, Kind, Limits, ListType, Node};
use crate::words;

/// Why a schema cannot be compiled. `at` is a path into the schema: `properties.spec.items`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The schema is not a structural schema.
    #[error("{}{what}", place(at))]
    NotStructural {
        /// Where in the schema.
        at: String,
        /// What is wrong with it.
        what: String,
    },
    /// A `pattern` is not a regular expression.
    #[error("{}pattern {pattern:?} is not a regular expression: {why}", place(at))]
    Pattern {
        /// Where in the schema.
        at: String,
        /// The pattern.
        pattern: String,
        /// What the regular expression compiler says.
        why: String,
    },
    /// A rule in `x-kubernetes-validations` does not compile.
    #[error("{}rule {rule:?} does not compile: {why}", place(at))]
    Rule {
        /// Where in the schema.
        at: String,
        /// The CEL expression.
        rule: String,
        /// What the CEL compiler says.
        why: String,
    },
}

fn place(at: &str) -> String {
    if at.is_empty() { "the schema: ".to_owned() } else { format!("the schema's {at}: ") }
}

/// A schema nested deeper than this is refused rather than risking the stack; Kubernetes' own are below 40.
const DEEPEST: usize = 100;

pub(crate) fn compile(schema: &Value) -> Result<Node, CompileError> {
    node(schema, "", 0)
}

fn node(schema: &Value, at: &str, depth: usize) -> Result<Node, CompileError> {
    let Some(map) = schema.as_object() else {
        return Err(malformed(at, "must be an object"));
    };
    if depth > DEEPEST {
        return Err(malformed(at, "is nested too deep"));
    }
    if map.contains_key("$ref") {
        return Err(malformed(at, "must not use $ref"));
    }
    let below = |value: &Value, name: &str| node(value, &join(at, name), depth + 1);

    let mut node = scalars(map, at)?;
    for (name, value) in object(map, "properties", at)?.into_iter().flatten() {
        let child = below(value, &format!("properties.{name}"))?;
        node.properties.insert(name.clone(), Box::new(child));
    }
    node.additional = match map.get("additionalProperties") {
        None | Some(Value::Null | Value::Bool(false)) => Additional::None,
        Some(Value::Bool(true)) => Additional::Any,
        Some(value) => Additional::Of(Box::new(below(value, "additionalProperties")?)),
    };
    if let Some(items) = map.get("items") {
        node.items = Some(Box::new(below(items, "items")?));
    }
    if let Some(not) = map.get("not") {
        node.not = Some(Box::new(below(not, "not")?));
    }
    for (name, branches) in [("allOf", &mut node.all_of), ("anyOf", &mut node.any_of), ("oneOf", &mut node.one_of)] {
        for (i, branch) in list(map, name, at)?.iter().enumerate() {
            branches.push(below(branch, &format!("{name}[{i}]"))?);
        }
    }
    let children = || {
        let additional = match &node.additional {
            Additional::Of(node) => Some(&**node),
            _ => None,
        };
        (node.properties.values().map(AsRef::as_ref).chain(additional)).chain(node.items.as_deref())
    };
    node.ruled = !node.rules.is_empty() || children().any(|child| child.ruled);
    node.keyed = node.list != ListType::Atomic || children().any(|child| child.keyed);
    Ok(node)
}

/// Everything of a node but its children.
fn scalars(map: &Map<String, Value>, at: &str) -> Result<Node, CompileError> {
    let kind = match map.get("type") {
        None | Some(Value::Null) => None,
        Some(name) => Some(
            name.as_str()
                .and_then(Kind::parse)
                .ok_or_else(|| malformed(&join(at, "type"), &format!("{name} is not a type")))?,
        ),
    };
    let number = |name: &str| map.get(name).and_then(Value::as_f64);
    let count = |name: &str| map.get(name).and_then(Value::as_u64);
    let flag = |name: &str| map.get(name) == Some(&Value::Bool(true));
    let text = |name: &str| map.get(name).and_then(Value::as_str);
    let strings = |name: &str| -> Result<Vec<String>, CompileError> {
        list(map, name, at)?
            .iter()
            .map(|value| {
                (value.as_str().map(str::to_owned))
                    .ok_or_else(|| malformed(&join(at, name), "must be a list of strings"))
            })
            .collect()
    };
    Ok(Node {
        kind,
        nullable: flag("nullable"),
        int_or_string: flag("x-kubernetes-int-or-string"),
        preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
        embedded: flag("x-kubernetes-embedded-resource"),
        summary: text("description").and_then(words::first_sentence),
        default: map.get("default").filter(|v| !v.is_null()).cloned(),
        limits: Limits {
            minimum: number("minimum"),
            maximum: number("maximum"),
            exclusive_minimum: flag("exclusiveMinimum"),
            exclusive_maximum: flag("exclusiveMaximum"),
            multiple_of: number("multipleOf"),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
        },
        required: strings("required")?,
        allowed: match map.get("enum") {
            None => None,
            Some(_) => Some(list(map, "enum", at)?.to_vec()).filter(|values| !values.is_empty()),
        },
        pattern: text("pattern").filter(|pattern| !pattern.is_empty()).map(|source| pattern(source, at)).transpose()?,
        format: text("format").and_then(|name| Format::parse(name, kind)),
        list: match text("x-kubernetes-list-type") {
            Some("set") => ListType::Set,
            Some("map") => ListType::Map(strings("x-kubernetes-list-map-keys")?),
            _ => ListType::Atomic,
        },
        atomic_map: text("x-kubernetes-map-type") == Some("atomic"),
        rules: list(map, "x-kubernetes-validations", at)?
            .iter()
            .map(|rule| Rule::compile(rule, at))
            .collect::<Result<_, _>>()?,
        ..Node::default()
    })
}

/// Go's and Rust's regular expressions are one family; the limit is raised because Go's counts differently and
/// genuine CRDs hold bounded repetitions such as `{0,253}` of Unicode classes.
fn pattern(source: &str, at: &str) -> Result<regex::Regex, CompileError> {
    RegexBuilder::new(source).size_limit(64 << 20).build().map_err(|error| CompileError::Pattern {
        at: at.to_owned(),
        pattern: source.to_owned(),
        why: error.to_string(),
    })
}

fn object<'a>(
    map: &'a Map<String, Value>,
    name: &str,
    at: &str,
) -> Result<Option<&'a Map<String, Value>>, CompileError> {
    match map.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(_) => Err(malformed(&join(at, name), "must be an object")),
    }
}

fn list<'a>(map: &'a Map<String, Value>, name: &str, at: &str) -> Result<&'a [Value], CompileError> {
    match map.get(name) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(malformed(&join(at, name), "must be a list")),
    }
}

fn malformed(at: &str, what: &str) -> CompileError {
    CompileError::NotStructural { at: at.to_owned(), what: what.to_owned() }
}

fn join(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") }
}
