//! Small images on the real base: what is the same, what a patch changes, what failures say and leave.

mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use c5c3_images::{Builder, Cache, Error, Progress, Quiet, relock};
use support::{GOOD, LOCK, Workshop, differences, empty_cache};

#[test]
fn two_builds_in_different_directories_are_the_same_to_the_byte() {
    let (one, other) = (Workshop::new(), Workshop::new());
    for image in ["tool", "valkey"] {
        let (first, second) = (one.build(image).unwrap(), other.build(image).unwrap());
        assert_eq!(
            first.manifest.digest(),
            second.manifest.digest(),
            "{:?}",
            differences(&one.files(&first), &other.files(&second))
        );
    }
    assert!(one.unfinished().is_empty());
}

/// The digests of images and of all their layers, built into a cache that has none.
fn from_nothing(cache: &Path) -> Vec<(String, String, Vec<String>)> {
    let builder = Builder { cache: Cache::open(cache).unwrap(), ..support::builder() };
    let images = builder.build(&["base", "keystone"], &Quiet).unwrap().into_iter().map(|image| {
        let layers = image.layers.iter().map(|(_, built)| built.layer.descriptor.digest().to_string()).collect();
        (image.planned.definition.name, image.manifest.digest().to_string(), layers)
    });
    images.collect()
}

#[test]
fn an_image_that_is_built_twice_from_nothing_is_the_same_to_the_byte_base_included() {
    // Of different lengths, in case a path gets into a file.
    let (one, other) = (empty_cache("one-"), empty_cache("another-"));
    let (one, other) = std::thread::scope(|scope| {
        let [one, other] = [&one, &other].map(|cache| scope.spawn(|| from_nothing(cache.path())));
        (one.join().unwrap(), other.join().unwrap())
    });
    assert_eq!(one, other);
}

#[test]
fn what_is_built_is_found_and_can_be_imported() {
    let shop = Workshop::new();
    let built = shop.build("tool").unwrap();
    assert_eq!(built.references[0].to_string(), "ghcr.io/c5c3/tool:2.1.0");
    let began = Arc::new(AtomicBool::new(false));
    let again = shop.builder().build(&["tool"], &Heard { began: Arc::clone(&began), stop: None }).unwrap();
    assert_eq!(again[0].manifest.digest(), built.manifest.digest());
    assert!(!began.load(Ordering::Relaxed), "a stage was built again");
    let ready = c5c3_images::archive(&shop.builder().cache, &built.references, &built.manifest).unwrap();
    assert!(ready.archive.exists() && ready.digest == built.manifest.digest().to_string());
}

#[test]
fn a_service_patch_changes_the_files_that_it_names_and_the_tag() {
    let shop = Workshop::new();
    let plain = shop.build("tool").unwrap();
    shop.write("releases/9.9/patches/service/tool/0001-mark.patch", GOOD);
    let patched = shop.build("tool").unwrap();
    let tags: Vec<_> = patched.references.iter().map(|name| name.tag().unwrap().to_owned()).collect();
    assert_eq!(tags, ["2.1.0", "2.1.0-p1"]);
    let package = "opt/tool/lib/python3.13/site-packages/iso8601";
    let expected = [format!("{package}/__init__.py"), format!("{package}/__pycache__/__init__.cpython-313.pyc")];
    assert_eq!(differences(&shop.files(&plain), &shop.files(&patched)), expected);
    assert_eq!(plain.layers[0].1.layer, patched.layers[0].1.layer);
}

#[test]
fn a_library_patch_changes_the_library() {
    let shop = Workshop::new();
    let plain = shop.build("tool").unwrap();
    let source = String::from_utf8(shop.files(&plain)["opt/tool/lib/python3.13/site-packages/six.py"].clone()).unwrap();
    let (number, line) = source.lines().enumerate().find(|(_, line)| line.starts_with("__version__")).unwrap();
    let header = number + 1;
    let patch =
        format!("--- a/six.py\n+++ b/six.py\n@@ -{header},1 +{header},1 @@\n-{line}\n+__version__ = \"patched\"\n");
    shop.write("releases/9.9/patches/library/Six/0001-version.patch", &patch);
    let patched = shop.build("tool").unwrap();
    let packages = "opt/tool/lib/python3.13/site-packages";
    let expected = [format!("{packages}/__pycache__/six.cpython-313.pyc"), format!("{packages}/six.py")];
    assert_eq!(differences(&shop.files(&plain), &shop.files(&patched)), expected);
}

