//! A cluster as one file, and back: what `c5c3 backup` and `c5c3 restore` do.
//!
//! The file is a compressed tar of the data folder of a cluster that is stopped, so that all of it is of one moment: objects,
//! keys, secrets and volumes. Images and what nodes log are not in it. It ends in a checksum over all of it, which is
//! compared before anything is changed; `tar -tzf` reads it, too. Files that are sparse stay so.

mod contents;
mod read;
mod seal;
mod write;

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::folder::{Folder, FolderError};

pub use read::restore;
pub use write::backup;

/// What the first entry is called, which describes the rest.
const DESCRIPTION: &str = "c5c3-backup.json";

/// The form of the file. One of a later form is refused.
const FORM: u32 = 1;

/// What a backup says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Description {
    form: u32,
    /// The version of the program that made it.
    version: String,
    /// When.
    made: String,
    /// The data folder that it is of. Volumes are known to the cluster by their paths in it.
    folder: PathBuf,
    /// How many bytes of files it has.
    bytes: u64,
    /// What of the folder is not in it.
    left_out: Vec<String>,
}

/// Why a cluster cannot be backed up or restored.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The data folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// There is nothing to back up.
    #[error("{} holds no cluster: name its data folder with --data", .0.display())]
    NoCluster(PathBuf),
    /// Containers may still write to volumes.
    #[error(
        "containers of the cluster in {} may still run: `c5c3 down --data {}` stops them, and keeps the data",
        .0.display(), .0.display()
    )]
    Running(PathBuf),
    /// The file is there.
    #[error("{} already exists: choose another name, or replace it with --force", .0.display())]
    Exists(PathBuf),
    /// The file would become a part of itself.
    #[error("{} is in the data folder {}: write the backup outside of it", output.display(), folder.display())]
    Inside {
        /// The file.
        output: PathBuf,
        /// The folder.
        folder: PathBuf,
    },
    /// The file is not what was written.
    #[error("{} cannot be used: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A later version has written it.
    #[error("{} was written by c5c3 {version}, in a form that this version does not know: use that version", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version.
        version: String,
    },
    /// It belongs to another folder.
    #[error(
        "this is the backup of a cluster in {}, which knows its volumes by that path: restore it with --data {}",
        .0.display(), .0.display()
    )]
    Elsewhere(PathBuf),
    /// A cluster would be lost.
    #[error(
        "{} already holds a cluster: choose another machine, or replace that cluster, with all of its data, with --replace",
        .0.display()
    )]
    NotEmpty(PathBuf),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl ArchiveError {
    fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}

/// Fails while containers of a cluster may run: those of a process that was killed go on without it.
fn stopped(folder: &Folder) -> Result<(), ArchiveError> {
    let Some(saved) = folder.load()? else { return Ok(()) };
    let sites = saved.nodes.iter().filter_map(|node| folder.site(&node.name).ok());
    if sites.into_iter().any(|site| site.socket().exists()) {
        return Err(ArchiveError::Running(folder.path().to_owned()));
    }
    Ok(())
}

/// Says how far something is, each time that another tenth is done.
struct Progress<'p> {
    say: &'p (dyn Fn(&str) + Sync),
    what: &'static str,
    total: u64,
    done: u64,
}

impl<'p> Progress<'p> {
    fn new(say: &'p (dyn Fn(&str) + Sync), what: &'static str, total: u64) -> Self {
        Self { say, what, total, done: 0 }
    }

    fn add(&mut self, bytes: u64) {
        let tenth = |done: u64| done.saturating_mul(10).checked_div(self.total).unwrap_or(10);
        let before = tenth(self.done);
        self.done = (self.done + bytes).min(self.total);
        let now = tenth(self.done);
        if now > before {
            (self.say)(&format!("{:<10} {:>3} % of {}", self.what, now * 10, size(self.total)));
        }
    }
}

