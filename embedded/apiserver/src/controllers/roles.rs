//! ClusterRoles that are made of others follow them.

use std::sync::Arc;

use c5c3_auth::rbac::aggregate;
use serde_json::{Value, json};

use super::{CONTROLLERS, edit};
use crate::object::{meta, of_entry};
use crate::server::Server;
use crate::status::ApiError;

/// Brings every role that is made of others up to date.
pub(super) async fn reconcile(server: &Arc<Server>) -> Result<(), ApiError> {
    let served = server.registry().find("rbac.authorization.k8s.io", "v1", "clusterroles");
    let served = &served.ok_or_else(ApiError::no_such_path)?;
    let entries = server.store().list(&served.prefix(None));
    let all: Vec<Value> =
        entries.iter().map(|entry| of_entry(&served.resource, entry)).collect::<Result<_, ApiError>>()?;
    for role in &all {
        let Some(rules) = aggregate(role, &all).map(|rules| json!(rules)) else { continue };
        if role["rules"] == rules || (role["rules"].is_null() && rules == json!([])) {
            continue;
        }
        let key = served.key(None, meta(role, "name"));
        edit(server, CONTROLLERS, served, &key, |role| {
            let changed = role["rules"] != rules;
            role["rules"] = rules.clone();
            changed
        })
        .await?;
    }
    Ok(())
}
