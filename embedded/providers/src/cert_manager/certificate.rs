//! Looks after Certificates.

use std::time::Duration;

use c5c3_api::ext::cert_manager::{Certificate, CertificateStatus, ClusterIssuer, Issuer};
use c5c3_auth::Signer;
use c5c3_kit::condition::{ConditionState, find};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::{Client, ResourceExt};
use secrecy::ExposeSecret;
use serde_json::json;

use super::decide::{self, ASKED, Current, Held};
use super::issuer::{Authority, Signed, authority};
use super::{LABEL, MANAGER};
use crate::failure::Error;
use crate::objects;
use crate::queue::RESYNC;

/// How a Certificate stands.
enum Standing {
    /// Its Secret holds what it asks for; whether that was made just now.
    Good(Current, bool),
    /// It has to wait, or to change.
    Not(ConditionState),
}

/// Brings a Certificate's Secret to what it asks for, and says how that went.
pub(super) async fn reconcile(certificate: Certificate, client: Client) -> Result<Action, Error> {
    if certificate.metadata.deletion_timestamp.is_some() {
        // The Secret stays.
        return Ok(Action::await_change());
    }
    // Certificates know no parts of a second.
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default();
    let standing = attend(&certificate, &client, now).await?;
    let status = status(&certificate, &standing, now);
    objects::report(&client, &certificate, MANAGER, certificate.status.as_ref(), &status).await?;
    Ok(Action::requeue(match standing {
        Standing::Good(current, _) => {
            Duration::try_from(current.renewal.duration_since(now)).unwrap_or_default().min(RESYNC)
        }
        // Whatever it waits for, issuers and its own spec, is watched.
        Standing::Not(_) => RESYNC,
    }))
}

async fn attend(certificate: &Certificate, client: &Client, now: Timestamp) -> Result<Standing, Error> {
    let (spec, namespace) = (&certificate.spec, certificate.namespace().unwrap_or_default());
    let secret = objects::find::<Secret>(client, &namespace, &spec.secret_name).await?;
    let held =
        secret.as_ref().map(|secret| Held { data: objects::text(secret), annotations: secret.annotations().clone() });
    let (reason, why) = match decide::current(spec, held.as_ref(), now) {
        Ok(current) => return Ok(Standing::Good(current, false)),
        Err(reason) => reason,
    };
    let no = |reason: &str, message: String| Ok(Standing::Not(ConditionState::unmet("Ready", reason, message)));
    let asked = match decide::asked(spec, now) {
        Ok(asked) => asked,
        Err(problem) => return no("InvalidSpec", problem),
    };
    let renewal = match decide::renewal(spec, asked.from, asked.until) {
        Ok(renewal) => renewal,
        Err(problem) => return no("InvalidSpec", problem),
    };
    let authority = match issuer(client, certificate, &namespace).await? {
        Ok(authority) => authority,
        Err(waiting) => return no(reason, format!("{why}; {waiting}")),
    };
    let had = held.as_ref().and_then(|held| held.data.get("tls.key")).filter(|_| decide::keeps_key(spec));
    let key = had.and_then(|key| Signer::from_pem(key).ok()).map_or_else(Signer::generate, Ok);
    let signed = key.and_then(|key| authority.sign(&key, &asked).map(|signed| (key, signed)));
    let (key, signed) = match signed {
        Ok(signed) => signed,
        Err(error) => return no("Failed", format!("The certificate could not be signed: {error}")),
    };
    store(client, certificate, &namespace, &key, &signed).await?;
    Ok(Standing::Good(Current { from: asked.from, until: asked.until, renewal }, true))
}

