//! Weeks of a cluster in seconds, with the loops that `up` starts: events expire, a process's log is rotated and the
//! server's certificate is renewed while clients write and their connections last. What the process holds stays the same.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use c5c3_apiserver::{Config, Server, Storage, listen};
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_util::sync::CancellationToken;

use crate::logs::Rotation;
use crate::up::now;

/// An hour, a year and 10 MiB are these here: the certificate is renewed six seconds after it was made.
const EVENT_TTL: Duration = Duration::from_secs(1);
const CERTIFICATE_LIFE: Duration = Duration::from_secs(9);
const LOG_LIMIT: u64 = 64 << 10;

/// How often something is written, and how much each time.
const PACE: Duration = Duration::from_millis(100);
const EVENTS: usize = 5;
const LINES: usize = 200;
const LARGE: usize = 900 << 10;

/// So many writes of the large object fill the server's history of 64 MiB, which counts each value where it comes and
/// where it goes.
const HISTORY: usize = (64 << 20) / (2 * LARGE) + 1;
/// How much memory may grow by once the history is full.
const GROWTH: usize = 24 << 20;

/// So many times as much must have been written of anything as is ever held of it.
const TIMES: usize = 4;
/// So many certificates must have been shown.
const CERTIFICATES: usize = 3;

const PATIENCE: Duration = Duration::from_mins(2);
const OF_EVENTS: &str = "/api/v1/namespaces/default/events";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Who connects to the server by TLS, and believes no certificate that is not in force.
struct Client {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
}

impl Client {
    async fn connect(&self) -> Connection {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(self.tls.clone()).connect(name, stream).await.unwrap();
        let certificate = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Connection { sender, certificate }
    }
}

/// One connection, and the certificate that the server has shown on it.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    certificate: Vec<u8>,
}

impl Connection {
    async fn begin(&mut self, method: Method, path: &str, body: &Value) -> (u16, Incoming) {
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.header("content-type", "application/json").body(Full::new(body)).unwrap();
        self.sender.ready().await.unwrap();
        let answer = self.sender.send_request(request).await.unwrap();
        (answer.status().as_u16(), answer.into_body())
    }

    async fn send(&mut self, method: Method, path: &str, body: &Value) -> u16 {
        let (code, answer) = self.begin(method, path, body).await;
        answer.collect().await.unwrap();
        code
    }

    async fn get(&mut self, path: &str) -> (u16, String) {
        let (code, answer) = self.begin(Method::GET, path, &Value::Null).await;
        let answer = answer.collect().await.unwrap().to_bytes();
        (code, String::from_utf8(answer.to_vec()).unwrap())
    }

    /// How many objects there are of each kind.
    async fn counts(&mut self) -> Vec<String> {
        let (_, metrics) = self.get("/metrics").await;
        metrics.lines().filter(|line| line.starts_with("apiserver_storage_objects{")).map(ToOwned::to_owned).collect()
    }

    async fn events(&mut self) -> usize {
        let (_, list) = self.get(OF_EVENTS).await;
        serde_json::from_str::<Value>(&list).unwrap()["items"].as_array().unwrap().len()
    }
}

/// What one watch has heard from its beginning to its end.
#[derive(Default)]
struct Heard {
    added: AtomicUsize,
    deleted: AtomicUsize,
    other: AtomicUsize,
}

impl Heard {
    /// Reads a watch's lines.
    async fn listen(self: Arc<Self>, mut watch: Incoming) {
        let mut line = Vec::new();
        while let Some(Ok(frame)) = watch.frame().await {
            for byte in frame.into_data().unwrap_or_default() {
                if byte != b'\n' {
                    line.push(byte);
                    continue;
                }
                let heard = match &serde_json::from_slice::<Value>(&line).unwrap()["type"] {
                    Value::String(what) if what == "ADDED" => &self.added,
                    Value::String(what) if what == "DELETED" => &self.deleted,
                    _ => &self.other,
                };
                heard.fetch_add(1, Ordering::SeqCst);
                line.clear();
            }
        }
        self.other.fetch_add(1, Ordering::SeqCst);
    }

