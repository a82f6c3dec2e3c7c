//! The authority of the webhook's certificate in its webhook configurations, so that API servers trust the webhook.

use std::path::{Path, PathBuf};
use std::time::Duration;

use c5c3_kit::Task;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::{CONFIGURATION, NAME};

/// How often the file is looked at: as often as a kubelet brings a new one.
const INTERVAL: Duration = Duration::from_mins(1);

/// Keeps the configurations up to date until the task is stopped.
pub(crate) async fn follow(mut task: Task, folder: Option<PathBuf>) {
    task.started();
    let (client, stop) = (task.client.clone(), task.stop.clone());
    let Some(folder) = folder else { return stop.cancelled().await };
    let work = async {
        loop {
            if let Err(error) = refresh(&client, &folder).await {
                tracing::warn!(error, "cannot write the authority of the webhook's certificate to its configuration");
            }
            tokio::time::sleep(INTERVAL).await;
        }
    };
    stop.run_until_cancelled(work).await;
}

/// Writes the authority where another one stands. A configuration that is not there stays absent.
async fn refresh(client: &Client, folder: &Path) -> Result<(), String> {
    let file = folder.join("ca.crt");
    let authority = tokio::fs::read(&file).await.map_err(|error| format!("{}: {error}", file.display()))?;
    let authority = json!(ByteString(authority));
    let kinds = [
        ApiResource::erase::<MutatingWebhookConfiguration>(&()),
        ApiResource::erase::<ValidatingWebhookConfiguration>(&()),
    ];
    for kind in kinds {
        let api = Api::<DynamicObject>::all_with(client.clone(), &kind);
        let Some(found) = api.get_opt(CONFIGURATION).await.map_err(|error| error.to_string())? else { continue };
        let Some(patch) = patch(&found.data, &authority) else { continue };
        let params = PatchParams { field_manager: Some(NAME.into()), ..PatchParams::default() };
        let patch = Patch::Json::<()>(serde_json::from_value(patch).map_err(|error| error.to_string())?);
        api.patch(CONFIGURATION, &params, &patch).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// What has to be changed in a configuration, as a JSON patch. It holds only for the webhooks that were read.
fn patch(configuration: &Value, authority: &Value) -> Option<Value> {
    let webhooks = configuration["webhooks"].as_array()?;
    let differs = |(_, hook): &(usize, &Value)| hook["clientConfig"]["caBundle"] != *authority;
    let change = |(index, hook): (usize, &Value)| {
        [
            json!({"op": "test", "path": format!("/webhooks/{index}/name"), "value": hook["name"]}),
            json!({"op": "add", "path": format!("/webhooks/{index}/clientConfig/caBundle"), "value": authority}),
        ]
    };
    let changes: Vec<Value> = webhooks.iter().enumerate().filter(differs).flat_map(change).collect();
    (!changes.is_empty()).then(|| changes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_webhooks_with_another_authority_are_changed() {
        let found = json!({"webhooks": [
            {"name": "a", "clientConfig": {"caBundle": "bmV3"}}, {"name": "b", "clientConfig": {}},
        ]});
        let changed = patch(&found, &json!("bmV3")).unwrap();
        assert_eq!(changed[0], json!({"op": "test", "path": "/webhooks/1/name", "value": "b"}));
        assert_eq!(changed[1]["path"], "/webhooks/1/clientConfig/caBundle");
        assert_eq!(changed.as_array().unwrap().len(), 2);
        assert_eq!(patch(&json!({"webhooks": [found["webhooks"][0]]}), &json!("bmV3")), None);
    }
}