/// Who signs for a Certificate, or what is waited for.
async fn issuer(
    client: &Client,
    certificate: &Certificate,
    namespace: &str,
) -> Result<Result<Authority, String>, Error> {
    let asked = &certificate.spec.issuer_ref;
    let kind = asked.kind.as_deref().unwrap_or("Issuer");
    let group = asked.group.as_deref().unwrap_or("cert-manager.io");
    let missing = || Ok(Err(format!("waiting for the {kind} {}, which is not there", asked.name)));
    let found = match (group, kind) {
        ("cert-manager.io", "Issuer") => match objects::find::<Issuer>(client, namespace, &asked.name).await? {
            Some(issuer) => authority(client, &issuer).await?,
            None => return missing(),
        },
        ("cert-manager.io", "ClusterIssuer") => {
            let api = Api::<ClusterIssuer>::all(client.clone());
            match api
                .get_opt(&asked.name)
                .await
                .map_err(Error::api(format!("read the ClusterIssuer {}", asked.name)))?
            {
                Some(issuer) => authority(client, &issuer).await?,
                None => return missing(),
            }
        }
        _ => return Ok(Err(format!("spec.issuerRef: a {kind} of {group} is nothing that signs here"))),
    };
    Ok(found.map_err(|said| format!("the {kind} {} is not ready: {}", asked.name, said.message)))
}

/// Writes the Secret. It is no one's child: it outlives the Certificate, as with cert-manager.
async fn store(
    client: &Client,
    certificate: &Certificate,
    namespace: &str,
    key: &Signer,
    signed: &Signed,
) -> Result<(), Error> {
    let spec = &certificate.spec;
    let template = spec.secret_template.clone().unwrap_or_default();
    let (mut labels, mut annotations) = (template.labels, template.annotations);
    labels.insert(LABEL.0.into(), LABEL.1.into());
    let facts = [
        ("cert-manager.io/certificate-name", certificate.name_any()),
        ("cert-manager.io/common-name", spec.common_name.clone().unwrap_or_default()),
        ("cert-manager.io/alt-names", spec.dns_names.join(",")),
        ("cert-manager.io/ip-sans", spec.ip_addresses.join(",")),
        ("cert-manager.io/uri-sans", spec.uris.join(",")),
        ("cert-manager.io/issuer-name", spec.issuer_ref.name.clone()),
        ("cert-manager.io/issuer-kind", spec.issuer_ref.kind.clone().unwrap_or_else(|| "Issuer".to_owned())),
        ("cert-manager.io/issuer-group", "cert-manager.io".to_owned()),
        (ASKED, decide::fingerprint(spec)),
    ];
    annotations.extend(facts.map(|(name, value)| (name.to_owned(), value)));
    let values = [
        ("tls.crt", signed.chain.clone()),
        ("tls.key", key.pem().expose_secret().to_owned()),
        ("ca.crt", signed.authority.clone()),
    ];
    let metadata =
        json!({"name": spec.secret_name, "namespace": namespace, "labels": labels, "annotations": annotations});
    let secret = objects::secret_child(&metadata, "kubernetes.io/tls", values).object;
    let params = PatchParams::apply(MANAGER).force();
    let api = Api::<Secret>::namespaced(client.clone(), namespace);
    let written = api.patch(&spec.secret_name, &params, &Patch::Apply(&secret)).await;
    written.map(drop).map_err(Error::api(format!("write the Secret {namespace}/{}", spec.secret_name)))
}

fn status(certificate: &Certificate, standing: &Standing, now: Timestamp) -> CertificateStatus {
    let before = certificate.status.clone().unwrap_or_default();
    let said = match standing {
        Standing::Good(..) => ConditionState::met("Ready", "Ready", "Certificate is up to date and has not expired"),
        Standing::Not(said) => said.clone(),
    };
    let ready = said.to_condition(find(&before.conditions, "Ready"), certificate.metadata.generation, now);
    let mut status = CertificateStatus { conditions: vec![ready], ..before };
    match standing {
        Standing::Good(current, new) => {
            status.not_before = Some(Time(current.from));
            status.not_after = Some(Time(current.until));
            status.renewal_time = Some(Time(current.renewal));
            status.revision = Some(status.revision.unwrap_or(0) + i64::from(*new)).filter(|revision| *revision > 0);
        }
        Standing::Not(said) => {
            let issuing = ConditionState::met("Issuing", said.reason.clone(), said.message.clone());
            let issuing =
                issuing.to_condition(find(&before.conditions, "Issuing"), certificate.metadata.generation, now);
            status.conditions.push(issuing);
        }
    }
    status
}
