//! How single values are written in cells.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::duration::human_duration;
use crate::read::{entries_at, list_at, str_at};

pub(super) const NONE: &str = "<none>";
pub(super) const UNKNOWN: &str = "<unknown>";
pub(super) const UNSET: &str = "<unset>";

/// The object's name.
pub(super) fn name(object: &Value) -> Value {
    json!(str_at(&object["metadata"], "name"))
}

/// How long ago the object was created.
pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    ago(&object["metadata"]["creationTimestamp"], now)
}

/// How long ago a timestamp was; `<unknown>` without one.
pub(super) fn ago(timestamp: &Value, now: Timestamp) -> Value {
    timestamp.as_str().and_then(|text| since(text, now)).unwrap_or_else(|| json!(UNKNOWN))
}

/// How long ago a timestamp was, if it is one.
pub(super) fn since(text: &str, now: Timestamp) -> Option<Value> {
    let then: Timestamp = text.parse().ok()?;
    Some(json!(human_duration(now.duration_since(then))))
}

/// The text at `key`, or what stands for its absence.
pub(super) fn text_or<'v>(value: &'v Value, key: &str, absent: &'v str) -> &'v str {
    match str_at(value, key) {
        "" => absent,
        text => text,
    }
}

/// A string, a number or a boolean without quotes.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `True`, `False`, or `<unset>`.
pub(super) fn yes_no(value: &Value) -> &'static str {
    match value.as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => UNSET,
    }
}

/// Items joined by commas, or `<none>`.
pub(super) fn joined<T: AsRef<str>>(items: &[T]) -> String {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).filter(|item| !item.is_empty()).collect();
    if items.is_empty() { NONE.to_owned() } else { items.join(",") }
}

/// The first few items and how many more there are.
pub(super) fn first_few(items: &[String], most: usize) -> String {
    let more = items.len().saturating_sub(most);
    let shown = joined(&items[..items.len() - more]);
    if more == 0 { shown } else { format!("{shown} + {more} more...") }
}

/// Labels as `a=b,c=d`.
pub(super) fn labels(of: &Value, key: &str) -> String {
    let labels: Vec<String> = entries_at(of, key).map(|(key, value)| format!("{key}={}", plain(value))).collect();
    joined(&labels)
}

/// A label selector as one would type it.
pub(super) fn selector(selector: &Value) -> String {
    let mut terms: Vec<String> =
        entries_at(selector, "matchLabels").map(|(key, value)| format!("{key}={}", plain(value))).collect();
    for expression in list_at(selector, "matchExpressions") {
        let (key, values) = (str_at(expression, "key"), crate::read::strings_at(expression, "values").join(","));
        terms.push(match str_at(expression, "operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => continue,
        });
    }
    joined(&terms)
}

/// Names and images of the containers of a pod spec.
pub(super) fn containers(spec: &Value) -> [Value; 2] {
    ["name", "image"].map(|key| {
        let texts: Vec<&str> = list_at(spec, "containers").iter().map(|container| str_at(container, key)).collect();
        json!(texts.join(","))
    })
}

/// The condition of that type.
pub(super) fn condition<'v>(object: &'v Value, kind: &str) -> Option<&'v Value> {
    list_at(&object["status"], "conditions").iter().find(|condition| str_at(condition, "type") == kind)
}

/// Whether the condition of that type is true.
pub(super) fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| str_at(condition, "status") == "True")
}
