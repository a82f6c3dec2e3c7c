//! Certificates: their names, what they are for, and who can talk to whom with them. cert-manager signs; the bundle of
//! authorities is ours to make.

use c5c3_api::ext::mariadb::{ca_bundle_secret, client_cert_secret};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::wanted::Wanted;
use crate::certificates::{self, Signed};

/// The annotation of a pod that stands for those whom it trusts. Members without it talk in the clear.
pub(super) const TRUST: &str = "c5c3.io/trust";

/// Whether a member trusts others than the members to come, and will understand none of them.
pub(super) fn is_stranger(pod: &Pod, signed: Option<&Signed>) -> bool {
    pod.metadata.deletion_timestamp.is_none() && pod.annotations().get(TRUST) != signed.map(Signed::trust).as_ref()
}

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
    let mut names: Vec<String> = services.iter().flat_map(|service| certificates::names(service, namespace)).collect();
    names.push("localhost".into());
    names
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_that_trust_others_or_talk_in_the_clear_are_strangers() {
        let signed = |authorities: &str| Signed { certificate: "c".into(), authorities: authorities.into() };
        let pod = |trust: Option<String>| -> Pod {
            let annotations = trust.map(|trust| json!({TRUST: trust}));
            serde_json::from_value(json!({"metadata": {"name": "ledger-0", "annotations": annotations}})).unwrap()
        };
        let (clear, ours) = (pod(None), pod(Some(signed("root").trust())));
        assert!(!is_stranger(&clear, None) && is_stranger(&clear, Some(&signed("root"))));
        assert!(is_stranger(&ours, None) && !is_stranger(&ours, Some(&signed("root"))));
        assert!(is_stranger(&ours, Some(&signed("another"))));
    }
}
