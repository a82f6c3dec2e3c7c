//! Reading one object.

use c5c3_store::Entry;
use serde_json::Value;

use crate::call::Call;
use crate::conversion;
use crate::status::ApiError;

/// What is stored of the object that a reader asks for.
pub(super) fn entry(call: &Call<'_>) -> Result<Entry, ApiError> {
    if let Some(wanted) = call.query.get("resourceVersion") {
        let wanted: u64 =
            wanted.parse().map_err(|_| ApiError::bad_request(format!("invalid resource version {wanted:?}")))?;
        call.server.not_in_the_future(wanted)?;
    }
    stored(call)
}

/// An object as readers see it.
pub(super) async fn shown(call: &Call<'_>, entry: &Entry) -> Result<Value, ApiError> {
    let object = conversion::of_entry(call.server, &call.served.resource, entry).await?;
    Ok(call.served.readable(object))
}

/// The object that the request names, and its entry in the store.
pub(super) async fn live(call: &Call<'_>) -> Result<(Entry, Value), ApiError> {
    let entry = stored(call)?;
    let object = shown(call, &entry).await?;
    Ok((entry, object))
}

fn stored(call: &Call<'_>) -> Result<Entry, ApiError> {
    let name = call.name()?;
    call.server.store().get(&call.key(name)).ok_or_else(|| ApiError::not_found(&call.served.resource, name))
}
