//! What stands in for External Secrets: Secrets that are read from a KV engine of OpenBao or Vault, and written to one.
//!
//! The engine may be the cluster's own [`store`](crate::store) or any other that speaks the same API. Provided are the
//! `vault` provider with KV version 2, logins with a token or a service account, ExternalSecrets with `data`,
//! `dataFrom.extract` and simple templates, and PushSecrets of one Secret. Whatever else is asked for is refused by name.

mod definitions;
mod external_secret;
mod push_secret;
mod refresh;
mod remote;
mod stores;
mod template;

use c5c3_api::ext::external_secrets::{ClusterSecretStore, ExternalSecret, PushSecret, SecretStore};
use k8s_openapi::api::core::v1::Secret;
use kube::{Client, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::queue;

pub(crate) use definitions::definitions;

/// The field manager.
const MANAGER: &str = "c5c3-external-secrets";

/// Looks after every SecretStore, ClusterSecretStore, ExternalSecret and PushSecret until `stop`.
pub(crate) async fn run(client: Client, stop: CancellationToken) {
    tokio::join!(
        queue::run(queue::controller::<SecretStore>(&client), client.clone(), stop.clone(), stores::reconcile),
        queue::run(queue::controller::<ClusterSecretStore>(&client), client.clone(), stop.clone(), stores::reconcile),
        external_secrets(client.clone(), stop.clone()),
        push_secrets(client, stop),
    );
}

async fn push_secrets(client: Client, stop: CancellationToken) {
    let controller = queue::naming_secrets(&client, |push: &PushSecret, secret| {
        let source = push.spec.selector.secret.as_ref().map(|source| source.name.as_str());
        push.namespace() == secret.namespace() && source == secret.metadata.name.as_deref()
    });
    queue::run(controller, client, stop, push_secret::reconcile).await;
}

async fn external_secrets(client: Client, stop: CancellationToken) {
    let controller = queue::controller::<ExternalSecret>(&client);
    let known = controller.store();
    let (label, value) = external_secret::LABEL;
    let secrets = queue::labelled::<Secret>(&client, &format!("{label}={value}"));
    let controller = controller.watches_stream(secrets, move |secret| {
        queue::concerned(&known, |external: &ExternalSecret| {
            external.namespace() == secret.namespace() && external.secret() == secret.metadata.name.as_deref()
        })
    });
    queue::run(controller, client, stop, external_secret::reconcile).await;
}
