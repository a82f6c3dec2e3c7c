//! Fencing on an embedded cluster: the power switch of a node, as a webhook that follows the contract of `docs/hypervisors.md`.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use c5c3_cluster::{Ask, Folder};
use c5c3_operator_ha::{FENCING_SECRET, FenceAnswer, FenceRequest, FenceState};
use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use k8s_openapi::ByteString;
use kube::Client;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use subtle::ConstantTimeEq as _;

use super::operators::apply;

/// Where it is served.
const PATH: &str = "/fence";

/// Switches nodes of this cluster off for whoever has the token.
#[derive(Clone)]
pub(super) struct PowerSwitch {
    folder: Folder,
    token: Arc<SecretString>,
}

impl PowerSwitch {
    /// The switch of the cluster in this folder. Its token is as old as this process.
    pub(super) fn new(folder: &Folder) -> Self {
        let token = format!("{:032x}{:032x}", rand::random::<u128>(), rand::random::<u128>());
        Self { folder: folder.clone(), token: Arc::new(token.into()) }
    }

    pub(super) fn routes(&self) -> Router {
        Router::new().route(PATH, post(fence)).with_state(self.clone())
    }

    /// Writes the Secret by which the operator finds the switch, where it looks for it.
    pub(super) async fn publish(
        &self,
        client: &Client,
        namespace: &str,
        at: &(SocketAddr, ByteString),
    ) -> Result<(), String> {
        for object in self.objects(namespace, at) {
            apply(client, &object)
                .await
                .map_err(|error| format!("cannot publish the power switch of nodes: {error}"))?;
        }
        Ok(())
    }

    /// The Secret, and its namespace, which is there before the cloud is.
    fn objects(&self, namespace: &str, (address, authority): &(SocketAddr, ByteString)) -> [Value; 2] {
        let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": FENCING_SECRET, "namespace": namespace, "labels": {"app.kubernetes.io/part-of": "c5c3"}},
            "data": {
                "url": bytes(&format!("https://{address}{PATH}")),
                "token": bytes(self.token.expose_secret()),
                "ca.crt": authority,
            },
        });
        [json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}), secret]
    }

    fn knows(&self, headers: &HeaderMap) -> bool {
        let told = headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        told.is_some_and(|told| bool::from(told.ct_eq(self.token.expose_secret().as_bytes())))
    }
}

/// Switches a node off. One that is off stays off, so the same request may come again.
async fn fence(
    State(switch): State<PowerSwitch>,
    headers: HeaderMap,
    Json(request): Json<FenceRequest>,
) -> Result<Json<FenceAnswer>, StatusCode> {
    if !switch.knows(&headers) {
        return Err(StatusCode::UNAUTHORIZED);
    }
    let FenceRequest { id, node, reason, .. } = request;
    let asked = c5c3_cluster::ask(&switch.folder, &Ask::Stop(node.clone())).await;
    let (state, message) = match asked {
        Ok(message) => (FenceState::Off, message),
        Err(message) => (FenceState::Failed, message),
    };
    tracing::warn!(node, id, reason, message, "fenced");
    Ok(Json(FenceAnswer { id, state, message }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_is_found_in_the_namespace_of_the_cloud() {
        let data = tempfile::tempdir().unwrap();
        let switch = PowerSwitch::new(&Folder::new(data.path()).unwrap());
        let at = ("10.123.0.1:9443".parse().unwrap(), ByteString(b"authority".to_vec()));
        let [namespace, secret] = switch.objects("orchard", &at);
        assert_eq!(
            (&namespace["metadata"]["name"], &secret["metadata"]["namespace"]),
            (&json!("orchard"), &json!("orchard"))
        );
    }

    #[tokio::test]
    async fn nothing_is_switched_off_without_the_token_and_nothing_is_confirmed_that_did_not_happen() {
        let data = tempfile::tempdir().unwrap();
        let switch = PowerSwitch::new(&Folder::new(data.path()).unwrap());
        let request = || Json(FenceRequest::new("pear", "1", jiff::Timestamp::UNIX_EPOCH));
        let ask = async |token: &str| {
            let headers = [(AUTHORIZATION, format!("Bearer {token}").parse().unwrap())].into_iter().collect();
            fence(State(switch.clone()), headers, request()).await
        };
        assert_eq!(ask("guess").await.unwrap_err(), StatusCode::UNAUTHORIZED);
        assert_eq!(
            fence(State(switch.clone()), HeaderMap::new(), request()).await.unwrap_err(),
            StatusCode::UNAUTHORIZED
        );
        let Json(answer) = ask(switch.token.expose_secret()).await.unwrap();
        assert_eq!((answer.state, answer.id), (FenceState::Failed, "1-0".to_owned()), "no cluster runs in this folder");
    }
}
