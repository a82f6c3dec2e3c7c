//! The admission that every cluster has: what it fills in from other objects, and refuses because of them.
//!
//! Not done, because nothing here would ever undo it: finalizers that protect volumes in use, the taint of a node that is
//! not ready yet.

mod accounts;
mod classes;
mod limits;
mod pod_security;
mod priorities;
mod runtime_classes;
mod signing;
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
                runtime_classes::admit(call, object)?;
                limits::complete(call, object);
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
        ("certificates.k8s.io", "CertificateSigningRequest") if creates => {
            signing::sign(call, object);
            Ok(())
        }
        ("scheduling.k8s.io", "PriorityClass") => priorities::only_default(call, object),
        _ => Ok(()),
    }
}

/// Refuses a complete object that other objects do not allow. What a pod asks for cannot change after it is created.
pub(super) fn judge(call: &Call<'_>, operation: &str, object: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    pod_security::judge(call, operation, object, old)?;
    let resource = &call.served.resource;
    let is_judged = match operation {
        "CREATE" => resource.is("", "Pod") || resource.is("", "PersistentVolumeClaim"),
        "UPDATE" => resource.is("", "PersistentVolumeClaim"),
        _ => false,
    };
    if is_judged && call.target.subresource.is_none() { limits::judge(call, object) } else { Ok(()) }
}

/// Every object of a built-in kind that is in no namespace, in the order of their names.
fn all(server: &Server, group: &str, plural: &str) -> Vec<Value> {
    let Some(served) = server.registry().find(group, "v1", plural) else { return Vec::new() };
    let entries = server.store().list(&served.prefix(None));
    entries.iter().filter_map(|entry| of_entry(&served.resource, entry).ok()).collect()
}
