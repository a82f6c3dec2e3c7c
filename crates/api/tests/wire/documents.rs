//! Documents for tests: the seeds, the examples.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The YAML documents of a text.
pub(crate) fn parse(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The fields of `before` that are not in `after` with the same value.
pub(crate) fn lost(before: &Value, after: &Value, path: &str) -> Vec<String> {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => before
            .iter()
            .flat_map(|(field, value)| {
                let path = format!("{path}.{field}");
                after.get(field).map_or_else(|| vec![format!("{path} is gone")], |after| lost(value, after, &path))
            })
            .collect(),
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            let items = before.iter().zip(after).enumerate();
            items.flat_map(|(index, (before, after))| lost(before, after, &format!("{path}[{index}]"))).collect()
        }
        (Value::Number(before), Value::Number(after)) if before.as_f64() == after.as_f64() => Vec::new(),
        (before, after) if before == after => Vec::new(),
        (before, after) => vec![format!("{path} was {before} and is {after}")],
    }
}
