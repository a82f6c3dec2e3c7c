//! Which version of each service an OpenStack release has: the tags of the images.

use c5c3_api::blocks::{Image, Repository, Tag};

/// Where images come from.
const REGISTRY: &str = "ghcr.io/c5c3";

/// The version of Memcached, which belongs to no release.
const MEMCACHED: &str = "1.6.38";

/// A release, and the versions in it.
struct Release {
    name: &'static str,
    versions: &'static [(&'static str, &'static str)],
}

/// The releases that images are built for.
const RELEASES: &[Release] = &[Release {
    name: "2025.2",
    versions: &[
        ("keystone", "28.0.0"),
        ("glance", "31.0.0"),
        ("placement", "14.0.0"),
        ("nova", "32.1.0"),
        ("neutron", "27.0.1"),
        ("cinder", "27.0.0"),
        ("cortex", "0.5.0"),
        ("tempest", "41.0.0"),
    ],
}];

/// The names of the releases, for who asked for another.
pub(crate) fn known() -> String {
    RELEASES.iter().map(|release| release.name).collect::<Vec<_>>().join(", ")
}

/// The images of one release: proof that there is such a release.
#[derive(Clone, Copy)]
pub(crate) struct Images(&'static Release);

impl Images {
    /// The images of a release that there is.
    pub(crate) fn of(release: &str) -> Option<Self> {
        RELEASES.iter().find(|known| known.name == release).map(Images)
    }

    /// The version of a service.
    pub(crate) fn version(self, service: &str) -> Option<&'static str> {
        self.0.versions.iter().find(|(name, _)| *name == service).map(|(_, version)| *version)
    }

    /// The image of a service; its operator chooses one when absent.
    pub(crate) fn image(self, service: &str) -> Option<Image> {
        let tag = Tag::new(self.version(service)?).ok()?;
        let repository = Repository::new(format!("{REGISTRY}/{service}")).ok()?;
        Some(Image { repository, tag: Some(tag), digest: None })
    }
}

/// The image of Memcached.
pub(crate) fn memcached() -> String {
    format!("{REGISTRY}/memcached:{MEMCACHED}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_is_a_tag_and_an_unknown_release_has_none() {
        for release in RELEASES {
            let images = Images::of(release.name).unwrap();
            for (service, version) in release.versions {
                let image = images.image(service).map(|image| image.reference());
                assert_eq!(image.as_deref(), Some(format!("ghcr.io/c5c3/{service}:{version}").as_str()));
            }
        }
        assert!(Images::of("2031.1").is_none());
    }
}
