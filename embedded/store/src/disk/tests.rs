//! What a damaged or unfinished frame is taken for: every tear is a tear, every flipped bit is damage. And what a disk
//! that fails does to the store.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::Disk;
use super::frame::{self, Found, Kind, Record};
use super::segment::{Faults, Segment};
use crate::batch::{Batch, Order};
use crate::shared::Shared;
use crate::writer::Writer;
use crate::{Commit, Expect, Inner, Options, Store, WriteError};

/// A log of three batches in zeroed space, and where each batch ends.
fn log() -> (Vec<u8>, Vec<usize>) {
    let (mut file, mut buffer, mut ends) = (frame::preamble().to_vec(), Vec::new(), Vec::new());
    for (number, length) in [(1, 3), (2, 1500), (3, 2100)] {
        frame::begin(&mut buffer);
        let value = vec![b'v'; length];
        frame::put(&mut buffer, &Record { revision: number, created: number, key: "/a", value: Some(&value) });
        frame::seal(&mut buffer, Kind::Batch, number);
        file.extend_from_slice(&buffer);
        ends.push(file.len());
    }
    file.resize(8192, 0);
    (file, ends)
}

/// How many frames are read before something else is found, and what that is.
fn outcome(file: &[u8]) -> (usize, &'static str) {
    let (mut at, mut frames) = (frame::PREAMBLE, 0);
    loop {
        match frame::read(file, at) {
            Found::Frame(frame) => (at, frames) = (frame.end, frames + 1),
            Found::Nothing => return (frames, "nothing"),
            Found::Torn => return (frames, "torn"),
            Found::Damaged => return (frames, "damaged"),
        }
    }
}

#[test]
fn a_log_is_read_to_its_end() {
    assert_eq!(outcome(&log().0), (3, "nothing"));
}

#[test]
fn a_last_write_that_stopped_at_any_byte_is_torn() {
    let (file, ends) = log();
    for cut in ends[1]..ends[2] {
        let expected = if cut == ends[1] { "nothing" } else { "torn" };
        assert_eq!(outcome(&file[..cut]), (2, expected), "shortened to {cut}");
        let mut zeroed = file.clone();
        zeroed[cut..].fill(0);
        assert_eq!(outcome(&zeroed), (2, expected), "zeros from {cut} on");
    }
}

#[test]
fn a_last_write_of_which_any_sectors_were_lost_is_torn() {
    let (file, ends) = log();
    let (first, last) = (ends[1] / 512, (ends[2] - 1) / 512);
    let sectors = last - first + 1;
    for lost in 1_u32..1 << sectors {
        let mut file = file.clone();
        for sector in (0..sectors).filter(|sector| lost & (1 << sector) != 0) {
            let start = ((first + sector) * 512).max(ends[1]);
            file[start..((first + sector + 1) * 512).min(ends[2])].fill(0);
        }
        let expected = if lost == (1 << sectors) - 1 { "nothing" } else { "torn" };
        assert_eq!(outcome(&file), (2, expected), "lost sectors {lost:b}");
    }
}

#[test]
fn a_flipped_bit_in_any_batch_is_damage() {
    let (file, ends) = log();
    for at in frame::PREAMBLE..ends[2] {
        let batch = ends.iter().filter(|end| **end <= at).count();
        for bit in 0..8 {
            let mut file = file.clone();
            file[at] ^= 1 << bit;
            assert_eq!(outcome(&file), (batch, "damaged"), "byte {at} bit {bit}");
        }
    }
}

#[test]
fn a_flipped_bit_in_unused_space_loses_nothing() {
    let (file, ends) = log();
    for at in ends[2]..file.len() {
        let mut file = file.clone();
        file[at] ^= 0x10;
        assert_eq!(outcome(&file), (3, "torn"), "byte {at}");
    }
}

#[test]
fn a_batch_that_is_missing_before_another_is_damage() {
    let (mut file, ends) = log();
    file[ends[0]..ends[1]].fill(0);
    assert_eq!(outcome(&file), (1, "damaged"));
}

#[test]
fn a_value_cannot_pass_for_a_frame() {
    let (file, _) = log();
    // What is stored is JSON; the mark of a frame is not even UTF-8.
    assert!(std::str::from_utf8(&file[frame::PREAMBLE..frame::PREAMBLE + 4]).is_err());
}

