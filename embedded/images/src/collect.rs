//! Removing what no definition asks for any more.

use std::collections::BTreeSet;
use std::fs;

use crate::Error;
use crate::builder::Builder;
use crate::cache::{names, remove};
use crate::lock::debian::Deb;

/// What was removed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Collected {
    /// Finished stages.
    pub stages: usize,
    /// Names of images.
    pub names: usize,
    /// Blobs of the store.
    pub blobs: u64,
    /// Archives and packages.
    pub files: usize,
    /// The bytes of blobs and files.
    pub bytes: u64,
}

impl Builder {
    /// Keeps the images of all releases as they would be built now, by whatever names, and what they are made of; removes
    /// all others, with their layers, archives and packages. Fails while others build.
    pub fn collect(&self) -> Result<Collected, Error> {
        self.cache.sweep()?;
        let mut collected = Collected::default();
        let (mut keys, mut kept, mut debs) = <(BTreeSet<_>, BTreeSet<_>, BTreeSet<_>)>::default();
        for name in self.catalogue.releases() {
            let builder = Self { release: self.catalogue.release(&name)?, ..self.clone() };
            let images: Vec<_> = builder.catalogue.images().map(|image| image.name.as_str()).collect();
            keys.extend(builder.plan(&images)?.stages.into_iter().map(|stage| stage.key.as_str().to_owned()));
            for image in builder.built(&images)?.into_iter().flatten() {
                kept.insert(image.manifest.digest().digest().to_owned());
                let packages = image.layers.iter().flat_map(|(_, built)| &built.debian);
                debs.extend(packages.map(Deb::file));
            }
        }
        for key in self.cache.keys()?.iter().filter(|key| !keys.contains(*key)) {
            self.cache.forget(key)?;
            collected.stages += 1;
        }
        let mut layout = self.cache.layout()?;
        for image in layout.images()?.iter().filter(|image| !kept.contains(image.descriptor.digest().digest())) {
            layout.untag(&image.name)?;
            collected.names += 1;
        }
        let layers = self.cache.keys()?;
        let layers =
            layers.iter().filter_map(|key| self.cache.known(key)).map(|built| built.layer.descriptor.digest().clone());
        let freed = layout.collect(layers.collect::<Vec<_>>())?;
        (collected.blobs, collected.bytes) = (freed.blobs, freed.bytes);
        let unwanted_deb = |name: &str| !debs.iter().any(|deb| name.ends_with(deb.as_str()));
        let unwanted_archive = |name: &str| !name.split_once('-').is_some_and(|(digest, _)| kept.contains(digest));
        self.clear("archives", unwanted_archive, &mut collected)?;
        self.clear("debs", unwanted_deb, &mut collected)?;
        Ok(collected)
    }

    fn clear(&self, folder: &str, unwanted: impl Fn(&str) -> bool, collected: &mut Collected) -> Result<(), Error> {
        let folder = self.cache.folder(folder);
        for name in names(&folder)?.iter().filter(|name| unwanted(name)) {
            let file = folder.join(name);
            collected.bytes += fs::metadata(&file).map_or(0, |data| data.len());
            collected.files += 1;
            remove(&file)?;
        }
        Ok(())
    }
}
