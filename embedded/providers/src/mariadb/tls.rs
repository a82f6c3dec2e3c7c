//! The names of certificates, and of what they are for. cert-manager signs; the bundle of authorities is ours to make.

use c5c3_api::ext::mariadb::{ca_bundle_secret, client_cert_secret};

use super::wanted::Wanted;

/// The Secret with the servers' certificate.
pub(super) fn server_secret(name: &str) -> String {
    format!("{name}-server-cert")
}

/// The Secret with a certificate for clients.
pub(super) fn client_secret(name: &str) -> String {
    client_cert_secret(name)
}

/// The Secret with the authorities to trust.
pub(super) fn bundle_secret(name: &str) -> String {
    ca_bundle_secret(name)
}

/// Every name that a server is reached by.
pub(super) fn names(wanted: &Wanted) -> Vec<String> {
    let Wanted { name, namespace, .. } = wanted;
    let internal = wanted.internal_service();
    let services = [name.clone(), format!("{name}-primary"), format!("{name}-secondary"), format!("*.{internal}")];
    let mut names: Vec<String> = services
        .iter()
        .flat_map(|service| {
            let full = format!("{service}.{namespace}.svc.cluster.local");
            [full, format!("{service}.{namespace}.svc"), format!("{service}.{namespace}"), service.clone()]
        })
        .collect();
    names.push("localhost".into());
    names
}
