//! What is used of quotas, in their status.

use std::sync::Arc;

use serde_json::json;

use super::{CONTROLLERS, Change, edit};
use crate::object::meta;
use crate::quotas::{quotas, used, written};
use crate::server::Server;
use crate::status::ApiError;

/// Whether a change is one that the quotas of its namespace count, or of one of them: a status that another wrote is put
/// right.
pub(super) fn counts(server: &Server, change: &Change) -> bool {
    let namespace = &change.head.metadata.namespace;
    !namespace.is_empty() && !quotas(server, namespace).is_empty()
}

/// Brings the status of a namespace's quotas up to date.
pub(super) async fn reconcile(server: &Arc<Server>, namespace: &str) -> Result<(), ApiError> {
    let Some(served) = server.registry().find("", "v1", "resourcequotas") else { return Ok(()) };
    for quota in quotas(server, namespace) {
        let status = json!({"hard": quota["spec"]["hard"], "used": written(&used(server, &quota))});
        let key = served.key(Some(namespace), meta(&quota, "name"));
        edit(server, CONTROLLERS, &served, &key, |stored| {
            let is_same = stored["status"] == status || stored["spec"] != quota["spec"];
            if !is_same {
                stored["status"] = status.clone();
            }
            !is_same
        })
        .await?;
    }
    Ok(())
}
