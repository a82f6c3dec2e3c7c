//! Certificates for what a service listens on.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Image, ObjectName, SecretRef};

const ONE_SOURCE: &str = "!has(self.issuerRef) || !has(self.certSecretRef)";
const TWO_SOURCES: &str = "has both issuerRef and certSecretRef; set issuerRef to have certificates issued, or certSecretRef \
                           for one of yours";
const SOURCE: &str = "!self.enabled || has(self.issuerRef) || has(self.certSecretRef)";
const NO_SOURCE: &str = "is enabled without a certificate; set issuerRef or certSecretRef, or set enabled to false";

/// Whether and with which certificate a service speaks TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(ONE_SOURCE).message(TWO_SOURCES),
    validation = Rule::new(SOURCE).message(NO_SOURCE)
)]
pub struct Tls {
    /// Whether TLS is used.
    #[serde(default)]
    pub enabled: bool,
    /// The cert-manager issuer that signs certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer_ref: Option<IssuerRef>,
    /// A Secret with `tls.crt`, `tls.key` and `ca.crt` that exists already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_secret_ref: Option<SecretRef>,
    /// The image of the container that speaks TLS in each pod; the one of the operator when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
}

/// Whether and with which certificate servers speak TLS that do so by themselves, without a container beside them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(ONE_SOURCE).message(TWO_SOURCES),
    validation = Rule::new(SOURCE).message(NO_SOURCE)
)]
pub struct ServerTls {
    /// Whether TLS is used.
    #[serde(default)]
    pub enabled: bool,
    /// The cert-manager issuer that signs certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer_ref: Option<IssuerRef>,
    /// A Secret with `tls.crt`, `tls.key` and `ca.crt` that exists already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_secret_ref: Option<SecretRef>,
}

/// A cert-manager issuer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct IssuerRef {
    /// Name of the issuer.
    pub name: ObjectName,
    /// Its kind.
    #[serde(default)]
    pub kind: IssuerKind,
}

/// Where a cert-manager issuer lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum IssuerKind {
    /// For the whole cluster.
    #[default]
    ClusterIssuer,
    /// For one namespace.
    Issuer,
}
