//! LimitRanges: what containers get that do not say what they need, and what is refused as too little or too much.

use c5c3_kinds::limits;
use serde_json::Value;

use crate::call::Call;
use crate::object::{meta, of_entry};
use crate::status::ApiError;

/// The ranges of the namespace that the request is about.
fn ranges(call: &Call<'_>) -> Vec<Value> {
    let served = call.server.registry().find("", "v1", "limitranges");
    let (Some(served), Some(namespace)) = (served, call.namespace()) else { return Vec::new() };
    let entries = call.server.store().list(&served.prefix(Some(namespace)));
    entries.iter().filter_map(|entry| of_entry(&served.resource, entry).ok()).collect()
}

/// Gives a new pod what it does not say.
pub(super) fn complete(call: &Call<'_>, pod: &mut Value) {
    for range in ranges(call) {
        limits::complete(&range, pod);
    }
}

/// Refuses what asks for too little or too much.
pub(super) fn judge(call: &Call<'_>, object: &Value) -> Result<(), ApiError> {
    let resource = &call.served.resource;
    let found: Vec<String> = ranges(call).iter().flat_map(|range| limits::excesses(range, resource, object)).collect();
    match found.as_slice() {
        [] => Ok(()),
        [one] => Err(ApiError::forbidden_object(resource, meta(object, "name"), one)),
        many => Err(ApiError::forbidden_object(resource, meta(object, "name"), &format!("[{}]", many.join(", ")))),
    }
}
