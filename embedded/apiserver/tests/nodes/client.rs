//! A server that listens, with a pretend node, and clients that speak HTTP/1.1 with it, as kubectl does for upgrades.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use c5c3_apiserver::{Config, Server, Storage, listen};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::pretend;

/// The pretend node's name.
pub const NODE: &str = "oak";

/// A cluster whose only node is a pretend one.
pub struct Cluster {
    server: Arc<Server>,
    address: SocketAddr,
    admin: Client,
}

impl std::ops::Deref for Cluster {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.admin
    }
}

impl Cluster {
    /// With a pod `web` on the node, of the containers `app` and `side`.
    pub async fn with_pod() -> Self {
        let config = Config { reaches_loopback: true, ..Config::new(Storage::Memory) };
        let server = Server::start(config).await.unwrap();
        let address = listen(&server, "127.0.0.1:0".parse().unwrap()).await.unwrap().address;
        let admin = client(&server, address, "gardener", &["system:masters"]);
        let node = pretend::node(server.pki()).await;
        let cluster = Self { server, address, admin };
        cluster.create_node(NODE, node.port()).await;
        cluster.create_pod("web", Some(NODE)).await;
        cluster
    }

    pub fn client_of(&self, user: &str, groups: &[&str]) -> Client {
        client(&self.server, self.address, user, groups)
    }

    pub async fn create_node(&self, name: &str, port: u16) {
        self.create("/api/v1/nodes", &json!({"metadata": {"name": name}})).await;
        let status = json!({"status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }});
        let path = format!("/api/v1/nodes/{name}/status");
        let patched = self
            .request(Method::PATCH, &path, &[("content-type", "application/merge-patch+json")], &status.to_string())
            .await;
        assert_eq!(patched.status(), StatusCode::OK);
    }

    pub async fn create_pod(&self, name: &str, node: Option<&str>) {
        let containers = json!([{"name": "app", "image": "a"}, {"name": "side", "image": "a"}]);
        let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": node.unwrap_or_default(), "containers": containers}});
        self.create("/api/v1/namespaces/default/pods", &pod).await;
    }

    /// A Service `web` with a port `http` that leads to a page, and a port `other` that leads nowhere.
    pub async fn create_service(&self) {
        let page = pretend::page().await;
        let ports = json!([{"name": "http", "port": 80}, {"name": "other", "port": 81}]);
        let service = json!({"metadata": {"name": "web"}, "spec": {"ports": ports}});
        self.create("/api/v1/namespaces/default/services", &service).await;
        let slice = json!({
            "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4", "ports": [{"name": "http", "port": page.port()}],
            "endpoints": [{"addresses": ["127.0.0.1"]}],
        });
        self.create("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &slice).await;
    }

    async fn create(&self, path: &str, object: &Value) {
        let created = self.send(Method::POST, path, &object.to_string()).await;
        assert_eq!(created.status, StatusCode::CREATED, "{}", created.text);
    }
}

fn client(server: &Server, address: SocketAddr, user: &str, groups: &[&str]) -> Client {
    let own = server.pki().issue_client(user, groups, Duration::from_mins(10), Timestamp::now()).unwrap();
    Client { address, tls: Arc::new(own.calling(server.pki().ca_pem()).unwrap()) }
}

/// A user with a certificate. Each request has a connection of its own.
pub struct Client {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
}

/// An answer that is complete.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub media: String,
    pub location: String,
    pub text: String,
}

impl Answer {
    async fn read(response: Response<Incoming>) -> Self {
        let header = |name| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let (media, location) = (header(header::CONTENT_TYPE), header(header::LOCATION));
        let status = response.status();
        let text = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(text.to_vec()).unwrap();
        Self { status, media: media.unwrap_or_default(), location: location.unwrap_or_default(), text }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("{}", self.text))
    }
}

impl Client {
    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, "").await
    }

    pub async fn send(&self, method: Method, path: &str, body: &str) -> Answer {
        Answer::read(self.request(method, path, &[], body).await).await
    }

    /// Asks for an upgrade.
    pub async fn upgrade(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> Result<Connection, Answer> {
        let headers: Vec<(&str, &str)> = headers.iter().copied().chain([("connection", "Upgrade")]).collect();
        let response = self.request(method, path, &headers, "").await;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(Answer::read(response).await);
        }
        assert!(response.headers().contains_key(header::UPGRADE));
        Ok(Connection(TokioIo::new(hyper::upgrade::on(response).await.unwrap())))
    }

    async fn request(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Response<Incoming> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::IpAddress(self.address.ip().into());
        let stream = TlsConnector::from(self.tls.clone()).connect(name, stream).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        let request = Request::builder().method(method).uri(path).header(header::HOST, self.address.to_string());
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        sender.send_request(request.body(Full::new(Bytes::from(body.to_owned()))).unwrap()).await.unwrap()
    }
}

/// The client's end of an upgraded connection.
#[derive(Debug)]
pub struct Connection(TokioIo<Upgraded>);

impl Connection {
    pub async fn says(&mut self, wanted: &str) {
        let mut heard = vec![0; wanted.len()];
        self.0.read_exact(&mut heard).await.unwrap();
        assert_eq!(String::from_utf8(heard).unwrap(), wanted);
    }

    /// Asserts that these bytes come, and nothing else.
    pub async fn says_no_more_than(mut self, wanted: &[u8]) {
        let mut heard = Vec::new();
        // How the connection ends, politely or not, is not of interest.
        let _ = self.0.read_to_end(&mut heard).await;
        assert_eq!(heard, wanted);
    }

    pub async fn echoes(&mut self, bytes: &[u8]) {
        let (mut reader, mut writer) = tokio::io::split(&mut self.0);
        let mut heard = vec![0; bytes.len()];
        let spoken = async {
            writer.write_all(bytes).await.unwrap();
            writer.flush().await.unwrap();
        };
        tokio::join!(spoken, async { reader.read_exact(&mut heard).await.unwrap() });
        assert!(heard == bytes, "what comes back is not what was sent");
    }

    pub async fn ends_when_the_node_hangs_up(&mut self) {
        let mut rest = Vec::new();
        let _ = self.0.read_to_end(&mut rest).await;
        assert!(rest.is_empty());
    }
}
