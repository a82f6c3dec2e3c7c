//! Why the store has a log of its own: durable writes a second with it, with redb and with fjall, in one run.
//!
//! `cargo run --release -- [SECONDS] [DIRECTORY]`, the directory being on the disk to measure.
//!
//! Each engine gets the same load: writers that wait for each write to be safe before the next, values of 1 KiB, three
//! quarters of the writes updates. redb and fjall sit behind a thread that commits all waiting writes together, as the
//! store's own does; the store does everything that it does in service (map, history, checkpoints, a watch).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use c5c3_store::{Expect, Options, Store};
use tokio::sync::oneshot;

const VALUE: usize = 1024;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let duration =
        Duration::from_secs(arguments.next().map_or(5, |seconds| seconds.parse().expect("a number of seconds")));
    let disk = arguments.next().unwrap_or_else(|| ".".to_owned());
    println!(
        "{:<12} {:>8} {:>10} {:>9} {:>9} {:>9} {:>10}",
        "engine", "writers", "writes/s", "p50", "p99", "max", "on disk"
    );
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    for writers in [1, 64] {
        for engine in ["store", "redb", "fjall", "in memory"] {
            let dir = tempfile::tempdir_in(&disk).unwrap();
            runtime.block_on(measure(engine, dir.path(), writers, duration));
        }
    }
}

async fn measure(name: &str, dir: &Path, writers: usize, duration: Duration) {
    let engine = Arc::new(match name {
        "store" => Engine::Store(Store::open(dir, Options::default()).unwrap()),
        "in memory" => Engine::Store(Store::in_memory(Options::default())),
        "redb" => Engine::other(redb(dir)),
        _ => Engine::other(fjall(dir)),
    });
    let watch = engine.watch();
    let start = Instant::now();
    let tasks = (0..writers).map(|writer| {
        let engine = Arc::clone(&engine);
        tokio::spawn(async move {
            let mut latencies = Vec::new();
            while start.elapsed() < duration {
                let begun = Instant::now();
                let key = format!("/apps/deployments/ns-{writer}/web-{}", latencies.len() / 4);
                engine.write(key, vec![b'x'; VALUE]).await;
                latencies.push(begun.elapsed());
            }
            latencies
        })
    });
    let mut latencies = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        latencies.extend(task.await.unwrap());
    }
    let rate = latencies.len() as f64 / start.elapsed().as_secs_f64();
    latencies.sort_unstable();
    let at =
        |permille: usize| format!("{:.2}ms", latencies[(latencies.len() - 1) * permille / 1000].as_secs_f64() * 1e3);
    let size = format!("{:.0} MiB", size(dir) as f64 / f64::from(1 << 20));
    println!("{name:<12} {writers:>8} {rate:>10.0} {:>9} {:>9} {:>9} {size:>10}", at(500), at(990), at(1000));
    drop(engine);
    if let Some(watch) = watch {
        watch.await.unwrap();
    }
}

fn size(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap().filter_map(Result::ok);
    entries.filter_map(|entry| entry.metadata().ok().map(|metadata| (entry.path(), metadata))).map(length).sum()
}

fn length((path, metadata): (PathBuf, std::fs::Metadata)) -> u64 {
    if metadata.is_dir() { size(&path) } else { metadata.len() }
}

enum Engine {
    Store(Store),
    Other(Sender<Waiting>),
}

struct Waiting {
    key: String,
    value: Vec<u8>,
    done: oneshot::Sender<()>,
}

impl Engine {
    fn other(commit: impl FnMut(&[Waiting]) + Send + 'static) -> Self {
        let (inbox, messages) = channel();
        std::thread::spawn(move || commit_in_groups(&messages, commit));
        Self::Other(inbox)
    }

    async fn write(&self, key: String, value: Vec<u8>) {
        match self {
            Self::Store(store) => {
                store.write(&key, Expect::Any, move |_| Some(Bytes::from(value))).await.unwrap();
            }
            Self::Other(inbox) => {
                let (done, safe) = oneshot::channel();
                inbox.send(Waiting { key, value, done }).unwrap();
                safe.await.unwrap();
            }
        }
    }

    fn watch(&self) -> Option<tokio::task::JoinHandle<()>> {
        let Self::Store(store) = self else { return None };
        let mut watch = store.watch("/apps/", 0).unwrap();
        Some(tokio::spawn(async move { while let Some(Ok(_)) = watch.next().await {} }))
    }
}

fn commit_in_groups(messages: &Receiver<Waiting>, mut commit: impl FnMut(&[Waiting])) {
    while let Ok(first) = messages.recv() {
        let group: Vec<_> = std::iter::once(first).chain(messages.try_iter()).collect();
        commit(&group);
        for waiting in group {
            let _ = waiting.done.send(());
        }
    }
}

fn redb(dir: &Path) -> impl FnMut(&[Waiting]) + Send + use<> {
    let database = redb::Database::create(dir.join("redb")).unwrap();
    move |group| {
        const OBJECTS: redb::TableDefinition<'_, &str, &[u8]> = redb::TableDefinition::new("objects");
        let transaction = database.begin_write().unwrap();
        let mut table = transaction.open_table(OBJECTS).unwrap();
        for waiting in group {
            table.insert(&*waiting.key, &*waiting.value).unwrap();
        }
        drop(table);
        // Its default durability: on disk when it returns.
        transaction.commit().unwrap();
    }
}

fn fjall(dir: &Path) -> impl FnMut(&[Waiting]) + Send + use<> {
    let database = fjall::Database::builder(dir).open().unwrap();
    let objects = database.keyspace("objects", fjall::KeyspaceCreateOptions::default).unwrap();
    move |group| {
        let mut batch = database.batch().durability(Some(fjall::PersistMode::SyncData));
        for waiting in group {
            batch.insert(&objects, waiting.key.as_str(), waiting.value.as_slice());
        }
        batch.commit().unwrap();
    }
}
