//! `c5c3 apiserver` and clients that are broken, hostile or strangers: each gets a clear answer, and no one else notices.

mod server;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Uri};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use server::Apiserver;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A server, and clients of it: the administrator's, and those of strangers.
struct Stage {
    server: Apiserver,
    _folder: tempfile::TempDir,
}

impl Stage {
    fn set() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Apiserver::start(folder.path(), &["--in-memory", "--listen", "127.0.0.1:0"]);
        Self { server, _folder: folder }
    }

    async fn config(&self) -> Config {
        let kubeconfig = Kubeconfig::read_from(&self.server.kubeconfig).unwrap();
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()
    }

    async fn admin(&self) -> Client {
        Client::try_from(self.config().await).unwrap()
    }

    /// A client without a certificate, with or without a token.
    async fn stranger(&self, token: Option<&str>) -> Client {
        let mut config = self.config().await;
        config.auth_info = AuthInfo { token: token.map(|token| token.to_owned().into()), ..AuthInfo::default() };
        Client::try_from(config).unwrap()
    }

    /// A connection of a stranger's that speaks TLS, and what no HTTP library would send.
    async fn connect(&self) -> StreamOwned<ClientConnection, TcpStream> {
        let config = self.config().await;
        let mut roots = RootCertStore::empty();
        for der in config.root_cert.unwrap() {
            roots.add(der.into()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let tls = tls.with_root_certificates(roots).with_no_client_auth();
        let connection = ClientConnection::new(Arc::new(tls), "localhost".try_into().unwrap()).unwrap();
        let socket = TcpStream::connect(address(&config.cluster_url)).unwrap();
        socket.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        StreamOwned::new(connection, socket)
    }

    /// What is answered to bytes, up to the end of the headers.
    async fn raw(&self, request: &str) -> String {
        let mut stream = self.connect().await;
        // The server may close before it has read everything. What it has answered by then is there, but a stream that
        // failed to write does not read any more.
        let _ = stream.write_all(request.as_bytes());
        let (connection, socket) = (&mut stream.conn, &mut stream.sock);
        let mut answer = Vec::new();
        while !answer.windows(4).any(|end| end == b"\r\n\r\n")
            && connection.read_tls(socket).is_ok_and(|count| count > 0)
            && connection.process_new_packets().is_ok()
        {
            // It ends with an error, since more is to come, when all that there is has been read.
            let _ = connection.reader().read_to_end(&mut answer);
        }
        String::from_utf8(answer).unwrap()
    }
}

fn address(url: &Uri) -> String {
    format!("{}:{}", url.host().unwrap(), url.port_u16().unwrap())
}

/// The status and the body of an answer; text that is not JSON is a JSON text.
async fn ask(client: &Client, method: Method, path: &str, kind: &str, body: impl Into<Vec<u8>>) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let answer = client.send(request.body(Body::from(body.into())).unwrap()).await.unwrap();
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into()))
}

async fn get(client: &Client, path: &str) -> (u16, Value) {
    ask(client, Method::GET, path, "application/json", Vec::new()).await
}

async fn post(client: &Client, body: impl Into<Vec<u8>>) -> (u16, Value) {
    ask(client, Method::POST, CONFIG_MAPS, "application/json", body).await
}

/// Asserts that an answer is a Status of this code and reason whose message holds `part`.
#[track_caller]
fn is_status(answer: &(u16, Value), code: u16, reason: &str, part: &str) {
    let (status, body) = answer;
    assert_eq!(
        (*status, body["kind"].as_str(), body["status"].as_str()),
        (code, Some("Status"), Some("Failure")),
        "{body}"
    );
    assert_eq!((body["code"].as_u64(), body["reason"].as_str()), (Some(code.into()), Some(reason)), "{body}");
    assert!(body["message"].as_str().unwrap().contains(part), "{body}");
}

#[tokio::test]
async fn a_body_of_ten_mebibytes_is_too_large() {
    let stage = Stage::set();
    let client = stage.admin().await;
    let large = json!({"metadata": {"name": "large"}, "data": {"a": "x".repeat(10 << 20)}}).to_string();
    is_status(&post(&client, large).await, 413, "RequestEntityTooLarge", "limit is 3145728");
    // Less than the limit of a request, and more than an object may be.
    let large = json!({"metadata": {"name": "large"}, "data": {"a": "x".repeat(2 << 20)}}).to_string();
    let (code, body) = post(&client, large).await;
    assert!((400..500).contains(&code) && body["kind"] == "Status", "{code}");
    assert_eq!(get(&client, "/readyz").await.0, 200);
}

