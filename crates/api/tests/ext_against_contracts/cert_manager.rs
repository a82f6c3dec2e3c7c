use c5c3_api::ext::cert_manager::*;
use c5c3_api::ext::{Conditions, NamedRef};
use k8s_openapi::ByteString;

use crate::*;

#[test]
fn a_certificate() {
    let mut certificate = Certificate::new(
        "seal",
        CertificateSpec {
            secret_name: "seal-tls".to_string(),
            issuer_ref: issuer(),
            common_name: Some("seal.openstack.svc".to_string()),
            dns_names: vec!["seal".to_string(), "seal.openstack.svc".to_string()],
            ip_addresses: vec!["10.0.0.7".to_string()],
            uris: vec!["spiffe://cluster.local/ns/openstack/sa/seal".to_string()],
            subject: Some(Subject {
                organizations: vec!["CobaltCore".to_string()],
                organizational_units: vec!["libvirt".to_string()],
            }),
            duration: Some("2160h".to_string()),
            renew_before: Some("720h".to_string()),
            usages: Usage::ALL.to_vec(),
            is_ca: Some(false),
            private_key: Some(PrivateKey {
                algorithm: Some(KeyAlgorithm::Ecdsa),
                size: Some(256),
                encoding: Some(KeyEncoding::Pkcs8),
                rotation_policy: Some(RotationPolicy::Always),
            }),
            secret_template: Some(SecretTemplate { labels: map("app", "seal"), annotations: map("note", "seal") }),
            revision_history_limit: Some(3),
        },
    );
    certificate.status = Some(CertificateStatus {
        conditions: vec![condition("Ready", Some(1)), condition("Issuing", Some(1))],
        not_before: Some(time()),
        not_after: Some(time()),
        renewal_time: Some(time()),
        revision: Some(1),
    });
    accepts_namespaced(&certificate);
}

fn issuer_spec() -> IssuerSpec {
    let key = |key: &str| Some(OptionalKey { name: "stamp-tls".to_string(), key: Some(key.to_string()) });
    IssuerSpec {
        self_signed: Some(SelfSigned {}),
        ca: Some(CaIssuer { secret_name: "stamp-ca".to_string() }),
        vault: Some(VaultIssuer {
            server: "https://openbao.openbao-system:8200".to_string(),
            path: "pki/sign/openstack-internal".to_string(),
            auth: VaultIssuerAuth {
                kubernetes: Some(VaultIssuerKubernetes {
                    role: "cert-manager".to_string(),
                    mount_path: Some("/v1/auth/kubernetes/control-plane".to_string()),
                    service_account_ref: Some(NamedRef::new("cert-manager")),
                }),
                token_secret_ref: key("token"),
            },
            ca_bundle: Some(ByteString(b"-----BEGIN CERTIFICATE-----".to_vec())),
            ca_bundle_secret_ref: key("ca.crt"),
            client_cert_secret_ref: key("tls.crt"),
            client_key_secret_ref: key("tls.key"),
        }),
    }
}

#[test]
fn an_issuer() {
    let mut issuer = Issuer::new("stamp", issuer_spec());
    issuer.status = Some(Conditions { conditions: vec![condition("Ready", Some(1))] });
    accepts_namespaced(&issuer);
}

#[test]
fn a_cluster_issuer() {
    let mut issuer = ClusterIssuer::new("stamp", ClusterIssuerSpec { issuer: issuer_spec() });
    issuer.status = Some(Conditions { conditions: vec![condition("Ready", Some(1))] });
    accepts_cluster(&issuer);
}
