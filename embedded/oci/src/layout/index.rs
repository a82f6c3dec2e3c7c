//! The names of images.

use std::collections::HashMap;
use std::{fs, io};

use oci_spec::distribution::Reference;
use oci_spec::image::{ANNOTATION_REF_NAME, Descriptor, ImageIndex, ImageIndexBuilder, MediaType};

use super::{Layout, lock_file};
use crate::Error;
use crate::content::json;

/// The annotation by which containerd and podman name what they import, in full.
pub(crate) const NAME: &str = "io.containerd.image.name";

/// An image of the store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Named {
    /// Its name, in full.
    pub name: Reference,
    /// Its manifest, or its index if it is for several platforms.
    pub descriptor: Descriptor,
}

impl Layout {
    /// Everything that the store was told to keep: images with their names, and what refers to them.
    pub fn index(&self) -> Result<ImageIndex, Error> {
        let path = self.root.join("index.json");
        match fs::read(&path) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).map_err(|error| Error::malformed(path.display().to_string(), &error))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(index_of(Vec::new())),
            Err(error) => Err(Error::file("read", &path)(error)),
        }
    }

    /// The images, by name.
    pub fn images(&self) -> Result<Vec<Named>, Error> {
        let mut images: Vec<Named> = self.index()?.manifests().iter().filter_map(named).collect();
        images.sort_by_key(|image| image.name.to_string());
        Ok(images)
    }

    /// The image of a name.
    pub fn resolve(&self, name: &Reference) -> Result<Descriptor, Error> {
        let wanted = name.to_string();
        let found = self.index()?.manifests().iter().find(|entry| name_of(entry) == Some(&wanted)).map(plain);
        found.ok_or(Error::Unknown(wanted))
    }

    /// Gives an image a name, which it is taken from if another has it. The image must be in the store, with all its blobs.
    pub fn tag(&self, name: &Reference, image: &Descriptor) -> Result<(), Error> {
        if let Some(missing) = self.closure(image)?.into_iter().find(|blob| !self.contains(blob.digest())) {
            return Err(Error::Missing(missing.digest().clone()));
        }
        let entry = with_name(image, name);
        self.change(|entries| {
            entries.retain(|known| name_of(known) != name_of(&entry));
            entries.push(entry);
        })
    }

    /// Takes a name from its image; whether there was one. Its blobs go with the next [`collect`](Self::collect).
    pub fn untag(&self, name: &Reference) -> Result<bool, Error> {
        let wanted = name.to_string();
        let mut found = false;
        self.change(|entries| {
            entries.retain(|known| {
                name_of(known) != Some(&wanted) || {
                    found = true;
                    false
                }
            });
        })?;
        Ok(found)
    }

    /// Changes the index, while no one else does.
    pub(super) fn change(&self, change: impl FnOnce(&mut Vec<Descriptor>)) -> Result<(), Error> {
        let path = self.root.join("index.lock");
        let lock = lock_file(&path)?;
        lock.lock().map_err(Error::file("lock", &path))?;
        let mut entries = self.index()?.manifests().clone();
        change(&mut entries);
        entries.sort_by_key(|entry| (name_of(entry).cloned(), entry.digest().to_string()));
        self.replace(&self.root.join("index.json"), &json(&index_of(entries)))
    }
}

pub(crate) fn index_of(manifests: Vec<Descriptor>) -> ImageIndex {
    let builder = ImageIndexBuilder::default().schema_version(2u32).media_type(MediaType::ImageIndex);
    builder.manifests(manifests).build().expect("every field of an index that must be there is")
}

/// A descriptor that names its image for containerd and podman (in full) and for skopeo (by the tag).
pub(crate) fn with_name(image: &Descriptor, name: &Reference) -> Descriptor {
    let mut entry = plain(image);
    let mut annotations = HashMap::from([(NAME.to_owned(), name.to_string())]);
    annotations.extend(name.tag().map(|tag| (ANNOTATION_REF_NAME.to_owned(), tag.to_owned())));
    entry.set_annotations(Some(annotations));
    entry
}

/// What identifies a blob, without what an index says of it.
pub(crate) fn plain(descriptor: &Descriptor) -> Descriptor {
    Descriptor::new(descriptor.media_type().clone(), descriptor.size(), descriptor.digest().clone())
}

pub(super) fn name_of(entry: &Descriptor) -> Option<&String> {
    entry.annotations().as_ref()?.get(NAME)
}

fn named(entry: &Descriptor) -> Option<Named> {
    let name = name_of(entry)?.parse().ok()?;
    Some(Named { name, descriptor: plain(entry) })
}
