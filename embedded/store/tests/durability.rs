//! What the directory promises: one owner, private files, syncs shared, damage refused, size in proportion.
#![allow(missing_docs, clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use bytes::Bytes;
use c5c3_store::{Expect, OpenError, Options, Store, WriteError};
use futures::FutureExt;
use futures::future::join_all;

fn open(dir: &Path) -> Store {
    Store::open(dir, Options::default()).unwrap()
}

async fn put(store: &Store, key: &str, value: Vec<u8>) -> u64 {
    store.write(key, Expect::Any, move |_| Some(Bytes::from(value))).await.unwrap().revision
}

fn files(dir: &Path, kind: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(kind)).collect();
    files.sort();
    files
}

fn frames(path: &Path) -> usize {
    fs::read(path).unwrap().windows(4).filter(|bytes| *bytes == [0xff, 0xfe, 0xc5, 0xc3]).count()
}

/// Waits for the background, which has no other sign of being done than its files.
async fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..500 {
        if done() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

#[tokio::test]
async fn writes_that_wait_together_share_one_sync() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let (release, held) = mpsc::channel::<()>();
    let make = move |_| {
        held.recv().unwrap();
        Some(Bytes::from("value"))
    };
    let first = async { store.write("/first", Expect::Absent, make).await.unwrap().revision };
    let mut writers = vec![first.boxed_local()];
    for writer in 0..63 {
        let key = format!("/{writer}");
        let store = &store;
        writers.push(async move { put(store, &key, vec![b'x'; 1024]).await }.boxed_local());
    }
    // A write is sent when it is first polled; tasks of the runtime would be polled some time.
    for writer in &mut writers {
        assert!(futures::poll!(writer).is_pending());
    }
    release.send(()).unwrap();
    let mut revisions = join_all(writers).await;
    revisions.sort_unstable();
    assert_eq!(revisions, (1..=64).collect::<Vec<_>>());
    assert_eq!(frames(&files(dir.path(), "log-")[0]), 1);
}

#[tokio::test]
async fn a_second_owner_is_refused_until_the_first_closes() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let error = Store::open(dir.path(), Options::default()).unwrap_err();
    assert!(matches!(&error, OpenError::Locked { path } if path == dir.path()), "{error}");
    store.close().await;
    let store = open(dir.path());
    drop(store);
    open(dir.path());
}

#[tokio::test]
async fn only_the_owner_can_read_the_directory() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("new").join("data");
    let store = Store::open(&dir, Options { checkpoint_bytes: 1, ..Options::default() }).unwrap();
    put(&store, "/secrets/one", b"secret".to_vec()).await;
    until("a checkpoint", || !files(&dir, "checkpoint-").is_empty()).await;
    store.close().await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    for path in files(&dir, "") {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[tokio::test]
async fn a_directory_with_other_things_in_it_keeps_its_mode() {
    let parent = tempfile::tempdir().unwrap();
    let (empty, used) = (parent.path().join("empty"), parent.path().join("used"));
    for dir in [&empty, &used] {
        fs::create_dir(dir).unwrap();
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::write(used.join("letter"), "dear").unwrap();
    for (dir, expected) in [(&empty, 0o700), (&used, 0o755)] {
        open(dir).close().await;
        assert_eq!(fs::metadata(dir).unwrap().permissions().mode() & 0o777, expected);
    }
    assert_eq!(fs::read(used.join("letter")).unwrap(), b"dear");
}

#[tokio::test]
async fn a_store_of_a_newer_version_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).close().await;
    let log = files(dir.path(), "log-").remove(0);
    let mut bytes = fs::read(&log).unwrap();
    bytes[8..12].copy_from_slice(&7_u32.to_le_bytes());
    let checksum = crc32(&bytes[..12]);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    fs::write(&log, bytes).unwrap();
    let error = Store::open(dir.path(), Options::default()).unwrap_err();
    assert!(matches!(error, OpenError::NewerVersion { found: 7, supported: 1, .. }));
    assert!(
        error.to_string().ends_with("has format version 7, this program reads up to 1: run the release that wrote it")
    );
}

/// The checksum of the format, bit by bit: what any release, and any other program, can compute.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes
        .iter()
        .fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1))))
}

#[tokio::test]
async fn a_log_cut_anywhere_opens_with_all_but_its_last_write() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for count in 1..=4 {
        put(&store, "/key", vec![b'0' + count; 20]).await;
    }
    store.close().await;
    let log = files(dir.path(), "log-").remove(0);
    let whole = fs::read(&log).unwrap();
    let used = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let frame = (used - 16) / 4;
    for cut in 16..used {
        fs::write(&log, &whole[..cut]).unwrap();
        let store = open(dir.path());
        let revision = ((cut - 16) / frame) as u64;
        assert_eq!(store.revision(), revision, "cut at {cut}");
        assert_eq!(store.get("/key").map_or(0, |entry| entry.revision), revision);
        // It goes on from there, and what it then writes can be read.
        assert_eq!(put(&store, "/other", b"value".to_vec()).await, revision + 1);
        store.close().await;
        let store = open(dir.path());
        assert_eq!((store.revision(), store.list("").len()), (revision + 1, if revision == 0 { 1 } else { 2 }));
    }
}