#[test]
fn a_patch_that_does_not_fit_ends_the_build_by_its_name_and_hunk_and_leaves_nothing() {
    let shop = Workshop::new();
    let file = "releases/9.9/patches/service/tool/0001-mark.patch";
    shop.write(file, &GOOD.replace("from .iso8601", "from .elsewhere"));
    let broken = shop.build("tool").unwrap_err().to_string();
    assert_eq!(
        broken,
        "image tool, stage python: patch 0001-mark.patch does not apply: iso8601/__init__.py, hunk @@ -1,3 +1,4 @@"
    );
    shop.write(file, GOOD);
    shop.write("releases/9.9/patches/service/tool/0002-again.patch", GOOD);
    let again = shop.build("tool").unwrap_err().to_string();
    assert_eq!(
        again,
        "image tool, stage python: patch 0002-again.patch is already applied: iso8601/__init__.py, hunk @@ -1,3 +1,4 @@"
    );
    assert_eq!((shop.finished(), shop.unfinished().len()), (0, 0));
}

#[test]
fn an_override_changes_one_version_in_the_lock_and_one_package_in_the_image() {
    let shop = Workshop::new();
    let plain = shop.build("tool").unwrap();
    shop.write("releases/9.9/overrides/tool.txt", "six===1.16.0\n");
    let stale = shop.build("tool").unwrap_err().to_string();
    assert!(stale.contains("six 1.16.0") && stale.contains("c5c3 image lock"), "{stale}");
    let builder = shop.builder();
    let renewed = relock::python(&builder, builder.catalogue.definition("tool").unwrap(), false).unwrap().unwrap();
    assert_eq!(renewed.changes, ["six 1.17.0 -> 1.16.0"]);
    relock::write(shop.definitions.path(), &[renewed]).unwrap();
    let changed = shop.build("tool").unwrap();
    let differences = differences(&shop.files(&plain), &shop.files(&changed));
    assert!(differences.iter().all(|path| path.contains("/six")), "{differences:?}");
}

#[test]
fn an_override_that_removes_leaves_out_what_is_asked_for_and_refuses_what_is_not() {
    let shop = Workshop::new();
    let file = "releases/9.9/overrides/tool.txt";
    let renew = || {
        let builder = shop.builder();
        relock::python(&builder, builder.catalogue.definition("tool").unwrap(), false)
    };
    shop.write(file, "-siix\n");
    let refused = renew().unwrap_err().to_string();
    assert_eq!(refused, format!("{file}: it removes siix, which tool would not have anyway; did you mean six?"));
    assert!(shop.build("tool").unwrap_err().to_string().starts_with(file));
    shop.write(file, "-six\n");
    let renewed = renew().unwrap().unwrap();
    assert_eq!(renewed.changes, ["- six 1.17.0"]);
    relock::write(shop.definitions.path(), &[renewed]).unwrap();
    let files = shop.files(&shop.build("tool").unwrap());
    assert!(!files.keys().any(|path| path.contains("/six")));
}

#[test]
fn a_package_that_is_not_there_is_one_error_with_image_stage_and_package() {
    let shop = Workshop::new();
    shop.write(
        "releases/9.9/locks/tool.txt",
        &format!("{LOCK}c5c3-nosuch==1.0 \\\n    --hash=sha256:{}\n", "0".repeat(64)),
    );
    let error = shop.build("tool").unwrap_err().to_string();
    assert!(error.starts_with("image tool, stage python: package c5c3-nosuch"), "{error}");
    shop.write("other.yaml", "title: Other\ndebian: [c5c3-nosuch]\n");
    let file = "debian/pool/main/c/c5c3-nosuch/c5c3-nosuch_1.0_amd64.deb";
    shop.write("debian/other.lock", &format!("c5c3-nosuch 1.0 {} {file}\n", "0".repeat(64)));
    let locked = Builder { locked: true, ..shop.builder() };
    let error = locked.build(&["other"], &Quiet).unwrap_err().to_string();
    assert!(error.starts_with("image other, stage debian: package c5c3-nosuch 1.0 is not there"), "{error}");
    assert_eq!((shop.finished(), shop.unfinished().len()), (0, 0));
}

