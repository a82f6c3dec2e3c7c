//! Whether an image in a store is what it was made as, byte for byte.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use oci_spec::image::{Descriptor, ImageConfiguration, ImageManifest, MediaType};

use crate::content::Hashing;
use crate::{Error, Layout};

impl Layout {
    /// Checks every blob of an image against the digest by which it is referred to, and every layer against what the
    /// configuration says that it unpacks to. What is wrong is named: `layer 2 of 3 (packages of keystone)`.
    pub fn verify(&self, image: &Descriptor) -> Result<(), Error> {
        let of =
            |part: String| move |source| Error::Part { part, image: image.digest().clone(), source: Box::new(source) };
        if *image.media_type() == MediaType::ImageIndex {
            return self.children(image)?.iter().try_for_each(|child| self.verify(child));
        }
        let manifest = self.manifest(image).map_err(of("the manifest".into()))?;
        let configuration = self.configuration(&manifest).map_err(of("the configuration".into()))?;
        let expected = configuration.rootfs().diff_ids();
        if expected.len() != manifest.layers().len() {
            let why = format!("{} layers, where the manifest has {}", expected.len(), manifest.layers().len());
            return Err(Error::malformed(format!("the configuration of {}", image.digest()), &why));
        }
        for (n, (layer, expected)) in manifest.layers().iter().zip(expected).enumerate() {
            self.verify_layer(layer, expected).map_err(of(part(&manifest, &configuration, n)))?;
        }
        Ok(())
    }

    /// The blob first: of one that is damaged, what it unpacks to says nothing.
    fn verify_layer(&self, layer: &Descriptor, expected: &str) -> Result<(), Error> {
        let mut blob = self.stream(layer.digest())?;
        io::copy(&mut blob, &mut io::sink()).map_err(|error| broken(error, self, layer))?;
        let found = self.unpacked_digest(layer).map_err(|error| broken(error, self, layer))?;
        if found == expected { Ok(()) } else { Err(Error::Unpacked { expected: expected.to_owned(), found }) }
    }

    fn unpacked_digest(&self, layer: &Descriptor) -> io::Result<String> {
        let mut tar = Hashing::new(io::sink());
        io::copy(&mut *self.unpacked(layer)?, &mut tar)?;
        Ok(tar.finish().1.to_string())
    }

    /// A layer's tar.
    pub(crate) fn unpacked(&self, layer: &Descriptor) -> io::Result<Box<dyn Read>> {
        let blob = self.stream(layer.digest()).map_err(io::Error::other)?;
        match layer.media_type() {
            MediaType::ImageLayer => Ok(Box::new(blob)),
            MediaType::ImageLayerGzip => Ok(Box::new(MultiGzDecoder::new(blob))),
            other => Err(io::Error::other(format!("layers of the type {other} cannot be unpacked here"))),
        }
    }
}

/// What reading a blob has ended with: our own error if it was one.
fn broken(error: io::Error, layout: &Layout, layer: &Descriptor) -> Error {
    let path = layout.root().join(layer.digest().digest());
    error.downcast::<Error>().unwrap_or_else(|error| Error::file("unpack", path)(error))
}

/// A layer as people know it: by its place, and by what has made it.
fn part(manifest: &ImageManifest, configuration: &ImageConfiguration, n: usize) -> String {
    let steps = configuration.history().iter().flatten().filter(|step| step.empty_layer() != Some(true));
    let made_by = steps.clone().nth(n).and_then(|step| step.created_by().as_deref());
    let digest = manifest.layers()[n].digest();
    format!("layer {} of {} ({})", n + 1, manifest.layers().len(), made_by.unwrap_or(digest.as_ref()))
}
