//! Signatures with a key, as cosign writes them.
//!
//! What is signed is a small document that names the image by its digest ("simple signing"), with ECDSA on the curve P-256
//! and SHA-256. Document and signature are attached to the image as a referrer. Keys are PEM: PKCS #8 and SPKI, which
//! `openssl`, and `cosign import-key-pair` and `cosign verify --key`, read. Certificates, transparency logs and keyless
//! signing are not here.

mod key;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use oci_spec::distribution::Reference;
use oci_spec::image::{Descriptor, Digest};
use serde::{Deserialize, Serialize};

pub use key::{PublicKey, SigningKey};

use crate::content::json;
use crate::{Artifact, Error, Layout};

/// What a signature is among the referrers of an image.
pub const ARTIFACT_TYPE: &str = "application/vnd.dev.cosign.artifact.sig.v1+json";
const MEDIA_TYPE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
const PAYLOAD_TYPE: &str = "cosign container image signature";

/// The document that is signed.
#[derive(Debug, Deserialize, Serialize)]
struct Payload {
    critical: Critical,
    /// cosign writes this, with whatever its users add.
    optional: Option<BTreeMap<String, serde_json::Value>>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Critical {
    identity: Identity,
    image: Image,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Identity {
    docker_reference: String,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Image {
    docker_manifest_digest: String,
}

impl Payload {
    fn new(name: &Reference, image: &Digest) -> Self {
        let repository = format!("{}/{}", name.registry(), name.repository());
        Self {
            critical: Critical {
                identity: Identity { docker_reference: repository },
                image: Image { docker_manifest_digest: image.to_string() },
                kind: PAYLOAD_TYPE.to_owned(),
            },
            optional: None,
        }
    }
}

/// Signs an image that has this name, and attaches the signature to it. One that is there by the same key stays the only
/// one, since each signature has other bytes.
pub fn sign(layout: &Layout, name: &Reference, key: &SigningKey) -> Result<Descriptor, Error> {
    let image = layout.resolve(name)?;
    let public = key.public();
    for (referrer, artifact) in signatures(layout, image.digest())? {
        if signed_name(&artifact, image.digest(), &public).is_some() {
            return Ok(referrer);
        }
    }
    let content = json(&Payload::new(name, image.digest()));
    let signature = BASE64_STANDARD.encode(key.sign(&content));
    let artifact = Artifact {
        artifact_type: ARTIFACT_TYPE.to_owned(),
        media_type: MEDIA_TYPE.to_owned(),
        content,
        annotations: BTreeMap::from([(SIGNATURE.to_owned(), signature)]),
    };
    layout.attach(&image, artifact)
}

/// Checks that an image is signed by a key; the name under which it was. The image's content is not looked at: that is
/// what [`Layout::verify`] does.
pub fn verify(layout: &Layout, image: &Descriptor, key: &PublicKey) -> Result<String, Error> {
    let signatures = signatures(layout, image.digest())?;
    let names = signatures.iter().filter_map(|(_, artifact)| signed_name(artifact, image.digest(), key));
    names.into_iter().next().ok_or_else(|| match signatures.len() {
        0 => Error::Unsigned(image.digest().clone()),
        signatures => Error::Signature { image: image.digest().clone(), signatures },
    })
}

fn signatures(layout: &Layout, image: &Digest) -> Result<Vec<(Descriptor, Artifact)>, Error> {
    let of_type = |referrer: &Descriptor| {
        referrer.artifact_type().as_ref().is_some_and(|artifact_type| artifact_type.to_string() == ARTIFACT_TYPE)
    };
    let referrers = layout.referrers(image)?.into_iter().filter(of_type);
    referrers.map(|referrer| Ok((referrer.clone(), layout.artifact(&referrer)?))).collect()
}

/// The name in a signature, if it is one of this image by this key.
fn signed_name(artifact: &Artifact, image: &Digest, key: &PublicKey) -> Option<String> {
    let signature = BASE64_STANDARD.decode(artifact.annotations.get(SIGNATURE)?).ok()?;
    if !key.verifies(&artifact.content, &signature) {
        return None;
    }
    let critical = serde_json::from_slice::<Payload>(&artifact.content).ok()?.critical;
    let of_this = critical.kind == PAYLOAD_TYPE && critical.image.docker_manifest_digest == image.as_ref();
    of_this.then_some(critical.identity.docker_reference)
}
