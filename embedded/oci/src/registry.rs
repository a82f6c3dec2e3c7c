//! Registries: images and what refers to them, sent and fetched by the distribution API.
//!
//! Referrers are listed by the registry if it can. One that cannot has them listed under a tag that is made of the
//! image's digest, as the specification has it for such registries.

mod access;
mod pull;
mod push;

use oci_client::Client;
use oci_client::client::{Certificate, CertificateEncoding, ClientConfig, ClientProtocol};
use oci_client::secrets::RegistryAuth;
use oci_spec::distribution::Reference;
use oci_spec::image::{Digest, MediaType};

pub use access::{Access, Credentials};
pub use push::Pushed;

use crate::Error;

/// A registry, as one client may use it.
pub struct Registry {
    client: Client,
    auth: RegistryAuth,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Registry").field("auth", &self.auth).finish_non_exhaustive()
    }
}

impl Registry {
    /// The registry of an image name. Nothing is sent yet.
    pub fn new(name: &Reference, access: Access) -> Result<Self, Error> {
        let registry = name.resolve_registry();
        if access.plain_http && !access::is_loopback(registry) {
            return Err(Error::PlainHttp(registry.to_owned()));
        }
        // The process may have chosen one already, which is the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let protocol = if access.plain_http { ClientProtocol::Http } else { ClientProtocol::Https };
        let authority = access.authority.map(|data| Certificate { encoding: CertificateEncoding::Pem, data });
        let config = ClientConfig {
            protocol,
            extra_root_certificates: authority.into_iter().collect(),
            // Two requests a blob. In pieces it would be many, and not every registry takes those.
            use_monolithic_push: true,
            user_agent: concat!("c5c3/", env!("CARGO_PKG_VERSION")),
            ..ClientConfig::default()
        };
        let client = Client::try_from(config).map_err(Error::registry("set up a client for", name))?;
        Ok(Self { client, auth: access.credentials.into() })
    }

    async fn authenticate(&self, name: &Reference) {
        self.client.store_auth_if_needed(name.resolve_registry(), &self.auth).await;
    }
}

/// A manifest by its digest, in the repository of a name.
fn by_digest(name: &Reference, digest: &Digest) -> Reference {
    let (registry, repository) = (name.registry().to_owned(), name.repository().to_owned());
    Reference::with_digest(registry, repository, digest.to_string())
}

/// The tag under which the referrers of an image are listed where the registry does not do it.
fn referrers_tag(name: &Reference, subject: &Digest) -> Reference {
    tagged(name, subject.to_string().replace(':', "-"))
}

fn tagged(name: &Reference, tag: String) -> Reference {
    Reference::with_tag(name.registry().to_owned(), name.repository().to_owned(), tag)
}

fn is_manifest(media_type: &MediaType) -> bool {
    matches!(media_type, MediaType::ImageManifest | MediaType::ImageIndex)
}
