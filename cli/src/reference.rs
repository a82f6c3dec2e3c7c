//! `c5c3 reference`: the API reference, made from the schemas that the API server enforces.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

use c5c3_api::Kind;
use serde_json::Value;

use crate::Done;
use crate::args::ReferenceArgs;
use crate::crds::write;

pub(crate) fn run(args: &ReferenceArgs) -> Done {
    let mut files: BTreeMap<String, String> = c5c3_api::all().iter().map(|kind| (file(kind), page(kind))).collect();
    files.insert("README.md".into(), index());
    write(&args.output, "md", &files)?;
    Ok(ExitCode::SUCCESS)
}

fn file(kind: &Kind) -> String {
    format!("{}_{}.md", kind.group(), kind.crd().spec.names.plural)
}

fn index() -> String {
    let mut text = String::from(
        "# API reference\n\nMade from the schemas by `make crds`; do not edit.\n\n| kind | apiVersion | short | scope | what it is |\n|---|---|---|---|---|\n",
    );
    for kind in c5c3_api::all() {
        let names = &kind.crd().spec.names;
        let short = names.short_names.clone().unwrap_or_default().join(", ");
        let _ = writeln!(
            text,
            "| [{}]({}) | `{}` | {short} | {} | {} |",
            kind.name(),
            file(kind),
            kind.api_version(),
            kind.crd().spec.scope,
            cell(description(&kind.open_api())),
        );
    }
    text
}

fn description(schema: &Value) -> &str {
    let spec = schema["properties"]["spec"]["description"].as_str();
    spec.or(schema["description"].as_str()).unwrap_or_default()
}

fn page(kind: &Kind) -> String {
    let schema = kind.open_api();
    let mut text = format!("# {}\n\n`{}`. {}\n", kind.name(), kind.api_version(), description(&schema));
    for part in ["spec", "status"] {
        let root = &schema["properties"][part];
        if root.is_object() {
            let _ = write!(text, "\n## {part}\n\n| field | type | default | what it is |\n|---|---|---|---|\n");
            rows(&mut text, root, part);
            rules(&mut text, root, part);
        }
    }
    if !kind.aliases.is_empty() {
        text.push_str("\n## Other spellings\n\n| accepted | means |\n|---|---|\n");
        for alias in kind.aliases {
            let _ = writeln!(text, "| `spec.{}` | `spec.{}` |", alias.alias, alias.canonical);
        }
    }
    text
}

fn rows(text: &mut String, schema: &Value, path: &str) {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let description = field["description"].as_str().unwrap_or_default();
        if description.starts_with("Another spelling of") {
            continue;
        }
        let default = match field.get("default") {
            Some(default) => format!("`{default}`"),
            None if required.contains(&name.as_str()) => "required".into(),
            None => String::new(),
        };
        let _ = writeln!(text, "| `{path}` | {} | {default} | {} |", type_of(field), cell(description));
        below(text, field, &path);
    }
}

/// The rows of what is inside a field. Kubernetes' own types are described by Kubernetes.
fn below(text: &mut String, field: &Value, path: &str) {
    if c5c3_api::FOREIGN.iter().any(|name| path.ends_with(name)) {
        return;
    }
    if field["items"].is_object() {
        return rows(text, &field["items"], &format!("{path}[]"));
    }
    if field["additionalProperties"].is_object() {
        return rows(text, &field["additionalProperties"], &format!("{path}.*"));
    }
    rows(text, field, path);
}

fn type_of(field: &Value) -> String {
    if field["x-kubernetes-int-or-string"] == true {
        return "quantity".into();
    }
    if let Some(values) = field["enum"].as_array() {
        let values: Vec<String> =
            values.iter().map(|value| format!("`{}`", value.as_str().unwrap_or_default())).collect();
        return values.join(" ");
    }
    match field["type"].as_str() {
        Some("array") => format!("list of {}", type_of(&field["items"])),
        Some("object") if field["additionalProperties"].is_object() => {
            format!("map of {}", type_of(&field["additionalProperties"]))
        }
        Some(other) => other.into(),
        None => "any".into(),
    }
}

/// The rules of the whole part, in words: those of single fields are said with the field.
fn rules(text: &mut String, schema: &Value, path: &str) {
    let mut found = Vec::new();
    collect(schema, path, &mut found);
    if !found.is_empty() {
        text.push_str("\nRefused:\n\n");
        for (path, message) in found {
            let _ = writeln!(text, "- `{path}` that {message}");
        }
    }
}

fn collect(schema: &Value, path: &str, found: &mut Vec<(String, String)>) {
    if schema["type"] == "object" {
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            if let Some(message) = rule["message"].as_str() {
                found.push((path.to_owned(), message.to_owned()));
            }
        }
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let spelled_twice = field["description"].as_str().is_some_and(|text| text.starts_with("Another spelling of"));
        if !spelled_twice {
            collect(field, &format!("{path}.{name}"), found);
        }
    }
    if schema["items"].is_object() {
        collect(&schema["items"], &format!("{path}[]"), found);
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
