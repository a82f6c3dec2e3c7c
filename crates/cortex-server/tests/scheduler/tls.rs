//! The scheduler's own listener with TLS.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use axum::http::Request;
use c5c3_auth::Pki;
use c5c3_cortex_server::Settings;
use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use secrecy::ExposeSecret;
use serde_json::json;

use crate::{Running, TOKEN, body, cluster, until};

/// A new authority, and in the folder its certificate and one that it issued for this machine.
fn certify(folder: &Path) {
    let pki = Pki::in_memory(&[], Timestamp::now()).unwrap();
    let identity = pki.issue_server(&["127.0.0.1"], Duration::from_hours(1), Timestamp::now()).unwrap();
    std::fs::write(folder.join("ca.crt"), pki.ca_pem()).unwrap();
    std::fs::write(folder.join("tls.crt"), &identity.certificate).unwrap();
    std::fs::write(folder.join("tls.key"), identity.key.expose_secret()).unwrap();
}

/// A client that trusts only the authority of a folder, and sends a token.
async fn client(address: SocketAddr, trusted: &Path, token: &str) -> Client {
    let config: Kubeconfig = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "cortex",
        "clusters": [{"name": "cortex", "cluster":
            {"server": format!("https://{address}"), "certificate-authority": trusted.join("ca.crt")}}],
        "users": [{"name": "nova", "user": {"token": token}}],
        "contexts": [{"name": "cortex", "context": {"cluster": "cortex", "user": "nova"}}],
    }))
    .unwrap();
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

/// The body of the answer, or everything that is said about why there is none.
async fn ask(client: &Client) -> Result<String, String> {
    let body = body("s-1", 1024, &["hv-1", "hv-2"], false).to_string().into_bytes();
    let request = Request::post("/scheduler/nova/external").header("content-type", "application/json").body(body);
    client.request_text(request.unwrap()).await.map_err(|error| format!("{error:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_answered_over_tls_to_who_trusts_its_authority_and_not_in_the_clear() {
    let Some(cluster) = cluster(&[("hv-1", 4096), ("hv-2", 8192)]).await else { return };
    let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    certify(own.path());
    certify(other.path());
    let certificates = Some(own.path().to_owned());
    let scheduler = Running::launch_with(&cluster, |settings| Settings { certificates, ..settings });
    until("it is ready", async || scheduler.readiness.is_ready()).await;

    let answered = ask(&client(scheduler.address, own.path(), TOKEN).await).await;
    assert_eq!(answered.as_deref(), Ok(r#"{"hosts":["hv-2","hv-1"]}"#));
    let refused = ask(&client(scheduler.address, own.path(), "wrong").await).await.unwrap_err();
    assert!(refused.contains("the request has no bearer token, or a wrong one"), "{refused}");
    let untrusted = ask(&client(scheduler.address, other.path(), TOKEN).await).await.unwrap_err();
    assert!(untrusted.contains("UnknownIssuer") || untrusted.contains("BadSignature"), "{untrusted}");

    let plain = scheduler.try_send("POST", "/scheduler/nova/external", TOKEN, "{}").await;
    assert!(
        !plain.contains("HTTP/1.1 200") && !plain.contains("HTTP/1.1 4"),
        "no request is read in the clear: {plain}"
    );
    scheduler.stop().await;
}
