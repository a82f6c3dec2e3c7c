//! JSON patch (RFC 6902), bounded in operations, depth and what copies may come to.

use serde_json::Value;

use super::PatchError;
use super::pointer::{Pointer, existing, insertable};
use crate::depth::{MAX_DEPTH, deeper_than, too_deep};
use crate::scalar::same;

/// The most operations that a patch may hold.
const MAX_OPERATIONS: usize = 10_000;

/// What all copies of a patch may come to: the size of a request. Without it, 40 copies of the document into itself
/// fill the memory of any machine.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// The object with a JSON patch applied. All operations apply, or none.
pub fn json_patch(target: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Value::Array(operations) = patch else {
        return Err(PatchError::Malformed("a JSON patch is a list of operations".to_owned()));
    };
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooManyOperations { max: MAX_OPERATIONS, got: operations.len() });
    }
    if too_deep(target) || too_deep(patch) {
        return Err(PatchError::TooDeep);
    }
    let mut patching = Patching { document: target.clone(), copied: 0 };
    operations.iter().try_for_each(|operation| patching.run(operation))?;
    Ok(patching.document)
}

struct Patching {
    document: Value,
    copied: usize,
}

impl Patching {
    fn run(&mut self, operation: &Value) -> Result<(), PatchError> {
        let path = pointer(operation, "path")?;
        match operation["op"].as_str() {
            Some("add") => self.add(&path, given_value(operation)?.clone(), "add"),
            Some("remove") => self.remove(&path, "remove").map(drop),
            Some("replace") => self.replace(&path, given_value(operation)?),
            Some("move") => {
                let from = pointer(operation, "from")?;
                if path.tokens.len() > from.tokens.len() && path.tokens.starts_with(&from.tokens) {
                    return Err(does_not_apply("move", "a value cannot be moved into itself", &path));
                }
                let value = self.remove(&from, "move")?;
                self.add(&path, value, "move")
            }
            Some("copy") => self.copy(&pointer(operation, "from")?, &path),
            Some("test") => self.test(&path, operation.get("value").unwrap_or(&Value::Null)),
            Some(other) => Err(PatchError::DoesNotApply(format!("Unexpected kind: {other}"))),
            None => Err(PatchError::Malformed("a JSON patch operation needs an \"op\"".to_owned())),
        }
    }

    fn add(&mut self, path: &Pointer, value: Value, op: &str) -> Result<(), PatchError> {
        match MAX_DEPTH.checked_sub(path.tokens.len()) {
            Some(left) if !deeper_than(&value, left) => {}
            _ => return Err(PatchError::TooDeep),
        }
        match path.parent(&mut self.document) {
            None => self.document = value,
            Some((Some(Value::Object(fields)), name)) => drop(fields.insert(name.to_owned(), value)),
            Some((Some(Value::Array(items)), token)) => {
                let place = insertable(token, items.len()).ok_or_else(|| invalid_index(op, token, path))?;
                items.insert(place, value);
            }
            Some(_) => return Err(missing(op, "path", path)),
        }
        Ok(())
    }

    fn remove(&mut self, path: &Pointer, op: &str) -> Result<Value, PatchError> {
        match path.parent(&mut self.document) {
            None => Ok(self.document.take()),
            Some((Some(Value::Object(fields)), name)) => fields.remove(name).ok_or_else(|| missing(op, "key", path)),
            Some((Some(Value::Array(items)), token)) => {
                let place = existing(token, items.len()).ok_or_else(|| invalid_index(op, token, path))?;
                Ok(items.remove(place))
            }
            Some(_) => Err(missing(op, "path", path)),
        }
    }

    fn replace(&mut self, path: &Pointer, value: &Value) -> Result<(), PatchError> {
        if path.find(&self.document).is_none() {
            return Err(missing("replace", "key", path));
        }
        if let Some((Some(Value::Array(items)), token)) = path.parent(&mut self.document)
            && let Some(place) = existing(token, items.len())
        {
            items[place] = value.clone();
            return Ok(());
        }
        self.add(path, value.clone(), "replace")
    }

    fn copy(&mut self, from: &Pointer, path: &Pointer) -> Result<(), PatchError> {
        let value = from.find(&self.document).ok_or_else(|| missing("copy", "from path", from))?;
        self.copied += value.to_string().len();
        if self.copied > MAX_COPIED_BYTES {
            return Err(PatchError::CopiesTooMuch { size: self.copied, limit: MAX_COPIED_BYTES });
        }
        let value = value.clone();
        self.add(path, value, "copy")
    }

    fn test(&self, path: &Pointer, expected: &Value) -> Result<(), PatchError> {
        match path.find(&self.document) {
            Some(found) if same(found, expected) => Ok(()),
            None if expected.is_null() => Ok(()),
            _ => Err(PatchError::TestFailed(path.text.clone())),
        }
    }
}

fn pointer(operation: &Value, name: &str) -> Result<Pointer, PatchError> {
    let text = operation[name].as_str();
    let text = text.ok_or_else(|| PatchError::Malformed(format!("a JSON patch operation needs a {name:?}")))?;
    Pointer::parse(text)
}

fn given_value(operation: &Value) -> Result<&Value, PatchError> {
    operation.get("value").ok_or_else(|| PatchError::Malformed("a JSON patch operation needs a \"value\"".to_owned()))
}

fn does_not_apply(op: &str, why: &str, path: &Pointer) -> PatchError {
    PatchError::DoesNotApply(format!("{op} operation does not apply: {why}: {}", path.text))
}

fn missing(op: &str, what: &str, path: &Pointer) -> PatchError {
    PatchError::DoesNotApply(format!(
        "{op} operation does not apply: doc is missing {what}: {}: missing value",
        path.text
    ))
}

fn invalid_index(op: &str, token: &str, path: &Pointer) -> PatchError {
    PatchError::DoesNotApply(format!(
        "{op} operation does not apply: {}: Unable to access invalid index: {token}: invalid index referenced",
        path.text
    ))
}
