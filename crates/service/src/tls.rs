//! The certificate that an API speaks TLS with.

use std::net::IpAddr;

use c5c3_api::blocks::Tls;
use c5c3_api::ext::cert_manager::{Certificate, CertificateSpec, Usage};
use c5c3_api::{Problem, problem};
use c5c3_kit::{Child, Ref};
use k8s_openapi::api::core::v1::{Container, ContainerPort, Probe, ResourceRequirements, Secret, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::instance::Instance;
use crate::pod::{Mount, container as confined};

/// Where the certificate is mounted.
pub const FOLDER: &str = "/etc/api-tls";

/// The image that speaks TLS for a service: this very program.
pub const IMAGE: &str = concat!("ghcr.io/c5c3/c5c3:", env!("CARGO_PKG_VERSION"));

/// The name of its container.
pub const CONTAINER: &str = "tls";

/// What it asks for: it passes bytes on.
const CPU: &str = "10m";
const MEMORY: &str = "16Mi";

/// The certificate in a pod, from its Secret.
pub fn mount(secret: &Ref) -> Mount {
    Mount::secret("api-tls", &secret.name, FOLDER)
}

/// The image of the spec; or, without one, that which runs already as long as the service's own image stays, so that an
/// upgrade of the operator restarts no API; or that of this version.
pub fn image(tls: Option<&Tls>, live: Option<&DynamicObject>, service: &str) -> String {
    if let Some(image) = tls.and_then(|tls| tls.image.as_ref()) {
        return image.reference();
    }
    let containers = live.map(|live| &live.data["spec"]["template"]["spec"]["containers"]);
    let image_of = |is_it: &dyn Fn(&Value) -> bool| {
        let found = containers?.as_array()?.iter().find(|container| is_it(container))?;
        found["image"].as_str().map(ToOwned::to_owned)
    };
    let unchanged = image_of(&|container| container["name"] != CONTAINER).as_deref() == Some(service);
    let running = image_of(&|container| container["name"] == CONTAINER);
    running.filter(|_| unchanged).unwrap_or_else(|| IMAGE.to_owned())
}

/// What speaks TLS at `port` and passes everything on to `own_port` of the same pod. Of the pod's folders it sees the
/// certificate alone, which no other container sees. It follows the certificate by itself.
pub fn container(image: &str, secret: &Ref, port: i32, own_port: i32) -> Container {
    let (listen, to) = (format!("0.0.0.0:{port}"), format!("127.0.0.1:{own_port}"));
    let args = ["c5c3", "tls", "--listen", &listen, "--to", &to, "--certificates", FOLDER];
    let listens = || Probe {
        tcp_socket: Some(TCPSocketAction { port: IntOrString::Int(port), ..TCPSocketAction::default() }),
        timeout_seconds: Some(5),
        ..Probe::default()
    };
    let requests = [("cpu", CPU), ("memory", MEMORY)].map(|(name, size)| (name.to_owned(), Quantity(size.into())));
    Container {
        ports: Some(vec![ContainerPort { name: Some("api".into()), container_port: port, ..ContainerPort::default() }]),
        volume_mounts: Some(vec![mount(secret).mount()]),
        resources: Some(ResourceRequirements { requests: Some(requests.into()), ..ResourceRequirements::default() }),
        readiness_probe: Some(Probe { period_seconds: Some(5), ..listens() }),
        liveness_probe: Some(Probe { period_seconds: Some(10), failure_threshold: Some(6), ..listens() }),
        ..confined(CONTAINER, image, &args, &[])
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

/// The Certificate that fills the Secret; none if the spec names a Secret. It is valid for the Services' names and the given
/// addresses.
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