    /// How often something came, went, and was neither: the end of the watch included.
    fn all(&self) -> [usize; 3] {
        [&self.added, &self.deleted, &self.other].map(|count| count.load(Ordering::SeqCst))
    }
}

/// A process that appends to its log, as a node's agent does.
struct Process {
    child: Child,
    log: PathBuf,
    written: u64,
}

impl Process {
    fn start(log: PathBuf) -> Self {
        let file = File::options().create(true).append(true).open(&log).unwrap();
        let child = Command::new("cat").stdin(Stdio::piped()).stdout(file).kill_on_drop(true).spawn().unwrap();
        Self { child, log, written: 0 }
    }

    async fn say(&mut self, text: &str) {
        self.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).await.unwrap();
        self.written += text.len() as u64;
    }

    /// How much of what it has said is on the disk.
    fn held(&self) -> u64 {
        let second = PathBuf::from(format!("{}.1", self.log.display()));
        size(&self.log) + size(&second)
    }
}

/// The size of a file, or of all in a folder.
fn size(path: &Path) -> u64 {
    let Ok(found) = fs::symlink_metadata(path) else { return 0 };
    if !found.is_dir() {
        return found.len();
    }
    fs::read_dir(path).unwrap().map(|entry| size(&entry.unwrap().path())).sum()
}

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

/// What was written, and the most that was held of it.
#[derive(Debug, Default)]
struct Tally {
    rounds: usize,
    events: usize,
    most_events: usize,
    certificates: BTreeSet<Vec<u8>>,
    /// Memory when the history was full, and was as large as it gets.
    full: usize,
}

impl Tally {
    /// Whether everything has come and gone often enough.
    fn is_enough(&self, process: &Process) -> bool {
        self.rounds > 4 * HISTORY
            && self.events > TIMES * self.most_events
            && self.certificates.len() >= CERTIFICATES
            && process.written > TIMES as u64 * process.held()
    }
}

async fn write(tally: &mut Tally, client: &Client, kept: &mut Connection, process: &mut Process) {
    let round = tally.rounds;
    let text = char::from(b'a' + u8::try_from(round % 26).unwrap()).to_string().repeat(LARGE);
    let large = json!({"metadata": {"name": "large"}, "data": {"text": text}});
    assert_eq!(kept.send(Method::PUT, &format!("{MAPS}/large"), &large).await, 200);
    for number in 0..EVENTS {
        let about = json!({"kind": "Pod", "name": format!("p{number}"), "namespace": "default"});
        let event = json!({"metadata": {"name": format!("e{round}-{number}")}, "involvedObject": about,
                           "reason": "BackOff", "message": "Back-off restarting failed container", "type": "Warning"});
        assert_eq!(kept.send(Method::POST, OF_EVENTS, &event).await, 201);
    }
    process.say(&format!("{round:08} {:>70}\n", "the agent says something that nobody reads").repeat(LINES)).await;
    let mut fresh = client.connect().await;
    tally.events += EVENTS;
    tally.most_events = tally.most_events.max(fresh.events().await);
    tally.certificates.insert(fresh.certificate);
    tally.rounds += 1;
    if tally.rounds == 2 * HISTORY {
        tally.full = resident();
    }
}

