//! What the server does about the annotation of client-side apply when `kubectl` moves to server-side apply.

use serde_json::Value;

use crate::conflict::Conflict;
use crate::depth::too_deep;
use crate::object;
use crate::shape::Shape;
use crate::writer::Writer;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The most that all annotations of an object may come to.
const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;

/// The conflicts that remain when `kubectl` applies: fields that the annotation says it applied before, and that still
/// have that value, are its own. Other managers keep all of theirs.
pub(crate) fn forgive(shape: &Shape, live: &Value, writer: &Writer<'_>, conflicts: Vec<Conflict>) -> Vec<Conflict> {
    let Some(mine) = still_as_applied(shape, live, writer) else { return conflicts };
    conflicts.into_iter().filter(|conflict| !mine.contains(&conflict.path.0)).collect()
}

fn still_as_applied(shape: &Shape, live: &Value, writer: &Writer<'_>) -> Option<crate::FieldSet> {
    let text = annotation(live).filter(|_| writer.manager == "kubectl")?;
    let last: Value = serde_json::from_str(text).ok()?;
    if last["apiVersion"] != writer.api_version || too_deep(&last) || !object::check(shape, &last).is_empty() {
        return None;
    }
    let since = object::compare(shape, &last, live);
    Some(object::field_set(shape, &last).difference(&since.changed().union(&since.removed)))
}

/// Keeps the annotation in step with what `kubectl` applied, so that it can go back to client-side apply.
pub(crate) fn refresh(object: &mut Value, applied: &Value, writer: &Writer<'_>) {
    if writer.manager != "kubectl" || annotation(object).is_none() {
        return;
    }
    let mut applied = applied.clone();
    if let Some(Value::Object(annotations)) = applied.pointer_mut("/metadata/annotations") {
        annotations.remove(ANNOTATION);
    }
    let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") else { return };
    annotations.insert(ANNOTATION.to_owned(), Value::from(format!("{applied}\n")));
    let size: usize = annotations.iter().map(|(name, text)| name.len() + text.as_str().map_or(0, str::len)).sum();
    if size > MAX_ANNOTATIONS_BYTES {
        annotations.remove(ANNOTATION);
    }
}

fn annotation(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][ANNOTATION].as_str().filter(|text| !text.is_empty())
}
