//! A folder as a tar that depends on the files alone: sorted, with clamped times and numeric owners.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{lgetxattr, llistxattr, major, minor};
use rustix::io::Errno;
use tar::{Builder, EntryType, Header};

use crate::Error;

/// What a layer has in place of a file that it removes: this before the file's name.
const WHITEOUT: &[u8] = b".wh.";
/// What a layer has in a folder of which nothing below is to be seen.
const OPAQUE: &str = ".wh..wh..opq";
/// The extended attribute by which programs are given capabilities.
const CAPABILITY: &str = "security.capability";

/// Writes everything below a folder as a tar.
pub(super) fn write(folder: &Path, epoch: u64, into: &mut dyn Write) -> Result<(), Error> {
    let mut tree = Tree { tar: Builder::new(into), root: folder, epoch, first: HashMap::new() };
    tree.folder(Path::new(""))?;
    tree.tar.finish().map_err(Error::file("write the layer of", folder))
}

struct Tree<'a> {
    tar: Builder<&'a mut dyn Write>,
    root: &'a Path,
    epoch: u64,
    /// Where a file with several names was seen first.
    first: HashMap<(u64, u64), PathBuf>,
}

impl Tree<'_> {
    /// Everything in a folder, sorted by name; each before what is in it.
    fn folder(&mut self, inside: &Path) -> Result<(), Error> {
        let folder = self.root.join(inside);
        let read = fs::read_dir(&folder).and_then(|entries| {
            entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<OsString>>>()
        });
        let mut names = read.map_err(Error::file("list", &folder))?;
        names.sort();
        names.into_iter().try_for_each(|name| self.entry(&inside.join(name)))
    }

    fn entry(&mut self, inside: &Path) -> Result<(), Error> {
        let path = self.root.join(inside);
        let metadata = path.symlink_metadata().map_err(Error::file("look at", &path))?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            self.directory(inside, &path, &metadata)
        } else if kind.is_socket() {
            Ok(())
        } else if kind.is_char_device() && metadata.rdev() == 0 {
            self.whiteout(inside, &metadata)
        } else if let Some(first) = self.other_name(inside, &metadata) {
            self.append(inside, &metadata, Content::HardLink(&first))
        } else if kind.is_symlink() {
            let target = fs::read_link(&path).map_err(Error::file("read", &path))?;
            self.append(inside, &metadata, Content::Link(&target))
        } else if kind.is_file() {
            self.append(inside, &metadata, Content::File(&path))
        } else if kind.is_fifo() {
            self.append(inside, &metadata, Content::Fifo)
        } else {
            self.append(inside, &metadata, Content::Device { block: kind.is_block_device() })
        }
    }

    fn directory(&mut self, inside: &Path, path: &Path, metadata: &Metadata) -> Result<(), Error> {
        let overlay = Overlay::of(path)?;
        self.append(inside, metadata, Content::Folder)?;
        if overlay.opaque {
            self.append(&inside.join(OPAQUE), metadata, Content::Nothing)?;
        }
        self.folder(inside)
    }

    fn whiteout(&mut self, inside: &Path, metadata: &Metadata) -> Result<(), Error> {
        let name = inside.file_name().unwrap_or_default().as_bytes();
        let marked = inside.with_file_name(OsString::from_vec([WHITEOUT, name].concat()));
        self.append(&marked, metadata, Content::Nothing)
    }

    /// The first name of a file that has several, if this is not it.
    fn other_name(&mut self, inside: &Path, metadata: &Metadata) -> Option<PathBuf> {
        if metadata.nlink() < 2 {
            return None;
        }
        let first = self.first.entry((metadata.dev(), metadata.ino())).or_insert_with(|| inside.to_owned());
        (first != inside).then(|| first.clone())
    }

    fn append(&mut self, inside: &Path, metadata: &Metadata, content: Content<'_>) -> Result<(), Error> {
        let mut record = Record::new(metadata, self.epoch, content);
        record.name(inside, matches!(content, Content::Folder));
        if let Content::Link(target) | Content::HardLink(target) = content {
            record.link(target);
        }
        let written = match content {
            Content::File(path) => {
                record.capability(path)?;
                let file = File::open(path).map_err(Error::file("open", path))?;
                record.write(&mut self.tar, Exactly { file, left: metadata.len() })
            }
            _ => record.write(&mut self.tar, io::empty()),
        };
        written.map_err(Error::file("put into a layer", self.root.join(inside)))
    }
}

