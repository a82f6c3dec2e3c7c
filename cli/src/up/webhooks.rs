//! The admission webhooks of an embedded cluster: `kubectl apply` refuses what an operator would call an invalid spec.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Duration;

use c5c3_auth::Pki;
use c5c3_kit::Operator;
use c5c3_kit::webhook::{self, Certificates};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use kube::Client;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::operators::apply;
use crate::{manifests, operator};

/// How long the certificate is good for. A new one is written with each start.
const LIFE: Duration = Duration::from_hours(24 * 365);

/// What the registration is called.
const NAME: &str = "c5c3-operators";

/// Serves the webhooks on this machine and tells the API server of them.
pub(super) async fn start(
    client: &Client,
    folder: &Path,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot serve admission webhooks: {error}");
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| failed(&error))?;
    let address = listener.local_addr().map_err(|error| failed(&error))?;
    let authority = certify(folder).map_err(|error| failed(&error))?;
    let operators = operator::all(false);
    let webhooks = operator::webhooks(&operators, false);
    let (certificates, stop) = (Certificates::in_folder(folder), stop.clone());
    tasks.spawn(async move {
        if let Err(error) = webhook::serve(listener, webhooks, certificates, stop).await {
            tracing::warn!(%error, "admission webhooks are not served; operators tell on objects what is wrong with them");
        }
    });
    let kinds = operators.iter().flat_map(Operator::kinds);
    let known = kinds.filter_map(|(version, kind)| c5c3_api::find(version, kind));
    let rules: Vec<Value> = known.map(manifests::rule).collect();
    apply(client, &registration(address, &authority, &rules)).await.map_err(|error| failed(&error))
}

/// Writes a certificate for this machine, and gives the authority that signed it.
fn certify(folder: &Path) -> Result<ByteString, Box<dyn std::error::Error>> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let pki = Pki::in_memory(&[], Timestamp::now())?;
    let identity = pki.issue_server(&["127.0.0.1"], LIFE, Timestamp::now())?;
    std::fs::write(folder.join("tls.crt"), &identity.certificate)?;
    c5c3_files::write_private(&folder.join("tls.key"), identity.key.expose_secret().as_bytes())?;
    Ok(ByteString(pki.ca_pem().into()))
}

/// While the webhook is unavailable, the operators report in the object's status what it would refuse.
fn registration(address: SocketAddr, authority: &ByteString, rules: &[Value]) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/part-of": "c5c3"}},
        "webhooks": [{
            "name": format!("validating.{NAME}.c5c3.io"),
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": format!("https://{address}/validate"), "caBundle": authority},
            "failurePolicy": "Ignore",
            "matchPolicy": "Equivalent",
            "rules": rules,
            "sideEffects": "None",
            "timeoutSeconds": 5,
        }],
    })
}

#[cfg(test)]
mod tests {
    use c5c3_harness::TestCluster;
    use kube::api::{DynamicObject, PostParams};
    use kube::core::{ApiResource, GroupVersionKind};
    use kube::{Api, Error};

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn what_an_operator_would_refuse_is_refused_by_the_api_server() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let Some(cluster) = TestCluster::embedded("the webhooks listen on this machine").await.unwrap() else { return };
        let kind = GroupVersionKind::gvk("c5c3.io", "v1alpha1", "ControlPlane");
        cluster.install(&c5c3_api::find("c5c3.io/v1alpha1", "ControlPlane").unwrap().crd()).await.unwrap();
        let (folder, tasks, stop) = (tempfile::tempdir().unwrap(), TaskTracker::new(), CancellationToken::new());
        start(&cluster.client(), &folder.path().join("webhooks"), &tasks, &stop).await.unwrap();
        let planes: Api<DynamicObject> = Api::default_namespaced_with(cluster.client(), &ApiResource::from_gvk(&kind));
        let create = async |rule: &str| {
            let spec = json!({"services": {"keystone": {"policyOverrides": {"rules": {"identity:list_users": rule}}}}});
            let object = json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane", "metadata": {"name": "lab"}, "spec": spec});
            let params = PostParams { dry_run: true, ..PostParams::default() };
            planes.create(&params, &serde_json::from_value(object).unwrap()).await
        };
        create("role:admin").await.unwrap();
        let Err(Error::Api(refused)) = create("role:admin or").await else { panic!("it was taken") };
        let field = "spec.services.keystone.policyOverrides.rules.identity:list_users";
        assert!(refused.code == 422 && refused.message.contains(field), "{refused:?}");
        stop.cancel();
    }
}