fn number(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.rsplit_once('-')?.1.parse().ok()
}

/// Writes until there is a checkpoint after a revision, and returns that of the checkpoint. While one is being written, no
/// other is begun.
async fn write_to_checkpoint(store: &Store, dir: &Path, after: u64) -> u64 {
    for _ in 0..500 {
        put(store, "/one", vec![b'x'; 300]).await;
        let newest = files(dir, "checkpoint-").iter().filter_map(|path| number(path)).max();
        if let Some(newest) = newest.filter(|newest| *newest > after) {
            return newest;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("there is never a checkpoint after {after}");
}

/// Fills a store of two keys and two checkpoints, and returns its revision.
async fn with_two_checkpoints(dir: &Path) -> u64 {
    let store = Store::open(dir, Options { checkpoint_bytes: 100, ..Options::default() }).unwrap();
    let first = write_to_checkpoint(&store, dir, 0).await;
    write_to_checkpoint(&store, dir, first).await;
    let revision = put(&store, "/two", vec![b'x'; 20]).await;
    store.close().await;
    assert_eq!(files(dir, "checkpoint-").len(), 2);
    revision
}

/// Damages each byte of a file in turn.
fn damaged(path: &Path, mut look: impl FnMut(usize)) {
    let whole = fs::read(path).unwrap();
    let used = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    for at in 0..used {
        let mut bytes = whole[..used.next_multiple_of(8)].to_vec();
        bytes[at] ^= 1 << (at % 8);
        fs::write(path, &bytes).unwrap();
        look(at);
    }
    fs::write(path, whole).unwrap();
}

#[tokio::test]
async fn a_damaged_last_checkpoint_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let revision = with_two_checkpoints(dir.path()).await;
    let last = files(dir.path(), "checkpoint-").pop().unwrap();
    damaged(&last, |at| {
        let store = open(dir.path());
        assert_eq!((store.revision(), store.list("").len()), (revision, 2), "byte {at}");
        assert!(!last.exists(), "it is not read again");
    });
    fs::remove_file(&last).unwrap();
    assert_eq!(open(dir.path()).revision(), revision, "as if it had never been written");
}

#[tokio::test]
async fn a_damaged_first_checkpoint_is_made_up_for_by_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options { checkpoint_bytes: 100, ..Options::default() }).unwrap();
    put(&store, "/one", vec![b'x'; 100]).await;
    until("a checkpoint", || !files(dir.path(), "checkpoint-").is_empty()).await;
    put(&store, "/two", vec![b'x'; 20]).await;
    store.close().await;
    fs::write(files(dir.path(), "checkpoint-").remove(0), "rust").unwrap();
    assert_eq!(open(dir.path()).list("").len(), 2);
}

#[tokio::test]
async fn two_generations_are_kept_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options { checkpoint_bytes: 100, ..Options::default() }).unwrap();
    let mut last = 0;
    for _ in 0..5 {
        last = write_to_checkpoint(&store, dir.path(), last).await;
    }
    store.close().await;
    let numbers = |kind: &str| files(dir.path(), kind).iter().filter_map(|path| number(path)).collect::<Vec<_>>();
    let (checkpoints, logs) = (numbers("checkpoint-"), numbers("log-"));
    assert_eq!((checkpoints.len(), logs[0]), (2, checkpoints[0] + 1), "{checkpoints:?} {logs:?}");
}

#[tokio::test]
async fn damage_that_nothing_makes_up_for_is_refused_never_read() {
    let dir = tempfile::tempdir().unwrap();
    with_two_checkpoints(dir.path()).await;
    // Without the generation before it, the last checkpoint is needed.
    fs::remove_file(files(dir.path(), "checkpoint-").remove(0)).unwrap();
    let log = files(dir.path(), "log-").pop().unwrap();
    for path in [log, files(dir.path(), "checkpoint-").remove(0)] {
        let whole = fs::read(&path).unwrap();
        let used = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        for at in 0..used {
            let mut bytes = whole[..used.next_multiple_of(8)].to_vec();
            bytes[at] ^= 1 << (at % 8);
            fs::write(&path, &bytes).unwrap();
            let error = Store::open(dir.path(), Options::default()).unwrap_err();
            assert!(matches!(&error, OpenError::Corrupt { path: named, .. } if *named == path), "{at}: {error}");
        }
        fs::write(&path, whole).unwrap();
    }
    assert_eq!(open(dir.path()).list("").len(), 2);
}

