//! The certificate that all parts of OVN show each other, as servers and as clients.

use c5c3_api::blocks::ServerTls;
use c5c3_api::ext::cert_manager::{Certificate, CertificateSpec, Usage};
use c5c3_api::{Problem, problem};
use c5c3_kit::{Child, Inputs, Wait, cluster_domain};
use kube::Resource;
use serde_json::json;

use crate::layout::{Database, Layout};

/// What is wrong with the TLS of a spec, beyond its schema.
pub(crate) fn problems(tls: Option<&ServerTls>) -> Vec<Problem> {
    let Some(tls) = tls.filter(|tls| tls.enabled) else { return Vec::new() };
    let has_key = tls.cert_secret_ref.as_ref().is_some_and(|secret| secret.key.is_some());
    let what = "names one key, and a certificate has three: tls.crt, tls.key and ca.crt";
    has_key.then(|| problem("spec.tls.certSecretRef.key", what, "remove it")).into_iter().collect()
}

impl Layout {
    /// The Certificate that fills the Secret; none if the spec names a Secret.
    pub(crate) fn certificate(&self) -> Option<Child> {
        let tls = self.spec.tls.as_ref().filter(|tls| tls.cert_secret_ref.is_none())?;
        let (secret, issuer) = (self.tls.as_ref()?, tls.issuer_ref.as_ref()?);
        let names = [Database::Northbound, Database::Southbound].into_iter().flat_map(|database| {
            let (service, _) = self.client_service(database);
            let raft = cluster_domain::service_host(&self.raft_service(database), &self.namespace);
            [
                format!("{service}.{}", self.namespace),
                format!("{service}.{}.svc", self.namespace),
                cluster_domain::service_host(&service, &self.namespace),
                service,
                format!("*.{raft}"),
            ]
        });
        let spec = CertificateSpec {
            secret_name: secret.name.clone(),
            issuer_ref: issuer.into(),
            dns_names: names.collect(),
            usages: vec![Usage::DigitalSignature, Usage::KeyEncipherment, Usage::ServerAuth, Usage::ClientAuth],
            ..CertificateSpec::default()
        };
        Some(self.child::<Certificate>(&secret.name, "tls", &json!(spec)))
    }

    /// What the Secret lacks.
    pub(crate) fn tls_waits<K: Resource>(&self, inputs: &Inputs<K>) -> Vec<Wait> {
        let Some(secret) = &self.tls else { return Vec::new() };
        let missing = ["tls.crt", "tls.key", "ca.crt"].into_iter().find_map(|key| inputs.secret(secret, key).err());
        let remedy = match self.spec.tls.as_ref().and_then(|tls| tls.cert_secret_ref.as_ref()) {
            Some(_) => "put tls.crt, tls.key and ca.crt into it, or correct spec.tls.certSecretRef".to_owned(),
            None => format!("kubectl describe certificate {} -n {}", secret.name, self.namespace),
        };
        missing.into_iter().map(|wait| wait.because("spec.tls is enabled").look_at(remedy.clone())).collect()
    }
}
