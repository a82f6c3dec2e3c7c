//! Small definitions on the real base, with caches of their own that take what is slow from the user's cache; and the real
//! images in that cache.
#![allow(dead_code, reason = "each test file takes what it needs")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use c5c3_images::{Builder, BuiltImage, Cache, Catalogue, DEFAULT_RELEASE, Error, Quiet};
use tempfile::TempDir;

/// The images that a cloud starts with.
pub const USUAL: [&str; 5] = ["keystone", "mariadb", "memcached", "rabbitmq", "valkey"];

/// A builder of the real images of the usual release, in the user's cache.
pub fn builder() -> Builder {
    Builder::new(DEFAULT_RELEASE).unwrap()
}

/// A builder of the real images of each release.
pub fn builders() -> Vec<Builder> {
    let releases = Catalogue::find(None).unwrap().releases();
    releases.iter().map(|release| Builder::new(release).unwrap()).collect()
}

/// Every image but the one of this program, which a test is not: `cli/tests/own_image.rs` starts that.
pub fn all(builder: &Builder) -> Vec<&str> {
    let images = builder.catalogue.images().filter(|image| image.binary.is_none());
    images.map(|image| image.name.as_str()).collect()
}

/// A cache without any layer, which takes downloads from the user's.
pub fn empty_cache(prefix: &str) -> TempDir {
    let cache = tempfile::Builder::new().prefix(prefix).tempdir_in(big_enough()).unwrap();
    // So that they are there.
    Cache::open(Cache::default_path()).unwrap();
    for folder in ["debs", "uv", "tools"] {
        std::os::unix::fs::symlink(Cache::default_path().join(folder), cache.path().join(folder)).unwrap();
    }
    cache
}

/// Unpacks an image's last layer into a folder.
pub fn unpack(builder: &Builder, image: &BuiltImage, folder: &Path) {
    let layout = builder.cache.layout().unwrap();
    let (_, built) = image.layers.last().unwrap();
    tar::Archive::new(layout.stream(built.layer.descriptor.digest()).unwrap()).unpack(folder).unwrap();
}

/// Two small packages of pure Python, each of which is one file of an environment.
pub const LOCK: &str = "\
iso8601==2.1.0 \\
    --hash=sha256:6b1d3829ee8921c4301998c909f7829fa9ed3cbdac0d3b16af2d743aed1ba8df \\
    --hash=sha256:aac4145c4dcb66ad8b648a02830f5e2ff6c24af20f4f482689be402db2429242
six==1.17.0 \\
    --hash=sha256:4721f391ed90541fddacab5acf947aa0d3dc7d27b2e1e8eda2be8970586c3274 \\
    --hash=sha256:ff70335d468e7eb6ec65b95b99d3a2836546063f63acc5171de367e834932a81
";

/// A patch of the service.
pub const GOOD: &str = "--- a/iso8601/__init__.py\n+++ b/iso8601/__init__.py\n@@ -1,3 +1,4 @@\n+PATCHED = True\n \
    from .iso8601 import UTC, FixedOffset, ParseError, is_iso8601, parse_date\n \n __all__ = [\"parse_date\", \"is_iso8601\", \"ParseError\", \"UTC\", \"FixedOffset\"]\n";

/// Definitions of an image `tool`, and a builder with a cache of its own.
pub struct Workshop {
    pub definitions: TempDir,
    pub cache: TempDir,
}

impl Workshop {
    pub fn new() -> Self {
        let definitions = tempfile::tempdir().unwrap();
        let shop = Self { definitions, cache: empty_cache("shop-") };
        for name in ["base.yaml", "debian/base.lock", "valkey.yaml", "debian/valkey.lock"] {
            shop.copy(name);
        }
        shop.write(
            "tool.yaml",
            "title: A tool\npython: { venv: /opt/tool, packages: [six] }\ncheck: [python3, --version]\n",
        );
        let sources = "cutoff: 2025-11-01\nimages: { tool: { package: iso8601, version: 2.1.0 } }\n";
        shop.write("releases/9.9/sources.yaml", sources);
        shop.write("releases/9.9/locks/tool.txt", LOCK);
        shop.seed();
        shop
    }

    /// The base, which takes longest, is taken from the user's cache as well.
    fn seed(&self) {
        let shared = Builder::new(DEFAULT_RELEASE).unwrap();
        shared.build(&["base"], &Quiet).unwrap();
        let (from, to) = (Cache::default_path(), self.cache.path());
        let base = shared.plan(&["base"]).unwrap().images[0].layers[0].as_str().to_owned();
        let layer = shared.cache.built(
            &shared.cache.layout().unwrap(),
            &shared.plan(&["base"]).unwrap().images[0].layers[0],
            true,
        );
        let blob = layer.unwrap().layer.descriptor.digest().digest().to_owned();
        for folder in ["layers", "oci/blobs/sha256"] {
            fs::create_dir_all(to.join(folder)).unwrap();
        }
        for path in [format!("layers/{base}"), format!("oci/blobs/sha256/{blob}")] {
            // Copies, so that nothing that is done here reaches the user's cache.
            let copied = Command::new("cp").arg("-a").arg(from.join(&path)).arg(to.join(&path)).status().unwrap();
            assert!(copied.success());
        }
    }

    pub fn write(&self, name: &str, text: &str) {
        let file = self.definitions.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// Takes a file of the real definitions.
    pub fn copy(&self, name: &str) {
        self.write(name, &fs::read_to_string(images().join(name)).unwrap());
    }

    pub fn builder(&self) -> Builder {
        builder_of(self.definitions.path(), self.cache.path())
    }

    pub fn build(&self, image: &str) -> Result<BuiltImage, Error> {
        self.builder().build(&[image], &Quiet).map(|mut built| built.remove(0))
    }

    /// The files of an image's last layer, by path.
    pub fn files(&self, image: &BuiltImage) -> BTreeMap<String, Vec<u8>> {
        let layout = self.builder().cache.layout().unwrap();
        let (_, built) = image.layers.last().unwrap();
        let mut tar = tar::Archive::new(layout.stream(built.layer.descriptor.digest()).unwrap());
        let entries = tar.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (entry.path().unwrap().display().to_string(), content)
        });
        entries.collect()
    }

    /// What is in the cache beside the base.
    pub fn finished(&self) -> usize {
        fs::read_dir(self.cache.path().join("layers")).unwrap().count() - 1
    }

    /// What is being built, or was left.
    pub fn unfinished(&self) -> Vec<PathBuf> {
        let entries =
            fs::read_dir(self.cache.path().join("work")).into_iter().flatten().flatten().map(|entry| entry.path());
        entries.filter(|path| path.is_dir()).collect()
    }
}

/// A builder with the definitions and the cache of a workshop. Debian may have given up what is locked; tests that are
/// about that say so.
pub fn builder_of(definitions: &Path, cache: &Path) -> Builder {
    let catalogue = Catalogue::read(definitions).unwrap();
    Builder {
        release: catalogue.release("9.9").unwrap(),
        cache: Cache::open(cache).unwrap(),
        catalogue,
        binary: None,
        locked: false,
        origin: None,
        stop: std::sync::Arc::default(),
    }
}

fn images() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../images")
}

/// A file system that has room, and on which the user's cache can be linked.
fn big_enough() -> PathBuf {
    let folder = Cache::default_path().with_file_name("image-tests");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The paths at which two sets of files differ.
pub fn differences(one: &BTreeMap<String, Vec<u8>>, other: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    let paths: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
    paths.into_iter().filter(|path| one.get(*path) != other.get(*path)).cloned().collect()
}
