//! Images from a registry: a small one, on the bridge of the test's own nodes, without TLS and with a password.

use std::collections::BTreeMap;
use std::io::{Cursor, Read as _};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use c5c3_cri::images::{Config, Image, Layer};
use c5c3_cri::testing::Machine;
use c5c3_cri::{Containerd, Registry, v1};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// The contents of one image, by digest.
struct Shelf {
    manifest: String,
    blobs: BTreeMap<String, Vec<u8>>,
}

impl Shelf {
    fn of(image: &Image) -> Self {
        let archive = image.archive().unwrap();
        let mut tar = tar::Archive::new(Cursor::new(archive));
        let (mut manifest, mut blobs) = (String::new(), BTreeMap::new());
        for entry in tar.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            if path == "index.json" {
                let index: serde_json::Value = serde_json::from_slice(&content).unwrap();
                manifest.push_str(index["manifests"][0]["digest"].as_str().unwrap());
            } else if let Some(digest) = path.strip_prefix("blobs/sha256/") {
                blobs.insert(format!("sha256:{digest}"), content);
            }
        }
        Self { manifest, blobs }
    }

    fn content(&self, headers: &HeaderMap, kind: &'static str, digest: &str) -> Response {
        let expected = format!("Basic {}", BASE64_STANDARD.encode("ada:lovelace"));
        if headers.get(header::AUTHORIZATION).is_none_or(|sent| sent != expected.as_str()) {
            return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Basic realm=\"test\"")]).into_response();
        }
        let Some(content) = self.blobs.get(digest) else { return StatusCode::NOT_FOUND.into_response() };
        let headers = [("content-type", kind), ("docker-content-digest", digest)];
        (headers, content.clone()).into_response()
    }
}

async fn manifest(State(shelf): State<Arc<Shelf>>, Path(reference): Path<String>, headers: HeaderMap) -> Response {
    let digest = if reference == "3" { &shelf.manifest } else { &reference };
    shelf.content(&headers, MANIFEST, digest)
}

async fn blob(State(shelf): State<Arc<Shelf>>, Path(digest): Path<String>, headers: HeaderMap) -> Response {
    shelf.content(&headers, "application/octet-stream", &digest)
}

async fn serve(address: IpAddr, shelf: Shelf) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind((address, 0)).await.unwrap();
    let served = listener.local_addr().unwrap();
    let routes = Router::new()
        .route("/v2/tool/manifests/{reference}", get(manifest))
        .route("/v2/tool/blobs/{digest}", get(blob))
        .with_state(Arc::new(shelf));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    served
}

#[tokio::test]
async fn an_image_is_fetched_with_the_password_and_not_without() {
    let machine = Machine::new(1);
    let layer = Layer::new().file("etc/motd", 0o644, "hello");
    let image = Image { name: "unused.test/tool:3".into(), config: Config::default(), layer };
    let registry = serve(machine.network.addresses.bridge().addr().into(), Shelf::of(&image)).await.to_string();
    let mut settings = machine.settings(0);
    settings.registries = vec![Registry { host: registry.clone(), endpoints: vec![format!("http://{registry}")] }];
    let runtime = Containerd::start(settings).await.unwrap().runtime();

    let name = format!("{registry}/tool:3");
    let refused = runtime.pull_image(&name, None, None).await.unwrap_err().to_string();
    assert!(
        refused.starts_with(&format!("PullImage of {name}: ")) && refused.contains("401 Unauthorized"),
        "{refused}"
    );
    let ada = v1::AuthConfig { username: "ada".into(), password: "lovelace".into(), ..Default::default() };
    let absent = runtime.pull_image(&format!("{registry}/tool:4"), Some(ada.clone()), None).await.unwrap_err();
    assert!(absent.is_not_found(), "{absent:?}");
    let id = runtime.pull_image(&name, Some(ada), None).await.unwrap();
    assert_eq!(runtime.image_status(&name).await.unwrap().unwrap().id, id);
    runtime.remove_image(&name).await.unwrap();
    assert!(runtime.image_status(&name).await.unwrap().is_none());
}
