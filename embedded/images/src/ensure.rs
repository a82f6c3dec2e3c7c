//! Images for those who run them: built if need be, as archives that containerd imports.

use std::io;
use std::path::PathBuf;

use c5c3_oci::archive::{Referrers, export};
use c5c3_oci::{Descriptor, Reference};

use crate::builder::Builder;
use crate::cache::Cache;
use crate::progress::Progress;
use crate::{DEFAULT_RELEASE, Error};

/// An image that can be imported.
#[derive(Clone, Debug)]
pub struct Ready {
    /// What pods call it: `ghcr.io/c5c3/NAME:VERSION`.
    pub reference: String,
    /// An OCI archive with the image under that name.
    pub archive: PathBuf,
    /// The digest of its manifest, by which a changed image is known.
    pub digest: String,
}

/// Makes sure that images of the default release are there, building what is not, and hands each over as soon as it is
/// there. Blocks; needs root to build.
pub fn ensure(
    names: &[&str],
    progress: &dyn Progress,
    hand_over: impl Fn(&Ready) -> io::Result<()> + Sync,
) -> Result<Vec<Ready>, Error> {
    let builder = Builder::new(DEFAULT_RELEASE)?;
    let built = builder.build_each(names, progress, |image| {
        let ready = archive(&builder.cache, &image.references, &image.manifest)?;
        hand_over(&ready).map_err(Error::file(&ready.archive))
    })?;
    built.iter().map(|image| archive(&builder.cache, &image.references, &image.manifest)).collect()
}

/// The archive of an image of the store under some of its names, written unless it is there.
pub fn archive(cache: &Cache, names: &[Reference], image: &Descriptor) -> Result<Ready, Error> {
    let texts: Vec<_> = names.iter().map(ToString::to_string).collect();
    let called = c5c3_oci::digest_of(texts.join("\n").as_bytes());
    let file = format!("{}-{}.tar", image.digest().digest(), &called.digest()[..16]);
    let file = cache.folder("archives").join(file);
    if !file.exists() {
        export(&cache.layout()?, names, Referrers::Leave, &file)?;
    }
    let reference = texts.into_iter().next().unwrap_or_default();
    Ok(Ready { reference, archive: file, digest: image.digest().to_string() })
}
