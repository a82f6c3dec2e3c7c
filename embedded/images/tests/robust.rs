//! What builds leave when they are killed, run side by side, or find no room.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use c5c3_images::{Progress, Quiet};
use support::{Workshop, builder_of};

const DEADLINE: Duration = Duration::from_mins(3);

/// Where the process that is killed finds its definitions and its cache.
const DEFINITIONS: &str = "C5C3_TEST_DEFINITIONS";
const CACHE: &str = "C5C3_TEST_CACHE";

#[test]
#[ignore = "run by the test that kills it"]
fn a_build_in_a_process_of_its_own() {
    let (definitions, cache) = (std::env::var(DEFINITIONS).unwrap(), std::env::var(CACHE).unwrap());
    builder_of(Path::new(&definitions), Path::new(&cache)).build(&["valkey"], &Quiet).unwrap();
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} is not so within {DEADLINE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Processes other than this one that have to do with a folder: by their arguments, or by what they have mounted.
fn users(folder: &Path) -> Vec<PathBuf> {
    let folder = folder.to_string_lossy().into_owned();
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let others = processes.filter(|process| !process.ends_with(std::process::id().to_string()));
    let names = |process: &Path, file: &str| {
        std::fs::read(process.join(file)).is_ok_and(|text| String::from_utf8_lossy(&text).contains(&folder))
    };
    others.filter(|process| names(process, "cmdline") || names(process, "mountinfo")).collect()
}

#[test]
fn a_build_that_is_killed_leaves_no_process_no_mount_and_nothing_half_built() {
    let shop = Workshop::new();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--ignored", "a_build_in_a_process_of_its_own"]);
    command.env(DEFINITIONS, shop.definitions.path()).env(CACHE, shop.cache.path());
    let mut build = command.spawn().unwrap();
    let has_begun = || shop.unfinished().iter().any(|bench| bench.join("root/var").exists());
    until("the stage has written something", has_begun);
    build.kill().unwrap();
    build.wait().unwrap();
    until("all of its processes are gone", || users(shop.cache.path()).is_empty());
    assert_eq!(shop.finished(), 0);
    let again = shop.build("valkey").unwrap();
    assert_eq!((shop.finished(), shop.unfinished().len()), (1, 0));
    let undisturbed = Workshop::new().build("valkey").unwrap();
    assert_eq!(again.manifest.digest(), undisturbed.manifest.digest());
}

/// Counts the stages that are begun.
#[derive(Default)]
struct Count(AtomicUsize);

impl Progress for Count {
    fn begun(&self, _: &str, _: &str) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn ended(&self, _: &str, _: &str, _: Duration, _: u64) {}
    fn note(&self, _: &str) {}
}

#[test]
fn two_builds_at_once_share_the_work() {
    let shop = Workshop::new();
    let count = Count::default();
    let build = || shop.builder().build(&["tool"], &count).unwrap().remove(0).manifest;
    let (one, other) = std::thread::scope(|scope| {
        let (one, other) = (scope.spawn(build), scope.spawn(build));
        (one.join().unwrap(), other.join().unwrap())
    });
    assert_eq!(one, other);
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    assert_eq!((shop.finished(), shop.unfinished().len()), (1, 0));
}

/// A small file system in memory, on a folder; gone with this value.
struct Small(PathBuf);

impl Small {
    fn on(folder: &Path, size: &str) -> Self {
        std::fs::create_dir_all(folder).unwrap();
        let options = format!("size={size}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder).status().unwrap();
        assert!(mounted.success());
        Self(folder.to_owned())
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_one_error_and_leaves_nothing() {
    let shop = Workshop::new();
    let small = Small::on(&shop.cache.path().join("work"), "128k");
    let error = shop.build("tool").unwrap_err().to_string();
    assert!(error.starts_with("image tool, stage python: no space is left in "), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert_eq!((shop.finished(), shop.unfinished().len()), (0, 0));
    drop(small);
    shop.build("tool").unwrap();
}