/// A store on `dir` whose disk fails as a test says.
fn failing(dir: &Path) -> (Store, Faults) {
    let (disk, state, feed) = Disk::open(dir, &Options::default()).unwrap();
    let faults = Arc::clone(&disk.segment.faults);
    let shared = Arc::new(Shared::new(state, feed));
    let writer = Writer::start(Arc::clone(&shared), disk).unwrap();
    (Store { inner: Arc::new(Inner { shared, commit: Commit::Durable(writer) }) }, faults)
}

async fn until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waiting).await.expect("it never is so");
}

#[allow(clippy::unnecessary_wraps)] // It is what a write takes.
fn value(_: u64) -> Option<Bytes> {
    Some(Bytes::from("value"))
}

#[tokio::test]
async fn a_disk_that_fails_or_is_full_heals_in_place_and_nothing_of_a_failed_write_is_seen() {
    for fault in [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::Other] {
        let dir = tempfile::tempdir().unwrap();
        let (store, faults) = failing(dir.path());
        store.write("/one", Expect::Absent, value).await.unwrap();
        *faults.lock().unwrap() = Some(fault);
        for _ in 0..2 {
            assert!(matches!(store.write("/two", Expect::Any, value).await, Err(WriteError::Io(_))));
        }
        assert_eq!((store.revision(), store.get("/two")), (1, None), "{fault}");
        assert!(store.failure().is_some(), "{fault}");
        *faults.lock().unwrap() = None;
        until(|| store.failure().is_none()).await;
        assert_eq!(store.write("/three", Expect::Absent, value).await.unwrap().revision, 2, "{fault}");
        store.close().await;

        let store = Store::open(dir.path(), Options::default()).unwrap();
        assert_eq!((store.get("/two"), store.revision()), (None, 2), "{fault}");
        assert!(store.get("/one").is_some() && store.get("/three").is_some());
    }
}

#[tokio::test]
async fn a_log_is_written_as_soon_as_there_is_room_without_a_repair() {
    for fault in [ErrorKind::StorageFull, ErrorKind::QuotaExceeded] {
        let dir = tempfile::tempdir().unwrap();
        let (store, faults) = failing(dir.path());
        store.write("/one", Expect::Absent, value).await.unwrap();
        *faults.lock().unwrap() = Some(fault);
        store.write("/two", Expect::Any, value).await.unwrap_err();
        *faults.lock().unwrap() = None;
        store.write("/two", Expect::Absent, value).await.expect("the half that was written is taken back");
        assert!(store.failure().is_none(), "{fault}");
    }
}

#[tokio::test]
async fn a_log_whose_acknowledged_changes_are_damaged_is_not_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let (store, faults) = failing(dir.path());
    store.write("/one", Expect::Absent, value).await.unwrap();
    let log = OpenOptions::new().write(true).open(Segment::path(dir.path(), 1)).unwrap();
    log.write_all_at(b"?", frame::PREAMBLE as u64 + 30).unwrap();
    *faults.lock().unwrap() = Some(ErrorKind::Other);
    store.write("/two", Expect::Absent, value).await.unwrap_err();
    *faults.lock().unwrap() = None;
    until(|| store.failure().is_some_and(|error| error.kind() == ErrorKind::InvalidData)).await;
    assert!(matches!(store.write("/two", Expect::Absent, value).await, Err(WriteError::Io(_))));
}

#[tokio::test]
async fn batches_that_failed_do_not_count_towards_the_next_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { checkpoint_bytes: 100, ..Options::default() };
    let (mut disk, state, _) = Disk::open(dir.path(), &options).unwrap();
    *disk.segment.faults.lock().unwrap() = Some(ErrorKind::StorageFull);
    let mut batch = Batch::on(state.clone());
    let large = |_: u64| Some(Bytes::from(vec![b'v'; 1000]));
    batch.apply(Order { key: "/one".into(), expect: Expect::Any, make: Box::new(large) }).unwrap().unwrap();
    disk.append(&batch.changes).unwrap_err();
    assert_eq!(disk.logged, 0);
    *disk.segment.faults.lock().unwrap() = None;
    disk.repair();
    let before = fs::metadata(Segment::path(dir.path(), 1)).unwrap().ino();
    disk.tidy(&state);
    assert_eq!(fs::metadata(Segment::path(dir.path(), 1)).unwrap().ino(), before, "the log is not replaced by itself");
    disk.append(&batch.changes).unwrap();
    assert!(disk.failure().is_none());
}