/// What an entry of a tar holds.
#[derive(Clone, Copy)]
enum Content<'a> {
    Folder,
    File(&'a Path),
    Link(&'a Path),
    HardLink(&'a Path),
    Fifo,
    Device {
        block: bool,
    },
    /// A file without content, which marks that something is gone.
    Nothing,
}

impl Content<'_> {
    fn entry_type(self) -> EntryType {
        match self {
            Self::Folder => EntryType::Directory,
            Self::File(_) | Self::Nothing => EntryType::Regular,
            Self::Link(_) => EntryType::Symlink,
            Self::HardLink(_) => EntryType::Link,
            Self::Fifo => EntryType::Fifo,
            Self::Device { block: true } => EntryType::Block,
            Self::Device { block: false } => EntryType::Char,
        }
    }
}

/// The header of an entry, and what does not fit into it.
struct Record {
    header: Header,
    extensions: Vec<(&'static str, Vec<u8>)>,
}

impl Record {
    fn new(metadata: &Metadata, epoch: u64, content: Content<'_>) -> Self {
        let mut header = Header::new_ustar();
        header.set_entry_type(content.entry_type());
        header.set_mtime(u64::try_from(metadata.mtime()).unwrap_or(0).min(epoch));
        let (mode, user, group) = match content {
            Content::Nothing => (0o644, 0, 0),
            _ => (metadata.mode() & 0o7777, metadata.uid(), metadata.gid()),
        };
        header.set_mode(mode);
        header.set_uid(user.into());
        header.set_gid(group.into());
        header.set_size(if matches!(content, Content::File(_)) { metadata.len() } else { 0 });
        if let (Content::Device { .. }, Some(fields)) = (content, header.as_ustar_mut()) {
            fields.set_device_major(major(metadata.rdev()));
            fields.set_device_minor(minor(metadata.rdev()));
        }
        Self { header, extensions: Vec::new() }
    }

    fn name(&mut self, inside: &Path, folder: bool) {
        let mut name = inside.as_os_str().as_bytes().to_vec();
        if folder {
            name.push(b'/');
        }
        if !fits(&mut self.header.as_old_mut().name, &name) {
            self.extensions.push(("path", name));
        }
    }

    fn link(&mut self, target: &Path) {
        let target = target.as_os_str().as_bytes();
        if !fits(&mut self.header.as_old_mut().linkname, target) {
            self.extensions.push(("linkpath", target.to_vec()));
        }
    }

    fn capability(&mut self, path: &Path) -> Result<(), Error> {
        if let Some(value) = attribute(path, CAPABILITY)? {
            self.extensions.push(("SCHILY.xattr.security.capability", value));
        }
        Ok(())
    }

    fn write(mut self, tar: &mut Builder<&mut dyn Write>, content: impl Read) -> io::Result<()> {
        self.header.set_cksum();
        tar.append_pax_extensions(self.extensions.iter().map(|(key, value)| (*key, value.as_slice())))?;
        tar.append(&self.header, content)
    }
}

/// Puts a name into its field; whether all of it is there.
fn fits(field: &mut [u8; 100], name: &[u8]) -> bool {
    let length = name.len().min(field.len());
    field[..length].copy_from_slice(&name[..length]);
    length == name.len()
}

/// A file of which the header of its entry has given the size: another size would break what follows in the tar.
struct Exactly {
    file: File,
    left: u64,
}

impl Read for Exactly {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.file.read(&mut buffer[..wanted])?;
        if read == 0 && wanted > 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it got shorter while it was read"));
        }
        self.left -= read as u64;
        Ok(read)
    }
}

/// What an overlay has written down about a folder of its upper layer.
#[derive(Default)]
struct Overlay {
    opaque: bool,
}

impl Overlay {
    fn of(path: &Path) -> Result<Self, Error> {
        let mut overlay = Self::default();
        for name in attributes(path)? {
            match name.as_bytes().strip_prefix(b"trusted.").or_else(|| name.as_bytes().strip_prefix(b"user.")) {
                Some(b"overlay.opaque") => {
                    overlay.opaque = attribute(path, name)?.is_some_and(|value| value == b"y");
                }
                Some(b"overlay.redirect") => {
                    let why = "it was renamed on an overlay with redirects, which layers cannot say; mount with \
                               redirect_dir=off";
                    return Err(Error::Layer { path: path.to_owned(), why });
                }
                _ => {}
            }
        }
        Ok(overlay)
    }
}

fn attributes(path: &Path) -> Result<Vec<OsString>, Error> {
    let mut names = vec![0; 64 * 1024];
    let length = match llistxattr(path, &mut names[..]) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => 0,
        Err(error) => return Err(Error::file("list the attributes of", path)(error.into())),
    };
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| OsStr::from_bytes(name).to_owned()).collect())
}

fn attribute(path: &Path, name: impl AsRef<OsStr>) -> Result<Option<Vec<u8>>, Error> {
    let mut value = [0; 4096];
    match lgetxattr(path, name.as_ref(), &mut value[..]) {
        Ok(length) => Ok(Some(value[..length].to_vec())),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(Error::file("read an attribute of", path)(error.into())),
    }
}
