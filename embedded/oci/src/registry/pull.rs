//! Fetching images.

use std::io::Write as _;

use futures::TryStreamExt as _;
use oci_spec::distribution::Reference;
use oci_spec::image::{Descriptor, Digest, ImageIndex, MediaType};
use serde::Deserialize;

use super::{Registry, by_digest, is_manifest};
use crate::layout::plain;
use crate::{Error, Layout, digest_of};

/// What is asked for when a name is fetched.
const MANIFESTS: [&str; 2] = ["application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json"];

/// The part of a manifest or an index that says which of both it is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kind {
    media_type: Option<MediaType>,
}

impl Registry {
    /// Fetches an image with its referrers into a store. Every blob is checked against its digest; those that are there
    /// are not fetched. The image has no name in the store yet.
    pub async fn pull(&self, layout: &Layout, from: &Reference) -> Result<Descriptor, Error> {
        self.authenticate(from).await;
        let image = self.pull_manifest(layout, from).await?;
        self.pull_closure(layout, &image, from).await?;
        let mut subjects = vec![image.digest().clone()];
        while let Some(subject) = subjects.pop() {
            for referrer in self.referrers(&subject, from).await? {
                self.pull_manifest(layout, &by_digest(from, referrer.digest())).await?;
                self.pull_closure(layout, &referrer, from).await?;
                layout.refer(&plain(&referrer))?;
                subjects.push(referrer.digest().clone());
            }
        }
        Ok(image)
    }

    /// What refers to an image, as the registry says.
    pub(super) async fn referrers(&self, subject: &Digest, at: &Reference) -> Result<Vec<Descriptor>, Error> {
        let listed = self.client.pull_referrers(&by_digest(at, subject), None).await;
        let listed = listed.map_err(Error::registry("list the referrers of", at))?;
        // The client has types of its own for the same documents.
        let malformed = |error| Error::malformed(format!("the list of referrers of {subject}"), &error);
        let index: ImageIndex = serde_json::to_value(&listed).and_then(serde_json::from_value).map_err(malformed)?;
        Ok(index.manifests().clone())
    }

    async fn pull_manifest(&self, layout: &Layout, from: &Reference) -> Result<Descriptor, Error> {
        let pulled = self.client.pull_manifest_raw(from, &self.auth, &MANIFESTS).await;
        let (bytes, _) = pulled.map_err(Error::registry("fetch", from))?;
        let found = digest_of(&bytes);
        if let Some(expected) = from.digest().filter(|expected| *expected != found.as_ref()) {
            let expected = expected.parse().map_err(|error| Error::malformed(from.to_string(), &error))?;
            return Err(Error::Digest { expected, found });
        }
        let kind: Kind = serde_json::from_slice(&bytes)
            .map_err(|error| Error::malformed(format!("the manifest of {from}"), &error))?;
        match kind.media_type.unwrap_or(MediaType::ImageManifest) {
            known if is_manifest(&known) => layout.put(known, &bytes),
            other => Err(Error::malformed(format!("the manifest of {from}"), &format!("it is of the type {other}"))),
        }
    }

    /// Everything that a manifest in the store refers to.
    async fn pull_closure(&self, layout: &Layout, root: &Descriptor, from: &Reference) -> Result<(), Error> {
        let mut open = layout.children(root)?;
        while let Some(blob) = open.pop() {
            if is_manifest(blob.media_type()) {
                self.pull_manifest(layout, &by_digest(from, blob.digest())).await?;
                open.extend(layout.children(&blob)?);
            } else if !layout.contains(blob.digest()) {
                self.pull_blob(layout, &blob, from).await?;
            }
        }
        Ok(())
    }

    async fn pull_blob(&self, layout: &Layout, blob: &Descriptor, from: &Reference) -> Result<(), Error> {
        let failed = || Error::registry("fetch a blob of", from);
        let mut content = self.client.pull_blob_stream(from, blob.digest().as_ref()).await.map_err(failed())?;
        let mut writer = layout.writer()?;
        while let Some(piece) = content.stream.try_next().await.map_err(|error| failed()(error.into()))? {
            writer.write_all(&piece).map_err(Error::file("write a blob into", layout.root()))?;
        }
        writer.commit_as(blob.digest()).map(drop)
    }
}
