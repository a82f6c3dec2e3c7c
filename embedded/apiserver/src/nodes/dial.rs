//! The way to a node: where it listens, and how this server proves itself there.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use c5c3_auth::MASTERS;
use http::{Request, Response};
use http_body_util::Full;
use hyper::upgrade::OnUpgrade;
use jiff::Timestamp;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::find;
use crate::server::Server;
use crate::status::ApiError;

/// Who this server is to a node.
const CLIENT: &str = "kube-apiserver-kubelet-client";

/// For how long: a certificate is made for each connection, and looked at when that begins.
const LIFE: Duration = Duration::from_hours(1);

/// How long a connection may take to be made.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where a node listens.
pub(super) fn address(server: &Server, node: &str) -> Result<SocketAddr, ApiError> {
    let object = find(server, "nodes", None, node)?;
    of_node(&object).ok_or_else(|| ApiError::internal(format!("node {node} has no InternalIP to reach it by")))
}

fn of_node(node: &Value) -> Option<SocketAddr> {
    let status = &node["status"];
    let addresses = status["addresses"].as_array()?;
    let mut internal = addresses.iter().filter(|address| address["type"] == "InternalIP");
    let host: IpAddr = internal.find_map(|address| address["address"].as_str()?.parse().ok())?;
    let port = status["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64().filter(|port| *port > 0);
    Some(SocketAddr::new(host, u16::try_from(port.unwrap_or(10250)).ok()?))
}

/// Asks a node. The error says why there is no answer.
pub(super) async fn ask(
    server: &Server,
    node: SocketAddr,
    request: Request<Full<Bytes>>,
    client: Option<OnUpgrade>,
) -> Result<Response<c5c3_relay::Body>, String> {
    let tls = identity(server).map_err(|error| error.to_string())?;
    let stream = with_tls(node, tls).await?;
    c5c3_relay::forward(stream, request, client, server.stopped()).await.map_err(|error| error.to_string())
}

fn identity(server: &Server) -> Result<ClientConfig, c5c3_auth::PkiError> {
    let own = server.pki().issue_client(CLIENT, &[MASTERS], LIFE, Timestamp::now())?;
    own.calling(server.pki().ca_pem())
}

/// A connection with TLS. The server's certificate is for its address.
pub(super) async fn with_tls(
    address: SocketAddr,
    tls: ClientConfig,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, String> {
    let stream = plain(address).await?;
    let name = ServerName::IpAddress(address.ip().into());
    let connecting = TlsConnector::from(Arc::new(tls)).connect(name, stream);
    match tokio::time::timeout(PATIENCE, connecting).await {
        Ok(connected) => connected.map_err(|error| format!("tls: {error}")),
        Err(_) => Err("net/http: TLS handshake timeout".to_owned()),
    }
}

/// A connection as it is.
pub(super) async fn plain(address: SocketAddr) -> Result<TcpStream, String> {
    let stream = match tokio::time::timeout(PATIENCE, TcpStream::connect(address)).await {
        Ok(connected) => connected.map_err(|error| format!("dial tcp {address}: connect: {error}"))?,
        Err(_) => return Err(format!("dial tcp {address}: i/o timeout")),
    };
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_listens_where_its_status_says() {
        let addresses = json!([{"type": "Hostname", "address": "oak"}, {"type": "InternalIP", "address": "10.1.0.9"}]);
        let found = |port: Value| {
            of_node(
                &json!({"status": {"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}}),
            )
        };
        assert_eq!(found(json!(9000)), Some("10.1.0.9:9000".parse().unwrap()));
        assert_eq!(found(Value::Null), Some("10.1.0.9:10250".parse().unwrap()));
        assert_eq!(of_node(&json!({"status": {"addresses": [{"type": "Hostname", "address": "oak"}]}})), None);
    }
}