/// Bytes, as people read them.
fn size(bytes: u64) -> String {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = units.into_iter().find(|(_, factor)| bytes >= *factor);
    unit.map_or_else(|| format!("{bytes} B"), |(unit, factor)| format!("{} {unit}", bytes / factor))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::folder::Saved;
    use crate::node::NodeSpec;

    /// A folder with something of everything that a cluster has.
    struct Stopped {
        home: tempfile::TempDir,
        folder: Folder,
    }

    impl Stopped {
        fn new() -> Self {
            let home = tempfile::tempdir().unwrap();
            let folder = Folder::new(&home.path().join("cluster")).unwrap();
            folder.create().unwrap();
            folder.save(&Saved::new(126, 7001, vec![NodeSpec::plain("pear", 1)])).unwrap();
            let it = Self { home, folder };
            it.write("apiserver/data", "acknowledged");
            it.write("store/root-token", "hush");
            it.write("volumes/pvc-1/ibdata1", "rows");
            fs::set_permissions(it.path("volumes/pvc-1"), Permissions::from_mode(0o2775)).unwrap();
            fs::set_permissions(it.path("store/root-token"), Permissions::from_mode(0o600)).unwrap();
            let sparse = File::create(it.path("volumes/pvc-1/disk")).unwrap();
            sparse.set_len(64 << 20).unwrap();
            sparse.write_all_at(b"boot", 32 << 20).unwrap();
            symlink("ibdata1", it.path("volumes/pvc-1/link")).unwrap();
            fs::hard_link(it.path("volumes/pvc-1/ibdata1"), it.path("volumes/pvc-1/same")).unwrap();
            it.write("nodes/pear/host/var/lib/nova/instance", "a guest");
            it.write("nodes/pear/containerd/blob", "an image");
            it.write("nodes/pear/agent.log", "noise");
            it.write("images/busybox.tar", "an archive");
            it
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn write(&self, name: &str, text: &str) {
            fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
            fs::write(self.path(name), text).unwrap();
        }

        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.path(name)).unwrap()
        }

        fn output(&self) -> PathBuf {
            self.home.path().join("backup.tar.gz")
        }

        fn backup(&self) -> Vec<String> {
            let said = std::sync::Mutex::new(Vec::new());
            backup(&self.folder, &self.output(), false, &|line| said.lock().unwrap().push(line.to_owned())).unwrap();
            said.into_inner().unwrap()
        }

        fn restore(&self, replace: bool) -> Result<(), ArchiveError> {
            restore(&self.folder, &self.output(), replace, &|_| ())
        }
    }

    #[test]
    fn a_cluster_comes_back_as_it_was_without_its_images() {
        let it = Stopped::new();
        let said = it.backup().join("\n");
        assert!(said.contains("100 %") && said.contains("images/busybox.tar"), "{said}");
        assert!(said.contains("nodes/pear/containerd"), "{said}");
        assert_eq!(fs::metadata(it.output()).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(fs::metadata(it.output()).unwrap().len() < 1 << 20, "holes are not written");
        fs::remove_dir_all(it.folder.path()).unwrap();

        it.restore(false).unwrap();
        assert_eq!(it.read("apiserver/data"), "acknowledged");
        assert_eq!(it.read("nodes/pear/host/var/lib/nova/instance"), "a guest");
        assert_eq!((it.read("volumes/pvc-1/link"), it.read("volumes/pvc-1/same")), ("rows".into(), "rows".into()));
        assert!(!it.path("nodes/pear/containerd").exists() && !it.path("nodes/pear/agent.log").exists());
        assert!(!it.path("images/busybox.tar").exists());
        let mode = |name: &str| fs::metadata(it.path(name)).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode("volumes/pvc-1"), mode("store/root-token"), mode("")), (0o2775, 0o600, 0o700));
        let disk = fs::metadata(it.path("volumes/pvc-1/disk")).unwrap();
        assert_eq!(disk.len(), 64 << 20);
        assert!(disk.blocks() * 512 < 1 << 20, "{} blocks", disk.blocks());
        let mut boot = [0; 4];
        File::open(it.path("volumes/pvc-1/disk")).unwrap().read_exact_at(&mut boot, 32 << 20).unwrap();
        assert_eq!(&boot, b"boot");
        assert_eq!(it.folder.load().unwrap().unwrap().port, 7001);
        let inode = |name: &str| fs::metadata(it.path(name)).unwrap().ino();
        assert_eq!(inode("volumes/pvc-1/same"), inode("volumes/pvc-1/ibdata1"));
    }

    #[test]
    fn nothing_is_overwritten_unless_that_is_asked_for() {
        let it = Stopped::new();
        it.backup();
        let refused = backup(&it.folder, &it.output(), false, &|_| ()).unwrap_err().to_string();
        assert!(refused.contains("already exists") && refused.contains("--force"), "{refused}");
        backup(&it.folder, &it.output(), true, &|_| ()).unwrap();
        let refused = it.restore(false).unwrap_err().to_string();
        assert!(refused.contains("already holds a cluster") && refused.contains("--replace"), "{refused}");

        it.write("apiserver/data", "later");
        it.write("apiserver/more", "later");
        it.restore(true).unwrap();
        assert_eq!(it.read("apiserver/data"), "acknowledged");
        assert!(!it.path("apiserver/more").exists());
        // Archives of images are no part of a cluster: they stay.
        assert_eq!(it.read("images/busybox.tar"), "an archive");
        let mut left: Vec<_> = fs::read_dir(it.folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["apiserver", "cluster.json", "images", "lock", "nodes", "store", "volumes"]);
    }

    #[test]
    fn a_damaged_backup_changes_nothing() {
        let it = Stopped::new();
        it.backup();
        let good = fs::read(it.output()).unwrap();
        it.write("apiserver/data", "later");
        for (at, cut) in [(good.len() / 2, good.len()), (good.len() - 9, good.len()), (0, good.len() - 1), (0, 20)] {
            let mut bad = good.clone();
            bad[at] ^= u8::from(cut == good.len());
            fs::write(it.output(), &bad[..cut]).unwrap();
            let refused = it.restore(true).unwrap_err().to_string();
            assert!(refused.contains("cannot be used"), "{refused}");
            assert_eq!(it.read("apiserver/data"), "later");
        }
    }

    #[test]
    fn a_cluster_is_restored_where_it_was() {
        let it = Stopped::new();
        it.backup();
        let other = Folder::new(&it.home.path().join("other")).unwrap();
        let refused = restore(&other, &it.output(), false, &|_| ()).unwrap_err().to_string();
        assert!(refused.ends_with(&format!("restore it with --data {}", it.folder.path().display())), "{refused}");
        assert!(!other.path().exists());
    }

    #[test]
    fn a_cluster_that_runs_and_a_folder_without_one_are_refused() {
        let it = Stopped::new();
        let lock = it.folder.lock().unwrap();
        let refused = backup(&it.folder, &it.output(), false, &|_| ()).unwrap_err().to_string();
        assert!(refused.contains("c5c3 down"), "{refused}");
        assert!(it.restore(true).is_err() && !it.output().exists());
        drop(lock);
        let inside = backup(&it.folder, &it.path("backup.tar.gz"), false, &|_| ()).unwrap_err().to_string();
        assert!(inside.contains("outside"), "{inside}");
        let empty = Folder::new(&it.home.path().join("empty")).unwrap();
        let refused = backup(&empty, &it.output(), false, &|_| ()).unwrap_err().to_string();
        assert!(refused.contains("holds no cluster") && !empty.path().exists(), "{refused}");
    }

    #[test]
    fn sockets_are_left_out_by_name() {
        let it = Stopped::new();
        let _socket = UnixListener::bind(it.path("volumes/pvc-1/s.sock")).unwrap();
        let said = it.backup().join("\n");
        assert!(said.contains("volumes/pvc-1/s.sock"), "{said}");
    }
}
