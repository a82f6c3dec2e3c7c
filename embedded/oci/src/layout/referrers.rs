//! What is said of images by others: bills of materials, signatures.

use std::collections::{BTreeMap, HashMap};

use oci_spec::image::{Descriptor, Digest, ImageManifest, ImageManifestBuilder, MediaType};

use super::Layout;
use super::index::plain;
use crate::Error;

/// A document about an image.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// What it is, for who looks for one of its kind.
    pub artifact_type: String,
    /// How its content is written.
    pub media_type: String,
    /// The document.
    pub content: Vec<u8>,
    /// What is said of the document itself: stands on its manifest, and on the descriptor of its content.
    pub annotations: BTreeMap<String, String>,
}

impl Layout {
    /// Puts a document about an image into the store; the descriptor of its manifest. The same one twice is one.
    pub fn attach(&self, subject: &Descriptor, artifact: Artifact) -> Result<Descriptor, Error> {
        let config = self.put(MediaType::EmptyJSON, b"{}")?;
        let mut content = self.put(MediaType::from(artifact.media_type.as_str()), &artifact.content)?;
        let annotations: HashMap<_, _> = artifact.annotations.into_iter().collect();
        content.set_annotations(Some(annotations.clone()));
        let artifact_type = MediaType::from(artifact.artifact_type.as_str());
        let manifest = ImageManifestBuilder::default()
            .schema_version(2u32)
            .media_type(MediaType::ImageManifest)
            .artifact_type(artifact_type)
            .config(config)
            .layers(vec![content])
            .subject(plain(subject))
            .annotations(annotations)
            .build()
            .expect("every field of a manifest that must be there is");
        let descriptor = self.put_document(MediaType::ImageManifest, &manifest)?;
        self.refer(&descriptor)
    }

    /// Remembers that a manifest of the store refers to another.
    pub fn refer(&self, referrer: &Descriptor) -> Result<Descriptor, Error> {
        let manifest = self.manifest(referrer)?;
        let entry = described(referrer, &manifest);
        let kept = entry.clone();
        self.change(|entries| {
            if entries.iter().all(|known| known.digest() != kept.digest()) {
                entries.push(kept);
            }
        })?;
        Ok(entry)
    }

    /// What refers to a manifest, with its kind and annotations.
    pub fn referrers(&self, subject: &Digest) -> Result<Vec<Descriptor>, Error> {
        let mut referrers = Vec::new();
        for entry in self.index()?.manifests() {
            if self.subject(entry)?.is_some_and(|of| of.digest() == subject) {
                referrers.push(entry.clone());
            }
        }
        Ok(referrers)
    }

    /// The document of a referrer.
    pub fn artifact(&self, referrer: &Descriptor) -> Result<Artifact, Error> {
        let manifest = self.manifest(referrer)?;
        let [content] = manifest.layers().as_slice() else {
            let why = format!("it has {} documents instead of one", manifest.layers().len());
            return Err(Error::malformed(format!("the referrer {}", referrer.digest()), &why));
        };
        Ok(Artifact {
            artifact_type: artifact_type(&manifest).to_string(),
            media_type: content.media_type().to_string(),
            content: self.read(content.digest())?,
            annotations: content.annotations().clone().unwrap_or_default().into_iter().collect(),
        })
    }

    /// What an entry of the index refers to, if it is one that does.
    pub(super) fn subject(&self, entry: &Descriptor) -> Result<Option<Descriptor>, Error> {
        match entry.media_type() {
            MediaType::ImageManifest => Ok(self.manifest(entry)?.subject().clone()),
            _ => Ok(None),
        }
    }
}

/// A referrer as registries list it: with what it is and what is said of it.
pub(crate) fn described(referrer: &Descriptor, manifest: &ImageManifest) -> Descriptor {
    let mut entry = plain(referrer);
    entry.set_artifact_type(Some(artifact_type(manifest).clone()));
    entry.set_annotations(manifest.annotations().clone().filter(|annotations| !annotations.is_empty()));
    entry
}

/// What a manifest is: by itself, or in the older way by its configuration.
fn artifact_type(manifest: &ImageManifest) -> &MediaType {
    manifest.artifact_type().as_ref().unwrap_or_else(|| manifest.config().media_type())
}
