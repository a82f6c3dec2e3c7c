//! The certificate that an API speaks TLS with.

use std::net::IpAddr;

use c5c3_api::blocks::Tls;
use c5c3_api::ext::cert_manager::{Certificate, CertificateSpec, Usage};
use c5c3_api::{Problem, problem};
use c5c3_kit::{Child, Ref};
use k8s_openapi::api::core::v1::{Container, ContainerPort, Secret};

use crate::instance::Instance;
use crate::pod::{Mount, container as confined};

/// Where the certificate is mounted.
pub const FOLDER: &str = "/etc/api-tls";

/// The image that speaks TLS for a service: this very program.
pub const IMAGE: &str = concat!("ghcr.io/c5c3/c5c3:", env!("CARGO_PKG_VERSION"));

/// The certificate in a pod, from its Secret.
pub fn mount(secret: &Ref) -> Mount {
    Mount::secret("api-tls", &secret.name, FOLDER)
}

/// What speaks TLS at `port` and passes everything on to `own_port` of the same pod. Of the pod's folders it sees the
/// certificate alone, and nobody else sees that.
pub fn container(secret: &Ref, port: i32, own_port: i32) -> Container {
    let (listen, to) = (format!("0.0.0.0:{port}"), format!("127.0.0.1:{own_port}"));
    let args = ["c5c3", "tls", "--listen", &listen, "--to", &to, "--certificates", FOLDER];
    Container {
        ports: Some(vec![ContainerPort { name: Some("api".into()), container_port: port, ..ContainerPort::default() }]),
        volume_mounts: Some(vec![mount(secret).mount()]),
        ..confined("tls", IMAGE, &args, &[])
    }
}

/// The Secret with the certificate; none if TLS is off.
pub fn secret(instance: &Instance, tls: Option<&Tls>) -> Option<Ref> {
    let tls = tls.filter(|tls| tls.enabled)?;
    let own = tls.cert_secret_ref.as_ref().map(|secret| secret.name.to_string());
    Some(Ref::namespaced::<Secret>(&instance.namespace, own.unwrap_or_else(|| instance.named("api-tls"))))
}

/// What is wrong with the TLS of a spec, beyond its schema.
pub fn problems(tls: Option<&Tls>) -> Option<Problem> {
    let what = "names one key, and a certificate has two: tls.crt and tls.key";
    tls?.cert_secret_ref.as_ref()?.key.as_ref().map(|_| problem("spec.tls.certSecretRef.key", what, "remove it"))
}

/// The Certificate that fills the Secret; none if somebody else does. It holds for the Services, and for more addresses.
pub fn certificate(instance: &Instance, tls: Option<&Tls>, addresses: &[IpAddr]) -> Option<Child> {
    let issuer = tls.filter(|tls| tls.enabled)?.issuer_ref.as_ref()?;
    let name = instance.named("api-tls");
    let services = [instance.name.clone(), instance.named("api")];
    let names = services.iter().flat_map(|service| {
        let namespace = &instance.namespace;
        [
            service.clone(),
            format!("{service}.{namespace}"),
            format!("{service}.{namespace}.svc"),
            crate::instance::host(service, namespace),
        ]
    });
    let spec = CertificateSpec {
        secret_name: name.clone(),
        issuer_ref: issuer.into(),
        dns_names: names.collect(),
        ip_addresses: addresses.iter().map(ToString::to_string).collect(),
        usages: vec![Usage::DigitalSignature, Usage::KeyEncipherment, Usage::ServerAuth],
        ..CertificateSpec::default()
    };
    let mut certificate = Certificate::new(&name, spec);
    certificate.metadata = instance.meta(&name, "api");
    Some(Child::new(&certificate))
}