#[tokio::test]
async fn a_missing_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let revision = with_two_checkpoints(dir.path()).await;
    fs::remove_file(files(dir.path(), "checkpoint-").remove(0)).unwrap();
    let checkpoint = files(dir.path(), "checkpoint-").remove(0);
    let log = dir.path().join(format!("log-{:020}", number(&checkpoint).unwrap() + 1));
    for missing in [checkpoint, log] {
        let away = dir.path().join("away");
        fs::rename(&missing, &away).unwrap();
        assert!(matches!(Store::open(dir.path(), Options::default()), Err(OpenError::Corrupt { .. })));
        fs::rename(&away, &missing).unwrap();
    }
    assert_eq!(open(dir.path()).revision(), revision);
}

#[tokio::test]
async fn the_directory_stays_in_proportion_to_the_data() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { checkpoint_bytes: 1 << 20, ..Options::default() };
    let store = Store::open(dir.path(), options).unwrap();
    // 32 MiB through a handful of keys.
    for count in 0..512 {
        put(&store, &format!("/{}", count % 4), vec![b'x'; 64 << 10]).await;
    }
    let size = || files(dir.path(), "").iter().map(|path| fs::metadata(path).map_or(0, |file| file.len())).sum::<u64>();
    until("a small directory", || size() < 8 << 20).await;
    store.close().await;
    let store = open(dir.path());
    assert_eq!((store.revision(), store.list("").len()), (512, 4));
}

#[tokio::test]
async fn a_crash_within_a_checkpoint_is_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    put(&store, "/one", b"value".to_vec()).await;
    store.close().await;
    // Neither had got its name when the process died.
    fs::write(dir.path().join("checkpoint-00000000000000000001.tmp"), "c5c3").unwrap();
    fs::write(dir.path().join("log-00000000000000000002.tmp"), "").unwrap();
    let store = open(dir.path());
    assert_eq!((store.revision(), store.get("/one").unwrap().revision), (1, 1));
    assert!(files(dir.path(), "").iter().all(|path| path.extension().is_none()));
}

#[tokio::test]
async fn a_checkpoint_that_cannot_be_begun_is_put_off() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options { checkpoint_bytes: 100, ..Options::default() }).unwrap();
    let in_the_way = dir.path().join("log-00000000000000000002.tmp");
    fs::create_dir(&in_the_way).unwrap();
    put(&store, "/one", vec![b'x'; 100]).await;
    put(&store, "/two", b"value".to_vec()).await;
    assert_eq!(files(dir.path(), "log-").len(), 2, "the log, and what is in the way of the next");
    fs::remove_dir(&in_the_way).unwrap();
    put(&store, "/three", vec![b'x'; 100]).await;
    until("a checkpoint", || !files(dir.path(), "checkpoint-").is_empty()).await;
    store.close().await;
    assert_eq!(open(dir.path()).list("").len(), 3);
}

#[tokio::test]
async fn a_watch_goes_on_after_a_restart_from_what_the_log_still_has() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for _ in 0..3 {
        put(&store, "/key", b"value".to_vec()).await;
    }
    store.close().await;
    let store = open(dir.path());
    let mut watch = store.watch("", 1).unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap().revision, 2);
    assert_eq!(watch.next().await.unwrap().unwrap().revision, 3);
    assert_eq!(store.list_at("", 1).unwrap().iter().next().unwrap().revision, 1);
}

#[tokio::test]
async fn a_panic_while_making_a_value_stays_with_its_caller() {
    let dir = tempfile::tempdir().unwrap();
    for store in [Store::in_memory(Options::default()), open(dir.path())] {
        let victim = store.clone();
        let task = tokio::spawn(async move { victim.write("/a", Expect::Any, |_| panic!("no value")).await });
        assert!(task.await.unwrap_err().is_panic());
        assert_eq!(put(&store, "/b", b"value".to_vec()).await, 1);
        assert_eq!(store.list("").len(), 1);
    }
}

#[tokio::test]
async fn a_closed_store_can_be_read_but_not_written() {
    let dir = tempfile::tempdir().unwrap();
    for store in [Store::in_memory(Options::default()), open(dir.path())] {
        put(&store, "/a", b"value".to_vec()).await;
        store.clone().close().await;
        store.clone().close().await;
        assert_eq!(store.get("/a").unwrap().value, "value");
        let error = store.write("/a", Expect::Any, |_| None).await.unwrap_err();
        assert!(matches!(error, WriteError::Closed));
    }
}

#[tokio::test]
async fn a_record_beyond_the_limit_is_refused_alone() {
    let store = Store::in_memory(Options::default());
    let error = store.write("/a", Expect::Any, |_| Some(Bytes::from(vec![0; 65 << 20]))).await.unwrap_err();
    assert!(matches!(error, WriteError::TooLarge { .. }));
    assert_eq!(put(&store, "/a", b"value".to_vec()).await, 1);
}

#[tokio::test]
async fn the_last_clone_may_go_within_its_own_write() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let (gone, last) = (store.clone(), store.clone());
    let write = tokio::spawn(async move {
        store
            .write("/a", Expect::Any, move |_| {
                drop(last);
                Some(Bytes::from("value"))
            })
            .await
    });
    drop(gone);
    assert_eq!(write.await.unwrap().unwrap().revision, 1);
}
