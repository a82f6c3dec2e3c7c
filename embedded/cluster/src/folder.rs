//! The data folder of a cluster, and what is kept there of the cluster itself.

use std::fs::{self, File, Permissions, TryLockError};
use std::io::Write;
use std::net::Ipv4Addr;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use c5c3_cri::{BadName, Instance, Site};
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use crate::node::NodeSpec;

/// The layout of the folder. A folder of a later one is refused.
const LAYOUT: u32 = 1;

/// A cluster's data folder.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

/// What is kept of a cluster: everything that must be the same at its next start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Saved {
    pub(crate) layout: u32,
    /// Its addresses: the block that they are in.
    pub(crate) block: u8,
    /// The port of the API server on the loopback address.
    pub(crate) port: u16,
    pub(crate) nodes: Vec<NodeSpec>,
    /// The address of the machine that load balancers and NodePorts are served at, for its neighbours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exposed: Option<Ipv4Addr>,
    /// Kernel settings that pods may change beside the safe ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) unsafe_sysctls: Vec<String>,
}

impl Saved {
    pub(crate) fn new(block: u8, port: u16, nodes: Vec<NodeSpec>) -> Self {
        Self { layout: LAYOUT, block, port, nodes, exposed: None, unsafe_sysctls: Vec::new() }
    }
}

/// Why a data folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file that describes the cluster cannot be understood.
    #[error("{}: {source}; it was not written by c5c3: choose another --data", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The folder was written by a newer version.
    #[error("{} has layout {layout}, and this version knows {LAYOUT}: use the c5c3 that wrote it", path.display())]
    Newer {
        /// The folder.
        path: PathBuf,
        /// The layout it has.
        layout: u32,
    },
    /// Another process runs the cluster of this folder.
    #[error("{} is in use by another c5c3: `c5c3 down --data {}` stops it", path.display(), path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
    },
}

impl Folder {
    /// The folder at a path, which need not exist.
    pub fn new(path: &Path) -> Result<Self, FolderError> {
        let path = std::path::absolute(path).map_err(|source| FolderError::File { path: path.into(), source })?;
        Ok(Self { path })
    }

    /// The folder that is used when none is named: below the user's state folder.
    pub fn default_path() -> PathBuf {
        let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let state = named("XDG_STATE_HOME").or_else(|| named("HOME").map(|home| home.join(".local/state")));
        state.unwrap_or_else(|| "/var/lib".into()).join("c5c3")
    }

    /// Makes the folder, for its owner only.
    pub(crate) fn create(&self) -> Result<(), FolderError> {
        for folder in [self.path.clone(), self.nodes(), self.images(), self.volumes()] {
            private(&folder)?;
        }
        self.tighten().map_err(|source| FolderError::File { path: self.path.clone(), source })
    }

    /// Closes a folder that an earlier version left open to others. One that others may write to, such as `/tmp`, is not
    /// ours alone and stays as it is.
    fn tighten(&self) -> std::io::Result<()> {
        let mode = fs::metadata(&self.path)?.permissions().mode();
        if self.description().exists() && mode & 0o077 != 0 && mode & 0o022 == 0 {
            fs::set_permissions(&self.path, Permissions::from_mode(0o700))?;
        }
        Ok(())
    }

    /// Opens the log, and makes it and the folder if need be, for their owner only: whoever reads it learns what runs
    /// here.
    pub fn open_log(&self) -> Result<File, FolderError> {
        private(&self.path)?;
        let open = File::options().create(true).append(true).mode(0o600).open(self.log());
        let opened = open.and_then(|log| log.set_permissions(Permissions::from_mode(0o600)).map(|()| log));
        opened.map_err(|source| FolderError::File { path: self.log(), source })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A short name for this cluster, which everything it makes on the machine carries.
    pub fn instance(&self) -> Instance {
        Instance::of(&self.path)
    }

    /// The places of a node on the machine.
    pub(crate) fn site(&self, node: &str) -> Result<Site, BadName> {
        Site::new(self.instance(), node, self.node(node))
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.path.join("kubeconfig")
    }

    /// What the main process logs when it is detached.
    pub fn log(&self) -> PathBuf {
        self.path.join("c5c3.log")
    }

    /// Image archives that are put here are imported by every node.
    pub fn images(&self) -> PathBuf {
        self.path.join("images")
    }

    pub(crate) fn apiserver(&self) -> PathBuf {
        self.path.join("apiserver")
    }

    pub(crate) fn volumes(&self) -> PathBuf {
        self.path.join("volumes")
    }

    /// What the store of secrets keeps: `root-token`, `ca.crt` and `address` are for its clients.
    pub fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    pub(crate) fn nodes(&self) -> PathBuf {
        self.path.join("nodes")
    }

    pub(crate) fn node(&self, name: &str) -> PathBuf {
        self.nodes().join(name)
    }

    /// What a node's own process logs.
    pub(crate) fn agent_log(&self, node: &str) -> PathBuf {
        self.node(node).join("agent.log")
    }

    pub(crate) fn control(&self) -> PathBuf {
        self.instance().run().join("control.sock")
    }

    fn description(&self) -> PathBuf {
        self.path.join("cluster.json")
    }

    /// What is kept of the cluster; none when it never started.
    pub(crate) fn load(&self) -> Result<Option<Saved>, FolderError> {
        let path = self.description();
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(FolderError::File { path, source }),
        };
        let value: serde_json::Value =
            serde_json::from_slice(&text).map_err(|source| FolderError::Damaged { path: path.clone(), source })?;
        let layout = value["layout"].as_u64().unwrap_or(0);
        if layout > u64::from(LAYOUT) {
            let layout = u32::try_from(layout).unwrap_or(u32::MAX);
            return Err(FolderError::Newer { path: self.path.clone(), layout });
        }
        serde_json::from_value(value).map(Some).map_err(|source| FolderError::Damaged { path, source })
    }

