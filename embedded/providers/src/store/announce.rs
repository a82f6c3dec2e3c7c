//! How a cluster knows its store: a Service by which pods reach it, the service account that External Secrets log in
//! with, and the ClusterSecretStore that stands for it.

use std::net::{IpAddr, SocketAddr};

use c5c3_api::ext::external_secrets::ClusterSecretStore;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{ACCOUNT, AUDIENCE, LOGIN, ROLE};
use crate::failure::Error;
use crate::objects::child;

/// The namespace of the Service.
const NAMESPACE: &str = "openbao-system";

/// The Service.
const SERVICE: &str = "openbao";

/// The ClusterSecretStore.
const STORE: &str = "openbao-cluster-store";

const MANAGER: &str = "c5c3-store";

/// The names that the store's certificate must hold for, beside its address.
pub fn names() -> [String; 2] {
    [format!("{SERVICE}.{NAMESPACE}.svc"), format!("{SERVICE}.{NAMESPACE}.svc.cluster.local")]
}

/// What is announced, in the order in which it is needed.
fn objects(at: SocketAddr, authority: &str) -> [c5c3_kit::Child; 6] {
    let namespace = |name: &str| child::<Namespace>(json!({"metadata": {"name": name}}));
    let port = at.port();
    let family = match at.ip() {
        IpAddr::V4(_) => "IPv4",
        IpAddr::V6(_) => "IPv6",
    };
    let service = json!({
        "metadata": {"name": SERVICE, "namespace": NAMESPACE},
        "spec": {"ports": [{"name": "https", "port": port, "targetPort": port, "protocol": "TCP"}]},
    });
    let slice = json!({
        "metadata": {
            "name": SERVICE, "namespace": NAMESPACE,
            "labels": {"kubernetes.io/service-name": SERVICE, "endpointslice.kubernetes.io/managed-by": MANAGER},
        },
        "addressType": family,
        "endpoints": [{"addresses": [at.ip().to_string()], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    });
    let account = json!({"metadata": {"name": ACCOUNT, "namespace": ACCOUNT}});
    [
        namespace(NAMESPACE),
        namespace(ACCOUNT),
        child::<ServiceAccount>(account),
        child::<Service>(service),
        child::<EndpointSlice>(slice),
        child::<ClusterSecretStore>(store(port, authority)),
    ]
}

fn store(port: u16, authority: &str) -> Value {
    json!({
        "apiVersion": "external-secrets.io/v1", "kind": "ClusterSecretStore",
        "metadata": {"name": STORE},
        "spec": {"provider": {"vault": {
            "server": format!("https://{}:{port}", names()[0]),
            "path": "kv-v2",
            "caBundle": ByteString(authority.as_bytes().to_vec()),
            "auth": {"kubernetes": {
                "mountPath": LOGIN, "role": ROLE,
                "serviceAccountRef": {"name": ACCOUNT, "namespace": ACCOUNT, "audiences": [AUDIENCE]},
            }},
        }}},
    })
}

/// Announces a store that listens there, and whose certificate `authority` has signed.
pub(crate) async fn announce(client: &Client, at: SocketAddr, authority: &str) -> Result<(), Error> {
    for object in objects(at, authority) {
        let reference = object.reference();
        let params = PatchParams::apply(MANAGER).force();
        let applied =
            reference.api(client.clone()).patch(&reference.name, &params, &Patch::Apply(&object.object)).await;
        applied.map_err(Error::api(format!("apply {reference}")))?;
    }
    Ok(())
}
