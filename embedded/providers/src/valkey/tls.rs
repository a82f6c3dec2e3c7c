//! TLS of a Valkey: where its certificate comes from, who is told of it, and what servers and sentinels do with it.

use c5c3_api::ext::IssuerRef;
use c5c3_api::ext::cert_manager::Issuer;
use c5c3_api::ext::valkey::Valkey;
use c5c3_kit::Child;
use serde_json::{Value, json};

use super::names::Names;
use crate::certificates;
use crate::objects::child;

/// Where members have their certificate.
pub(super) const FOLDER: &str = "/tls";

/// The Certificate, and who signs it if no one is named. The genuine operator makes certificates up itself if cert-manager
/// is not asked for; here it is one that signs itself, too, in the Secret of the same name.
pub(super) fn children(valkey: &Valkey, names: &Names) -> Vec<Child> {
    let Some(secret) = &names.tls else { return Vec::new() };
    let asked = valkey.spec.tls.as_ref().and_then(|tls| tls.cert_manager.as_ref()?.issuer.clone());
    let own = asked.is_none().then(|| {
        child::<Issuer>(json!({"metadata": names.metadata(&names.part("self-signing")), "spec": {"selfSigned": {}}}))
    });
    let issuer = asked.unwrap_or_else(|| IssuerRef { name: names.part("self-signing"), ..IssuerRef::default() });
    let certificate = certificates::certificate(&names.metadata(secret), &issuer, &hosts(names));
    own.into_iter().chain([certificate]).collect()
}

/// Every name that a member is reached by.
fn hosts(names: &Names) -> Vec<String> {
    let services =
        if names.sentinel { vec![names.base()] } else { ["primary", "replicas"].map(|it| names.part(it)).into() };
    let members = format!("*.{}", names.part("headless"));
    let hosts = services.iter().chain([&members]).flat_map(|service| certificates::names(service, &names.namespace));
    hosts.chain(["localhost".to_owned()]).collect()
}

/// How a server or a sentinel listens, and by what it talks to the others. Clients prove themselves by the password.
pub(super) fn listen(names: &Names, port: u16) -> String {
    if names.tls.is_none() {
        return format!("port {port}\n");
    }
    format!(
        "port 0\n\
         tls-port {port}\n\
         tls-cert-file {FOLDER}/tls.crt\n\
         tls-key-file {FOLDER}/tls.key\n\
         tls-ca-cert-file {FOLDER}/ca.crt\n\
         tls-auth-clients no\n\
         tls-replication yes\n"
    )
}

/// The volume of the certificate, and its mount.
pub(super) fn volume(names: &Names) -> Option<(Value, Value)> {
    let secret = json!({"secretName": names.tls.as_ref()?, "defaultMode": 0o440});
    let mount = json!({"name": "tls", "mountPath": FOLDER, "readOnly": true});
    Some((json!({"name": "tls", "secret": secret}), mount))
}
