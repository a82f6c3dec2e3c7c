//! Certificate, Issuer and ClusterIssuer of cert-manager.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::{Conditions, IssuerRef, NamedRef};
use crate::blocks::Condition;

const OPERATOR: &str = "cert-manager";

/// A certificate, kept in a Secret with `tls.crt`, `tls.key` and, if the issuer knows its CA, `ca.crt`. The Secret
/// outlives the Certificate.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "cert-manager.io",
    version = "v1",
    kind = "Certificate",
    plural = "certificates",
    namespaced,
    status = "CertificateStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct CertificateSpec {
    /// The Secret.
    #[serde(default)]
    pub secret_name: String,
    /// Who signs.
    #[serde(default)]
    pub issuer_ref: IssuerRef,
    /// Common name, at most 64 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_name: Option<String>,
    /// Host names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns_names: Vec<String>,
    /// IP addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ip_addresses: Vec<String>,
    /// URIs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uris: Vec<String>,
    /// The rest of the subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// How long it is valid, such as `2160h`; 90 days when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<String>,
    /// How long before its end it is renewed; a third of its life when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_before: Option<String>,
    /// What it is for; digital signature and key encipherment when absent, which is not enough for a TLS server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub usages: Vec<Usage>,
    /// Whether it may sign others.
    #[serde(default, rename = "isCA", skip_serializing_if = "Option::is_none")]
    pub is_ca: Option<bool>,
    /// The private key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_key: Option<PrivateKey>,
    /// Labels and annotations of the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_template: Option<SecretTemplate>,
    /// How many CertificateRequests are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i32>,
}

/// The subject of a certificate beside its common name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// Organizations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub organizations: Vec<String>,
    /// Units of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub organizational_units: Vec<String>,
}

/// The private key of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PrivateKey {
    /// Algorithm; RSA when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<KeyAlgorithm>,
    /// Size in bits; 2048 for RSA and 256 for ECDSA when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i32>,
    /// Encoding in the Secret; PKCS1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<KeyEncoding>,
    /// Whether a renewal makes a new key; `Always` when absent, `Never` before cert-manager 1.18.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation_policy: Option<RotationPolicy>,
}

words! {
    /// Algorithm of a private key.
    KeyAlgorithm {
        /// RSA.
        Rsa = "RSA",
        /// ECDSA.
        Ecdsa = "ECDSA",
        /// Ed25519.
        Ed25519 = "Ed25519",
    }
}

words! {
    /// Encoding of a private key.
    KeyEncoding {
        /// PKCS#1.
        Pkcs1 = "PKCS1",
        /// PKCS#8.
        Pkcs8 = "PKCS8",
    }
}

words! {
    /// Whether a renewal makes a new private key.
    RotationPolicy {
        /// It keeps the key.
        Never = "Never",
        /// It makes a new one.
        Always = "Always",
    }
}

words! {
    /// What a certificate is for. cert-manager knows more.
    Usage {
        /// To sign data.
        DigitalSignature = "digital signature",
        /// To exchange keys, as TLS with RSA does.
        KeyEncipherment = "key encipherment",
        /// To sign certificates.
        CertSign = "cert sign",
        /// To sign revocation lists.
        CrlSign = "crl sign",
        /// To be a TLS server.
        ServerAuth = "server auth",
        /// To be a TLS client.
        ClientAuth = "client auth",
    }
}

/// Labels and annotations of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SecretTemplate {
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// What cert-manager reports of a Certificate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateStatus {
    /// `Ready` and, while a certificate is being issued, `Issuing`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Start of its validity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Time>,
    /// End of its validity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Time>,
    /// When it will be renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewal_time: Option<Time>,
    /// How often it was issued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
}

/// Who signs the certificates of a namespace. Exactly one field may be set, which only cert-manager's webhook checks.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "cert-manager.io",
    version = "v1",
    kind = "Issuer",
    plural = "issuers",
    namespaced,
    status = "Conditions",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct IssuerSpec {
    /// Each certificate signs itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_signed: Option<SelfSigned>,
    /// A CA in a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<CaIssuer>,
    /// OpenBao or Vault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vault: Option<VaultIssuer>,
}