/// Waits until the server has made what each namespace has, and the objects of its own address.
async fn settled(connection: &mut Connection) {
    let roots = ["default", "kube-node-lease", "kube-public", "kube-system"];
    let mut paths: Vec<String> =
        roots.iter().map(|name| format!("/api/v1/namespaces/{name}/configmaps/kube-root-ca.crt")).collect();
    paths.extend(roots.iter().map(|name| format!("/api/v1/namespaces/{name}/serviceaccounts/default")));
    paths.extend(
        ["ipaddresses/10.125.0.1", "servicecidrs/kubernetes"].map(|path| format!("/apis/networking.k8s.io/v1/{path}")),
    );
    let began = Instant::now();
    for path in paths {
        while connection.get(&path).await.0 != 200 {
            assert!(began.elapsed() < PATIENCE, "there is no {path}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_written_to_for_weeks_holds_no_more_than_after_hours() {
    let home = tempfile::tempdir().unwrap();
    let storage = home.path().join("apiserver");
    let config = Config {
        event_ttl: EVENT_TTL,
        certificate_life: CERTIFICATE_LIFE,
        ..Config::new(Storage::Folder(storage.clone()))
    };
    let server = Server::start(config).await.unwrap();
    let address = listen(&server, "127.0.0.1:0".parse().unwrap()).await.unwrap().address;
    let gardener = server.pki().issue_client("gardener", &["system:masters"], PATIENCE * 2, now()).unwrap();
    let mut tls = gardener.calling(server.pki().ca_pem()).unwrap();
    // A session that is resumed shows the certificate of its beginning.
    tls.resumption = Resumption::disabled();
    let client = Client { address, tls: Arc::new(tls) };
    let (mut process, stop) = (Process::start(home.path().join("agent.log")), CancellationToken::new());
    let rotation = Rotation { interval: PACE / 10, limit: LOG_LIMIT, ..Rotation::new(vec![process.log.clone()]) };
    let rotating = tokio::spawn(rotation.run(stop.clone()));

    let (mut kept, mut watching) = (client.connect().await, client.connect().await);
    settled(&mut kept).await;
    let large = json!({"metadata": {"name": "large"}});
    assert_eq!(kept.send(Method::POST, MAPS, &large).await, 201);
    let (heard, before) = (Arc::new(Heard::default()), kept.counts().await);
    let (_, watch) = watching.begin(Method::GET, &format!("{OF_EVENTS}?watch=true"), &Value::Null).await;
    let listening = tokio::spawn(heard.clone().listen(watch));

    let (began, mut tally, mut pace) = (Instant::now(), Tally::default(), tokio::time::interval(PACE));
    tally.certificates.insert(kept.certificate.clone());
    while !tally.is_enough(&process) {
        pace.tick().await;
        write(&mut tally, &client, &mut kept, &mut process).await;
        let (held, shown) = (process.held(), tally.certificates.len());
        assert!(
            began.elapsed() < PATIENCE,
            "after {PATIENCE:?} and {} rounds: of {} events {} were held at once, of {} bytes of a log {held} are \
            there, {shown} certificates were shown",
            tally.rounds,
            tally.events,
            tally.most_events,
            process.written,
        );
    }
    let after = resident();
    println!(
        "{} rounds in {:?}: {} events and at most {} of them at once; {} KiB of a log and {} of them there; {} MiB resident \
        when the history was full, {} MiB at the end; {} MiB of a store after {} MiB of writes",
        tally.rounds,
        began.elapsed(),
        tally.events,
        tally.most_events,
        process.written >> 10,
        process.held() >> 10,
        tally.full >> 20,
        after >> 20,
        size(&storage) >> 20,
        (tally.rounds * LARGE) >> 20,
    );
    assert!(after < tally.full + GROWTH, "{} bytes with a full history, {after} after", tally.full);

    // The connections of the beginning last, and nothing is held of what was written.
    let gone = Instant::now();
    while heard.all()[..2] != [tally.events; 2] {
        assert!(gone.elapsed() < PATIENCE, "of {} events the watch heard {:?}", tally.events, heard.all());
        assert_eq!(kept.get("/readyz").await.0, 200);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(heard.all()[2], 0, "the watch has heard of nothing else, nor of its end");
    assert_eq!(kept.counts().await, before);
    stop.cancel();
    rotating.await.unwrap();
    server.stop().await;
    listening.await.unwrap();
}
