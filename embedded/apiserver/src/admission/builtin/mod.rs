//! The admission that every cluster has: what it fills in from other objects, and refuses because of them.
//!
//! Not done, because nothing here would ever undo it: finalizers that protect volumes in use, the taint of a node that is
//! not ready yet.

mod accounts;
mod classes;
mod priorities;
mod tolerations;

use serde_json::Value;

use crate::call::Call;
use crate::object::of_entry;
use crate::server::Server;
use crate::status::ApiError;

/// Completes an object that is about to be created or changed, or says why it may not be.
pub(super) async fn admit(
    call: &Call<'_>,
    operation: &str,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let resource = &call.served.resource;
    if resource.custom().is_some() || call.target.subresource.is_some() || !object.is_object() {
        return Ok(());
    }
    let creates = operation == "CREATE";
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "Pod") => {
            if creates {
                accounts::admit(call, object).await?;
            }
            priorities::admit(call, object, old)?;
            tolerations::add(object);
            Ok(())
        }
        ("", "PersistentVolumeClaim") if creates => {
            classes::storage(call.server, object);
            Ok(())
        }
        ("networking.k8s.io", "Ingress") if creates => {
            classes::ingress(call.server, object);
            Ok(())
        }
        ("scheduling.k8s.io", "PriorityClass") => priorities::only_default(call, object),
        _ => Ok(()),
    }
}

/// Every object of a built-in kind that is in no namespace, in the order of their names.
fn all(server: &Server, group: &str, plural: &str) -> Vec<Value> {
    let Some(served) = server.registry().find(group, "v1", plural) else { return Vec::new() };
    let entries = server.store().list(&served.prefix(None));
    entries.iter().filter_map(|entry| of_entry(&served.resource, entry).ok()).collect()
}