/// Who signs the certificates of a cluster. Secrets are those of cert-manager's own namespace.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "cert-manager.io",
    version = "v1",
    kind = "ClusterIssuer",
    plural = "clusterissuers",
    status = "Conditions",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
pub struct ClusterIssuerSpec {
    /// The same as in an [`Issuer`].
    #[serde(flatten)]
    pub issuer: IssuerSpec,
}

/// Each certificate signs itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SelfSigned {}

/// A CA in a Secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CaIssuer {
    /// The Secret with `tls.crt` and `tls.key`.
    #[serde(default)]
    pub secret_name: String,
}

/// The PKI engine of OpenBao or Vault.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VaultIssuer {
    /// URL of the server.
    #[serde(default)]
    pub server: String,
    /// Path that signs, such as `pki/sign/openstack-internal`.
    #[serde(default)]
    pub path: String,
    /// How cert-manager logs in.
    #[serde(default)]
    pub auth: VaultIssuerAuth,
    /// CA of the server, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<ByteString>,
    /// CA of the server, in a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle_secret_ref: Option<OptionalKey>,
    /// Certificate that cert-manager shows to the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cert_secret_ref: Option<OptionalKey>,
    /// Key of that certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key_secret_ref: Option<OptionalKey>,
}

/// How cert-manager logs in. Set one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VaultIssuerAuth {
    /// With a service account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<VaultIssuerKubernetes>,
    /// With a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_secret_ref: Option<OptionalKey>,
}

/// A login with a service account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VaultIssuerKubernetes {
    /// Role in the server.
    #[serde(default)]
    pub role: String,
    /// Where the method is mounted, with the leading `/v1/auth/`; `/v1/auth/kubernetes` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_path: Option<String>,
    /// The service account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_ref: Option<NamedRef>,
}

/// A Secret and one of its keys, which has a default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OptionalKey {
    /// Name of the Secret.
    #[serde(default)]
    pub name: String,
    /// Key in the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

ready_by_condition!(OPERATOR; Certificate, Issuer, ClusterIssuer);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ext::{Readiness, Ready};
    use serde_json::json;

    #[test]
    fn a_certificate_that_was_ready_before_the_last_edit_is_not_ready() {
        let certificate = |observed: i64| {
            let certificate: Certificate = serde_json::from_value(json!({
                "apiVersion": "cert-manager.io/v1", "kind": "Certificate",
                "metadata": {"name": "seal", "generation": 5},
                "spec": {"secretName": "seal", "issuerRef": {"name": "stamp"},
                    "usages": ["server auth", "new in 2030"]},
                "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready",
                    "message": "Certificate is up to date and has not expired", "observedGeneration": observed}]},
            }))
            .unwrap();
            certificate
        };
        assert_eq!(certificate(5).readiness(), Ready::Yes);
        assert!(!certificate(4).readiness().is_yes());
        assert_eq!(certificate(5).spec.usages, [Usage::ServerAuth, Usage::Unknown]);
    }

    #[test]
    fn an_issuer_passes_on_what_cert_manager_says() {
        let issuer: ClusterIssuer = serde_json::from_value(json!({
            "apiVersion": "cert-manager.io/v1", "kind": "ClusterIssuer",
            "metadata": {"name": "stamp", "generation": 1}, "spec": {"acme": {"server": "https://acme.example.com"}},
            "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "ErrInitIssuer",
                "message": "secret \"stamp-ca\" not found", "observedGeneration": 1}]},
        }))
        .unwrap();
        assert_eq!(issuer.spec, ClusterIssuerSpec::default());
        let message = "secret \"stamp-ca\" not found".to_string();
        assert_eq!(issuer.readiness(), Ready::No { reason: "ErrInitIssuer".into(), message });
    }
}
