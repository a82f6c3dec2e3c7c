//! The server as others find it: the Service `kubernetes`, and the endpoints behind it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use serde_json::{Value, json};

use super::{SERVER, create, edit};
use crate::server::Server;
use crate::status::ApiError;

/// Its name, as Service, Endpoints and EndpointSlice.
const NAME: &str = "kubernetes";

/// Writes the Service, unless it is there.
pub(super) async fn serve(server: &Arc<Server>) -> Result<(), ApiError> {
    let address = server.allocations().first();
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": NAME, "namespace": "default",
                     "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "type": "ClusterIP", "clusterIP": address.to_string(), "clusterIPs": [address.to_string()],
            "ipFamilies": [family(address)], "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None",
            "ports": [{"name": "https", "port": 443, "targetPort": 6443, "protocol": "TCP"}],
        },
    });
    create(server, SERVER, service.clone()).await?;
    // One of another range, from an earlier start, makes way.
    let served = server.registry().find("", "v1", "services").ok_or_else(ApiError::no_such_path)?;
    let spec = service["spec"].take();
    edit(server, SERVER, &served, &served.key(Some("default"), NAME), |stored| {
        let moves = stored["spec"]["clusterIP"] != spec["clusterIP"];
        if moves {
            stored["spec"] = spec.clone();
        }
        moves
    })
    .await
}

/// Says where the server is reached: by the address that it advertises, or else by the one that it listens on. From a pod
/// neither the loopback interface nor no address at all leads here, and nothing is said.
pub(crate) async fn publish(server: &Arc<Server>, listens: SocketAddr) -> Result<(), ApiError> {
    let address = server.advertised().unwrap_or(listens.ip());
    if address.is_unspecified() || address.is_loopback() {
        return Ok(());
    }
    server.set_published(SocketAddr::new(address, listens.port()));
    let ports = json!([{"name": "https", "port": listens.port(), "protocol": "TCP"}]);
    let metadata = json!({"name": NAME, "namespace": "default"});
    let mut endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": metadata,
        "subsets": [{"addresses": [{"ip": address.to_string()}], "ports": ports}],
    });
    // There is a slice already, the next one.
    endpoints["metadata"]["labels"] = json!({"endpointslice.kubernetes.io/skip-mirror": "true"});
    put(server, "", "endpoints", endpoints, &["subsets"]).await?;
    let mut slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata, "addressType": family(address),
        "endpoints": [{"addresses": [address.to_string()], "conditions": {"ready": true}}], "ports": ports,
    });
    slice["metadata"]["labels"] = json!({"kubernetes.io/service-name": NAME});
    put(server, "discovery.k8s.io", "endpointslices", slice, &["addressType", "endpoints", "ports"]).await?;
    let services = server.registry().find("", "v1", "services").ok_or_else(ApiError::no_such_path)?;
    edit(server, SERVER, &services, &services.key(Some("default"), NAME), |service| {
        let port = &mut service["spec"]["ports"][0]["targetPort"];
        let moves = *port != listens.port();
        *port = listens.port().into();
        moves
    })
    .await
}

fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

/// Creates an object, or sets those fields in the one that is there.
async fn put(server: &Arc<Server>, group: &str, plural: &str, object: Value, fields: &[&str]) -> Result<(), ApiError> {
    create(server, SERVER, object.clone()).await?;
    let served = server.registry().find(group, "v1", plural).ok_or_else(ApiError::no_such_path)?;
    edit(server, SERVER, &served, &served.key(Some("default"), NAME), |stored| {
        let before = stored.clone();
        for field in fields {
            stored[*field] = object[*field].clone();
        }
        *stored != before
    })
    .await
}