#[test]
fn a_package_that_is_not_what_was_locked_is_one_error_with_image_stage_and_package() {
    let shop = Workshop::new();
    let wrong = "0".repeat(64);
    let (others, _) = LOCK.split_once("six==").unwrap();
    let lock = format!("{others}six==1.17.0 \\\n    --hash=sha256:{wrong}\n");
    shop.write("releases/9.9/locks/tool.txt", &lock);
    let error = shop.build("tool").unwrap_err().to_string();
    assert!(error.starts_with("image tool, stage python: package six==1.17.0 is not what the lock says"), "{error}");
    let file = shop.definitions.path().join("debian/valkey.lock");
    let text = std::fs::read_to_string(&file).unwrap();
    let line = text.lines().find(|line| line.starts_with("valkey-server ")).unwrap();
    let hash = line.split_whitespace().nth(2).unwrap();
    shop.write("debian/valkey.lock", &text.replace(hash, &wrong));
    let error = shop.build("valkey").unwrap_err().to_string();
    assert!(error.starts_with("image valkey, stage debian: package valkey-server "), "{error}");
    assert!(error.contains("is not what the lock says"), "{error}");
    assert_eq!((shop.finished(), shop.unfinished().len()), (0, 0));
}

/// Tries to reach someone who listens on this machine, and an address that a route is needed for.
const REACH: &str = r#"
import errno, socket, sys
for address in [("127.0.0.1", PORT), ("192.0.2.1", 80)]:
    try:
        socket.create_connection(address, 5)
        sys.exit(f"{address} can be reached")
    except OSError as error:
        if error.errno != errno.ENETUNREACH:
            sys.exit(f"{address}: {error}")
print("nobody", file=open("/opt/reached", "w"))
"#;

#[test]
fn a_stage_that_downloads_nothing_can_connect_to_nobody() {
    let shop = Workshop::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    shop.write("lonely.yaml", "title: Lonely\nscript: { run: lonely.sh }\ncheck: [cat, /opt/reached]\n");
    shop.write("lonely.sh", &format!("python3 -c '{}'\n", REACH.replace("PORT", &port)));
    let built = shop.build("lonely").unwrap();
    assert_eq!(shop.files(&built)["opt/reached"], b"nobody\n");
}

#[test]
fn a_build_that_is_stopped_leaves_nothing_and_the_next_one_goes_on() {
    let shop = Workshop::new();
    let builder = shop.builder();
    let began = Arc::new(AtomicBool::new(false));
    let heard = Heard { began: Arc::clone(&began), stop: Some(Arc::clone(&builder.stop)) };
    let error = builder.build(&["tool"], &heard).unwrap_err();
    assert!(matches!(error, Error::Stopped), "{error}");
    assert!(began.load(Ordering::Relaxed));
    assert_eq!((shop.finished(), shop.unfinished().len()), (0, 0));
    shop.build("tool").unwrap();
    assert_eq!(shop.finished(), 1);
}

/// Notes that a stage has begun, and stops the build then if it is to.
struct Heard {
    began: Arc<AtomicBool>,
    stop: Option<Arc<AtomicBool>>,
}

impl Progress for Heard {
    fn begun(&self, _: &str, _: &str) {
        self.began.store(true, Ordering::Relaxed);
        if let Some(stop) = &self.stop {
            stop.store(true, Ordering::Relaxed);
        }
    }
    fn ended(&self, _: &str, _: &str, _: Duration, _: u64) {}
    fn note(&self, _: &str) {}
}

/// Tries what leads out of a build, and notes what the kernel says.
const ESCAPES: &str = r#"
mkdir -p /opt
{
    mount -t tmpfs tmpfs /mnt 2>/dev/null && echo mounted || echo "no mount"
    mknod /opt/disk b 8 0 2>/dev/null && echo "made a device" || echo "no device"
    chroot / true 2>/dev/null && echo "changed root" || echo "no chroot"
    grep NoNewPrivs /proc/self/status
} >/opt/tried
chown 33:33 /opt/tried
"#;

#[test]
fn root_of_a_build_owns_files_and_cannot_leave() {
    let shop = Workshop::new();
    shop.write("caged.yaml", "title: Caged\nscript: { run: caged.sh }\ncheck: [cat, /opt/tried]\n");
    shop.write("caged.sh", ESCAPES);
    let built = shop.build("caged").unwrap();
    let tried = String::from_utf8(shop.files(&built)["opt/tried"].clone()).unwrap();
    assert_eq!(tried, "no mount\nno device\nno chroot\nNoNewPrivs:\t1\n");
}
