//! Certificates of servers: how they are asked of cert-manager, and what is read of the Secret that they come in.

use std::collections::BTreeMap;

use c5c3_api::ext::IssuerRef;
use c5c3_api::ext::cert_manager::Certificate;
use c5c3_kit::{Child, hash};
use serde_json::{Value, json};

use crate::objects::child;

/// The annotation of a pod that stands for the certificate that it started with.
pub(crate) const CERTIFICATE: &str = "c5c3.io/certificate";

/// What servers prove themselves with.
#[derive(Clone, Debug)]
pub(crate) struct Signed {
    /// Stands for the certificate.
    pub(crate) certificate: String,
    /// The authorities that stand for it, PEM.
    pub(crate) authorities: String,
}

impl Signed {
    /// From the Secret that it is in; none if that is not complete.
    pub(crate) fn of(mut secret: BTreeMap<String, String>) -> Option<Self> {
        let certificate = hash::short(secret.get("tls.crt")?.as_bytes());
        Some(Self { certificate, authorities: secret.remove("ca.crt")? })
    }

    /// Stands for those who are trusted.
    pub(crate) fn trust(&self) -> String {
        hash::short(self.authorities.as_bytes())
    }
}

/// A Certificate for servers that are clients of each other, too. Its Secret has the same name as itself.
pub(crate) fn certificate(metadata: &Value, issuer: &IssuerRef, names: &[String]) -> Child {
    child::<Certificate>(json!({
        "metadata": metadata,
        "spec": {
            "secretName": metadata["name"],
            "commonName": names.first(),
            "dnsNames": names,
            "usages": ["digital signature", "key encipherment", "server auth", "client auth"],
            "issuerRef": issuer,
        },
    }))
}

/// Every name that a Service is reached by within the cluster, the longest first.
pub(crate) fn names(service: &str, namespace: &str) -> [String; 4] {
    [
        format!("{service}.{namespace}.svc.cluster.local"),
        format!("{service}.{namespace}.svc"),
        format!("{service}.{namespace}"),
        service.to_owned(),
    ]
}
