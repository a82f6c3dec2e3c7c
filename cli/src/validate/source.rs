//! Where objects come from: files, folders, standard input. Sizes are bounded before anything is read.

use std::io::Read;
use std::path::{Path, PathBuf};

/// An API server takes no object over 3 MiB, so a file that is much larger is not what it was meant to be.
const LARGEST: u64 = 8 * 1024 * 1024;

/// A text with objects in it.
pub(super) struct Source {
    pub(super) name: String,
    pub(super) text: String,
}

impl Source {
    /// The file, the files below the folder, or standard input. One that cannot be read hides no other.
    pub(super) fn find(path: &Path) -> Result<Vec<Result<Self, String>>, String> {
        if path == Path::new("-") {
            return Ok(vec![Self::read("-".into(), std::io::stdin())]);
        }
        let name = path.display().to_string();
        let meta = std::fs::metadata(path).map_err(|error| format!("{name}: cannot be read: {error}"))?;
        if !meta.is_dir() {
            return Ok(vec![Self::open(path)]);
        }
        let files = below(path)?;
        if files.is_empty() {
            return Err(format!("{name}: has no .yaml, .yml or .json file; name a file or another folder"));
        }
        Ok(files.iter().map(|file| Self::open(file)).collect())
    }

    fn open(path: &Path) -> Result<Self, String> {
        let name = path.display().to_string();
        let file = std::fs::File::open(path).map_err(|error| format!("{name}: cannot be read: {error}"))?;
        Self::read(name, file)
    }

    fn read(name: String, from: impl Read) -> Result<Self, String> {
        let mut bytes = Vec::new();
        let read = from
            .take(LARGEST + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| format!("{name}: cannot be read: {error}"))?;
        if read as u64 > LARGEST {
            return Err(format!(
                "{name}: is larger than {} MiB; an API server takes no object over 3 MiB, so split the file",
                LARGEST >> 20
            ));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            format!("{name}: is not UTF-8 at byte {}; save it as UTF-8 text", error.utf8_error().valid_up_to())
        })?;
        Ok(Self { name, text })
    }
}

/// The files with objects below a folder, in order.
fn below(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .map_err(|error| format!("{}: cannot be read: {error}", folder.display()))?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files.extend(below(&path)?);
        } else if path
            .extension()
            .is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known))
        {
            files.push(path);
        }
    }
    Ok(files)
}
