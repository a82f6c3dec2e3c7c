//! The process killed at random moments, twenty times, while 64 writers write: nothing acknowledged is lost.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write, stdout};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use c5c3_store::{Expect, Options, Store};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const DIRECTORY: &str = "C5C3_STORE_CRASH_TEST";
const ROUNDS: u64 = 20;
const WRITERS: usize = 64;

/// A checkpoint every few hundred writes: many of the kills hit one.
fn open(dir: &Path) -> Store {
    Store::open(dir, Options { checkpoint_bytes: 128 << 10, ..Options::default() }).unwrap()
}

fn key(writer: usize, count: u64) -> String {
    // Two keys for each writer: one is written over and over, one comes and goes.
    format!("/{writer}/{}", if count.is_multiple_of(2) { "stays" } else { "comes and goes" })
}

fn value(writer: usize, count: u64) -> Option<Bytes> {
    let deletes = count % 4 == 3;
    (!deletes).then(|| Bytes::from(format!("{writer} {count} {}", "x".repeat(usize::try_from(count % 700).unwrap()))))
}

/// Not a test but the process that is killed: it says on its standard output what was acknowledged to it.
#[ignore = "run by the crash test, which kills it"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_until_it_is_killed() {
    let Some(dir) = std::env::var_os(DIRECTORY) else { return };
    let store = open(Path::new(&dir));
    let tasks: Vec<_> = (0..WRITERS).map(|writer| tokio::spawn(write_forever(store.clone(), writer))).collect();
    for task in tasks {
        task.await.unwrap();
    }
}

async fn write_forever(store: Store, writer: usize) {
    // Goes on where the process before was killed: one past the last that is there.
    let mut count = [0, 1].into_iter().filter_map(|parity| count_in(&store, &key(writer, parity))).max().unwrap_or(0);
    loop {
        count += 1;
        let written = store.write(&key(writer, count), Expect::Any, move |_| value(writer, count)).await.unwrap();
        // What it was to delete may have been deleted by the process before, which was not told: no write, no revision.
        let nothing_written = written.previous.is_none() && value(writer, count).is_none();
        let revision = if nothing_written { 0 } else { written.revision };
        // One call, one line: what is read by the other side is whole.
        let line = format!("ack {writer} {count} {revision}\n");
        stdout().lock().write_all(line.as_bytes()).unwrap();
    }
}

fn count_in(store: &Store, key: &str) -> Option<u64> {
    let entry = store.get(key)?;
    std::str::from_utf8(&entry.value).unwrap().split(' ').nth(1).map(|count| count.parse().unwrap())
}

#[derive(Clone, Copy)]
struct Ack {
    count: u64,
    /// Zero: there was nothing to write.
    revision: u64,
}

/// Starts the writing process, kills it some time after its first acknowledgement, returns all of them.
fn run_and_kill(dir: &Path, life: Duration) -> Vec<(usize, Ack)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writes_until_it_is_killed", "--ignored", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let (first, begun) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let lines = output.lines().map_while(Result::ok);
        let acks = lines.filter_map(|line| parse(&line)).inspect(|_| {
            let _ = first.send(());
        });
        acks.collect::<Vec<_>>()
    });
    begun.recv().expect("a first acknowledgement");
    std::thread::sleep(life);
    // SIGKILL.
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

fn parse(line: &str) -> Option<(usize, Ack)> {
    let words: Vec<_> = line.strip_prefix("ack ")?.split(' ').collect();
    let [writer, count, revision] = words[..] else { return None };
    Some((writer.parse().ok()?, Ack { count: count.parse().ok()?, revision: revision.parse().ok()? }))
}

#[tokio::test]
async fn no_acknowledged_write_is_lost_and_no_revision_is_reused() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut rng = StdRng::seed_from_u64(3);
    let mut last: HashMap<(usize, String), Ack> = HashMap::new();
    let mut before = 0;
    for round in 0..ROUNDS {
        let acks = run_and_kill(dir.path(), Duration::from_millis(rng.random_range(0..120)));
        let mut revisions: Vec<_> =
            acks.iter().map(|(_, ack)| ack.revision).filter(|revision| *revision != 0).collect();
        revisions.sort_unstable();
        assert!(revisions.is_sorted_by(|one, next| one < next), "round {round}: two writes with one revision");
        assert!(revisions.first().is_none_or(|first| *first > before), "round {round}: a revision of before");
        for (writer, ack) in acks {
            last.insert((writer, key(writer, ack.count)), ack);
        }
        let store = open(dir.path());
        let highest = revisions.last().copied().unwrap_or(before);
        assert!(store.revision() >= highest, "round {round}");
        for ((writer, key), ack) in &last {
            check(&store, *writer, key, *ack);
        }
        resume(&store, &revisions).await;
        before = store.revision();
        store.close().await;
    }
}

/// The key is as its last acknowledged write left it, or as the one write that was under way did.
fn check(store: &Store, writer: usize, key: &str, ack: Ack) {
    let entry = store.get(key);
    let as_acknowledged = match (&entry, value(writer, ack.count)) {
        (Some(entry), Some(value)) => entry.value == value && entry.revision == ack.revision,
        (None, None) => true,
        _ => false,
    };
    let next = value(writer, ack.count + 2);
    let as_under_way = entry.as_ref().map(|entry| &entry.value) == next.as_ref();
    assert!(as_acknowledged || as_under_way, "{key}: {entry:?} after write {} was acknowledged", ack.count);
}

/// A watch from an acknowledged revision sees every later one, or is told that it cannot.
async fn resume(store: &Store, revisions: &[u64]) {
    for after in revisions.iter().rev().step_by(50) {
        match store.watch("", *after) {
            Ok(mut watch) => {
                for revision in after + 1..=store.revision() {
                    assert_eq!(watch.next().await.unwrap().unwrap().revision, revision);
                }
            }
            Err(compacted) => assert!(*after < compacted.oldest),
        }
    }
}
