//! Images as one file: a tar of a layout, which skopeo, podman and containerd read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use oci_spec::distribution::Reference;
use oci_spec::image::{ANNOTATION_REF_NAME, Descriptor, Digest, ImageIndex};
use tar::{Archive, Builder, EntryType, Header};

use crate::content::{hex, json};
use crate::layout::{NAME, index_of, plain, with_name};
use crate::{Error, Layout, Named};

const LAYOUT: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;

/// Whether what refers to an image goes along.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Referrers {
    /// Only the images. An archive of one image then holds one, and its readers need not be told which.
    #[default]
    Leave,
    /// Bills of materials and signatures too. Readers of the archive must then name the image by its tag.
    Take,
}

/// Writes images and all their blobs into a file, which is there when it is whole. The same images give the same bytes.
pub fn export(layout: &Layout, names: &[Reference], referrers: Referrers, file: &Path) -> Result<(), Error> {
    let mut entries = Vec::new();
    for name in names {
        let image = layout.resolve(name)?;
        entries.push(with_name(&image, name));
        if referrers == Referrers::Take {
            entries.extend(layout.referrers(image.digest())?);
        }
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut written = tempfile::NamedTempFile::new_in(folder).map_err(Error::file("make a file in", folder))?;
    write(layout, entries, BufWriter::new(written.as_file_mut()))?;
    written.as_file().sync_all().map_err(Error::file("sync", file))?;
    written.persist(file).map_err(|error| Error::file("write", file)(error.error))?;
    Ok(())
}

fn write(layout: &Layout, entries: Vec<Descriptor>, into: impl Write) -> Result<(), Error> {
    let mut blobs = BTreeMap::new();
    for entry in &entries {
        blobs.extend(layout.closure(entry)?.into_iter().map(|blob| (blob.digest().to_string(), blob)));
    }
    let mut tar = Builder::new(into);
    let failed = || Error::file("write an archive from", layout.root());
    append(&mut tar, "oci-layout", LAYOUT.len() as u64, LAYOUT.as_bytes()).map_err(failed())?;
    let index = json(&index_of(entries));
    append(&mut tar, "index.json", index.len() as u64, index.as_slice()).map_err(failed())?;
    for blob in blobs.values() {
        let path = format!("blobs/sha256/{}", hex(blob.digest())?);
        append(&mut tar, &path, blob.size(), layout.stream(blob.digest())?).map_err(failed())?;
    }
    tar.into_inner().and_then(|mut inner| inner.flush()).map_err(failed())
}

fn append(tar: &mut Builder<impl Write>, path: &str, size: u64, content: impl Read) -> io::Result<()> {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(size);
    tar.append_data(&mut header, path, content)
}

/// Copies the images of an archive into a store, with what refers to them; the images, by name. One that the archive does
/// not name in full needs a `name`, and then there may be only one.
///
/// Every blob is checked against its digest, and no image gets its name before all of its blobs are there.
pub fn import(layout: &Layout, file: &Path, name: Option<&Reference>) -> Result<Vec<Named>, Error> {
    let opened = File::open(file).map_err(Error::file("open", file))?;
    let index = unpack(layout, file, BufReader::new(opened))?;
    let (referrers, images): (Vec<_>, Vec<_>) =
        index.manifests().iter().partition(|entry| entry.artifact_type().is_some() && named(entry).is_none());
    let names = images.iter().map(|image| name.cloned().or_else(|| named(image))).collect::<Option<Vec<_>>>();
    let nameless = || Error::Archive { path: file.to_owned(), why: "it does not say what its image is called".into() };
    let names = names.ok_or_else(nameless)?;
    if name.is_some() && images.len() != 1 {
        let why = format!("it has {} images, which cannot all have one name", images.len());
        return Err(Error::Archive { path: file.to_owned(), why });
    }
    let mut imported = Vec::new();
    for (image, name) in images.into_iter().zip(names) {
        layout.tag(&name, image)?;
        imported.push(Named { name, descriptor: plain(image) });
    }
    for referrer in referrers {
        layout.refer(&plain(referrer))?;
    }
    Ok(imported)
}

/// Takes the blobs of an archive into the store; the archive's index.
fn unpack(layout: &Layout, file: &Path, archive: impl Read) -> Result<ImageIndex, Error> {
    let broken = |why: String| Error::Archive { path: file.to_owned(), why };
    let unreadable = |error: io::Error| broken(error.to_string());
    let mut index = None;
    let mut archive = Archive::new(archive);
    for entry in archive.entries().map_err(unreadable)? {
        let mut entry = entry.map_err(unreadable)?;
        let path = entry.path().map_err(unreadable)?.to_string_lossy().trim_start_matches("./").to_owned();
        if path == "index.json" {
            let parsed = ImageIndex::from_reader(&mut entry);
            index = Some(parsed.map_err(|error| broken(format!("its index cannot be read: {error}")))?);
        } else if let Some(digits) = path.strip_prefix("blobs/sha256/").filter(|digits| !digits.is_empty()) {
            let digest: Digest =
                format!("sha256:{digits}").parse().map_err(|_| broken(format!("{path} is no blob")))?;
            layout.copy_in(&mut entry, &digest)?;
        }
    }
    index.ok_or_else(|| broken("it has no index.json".into()))
}

/// What an archive calls an image in full: to containerd, or else as skopeo is told.
fn named(entry: &Descriptor) -> Option<Reference> {
    let annotations = entry.annotations().as_ref()?;
    let full = annotations.get(ANNOTATION_REF_NAME).filter(|name| name.contains('/'));
    annotations.get(NAME).or(full)?.parse().ok()
}
