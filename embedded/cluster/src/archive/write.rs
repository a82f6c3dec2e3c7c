//! Writing a backup.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};

use super::contents::{Contents, Entry};
use super::seal::Sealing;
use super::{ArchiveError, DESCRIPTION, Description, FORM, Progress, size, stopped};
use crate::folder::Folder;
use crate::up::now;

/// Writes a cluster that is stopped to a file for its owner alone. With `force`, a file that is there is replaced, once the
/// new one is complete.
pub fn backup(folder: &Folder, output: &Path, force: bool, say: &(dyn Fn(&str) + Sync)) -> Result<(), ArchiveError> {
    let output = std::path::absolute(output).map_err(ArchiveError::file(output))?;
    if folder.load()?.is_none() {
        return Err(ArchiveError::NoCluster(folder.path().to_owned()));
    }
    if output.exists() && !force {
        return Err(ArchiveError::Exists(output));
    }
    outside(&output, folder)?;
    let _lock = folder.lock()?;
    stopped(folder)?;
    let contents = Contents::of(folder)?;
    let bytes = contents.entries.iter().map(Entry::bytes).sum();
    let description = Description {
        form: FORM,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        made: now().to_string(),
        folder: folder.path().to_owned(),
        bytes,
        left_out: contents.left_out.clone(),
    };
    let mut part = output.clone().into_os_string();
    part.push(".part");
    let part = PathBuf::from(part);
    let written = write(folder, &contents.entries, &description, &part, Progress::new(say, "writing", bytes))
        .and_then(|()| fs::rename(&part, &output).map_err(ArchiveError::file(&output)));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written?;
    let length = fs::metadata(&output).map_err(ArchiveError::file(&output))?.len();
    for name in &contents.left_out {
        say(&format!("left out   {name}"));
    }
    say(&format!("{} has the cluster: {}. It holds every secret of it", output.display(), size(length)));
    Ok(())
}

/// Fails if the file would be in the folder that it is of.
fn outside(output: &Path, folder: &Folder) -> Result<(), ArchiveError> {
    let parent = output.parent().unwrap_or(Path::new("/"));
    let real = fs::canonicalize(parent).map_err(ArchiveError::file(parent))?;
    let within = fs::canonicalize(folder.path()).map_err(ArchiveError::file(folder.path()))?;
    if real.starts_with(&within) {
        return Err(ArchiveError::Inside { output: output.to_owned(), folder: folder.path().to_owned() });
    }
    Ok(())
}

fn write(
    folder: &Folder,
    entries: &[Entry],
    description: &Description,
    path: &Path,
    mut progress: Progress<'_>,
) -> Result<(), ArchiveError> {
    let failed = || ArchiveError::file(path);
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed()(error)),
        _ => {}
    }
    let file = File::options().write(true).create_new(true).mode(0o600).open(path).map_err(failed())?;
    let sealing = Sealing::new(BufWriter::with_capacity(1 << 20, file));
    let mut archive = Builder::new(GzEncoder::new(sealing, Compression::fast()));
    archive.follow_symlinks(false);
    describe(&mut archive, description).map_err(failed())?;
    for entry in entries {
        add(&mut archive, folder, entry)?;
        progress.add(entry.bytes());
    }
    let file = archive.into_inner().and_then(GzEncoder::finish).and_then(Sealing::finish).map_err(failed())?;
    let file = file.into_inner().map_err(|error| failed()(error.into_error()))?;
    file.sync_all().map_err(failed())
}

fn describe<W: io::Write>(archive: &mut Builder<W>, description: &Description) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(description)?;
    let mut header = Header::new_gnu();
    header.set_size(text.len() as u64);
    header.set_mode(0o600);
    archive.append_data(&mut header, DESCRIPTION, text.as_slice())
}

fn add<W: io::Write>(archive: &mut Builder<W>, folder: &Folder, entry: &Entry) -> Result<(), ArchiveError> {
    let path = folder.path().join(&entry.path);
    let failed = || ArchiveError::file(&path);
    if let Some(same) = &entry.same_as {
        let mut header = Header::new_gnu();
        header.set_metadata(&entry.metadata);
        header.set_entry_type(EntryType::Link);
        header.set_size(0);
        return archive.append_link(&mut header, &entry.path, same).map_err(failed());
    }
    if entry.metadata.is_file() {
        let mut file = File::open(&path).map_err(failed())?;
        return archive.append_file(&entry.path, &mut file).map_err(failed());
    }
    archive.append_path_with_name(&path, &entry.path).map_err(failed())
}
