//! Sending images.

use bytes::Bytes;
use futures::{Stream, stream};
use http::HeaderValue;
use oci_client::errors::OciDistributionError;
use oci_spec::distribution::Reference;
use oci_spec::image::{Descriptor, ImageIndex};
use std::io::Read as _;

use super::{Registry, by_digest, is_manifest, referrers_tag, tagged};
use crate::content::json;
use crate::layout::index_of;
use crate::{Checked, Error, Layout, signature};

/// What is sent at a time.
const PIECE: usize = 1024 * 1024;

/// What was sent.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Pushed {
    /// How many blobs the registry did not have yet.
    pub blobs: u64,
    /// How many bytes those have.
    pub bytes: u64,
    /// How many referrers the image has there from us.
    pub referrers: u64,
}

impl Registry {
    /// Sends an image to where `to` says, with its referrers. The image is verified before, and gets its tag when all of it
    /// is there.
    pub async fn push(&self, layout: &Layout, image: &Descriptor, to: &Reference) -> Result<Pushed, Error> {
        layout.verify(image)?;
        self.authenticate(to).await;
        let mut pushed = Pushed::default();
        self.push_closure(layout, image, to, &mut pushed).await?;
        self.push_manifest(layout, image, to).await?;
        // A referrer can have referrers of its own.
        let mut subjects = vec![image.clone()];
        while let Some(subject) = subjects.pop() {
            let referrers = layout.referrers(subject.digest())?;
            for referrer in &referrers {
                self.push_closure(layout, referrer, to, &mut pushed).await?;
                self.push_manifest(layout, referrer, &by_digest(to, referrer.digest())).await?;
            }
            self.list_referrers(&subject, &referrers, to).await?;
            self.tag_signature(layout, &subject, &referrers, to).await?;
            pushed.referrers += referrers.len() as u64;
            subjects.extend(referrers);
        }
        Ok(pushed)
    }

    /// Everything that a manifest refers to.
    async fn push_closure(
        &self,
        layout: &Layout,
        root: &Descriptor,
        to: &Reference,
        pushed: &mut Pushed,
    ) -> Result<(), Error> {
        for blob in layout.closure(root)? {
            if blob.digest() == root.digest() {
                continue;
            }
            if is_manifest(blob.media_type()) {
                self.push_manifest(layout, &blob, &by_digest(to, blob.digest())).await?;
            } else if !self.has(&blob, to).await? {
                self.push_blob(layout, &blob, to).await?;
                pushed.blobs += 1;
                pushed.bytes += blob.size();
            }
        }
        Ok(())
    }

    async fn has(&self, blob: &Descriptor, to: &Reference) -> Result<bool, Error> {
        let found = self.client.blob_exists(to, blob.digest().as_ref()).await;
        found.map_err(Error::registry("ask for the blobs of", to))
    }

    async fn push_blob(&self, layout: &Layout, blob: &Descriptor, to: &Reference) -> Result<(), Error> {
        let content = pieces(layout.stream(blob.digest())?);
        let sent = self.client.push_blob_stream(to, content, blob.digest().as_ref(), Some(blob.size())).await;
        sent.map(drop).map_err(Error::registry("send a blob of", to))
    }

    async fn push_manifest(&self, layout: &Layout, manifest: &Descriptor, to: &Reference) -> Result<(), Error> {
        self.put_manifest(layout.read(manifest.digest())?, manifest, to).await
    }

    async fn put_manifest(&self, bytes: Vec<u8>, manifest: &Descriptor, to: &Reference) -> Result<(), Error> {
        let media_type = HeaderValue::try_from(manifest.media_type().to_string())
            .map_err(|error| Error::malformed(format!("the media type of {}", manifest.digest()), &error))?;
        let sent = self.client.push_manifest_raw(to, bytes, media_type).await;
        sent.map(drop).map_err(Error::registry("send the manifest of", to))
    }

    /// Sees to it that an image's referrers are found. Registries with the referrers API list them by themselves; on
    /// others they are missing from the list, and are added to it.
    async fn list_referrers(&self, subject: &Descriptor, ours: &[Descriptor], to: &Reference) -> Result<(), Error> {
        if ours.is_empty() {
            return Ok(());
        }
        let listed = self.referrers(subject.digest(), to).await?;
        let missing = ours.iter().filter(|one| listed.iter().all(|known| known.digest() != one.digest()));
        let missing: Vec<Descriptor> = missing.cloned().collect();
        if missing.is_empty() {
            return Ok(());
        }
        let index: ImageIndex = index_of(listed.into_iter().chain(missing).collect());
        let bytes = json(&index);
        let descriptor =
            Descriptor::new(oci_spec::image::MediaType::ImageIndex, bytes.len() as u64, crate::digest_of(&bytes));
        self.put_manifest(bytes, &descriptor, &referrers_tag(to, subject.digest())).await
    }

    /// Gives a signature the tag by which older versions of cosign look for it. There is one tag, so of several the last
    /// gets it.
    async fn tag_signature(
        &self,
        layout: &Layout,
        subject: &Descriptor,
        referrers: &[Descriptor],
        to: &Reference,
    ) -> Result<(), Error> {
        let is_signature = |referrer: &&Descriptor| {
            referrer.artifact_type().as_ref().is_some_and(|kind| kind.to_string() == signature::ARTIFACT_TYPE)
        };
        let Some(last) = referrers.iter().rfind(is_signature) else { return Ok(()) };
        let tag = format!("{}.sig", subject.digest().to_string().replace(':', "-"));
        self.push_manifest(layout, last, &tagged(to, tag)).await
    }
}

/// A blob, piece by piece, read where reading may wait.
fn pieces(blob: Checked) -> impl Stream<Item = Result<Bytes, OciDistributionError>> + Send + 'static {
    stream::try_unfold(blob, |mut blob| async move {
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; PIECE];
            let length = blob.read(&mut piece)?;
            piece.truncate(length);
            Ok::<_, std::io::Error>((piece, blob))
        });
        let (piece, blob) = read.await.map_err(std::io::Error::other)??;
        Ok(if piece.is_empty() { None } else { Some((Bytes::from(piece), blob)) })
    })
}
