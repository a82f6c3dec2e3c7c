//! Tables of custom resources: the name, then what the definition's printer columns say.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::columns::Column;
use super::format::{age, since};
use crate::read::str_at;
use crate::resource::Custom;

/// The columns of a definition; Name always comes first, and Age alone follows if none are declared.
pub(super) fn columns(definition: &Custom) -> Vec<Column> {
    let mut columns = vec![Column::built_in(&"Name")];
    if definition.columns.is_empty() {
        columns
            .push(Column::custom(&json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"})));
    }
    columns.extend(definition.columns.iter().cloned());
    columns
}

/// The cells of one object.
pub(super) fn cells(columns: &[Column], object: &Value, now: Timestamp) -> Vec<Value> {
    columns
        .iter()
        .enumerate()
        .map(|(at, column)| match (&column.path, at) {
            (None, 0) => json!(str_at(&object["metadata"], "name")),
            (None, _) => Value::Null,
            (Some(path), _) => {
                let found = path.find(object);
                found.first().map_or(Value::Null, |value| cell(&column.kind, value, object, now))
            }
        })
        .collect()
}

/// A value in the column's type; nothing if it is of another.
fn cell(kind: &str, value: &Value, object: &Value, now: Timestamp) -> Value {
    match kind {
        "integer" => value.as_i64().or_else(|| truncated(value)).map_or(Value::Null, |number| json!(number)),
        "number" if value.is_number() => value.clone(),
        "boolean" if value.is_boolean() => value.clone(),
        "string" => match value {
            Value::Null => Value::Null,
            Value::String(_) => value.clone(),
            other => json!(other.to_string()),
        },
        "date" => match value.as_str() {
            Some(text) if text == str_at(&object["metadata"], "creationTimestamp") => age(object, now),
            Some(text) => since(text, now).unwrap_or_else(|| json!("<invalid>")),
            None => Value::Null,
        },
        _ => Value::Null,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a fraction in an integer column is shown without it")]
fn truncated(value: &Value) -> Option<i64> {
    value.as_f64().map(|number| number as i64)
}

#[cfg(test)]
mod tests {
    use super::super::tests::now;
    use super::super::{IncludeObject, table};
    use super::*;
    use crate::resource::custom;

    fn rows(columns: &Value, object: &Value) -> (Vec<String>, Value) {
        let resources = custom(&json!({"spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "trees", "kind": "Tree"},
            "versions": [{"name": "v1", "served": true, "storage": true, "additionalPrinterColumns": columns}],
        }}));
        let table = table(&resources[0], std::slice::from_ref(object), IncludeObject::None, now());
        let names = table["columnDefinitions"].as_array().unwrap().iter();
        (names.map(|column| column["name"].as_str().unwrap().to_owned()).collect(), table["rows"][0]["cells"].clone())
    }

    #[test]
    fn without_printer_columns_a_custom_resource_shows_name_and_age() {
        let object = json!({"metadata": {"name": "oak", "creationTimestamp": "2024-05-01T11:00:00Z"}});
        let (names, cells) = rows(&json!([]), &object);
        assert_eq!(names, ["Name", "Age"]);
        assert_eq!(cells, json!(["oak", "60m"]));
    }

    #[test]
    fn printer_columns_are_evaluated_in_their_types() {
        let columns = json!([
            {"name": "Height", "type": "integer", "jsonPath": ".spec.height"},
            {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
            {"name": "Leaves", "type": "string", "jsonPath": ".spec.leaves"},
            {"name": "Old", "type": "boolean", "jsonPath": ".spec.old"},
            {"name": "Felled", "type": "date", "jsonPath": ".status.felled"},
            {"name": "Missing", "type": "string", "jsonPath": ".status.nowhere"},
            {"name": "Mistyped", "type": "integer", "jsonPath": ".metadata.name"},
        ]);
        let object = json!({
            "metadata": {"name": "oak"},
            "spec": {"height": 7, "old": true, "leaves": ["a"]},
            "status": {"felled": "2024-04-29T12:00:00Z", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        let (_, cells) = rows(&columns, &object);
        assert_eq!(cells, json!(["oak", 7, "True", "[\"a\"]", true, "2d", null, null]));
    }
}
