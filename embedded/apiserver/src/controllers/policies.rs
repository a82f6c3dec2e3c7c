//! Admission policies: their expressions were checked when they were written, and their status says so.

use std::sync::Arc;

use serde_json::json;

use super::{CONTROLLERS, edit};
use crate::server::Server;
use crate::status::ApiError;

/// Says of a policy that it has been looked at.
pub(super) async fn reconcile(server: &Arc<Server>, key: &str) -> Result<(), ApiError> {
    let served = server.registry().find("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies");
    let Some(served) = served else { return Ok(()) };
    edit(server, CONTROLLERS, &served, key, |policy| {
        let generation = policy["metadata"]["generation"].clone();
        let status = &mut policy["status"];
        if status["observedGeneration"] == generation && status["typeChecking"].is_object() {
            return false;
        }
        status["observedGeneration"] = generation;
        status["typeChecking"] = json!({});
        true
    })
    .await
}
