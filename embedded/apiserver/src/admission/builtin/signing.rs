//! A request for a certificate says who made it, whatever its maker says.

use serde_json::{Value, json};

use crate::call::Call;

/// Writes down who asks.
pub(super) fn sign(call: &Call<'_>, request: &mut Value) {
    let asker = json!(call.user);
    let Some(spec) = request.get_mut("spec").and_then(Value::as_object_mut) else { return };
    for field in ["username", "uid", "groups", "extra"] {
        match asker.get(field) {
            Some(value) => drop(spec.insert(field.to_owned(), value.clone())),
            None => drop(spec.remove(field)),
        }
    }
}
