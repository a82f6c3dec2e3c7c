//! What stands in for cert-manager: issuers that sign for themselves or by an authority in a Secret, and certificates.
//!
//! Keys are ECDSA P-256 in PKCS#8, also for a Certificate that does not say what it wants (cert-manager makes RSA then); other
//! algorithms are refused by name, and so are other issuers. There are no CertificateRequests: who asks and who signs
//! is the same here. As with cert-manager, the Secret outlives its Certificate, and the Secrets of ClusterIssuers are in
//! the namespace `cert-manager`.

mod certificate;
mod decide;
mod definitions;
mod issuer;

use c5c3_api::ext::cert_manager::{Certificate, ClusterIssuer, Issuer};
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::controller::Controller;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::queue;
use issuer::Signs;

pub(crate) use definitions::definitions;

/// The field manager.
const MANAGER: &str = "c5c3-cert-manager";

/// The namespace of the Secrets of ClusterIssuers.
const HOME: &str = "cert-manager";

/// The label of every Secret that belongs to cert-manager, and its value.
const LABEL: (&str, &str) = ("controller.cert-manager.io/fao", "true");

/// Looks after every Issuer, ClusterIssuer and Certificate until `stop`.
pub(crate) async fn run(client: Client, stop: CancellationToken) {
    tokio::join!(
        queue::run(issuers::<Issuer>(&client), client.clone(), stop.clone(), issuer::reconcile),
        queue::run(issuers::<ClusterIssuer>(&client), client.clone(), stop.clone(), issuer::reconcile),
        certificates(client, stop),
    );
}

/// A controller of issuers, which looks again when the Secret of an authority changes: that is anybody's.
fn issuers<I: Signs>(client: &Client) -> Controller<I> {
    queue::naming_secrets(client, |issuer: &I, secret| {
        let named = issuer.spec().ca.as_ref().map(|ca| ca.secret_name.as_str());
        secret.metadata.namespace.as_ref() == Some(&issuer.home()) && named == secret.metadata.name.as_deref()
    })
}

async fn certificates(client: Client, stop: CancellationToken) {
    let controller = queue::controller::<Certificate>(&client);
    let (by_secret, by_issuer, by_cluster_issuer) = (controller.store(), controller.store(), controller.store());
    let secrets = queue::labelled::<Secret>(&client, &format!("{}={}", LABEL.0, LABEL.1));
    let issued_by = |certificate: &Certificate, kind: &str, name: &str| {
        let issuer = &certificate.spec.issuer_ref;
        issuer.name == name && issuer.kind.as_deref().unwrap_or("Issuer") == kind
    };
    let config = watcher::Config::default;
    let controller = controller
        .watches_stream(secrets, move |secret| {
            queue::concerned(&by_secret, |certificate: &Certificate| {
                certificate.namespace() == secret.namespace() && certificate.spec.secret_name == secret.name_any()
            })
        })
        .watches(Api::<Issuer>::all(client.clone()), config(), move |issuer| -> Vec<ObjectRef<Certificate>> {
            queue::concerned(&by_issuer, |certificate: &Certificate| {
                certificate.namespace() == issuer.namespace() && issued_by(certificate, "Issuer", &issuer.name_any())
            })
        })
        .watches(Api::<ClusterIssuer>::all(client.clone()), config(), move |issuer| -> Vec<ObjectRef<Certificate>> {
            queue::concerned(&by_cluster_issuer, |certificate: &Certificate| {
                issued_by(certificate, "ClusterIssuer", &issuer.name_any())
            })
        });
    queue::run(controller, client, stop, certificate::reconcile).await;
}
