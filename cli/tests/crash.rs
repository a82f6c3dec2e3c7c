//! `c5c3 apiserver --data`: what is acknowledged survives any crash, and what watches are told is never taken back.

mod server;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, ObjectMeta, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use server::Apiserver;
use tokio_util::sync::CancellationToken;

const WRITERS: usize = 64;
const OBJECTS_OF_A_WRITER: u64 = 3;
const CRASHES: usize = 20;

/// A write as it was acknowledged, or as a watch told it: the object, and which of its writes it is.
type Write = (String, u64);

/// What was seen, by resource version. A version that stands for two writes was reused.
#[derive(Default)]
struct Seen(BTreeMap<u64, Write>);

impl Seen {
    fn add_all(&mut self, objects: &[ConfigMap]) {
        for object in objects {
            self.add(object);
        }
    }

    fn add(&mut self, object: &ConfigMap) {
        let (version, write) = read(object);
        let known = self.0.entry(version).or_insert_with(|| write.clone());
        assert_eq!(*known, write, "resource version {version} was used twice");
    }
}

fn read(object: &ConfigMap) -> (u64, Write) {
    let version = object.metadata.resource_version.as_deref().unwrap().parse().unwrap();
    let turn = object.data.as_ref().unwrap()["turn"].parse().unwrap();
    (version, (object.metadata.name.clone().unwrap(), turn))
}

async fn config_maps(kubeconfig: &Path) -> Api<ConfigMap> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Api::namespaced(Client::try_from(config).unwrap(), "default")
}

/// Creates and updates objects of its own until told to stop; returns what was acknowledged.
async fn write(api: Api<ConfigMap>, writer: usize, stop: CancellationToken) -> Vec<ConfigMap> {
    let mut acknowledged = Vec::new();
    for turn in 0_u64.. {
        if stop.is_cancelled() {
            break;
        }
        let name = format!("writer-{writer}-{}", turn % OBJECTS_OF_A_WRITER);
        let metadata = ObjectMeta {
            name: Some(name.clone()),
            labels: Some([("suite".to_owned(), "crash".to_owned())].into()),
            ..ObjectMeta::default()
        };
        let data = Some([("turn".to_owned(), turn.to_string())].into());
        let object = ConfigMap { metadata, data, ..ConfigMap::default() };
        let params = PostParams::default();
        // Whether the object exists is not known after a crash, and need not be: whichever answers counts.
        let done = match api.replace(&name, &params, &object).await {
            Err(kube::Error::Api(status)) if status.code == 404 => api.create(&params, &object).await,
            other => other,
        };
        match done {
            Ok(object) => acknowledged.push(object),
            Err(kube::Error::Api(status)) => panic!("refused: {status:?}"),
            // The server is down.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    acknowledged
}

/// A stretch of a watch, over any number of crashes: everything after `from` up to the last event.
struct Stretch {
    from: u64,
    events: Vec<ConfigMap>,
}

/// Watches until told to stop, going on after each crash from the last version it was told. Begins a new stretch
/// only where the server says that it cannot go on (410).
async fn follow(api: Api<ConfigMap>, stop: CancellationToken) -> Vec<Stretch> {
    let labels = "suite=crash";
    let mut stretches: Vec<Stretch> = Vec::new();
    let mut at: Option<u64> = None;
    while !stop.is_cancelled() {
        let Some(from) = at else {
            if let Ok(list) = api.list(&ListParams::default().labels(labels)).await {
                let from = list.metadata.resource_version.unwrap().parse().unwrap();
                stretches.push(Stretch { from, events: Vec::new() });
                at = Some(from);
            }
            continue;
        };
        let params = WatchParams::default().labels(labels).disable_bookmarks();
        let Ok(events) = api.watch(&params, &from.to_string()).await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let mut events = std::pin::pin!(events);
        let stretch = stretches.last_mut().unwrap();
        while let Some(Ok(Some(event))) = stop.run_until_cancelled(events.try_next()).await {
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    let version = read(&object).0;
                    assert!(Some(version) > at, "a watch goes forward: {version} after {at:?}");
                    at = Some(version);
                    stretch.events.push(object);
                }
                WatchEvent::Error(status) if status.code == 410 => at = None,
                other => panic!("nothing is deleted, and no other error is expected: {other:?}"),
            }
        }
    }
    stretches
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_in_twenty_crashes() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let start = |listen: &str| Apiserver::start(folder.path(), &["--data", data.to_str().unwrap(), "--listen", listen]);
    let mut server = start("127.0.0.1:0");
    let kubeconfig = Kubeconfig::read_from(&server.kubeconfig).unwrap();
    let url = kubeconfig.clusters[0].cluster.as_ref().unwrap().server.clone().unwrap();
    let listen = url.trim_start_matches("https://").to_owned();
    // Made from the first kubeconfig, and good for every later server: keys and certificates are kept, too.
    let api = config_maps(&server.kubeconfig).await;
    let stop = CancellationToken::new();
    let writers: Vec<_> = (0..WRITERS).map(|n| tokio::spawn(write(api.clone(), n, stop.clone()))).collect();
    let watches: Vec<_> = (0..2).map(|_| tokio::spawn(follow(api.clone(), stop.clone()))).collect();
    let mut slowest = Duration::ZERO;
    for _ in 0..CRASHES {
        tokio::time::sleep(Duration::from_millis(rand::random_range(50..700))).await;
        drop(server);
        let began = Instant::now();
        server = tokio::task::block_in_place(|| start(&listen));
        slowest = slowest.max(began.elapsed());
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    stop.cancel();
    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.extend(writer.await.unwrap());
    }
    let mut seen = Seen::default();
    seen.add_all(&acknowledged);
    assert!(acknowledged.len() > WRITERS, "only {} writes", acknowledged.len());
    every_write_is_there(&api, &acknowledged, &mut seen).await;
    let (mut told, mut expired) = (0, 0);
    for watch in watches {
        let stretches = watch.await.unwrap();
        expired += stretches.len() - 1;
        for stretch in &stretches {
            seen.add_all(&stretch.events);
            has_no_gap(stretch, &acknowledged);
            told += stretch.events.len();
        }
    }
    assert!(told > 0);
    eprintln!(
        "{} writes acknowledged, {told} events, {expired} watches expired, slowest start {slowest:?}",
        acknowledged.len()
    );
}

