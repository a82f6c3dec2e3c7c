//! Images for those who run them: built if need be, as archives that containerd imports.

use std::path::PathBuf;

use c5c3_oci::archive::{Referrers, export};

use crate::builder::{Builder, BuiltImage};
use crate::progress::Progress;
use crate::{DEFAULT_RELEASE, Error};

/// An image that can be imported.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The image's name in the definitions.
    pub name: String,
    /// What pods call it: `ghcr.io/c5c3/NAME:VERSION`.
    pub reference: String,
    /// An OCI archive with the image under that name.
    pub archive: PathBuf,
    /// The digest of its manifest, by which a changed image is known.
    pub digest: String,
}

/// Makes sure that images of the default release are there, building what is not. Blocks; needs root to build.
pub fn ensure(names: &[&str], progress: &dyn Progress) -> Result<Vec<Ready>, Error> {
    let builder = Builder::new(DEFAULT_RELEASE)?;
    builder.build(names, progress)?.iter().map(|image| archive(&builder, image)).collect()
}

/// The archive of an image, written unless it is there.
pub fn archive(builder: &Builder, image: &BuiltImage) -> Result<Ready, Error> {
    let digest = image.manifest.digest();
    let file = builder.cache.folder("archives").join(format!("{}.tar", digest.digest()));
    if !file.exists() {
        export(&builder.cache.layout()?, &image.references, Referrers::Leave, &file)?;
    }
    Ok(Ready {
        name: image.planned.definition.name.clone(),
        reference: image.references.first().map(ToString::to_string).unwrap_or_default(),
        archive: file,
        digest: digest.to_string(),
    })
}
