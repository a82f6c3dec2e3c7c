//! What of a data folder is in a backup.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::ArchiveError;
use crate::folder::Folder;

/// Names in the data folder that are of one run of the cluster, or of no cluster.
const OF_A_RUN: &[&str] = &["lock", "c5c3.log", super::read::NEW, super::read::OLD];

/// The same in the folder of a node: what it logs.
const OF_A_NODE_RUN: &[&str] = &["agent.log", "logs"];

/// Where a node keeps images and the files of its containers.
const CONTAINERD: &str = "containerd";

/// One file, folder or link.
#[derive(Debug)]
pub(super) struct Entry {
    /// Its path in the folder.
    pub(super) path: PathBuf,
    pub(super) metadata: Metadata,
    /// The entry before that is the same file.
    pub(super) same_as: Option<PathBuf>,
}

impl Entry {
    /// What it has on the disk.
    pub(super) fn bytes(&self) -> u64 {
        if self.metadata.is_file() && self.same_as.is_none() { self.metadata.blocks() * 512 } else { 0 }
    }
}

/// What is in a backup, folders before what is in them, and what is left out.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) entries: Vec<Entry>,
    pub(super) left_out: Vec<String>,
    files: BTreeMap<(u64, u64), PathBuf>,
}

impl Contents {
    /// Of a data folder.
    pub(super) fn of(folder: &Folder) -> Result<Self, ArchiveError> {
        let mut contents = Self::default();
        contents.add(folder.path(), Path::new(""))?;
        Ok(contents)
    }

    fn add(&mut self, root: &Path, below: &Path) -> Result<(), ArchiveError> {
        let folder = root.join(below);
        let failed = || ArchiveError::file(&folder);
        let mut names = Vec::new();
        for entry in fs::read_dir(&folder).map_err(failed())? {
            names.push(entry.map_err(failed())?.file_name());
        }
        names.sort();
        for name in names {
            let path = below.join(name);
            match kept(&path) {
                Kept::Yes => {}
                Kept::No => continue,
                Kept::Told => {
                    self.left_out.push(path.display().to_string());
                    continue;
                }
            }
            let whole = root.join(&path);
            let metadata = fs::symlink_metadata(&whole).map_err(ArchiveError::file(&whole))?;
            let kind = metadata.file_type();
            if kind.is_socket() || kind.is_fifo() || kind.is_block_device() || kind.is_char_device() {
                self.left_out.push(path.display().to_string());
                continue;
            }
            let is_folder = metadata.is_dir();
            let same_as = self.same(&path, &metadata);
            self.entries.push(Entry { path: path.clone(), metadata, same_as });
            if is_folder {
                self.add(root, &path)?;
            }
        }
        Ok(())
    }

    /// The file before that this is another name of.
    fn same(&mut self, path: &Path, metadata: &Metadata) -> Option<PathBuf> {
        if !metadata.is_file() || metadata.nlink() < 2 {
            return None;
        }
        let before = self.files.get(&(metadata.dev(), metadata.ino())).cloned();
        if before.is_none() {
            self.files.insert((metadata.dev(), metadata.ino()), path.to_owned());
        }
        before
    }
}

/// Whether something is in a backup.
enum Kept {
    Yes,
    No,
    /// It is not, and people are told.
    Told,
}

fn kept(path: &Path) -> Kept {
    let parts: Vec<_> = path.iter().map(|part| part.to_str().unwrap_or_default()).collect();
    // A log that was rotated has a further ending.
    let is_any = |names: &[&str], name: &str| {
        let rest = |other: &&str| name.strip_prefix(*other);
        names.iter().filter_map(rest).any(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    match parts.as_slice() {
        [name] if is_any(OF_A_RUN, name) => Kept::No,
        ["images", _] | ["nodes", _, CONTAINERD] => Kept::Told,
        ["nodes", _, name] if is_any(OF_A_NODE_RUN, name) => Kept::No,
        _ => Kept::Yes,
    }
}
