//! What was built, by its keys, in the user's cache folder.
//!
//! ```text
//!  oci/                  the store of images: blobs and an index
//!  layers/<key>/         a finished stage: layer.json, and root/ if others are made on it
//!  work/<key>.<random>/  a stage that is being built; its lock is held as long as someone does
//!  archives/<digest>.tar an image as one file, for containerd
//!  debs/ uv/ lists/      what was downloaded
//!  tools/                programs that are not the machine's
//! ```
//!
//! A stage appears under `layers` when it is finished, by one rename. What was interrupted stays in `work` until the next
//! one who builds removes it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use c5c3_oci::{Layer, Layout};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::lock::debian::Deb;
use crate::patch::Patch;
use crate::plan::Key;

/// What is not finished after this time never will be.
const ABANDONED: Duration = Duration::from_hours(1);

/// The cache folder.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

/// What is known of a layer that was built.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Built {
    /// The layer.
    pub layer: Layer,
    /// How many bytes its files have.
    pub size: u64,
    /// The Debian packages that it adds.
    pub debian: Vec<Deb>,
    /// Where those differ from the lock, because its versions were no longer to be had.
    pub drift: Vec<String>,
    /// The patches that were applied to its Python packages.
    pub patches: Vec<Patch>,
}

/// A folder in which a stage is being built; gone with this value unless the stage is published.
#[derive(Debug)]
pub(crate) struct Bench {
    folder: tempfile::TempDir,
    _held: File,
}

impl Bench {
    /// A folder or file in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Cache {
    /// The cache in a folder, which is made.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, Error> {
        let root = root.into();
        for folder in ["layers", "work", "archives", "debs", "uv", "lists", "tools"] {
            let folder = root.join(folder);
            fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
        }
        let root = root.canonicalize().map_err(Error::file(&root))?;
        Ok(Self { root })
    }

    /// The folder that all builds of a user share, unless `C5C3_IMAGE_CACHE` names another one.
    pub fn default_path() -> PathBuf {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = || set("HOME").unwrap_or_else(|| PathBuf::from("/root")).join(".cache");
        let usual = || set("XDG_CACHE_HOME").unwrap_or_else(home).join("c5c3/images");
        set("C5C3_IMAGE_CACHE").unwrap_or_else(usual)
    }

    /// A part of it.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The store of images.
    pub fn layout(&self) -> Result<Layout, Error> {
        Ok(Layout::open(self.root.join("oci"))?)
    }

    /// Where the files of a finished stage are.
    pub(crate) fn files(&self, key: &Key) -> PathBuf {
        self.root.join("layers").join(key.as_str()).join("root")
    }

    /// A finished stage, if it is whole: with its blob, and with its files if those are asked for.
    pub fn built(&self, layout: &Layout, key: &Key, with_files: bool) -> Option<Built> {
        let folder = self.root.join("layers").join(key.as_str());
        let built: Built = serde_json::from_slice(&fs::read(folder.join("layer.json")).ok()?).ok()?;
        let whole = layout.contains(built.layer.descriptor.digest()) && (!with_files || folder.join("root").is_dir());
        whole.then_some(built)
    }

    /// A new place to build a stage in.
    pub(crate) fn bench(&self, key: &Key) -> Result<Bench, Error> {
        let work = self.root.join("work");
        let _guard = self.guard()?;
        let folder = tempfile::Builder::new().prefix(&format!("{}.", &key.as_str()[..16])).tempdir_in(&work);
        let folder = folder.map_err(Error::file(&work))?;
        let path = folder.path().join("lock");
        let held = File::create(&path).map_err(Error::file(&path))?;
        held.lock().map_err(Error::file(&path))?;
        for part in ["root", "overlay", "mount", "scratch"] {
            fs::create_dir(folder.path().join(part)).map_err(Error::file(folder.path()))?;
        }
        Ok(Bench { folder, _held: held })
    }

    /// Makes a finished stage known. Another one's of the same key gives way: both are the same.
    pub(crate) fn publish(&self, key: &Key, bench: &Bench, built: &Built, with_files: bool) -> Result<(), Error> {
        let document = serde_json::to_vec_pretty(built).expect("what is known of a layer is plain data");
        let file = bench.path("layer.json");
        fs::write(&file, document).map_err(Error::file(&file))?;
        let kept = if with_files {
            ["overlay", "mount", "scratch"].as_slice()
        } else {
            &["root", "overlay", "mount", "scratch"]
        };
        for part in kept {
            remove(&bench.path(part))?;
        }
        let (from, to) = (bench.folder.path(), self.root.join("layers").join(key.as_str()));
        if to.exists() {
            remove(&to)?;
        }
        fs::rename(from, &to).map_err(Error::file(&to))?;
        let _ = fs::remove_file(to.join("lock"));
        Ok(())
    }

    /// Held by who builds a stage, so that others wait for it instead of building it too.
    pub(crate) fn claim(&self, key: &Key) -> Result<File, Error> {
        let path = self.root.join("work").join(format!("{}.claim", key.as_str()));
        let claim = File::create(&path).map_err(Error::file(&path))?;
        claim.lock().map_err(Error::file(&path))?;
        Ok(claim)
    }

    /// Held while places to build in are made or swept, so that no one removes one whose lock is not taken yet.
    fn guard(&self) -> Result<File, Error> {
        let path = self.root.join("sweep.lock");
        let guard = File::create(&path).map_err(Error::file(&path))?;
        guard.lock().map_err(Error::file(&path))?;
        Ok(guard)
    }

    /// Removes what interrupted builds have left.
    pub fn sweep(&self) -> Result<(), Error> {
        self.sweep_downloads()?;
        let work = self.root.join("work");
        let _guard = self.guard()?;
        for entry in fs::read_dir(&work).map_err(Error::file(&work))? {
            let path = entry.map_err(Error::file(&work))?.path();
            let lock = if path.is_dir() { path.join("lock") } else { path.clone() };
            // Not there yet, or held: someone is at work.
            let Ok(file) = File::open(&lock) else { continue };
            if file.try_lock().is_ok() {
                remove(&path)?;
            }
        }
        Ok(())
    }

    /// Removes files and folders without a name of their own that no one has touched for long: downloads and archives that
    /// were not finished.
    fn sweep_downloads(&self) -> Result<(), Error> {
        for folder in ["archives", "debs", "tools"].map(|folder| self.root.join(folder)) {
            for name in names(&folder)?.iter().filter(|name| name.starts_with(".tmp")) {
                let path = folder.join(name);
                let age =
                    fs::metadata(&path).and_then(|data| data.modified()).ok().and_then(|then| then.elapsed().ok());
                if age.is_some_and(|age| age > ABANDONED) {
                    remove(&path)?;
                }
            }
        }
        Ok(())
    }

    /// The keys of all finished stages.
    pub(crate) fn keys(&self) -> Result<Vec<String>, Error> {
        names(&self.root.join("layers"))
    }

    /// What is known of a finished stage, whole or not.
    pub(crate) fn known(&self, key: &str) -> Option<Built> {
        serde_json::from_slice(&fs::read(self.root.join("layers").join(key).join("layer.json")).ok()?).ok()
    }

    /// Forgets a finished stage.
    pub(crate) fn forget(&self, key: &str) -> Result<(), Error> {
        remove(&self.root.join("layers").join(key))
    }
}

pub(crate) fn names(folder: &Path) -> Result<Vec<String>, Error> {
    let entries = fs::read_dir(folder).map_err(Error::file(folder))?;
    Ok(entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned())).collect())
}

pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::file(path)(error)),
        _ => Ok(()),
    }
}