#[tokio::test]
async fn bodies_that_are_no_objects_are_refused() {
    let stage = Stage::set();
    let client = stage.admin().await;
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(10_000), close.repeat(10_000));
    is_status(&post(&client, deep("[", "]")).await, 400, "BadRequest", "");
    is_status(&post(&client, deep("{\"a\":", "}").replace(":}", ":1}")).await, 400, "BadRequest", "");
    for body in [
        "",
        "{",
        "[]",
        "null",
        "7",
        "\"text\"",
        "{\"metadata\": 7}",
        "\u{0}\u{1}\u{2}",
        "{\"metadata\": {\"name\": \"a\"}} {}",
    ] {
        let (code, answer) = post(&client, body).await;
        assert!(matches!(code, 400 | 422) && answer["kind"] == "Status", "{body:?}: {code} {answer}");
    }
    is_status(&post(&client, vec![0xff, 0xfe, 0xfd]).await, 400, "BadRequest", "");
    // Each line stands for three of the line before.
    let lines: Vec<String> = (1..40).map(|n| format!("a{n}: &a{n} [*a{0}, *a{0}, *a{0}]", n - 1)).collect();
    let bomb = format!("a0: &a0 [x, x, x]\n{}\n", lines.join("\n"));
    let (code, answer) = ask(&client, Method::POST, CONFIG_MAPS, "application/yaml", bomb).await;
    assert!(matches!(code, 400 | 422) && answer["kind"] == "Status", "{code} {answer}");
    is_status(
        &ask(&client, Method::POST, CONFIG_MAPS, "text/html", "<p>").await,
        415,
        "UnsupportedMediaType",
        "text/html",
    );
    is_status(&post(&client, r#"{"kind": "Secret", "metadata": {"name": "a"}}"#).await, 400, "BadRequest", "Secret");
    is_status(&post(&client, r#"{"metadata": {"name": "a", "namespace": "b"}}"#).await, 400, "BadRequest", "namespace");
    is_status(&post(&client, r#"{"metadata": {"name": "../../a"}}"#).await, 422, "Invalid", "metadata.name");
    is_status(&post(&client, r#"{"metadata": {}}"#).await, 422, "Invalid", "name or generateName is required");
}

#[tokio::test]
async fn patches_that_make_no_sense_are_refused() {
    let stage = Stage::set();
    let client = stage.admin().await;
    assert_eq!(post(&client, r#"{"metadata": {"name": "a"}, "data": {"b": "c"}}"#).await.0, 201);
    let path = format!("{CONFIG_MAPS}/a");
    for body in [
        "[",
        "{}",
        "[{}]",
        "[7]",
        r#"[{"op": "jump", "path": "/data"}]"#,
        r#"[{"op": "remove", "path": "/data/x"}]"#,
        r#"[{"op": "add", "path": "data", "value": 1}]"#,
    ] {
        let (code, answer) = ask(&client, Method::PATCH, &path, "application/json-patch+json", body).await;
        assert!(matches!(code, 400 | 422) && answer["kind"] == "Status", "{body}: {code} {answer}");
    }
    for kind in ["application/merge-patch+json", "application/strategic-merge-patch+json"] {
        for body in ["[", "[]", r#"{"metadata": {"name": "b"}}"#, r#"{"data": 7}"#] {
            let (code, answer) = ask(&client, Method::PATCH, &path, kind, body).await;
            assert!(matches!(code, 400 | 409 | 422) && answer["kind"] == "Status", "{kind} {body}: {code} {answer}");
        }
    }
    let answer = ask(&client, Method::PATCH, &path, "application/x-patch", "{}").await;
    is_status(&answer, 415, "UnsupportedMediaType", "application/json-patch+json");
    // Each pair of copies doubles the object.
    let pair = r#"{"op": "copy", "from": "/metadata", "path": "/metadata/x"}, {"op": "copy", "from": "/metadata/x", "path": "/metadata/y"}"#;
    let copies = format!("[{}]", vec![pair; 16].join(","));
    let (code, answer) = ask(&client, Method::PATCH, &path, "application/json-patch+json", copies).await;
    assert!(matches!(code, 400 | 413 | 422) && answer["kind"] == "Status", "{code}");
    let many = format!("[{}]", vec![r#"{"op": "test", "path": "/data/b", "value": "c"}"#; 10_001].join(","));
    let answer = ask(&client, Method::PATCH, &path, "application/json-patch+json", many).await;
    is_status(&answer, 413, "RequestEntityTooLarge", "10000");
    assert_eq!(get(&client, &path).await.1["data"], json!({"b": "c"}));
}

#[tokio::test]
async fn questions_that_make_no_sense_are_refused() {
    let stage = Stage::set();
    let client = stage.admin().await;
    let long = |length: usize| format!("{CONFIG_MAPS}?labelSelector={}", "a".repeat(length));
    is_status(&get(&client, &long(60 << 10)).await, 400, "BadRequest", "");
    // Longer than the client's own library lets through.
    let answer = stage.raw(&format!("GET {} HTTP/1.1\r\nhost: localhost\r\n\r\n", long(70 << 10))).await;
    assert!(answer.starts_with("HTTP/1.1 414 "), "{answer}");
    let many = "x-zebra: stripes\r\n".repeat(100_000);
    let answer = stage.raw(&format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{many}\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let answer = stage.raw("zebra\r\n\r\n").await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{answer}");
    for question in [
        "labelSelector=a%20in%20(",
        "labelSelector=%3D%3D",
        "fieldSelector=metadata.zebra%3D1",
        "limit=many",
        "continue=zebra",
        "resourceVersion=zebra",
        "watch=true&resourceVersion=zebra",
        "watch=true&timeoutSeconds=soon",
    ] {
        let (code, body) = get(&client, &format!("{CONFIG_MAPS}?{question}")).await;
        assert!(code == 400 && body["kind"] == "Status", "{question}: {code} {body}");
    }
    for path in [
        "/zebra",
        "/api/v2",
        "/api/v1/zebras",
        "/apis/zebra.example/v1/zebras",
        "/api/v1/namespaces/default/configmaps/a/zebra",
        "/apis/apps/v1/namespaces/default/deployments/%2e%2e/x",
    ] {
        is_status(&get(&client, path).await, 404, "NotFound", "");
    }
    is_status(&ask(&client, Method::PUT, CONFIG_MAPS, "application/json", "{}").await, 405, "MethodNotAllowed", "");
}

#[tokio::test]
async fn strangers_see_only_that_the_server_is_there() {
    let stage = Stage::set();
    let stranger = stage.stranger(None).await;
    assert_eq!(get(&stranger, "/healthz").await, (200, "ok".into()));
    assert_eq!(get(&stranger, "/version").await.1["major"], "1");
    let forbidden = "namespaces is forbidden: User \"system:anonymous\" cannot list resource \"namespaces\" in API group \"\" at the cluster scope";
    is_status(&get(&stranger, "/api/v1/namespaces").await, 403, "Forbidden", forbidden);
    is_status(&get(&stranger, "/metrics").await, 403, "Forbidden", "system:anonymous");
    is_status(&post(&stranger, r#"{"metadata": {"name": "a"}}"#).await, 403, "Forbidden", "configmaps");
    let nonsense = "e30.e30.e30";
    for token in ["zebra", nonsense, "eyJhbGciOiJub25lIn0.eyJzdWIiOiJzeXN0ZW06YWRtaW4ifQ."] {
        let liar = stage.stranger(Some(token)).await;
        is_status(&get(&liar, "/api/v1/namespaces").await, 401, "Unauthorized", "Unauthorized");
        is_status(&get(&liar, "/healthz").await, 401, "Unauthorized", "Unauthorized");
    }
}

/// Asserts that someone else is served: not at once on a busy machine, but long before clients that say nothing, one
/// after the other, have run out of the ten seconds that each is given.
async fn others_are_served(client: &Client) {
    let asked = async {
        assert_eq!(get(client, "/api/v1/namespaces").await.0, 200);
        assert_eq!(post(client, r#"{"metadata": {"generateName": "a-"}}"#).await.0, 201);
    };
    tokio::time::timeout(Duration::from_mins(1), asked).await.expect("others are served");
}

#[tokio::test]
async fn two_hundred_silent_clients_stop_nobody() {
    let stage = Stage::set();
    let address = address(&stage.config().await.cluster_url);
    let silent: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(&address).unwrap()).collect();
    others_are_served(&stage.admin().await).await;
    drop(silent);
}

#[tokio::test]
async fn bodies_that_never_end_and_watches_that_nobody_reads_stop_nobody() {
    let stage = Stage::set();
    let mut endless = Vec::new();
    for _ in 0..50 {
        let mut stream = stage.connect().await;
        let head = format!("POST {CONFIG_MAPS} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n{{");
        stream.write_all(head.as_bytes()).unwrap();
        stream.flush().unwrap();
        endless.push(stream);
    }
    let client = stage.admin().await;
    let mut unread = Vec::new();
    for _ in 0..20 {
        let watch = Request::get(format!("{CONFIG_MAPS}?watch=true")).body(Body::empty()).unwrap();
        let answer = client.send(watch).await.unwrap();
        assert_eq!(answer.status(), 200);
        unread.push(answer);
    }
    // More than sockets and buffers hold of a watch: 12 MiB to each.
    for number in 0..16 {
        let name = format!("large-{number}");
        let large = json!({"metadata": {"name": name}, "data": {"a": "x".repeat(768 << 10)}}).to_string();
        assert_eq!(post(&client, large).await.0, 201);
    }
    others_are_served(&client).await;
    drop((endless, unread));
}
