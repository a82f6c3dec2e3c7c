//! Which images the parts of a ControlPlane run, and with which credentials they are pulled.

use c5c3_api::blocks::{Image, LocalRef, Repository};
use c5c3_service::image;

use super::cloud::Cloud;
use super::part::Part;

/// The images of servers whose operators choose one themselves. They are named only when a registry is: an operator knows
/// best which version it can run.
pub(super) const MARIADB: &str = "ghcr.io/c5c3/mariadb:11.8.6";
pub(super) const RABBITMQ: &str = "ghcr.io/c5c3/rabbitmq:4.0.5";
pub(super) const OVN: &str = "ghcr.io/c5c3/ovn:25.03.0";
pub(super) const OPENVSWITCH: &str = "ghcr.io/c5c3/openvswitch:3.5.0";
pub(super) const LIBVIRT: &str = image::LIBVIRT;
pub(super) const GUEST: &str = image::GUEST;

/// The images that belong to no release and that a registry must have.
pub const SERVER_IMAGES: [&str; 7] = [super::MEMCACHED_IMAGE, MARIADB, RABBITMQ, OVN, OPENVSWITCH, LIBVIRT, GUEST];

impl Cloud {
    /// The registry that every image comes from; none when each comes from its usual one.
    fn registry(&self) -> Option<&Repository> {
        self.spec.global.as_ref()?.image.as_ref()?.registry.as_ref()
    }

    /// The image of a service; none of one that is not known, for which its operator chooses one.
    pub(super) fn image(&self, part: &Part) -> Option<Image> {
        let usual = image::in_release(self.release, part.name)?;
        Some(Image { repository: self.repository(usual.repository.as_str())?, ..usual })
    }

    /// The image that speaks TLS for a service, if it comes from another registry than usual.
    pub(super) fn tls_image(&self) -> Option<Image> {
        self.registry()?;
        let (repository, tag) = c5c3_service::tls::IMAGE.rsplit_once(':')?;
        Some(Image { repository: self.repository(repository)?, tag: tag.to_owned().try_into().ok(), digest: None })
    }

    /// An image as a pod names it, from the registry if there is one.
    pub(super) fn pulled(&self, usual: &str) -> String {
        self.mirrored(usual).unwrap_or_else(|| usual.to_owned())
    }

    /// An image in the registry; none without one.
    pub(super) fn mirrored(&self, image: &str) -> Option<String> {
        Some(format!("{}/{}", self.registry()?, last(image)))
    }

    fn repository(&self, usual: &str) -> Option<Repository> {
        match self.registry() {
            Some(registry) => Repository::new(format!("{registry}/{}", last(usual))).ok(),
            None => Repository::new(usual).ok(),
        }
    }

    /// The Secrets that images are pulled with.
    pub(super) fn pull_secrets(&self) -> &[LocalRef] {
        let image = self.spec.global.as_ref().and_then(|global| global.image.as_ref());
        image.map(|image| image.pull_secrets.as_slice()).unwrap_or_default()
    }
}

/// The name of an image without its registry.
fn last(image: &str) -> &str {
    image.rsplit('/').next().unwrap_or(image)
}