    /// The provider network of the cluster's hypervisors: its range, and the machine's address there, which is the gateway. None
    /// if no node is a hypervisor.
    pub fn provider_network(&self) -> Option<(Ipv4Net, Ipv4Addr)> {
        let saved = self.load().ok().flatten()?;
        let addresses = crate::addresses::of(saved.block);
        let has_any = saved.nodes.iter().any(NodeSpec::is_hypervisor);
        has_any.then(|| (addresses.provider, addresses.gateway().addr()))
    }

    pub(crate) fn save(&self, saved: &Saved) -> Result<(), FolderError> {
        let text = serde_json::to_string_pretty(saved).expect("it has string keys only");
        write(&self.description(), &text)
    }

    /// Makes this process the one that runs the cluster, for as long as the result is kept.
    pub(crate) fn lock(&self) -> Result<File, FolderError> {
        let path = self.path.join("lock");
        let file = open_private(&path).map_err(|source| FolderError::File { path: path.clone(), source })?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(FolderError::Locked { path: self.path.clone() }),
            Err(TryLockError::Error(source)) => return Err(FolderError::File { path, source }),
        }
        let pid = std::process::id().to_string();
        file.set_len(0)
            .and_then(|()| (&file).write_all(pid.as_bytes()))
            .map_err(|source| FolderError::File { path, source })?;
        Ok(file)
    }

    /// The process that runs the cluster now, if one does.
    pub fn owner(&self) -> Option<u32> {
        let path = self.path.join("lock");
        let file = File::open(&path).ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => fs::read_to_string(&path).ok()?.trim().parse().ok(),
            _ => None,
        }
    }
}

fn open_private(path: &Path) -> std::io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Makes a folder that only its owner can read.
pub(crate) fn private(path: &Path) -> Result<(), FolderError> {
    c5c3_files::create_private_folder(path).map_err(|source| FolderError::File { path: path.into(), source })
}

/// Replaces a file, for its owner only, by a whole one.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), FolderError> {
    c5c3_files::write_private(path, text.as_bytes()).map_err(|source| FolderError::File { path: path.into(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, Folder) {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::new(&parent.path().join("cluster")).unwrap();
        folder.create().unwrap();
        (parent, folder)
    }

    fn saved() -> Saved {
        Saved::new(126, 7001, vec![NodeSpec::plain("pear", 1)])
    }

    #[test]
    fn what_is_saved_is_there_at_the_next_start() {
        let (_parent, folder) = folder();
        assert_eq!(folder.load().unwrap(), None);
        folder.save(&saved()).unwrap();
        assert_eq!(folder.load().unwrap(), Some(saved()));
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_folder_and_its_log_are_for_their_owner_whoever_makes_them_first() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::new(&parent.path().join("state/cluster")).unwrap();
        folder.open_log().unwrap().write_all(b"one\n").unwrap();
        assert_eq!((mode(folder.path()), mode(&folder.log())), (0o700, 0o600));
        // Those that an earlier version left open are closed, and nothing of the log is lost.
        folder.create().unwrap();
        folder.save(&saved()).unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(folder.log(), Permissions::from_mode(0o644)).unwrap();
        folder.open_log().unwrap().write_all(b"two\n").unwrap();
        folder.create().unwrap();
        assert_eq!((mode(folder.path()), mode(&folder.log())), (0o700, 0o600));
        assert_eq!(fs::read_to_string(folder.log()).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn a_folder_that_others_write_to_is_left_as_it_is() {
        let (_parent, folder) = folder();
        folder.save(&saved()).unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        folder.create().unwrap();
        assert_eq!(mode(folder.path()), 0o777);
    }

    #[test]
    fn a_folder_of_a_newer_version_is_refused() {
        let (_parent, folder) = folder();
        folder.save(&Saved { layout: 9, ..saved() }).unwrap();
        let error = folder.load().unwrap_err().to_string();
        assert!(error.ends_with("has layout 9, and this version knows 1: use the c5c3 that wrote it"), "{error}");
    }

    #[test]
    fn one_process_at_a_time_runs_a_cluster() {
        let (_parent, folder) = folder();
        assert_eq!(folder.owner(), None);
        let held = folder.lock().unwrap();
        assert!(matches!(folder.lock(), Err(FolderError::Locked { .. })));
        assert_eq!(folder.owner(), Some(std::process::id()));
        drop(held);
        assert_eq!(folder.owner(), None);
    }

    #[test]
    fn two_folders_have_two_names_on_the_machine() {
        let one = Folder::new(Path::new("/somewhere/one")).unwrap().instance();
        assert_ne!(one, Folder::new(Path::new("/somewhere/two")).unwrap().instance());
    }
}