/// Each object is as its last acknowledged write left it, or as a later one did.
async fn every_write_is_there(api: &Api<ConfigMap>, acknowledged: &[ConfigMap], seen: &mut Seen) {
    let list = api.list(&ListParams::default().labels("suite=crash")).await.unwrap();
    seen.add_all(&list.items);
    let stored: BTreeMap<String, (u64, u64)> =
        list.items.iter().map(read).map(|(version, (name, turn))| (name, (version, turn))).collect();
    for (version, (name, turn)) in acknowledged.iter().map(read) {
        let now = stored.get(&name).copied().unwrap_or_default();
        assert!(
            now.0 >= version && now.1 >= turn,
            "{name}: turn {turn} of version {version} is lost, {now:?} is there"
        );
    }
}

/// A watch was told each write between where it began and where it ended.
fn has_no_gap(stretch: &Stretch, acknowledged: &[ConfigMap]) {
    let told: Vec<u64> = stretch.events.iter().map(|object| read(object).0).collect();
    let last = told.last().copied().unwrap_or(stretch.from);
    for version in acknowledged.iter().map(|object| read(object).0) {
        let within = stretch.from < version && version <= last;
        assert!(!within || told.binary_search(&version).is_ok(), "a watch from {} missed {version}", stretch.from);
    }
}

#[test]
fn a_second_server_on_the_same_data_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let args = ["--data", data.to_str().unwrap(), "--listen", "127.0.0.1:0"];
    let first = Apiserver::start(folder.path(), &args);
    let second = Command::new(env!("CARGO_BIN_EXE_c5c3"))
        .arg("apiserver")
        .args(args)
        .arg("--kubeconfig")
        .arg(folder.path().join("other"))
        .output()
        .unwrap();
    let error = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(2), "{error}");
    assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    assert!(error.contains("another process") || error.contains("in use"), "{error}");
    assert!(!folder.path().join("other").exists());
    drop(first);
    // A lock of a process that was killed is no lock.
    Apiserver::start(folder.path(), &args);
}

#[test]
fn keys_are_for_their_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Apiserver::start(folder.path(), &["--data", data.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&server.kubeconfig), 0o600);
    for entry in std::fs::read_dir(data.join("pki")).unwrap() {
        let path = entry.unwrap().path();
        let secret = std::fs::read_to_string(&path).is_ok_and(|text| text.contains("PRIVATE KEY"));
        assert!(!secret || mode(&path) == 0o600, "{}", path.display());
    }
}

#[test]
fn asked_to_end_it_ends_well_even_with_watches_open() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let args = ["--data", data.to_str().unwrap(), "--listen", "127.0.0.1:0"];
    let mut server = Apiserver::start(folder.path(), &args);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let api = runtime.block_on(config_maps(&server.kubeconfig));
    let watch = runtime.block_on(api.watch(&WatchParams::default(), "0")).unwrap();
    let began = Instant::now();
    let pid = server.child.id().to_string();
    assert!(Command::new("sh").args(["-c", &format!("kill -TERM {pid}")]).status().unwrap().success());
    let status = loop {
        if let Some(status) = server.child.try_wait().unwrap() {
            break status;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(status.code(), Some(0));
    drop(watch);
}
