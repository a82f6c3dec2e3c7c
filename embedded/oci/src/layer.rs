//! Layers: what a folder or a tar adds to an image, as a blob that depends on the files alone.

mod squeeze;
mod tree;

use std::io::{self, Read, Write};
use std::path::Path;

use oci_spec::image::{Descriptor, Digest, MediaType};
use serde::{Deserialize, Serialize};

use crate::content::Hashing;
use crate::{BlobWriter, Error, Layout};

use squeeze::Squeeze;

/// A layer that is in a store.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Layer {
    /// Its blob.
    pub descriptor: Descriptor,
    /// The digest of its tar, which is what an image's configuration calls it.
    pub diff_id: Digest,
    /// How many bytes its tar has.
    pub unpacked: u64,
}

/// How a layer's blob is made from its tar.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Compression {
    /// The tar itself: for images that do not leave the machine.
    None,
    /// Compressed, with the same bytes on every machine.
    #[default]
    Gzip,
}

impl Compression {
    fn media_type(self) -> MediaType {
        match self {
            Self::None => MediaType::ImageLayer,
            Self::Gzip => MediaType::ImageLayerGzip,
        }
    }
}

impl Layer {
    /// A layer of everything below a folder, such as the upper folder of an overlay. No time in it is after `epoch`, in
    /// seconds since 1970; owners are numbers; the folder itself is not part of it.
    ///
    /// What an overlay has deleted becomes the mark that layers have for that. Of extended attributes only file
    /// capabilities are kept. Sockets are left out, as `tar` does.
    pub fn of_folder(layout: &Layout, folder: &Path, epoch: u64, compression: Compression) -> Result<Self, Error> {
        let mut sink = Sink::new(layout, compression)?;
        tree::write(folder, epoch, &mut sink)?;
        sink.finish()
    }

    /// A layer of a tar as it is, for a tar that was made reproducibly by others.
    pub fn of_tar(layout: &Layout, tar: &mut dyn Read, compression: Compression) -> Result<Self, Error> {
        let mut sink = Sink::new(layout, compression)?;
        io::copy(tar, &mut sink).map_err(Error::file("copy a layer into", layout.root()))?;
        sink.finish()
    }
}

/// Takes a tar; hashes it as it is and as it is stored.
struct Sink<'a> {
    tar: Hashing<Squeeze<BlobWriter<'a>>>,
    compression: Compression,
    root: &'a Path,
}

impl<'a> Sink<'a> {
    fn new(layout: &'a Layout, compression: Compression) -> Result<Self, Error> {
        let tar = Hashing::new(Squeeze::new(layout.writer()?, compression));
        Ok(Self { tar, compression, root: layout.root() })
    }

    fn finish(self) -> Result<Layer, Error> {
        let (squeeze, diff_id, unpacked) = self.tar.finish();
        let blob = squeeze.finish().map_err(Error::file("write a layer into", self.root))?;
        Ok(Layer { descriptor: blob.commit(self.compression.media_type())?, diff_id, unpacked })
    }
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.tar.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tar.flush()
    }
}
