//! The text of a contract's file: YAML with one line for each field.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::select::{ITEM, VALUE};

/// Before keywords that Kubernetes adds to OpenAPI; a contract leaves it out.
const EXTENSION: &str = "x-kubernetes-";
/// How the object itself is written.
const ROOT: &str = ".";
const HEADER: &str = "# Facts about a kind of another project, as far as we write or read it. \
                      Made by `make contracts`: docs/contracts.md.";

pub(crate) fn written(group: &str, version: &str, head: &Map<String, Value>, schema: &Value) -> String {
    let mut lines = vec![HEADER.to_owned(), format!("group: {group}"), format!("version: {version}")];
    lines.extend(["names", "scope", "subresources"].map(|field| format!("{field}: {}", flow(&head[field]))));
    match head["columns"].as_array() {
        Some(columns) if !columns.is_empty() => {
            lines.push("columns:".into());
            lines.extend(columns.iter().map(|column| format!("- {}", flow(column))));
        }
        _ => lines.push("columns: []".into()),
    }
    lines.push("fields:".into());
    let mut fields = Vec::new();
    flatten(schema, "", &mut fields);
    lines.extend(fields.into_iter().map(|(path, facts)| format!("  {path}: {}", flow(&facts.into()))));
    lines.join("\n") + "\n"
}

/// One entry for each field, parents first.
fn flatten(schema: &Value, path: &str, fields: &mut Vec<(String, Map<String, Value>)>) {
    let mut facts = Map::new();
    let mut inner = Vec::new();
    for (keyword, value) in sorted(schema) {
        match keyword.as_str() {
            "properties" => {
                let name = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
                inner.extend(sorted(value).into_iter().map(|(key, value)| (name(key), value)));
            }
            "items" => inner.push((format!("{path}{ITEM}"), value)),
            "additionalProperties" if value.is_object() => inner.push((format!("{path}.{VALUE}"), value)),
            _ => {
                facts.insert(keyword.strip_prefix(EXTENSION).unwrap_or(keyword).to_owned(), value.clone());
            }
        }
    }
    fields.push((if path.is_empty() { ROOT.to_owned() } else { path.to_owned() }, facts));
    for (path, schema) in inner {
        flatten(schema, &path, fields);
    }
}

/// The fields of an object by name: whether JSON keeps another order depends on what else is built.
fn sorted(value: &Value) -> BTreeMap<&String, &Value> {
    value.as_object().into_iter().flatten().collect()
}

/// The schema that such entries are of.
pub(crate) fn nested(fields: &Map<String, Value>) -> Result<Value, String> {
    let mut root = json!({});
    for (path, facts) in fields {
        let facts = facts.as_object().ok_or_else(|| format!("{path}: {facts} are no facts"))?;
        let mut at = &mut root;
        for step in steps(path) {
            at = match step {
                ITEM => &mut at["items"],
                VALUE => &mut at["additionalProperties"],
                name => &mut at["properties"][name],
            };
        }
        for (keyword, value) in facts {
            // Of the keywords of OpenAPI itself, none has a dash.
            let keyword = if keyword.contains('-') { format!("{EXTENSION}{keyword}") } else { keyword.clone() };
            at[keyword] = value.clone();
        }
    }
    Ok(root)
}

fn steps(path: &str) -> Vec<&str> {
    let mut steps = Vec::new();
    for name in path.split('.').filter(|name| !name.is_empty()) {
        let bare = name.trim_end_matches(ITEM);
        steps.push(bare);
        steps.extend(std::iter::repeat_n(ITEM, (name.len() - bare.len()) / ITEM.len()));
    }
    steps
}

/// A value in one line of YAML, with quotes only where they are needed.
fn flow(value: &Value) -> String {
    match value {
        Value::Object(_) => {
            let fields: Vec<String> =
                sorted(value).into_iter().map(|(name, value)| format!("{}: {}", word(name), flow(value))).collect();
            format!("{{{}}}", fields.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::String(text) => word(text),
        other => other.to_string(),
    }
}

fn word(text: &str) -> String {
    let is_plain = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_/.".contains(c))
        // What a reader of YAML may take for something else than text.
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&text.to_lowercase().as_str());
    if is_plain { text.to_owned() } else { Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_comes_back_from_its_lines() {
        let schema = json!({"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object", "properties": {
            "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
                "items": {"type": "object", "properties": {"port": {"x-kubernetes-int-or-string": true}}}},
            "grid": {"type": "array", "items": {"type": "array", "items": {"type": "number", "minimum": 0.5}}},
            "labels": {"type": "object", "additionalProperties": {"type": "string", "pattern": "^[a: {]+ #$"}},
            "mode": {"type": "string", "enum": ["on", "Off-peak", ""], "default": "on"},
        }}}});
        let text = written(
            "example.org",
            "v1",
            json!({"names": {}, "scope": "", "subresources": {}, "columns": []}).as_object().unwrap(),
            &schema,
        );
        let read: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(nested(read["fields"].as_object().unwrap()).unwrap(), schema, "{text}");
        assert!(text.contains("  spec.grid[][]: {minimum: 0.5, type: number}\n"), "{text}");
    }
}
