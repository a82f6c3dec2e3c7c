//! Reading one object.

use c5c3_store::Entry;
use serde_json::Value;

use crate::call::Call;
use crate::conversion;
use crate::status::ApiError;

/// The object that the request names.
pub(crate) async fn get(call: &Call<'_>) -> Result<Value, ApiError> {
    if let Some(wanted) = call.query.get("resourceVersion") {
        let wanted: u64 =
            wanted.parse().map_err(|_| ApiError::bad_request(format!("invalid resource version {wanted:?}")))?;
        call.server.not_in_the_future(wanted)?;
    }
    live(call).await.map(|(_, object)| object)
}

/// The object that the request names, and its entry in the store.
pub(super) async fn live(call: &Call<'_>) -> Result<(Entry, Value), ApiError> {
    let name = call.name()?;
    let resource = &call.served.resource;
    let entry = call.server.store().get(&call.key(name)).ok_or_else(|| ApiError::not_found(resource, name))?;
    let object = call.served.readable(conversion::of_entry(call.server, resource, &entry).await?);
    Ok((entry, object))
}
