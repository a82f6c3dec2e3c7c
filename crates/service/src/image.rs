//! Images and the versions that their tags name.

use c5c3_api::blocks::{Image, Repository, Tag};

use crate::release::Release;

/// Where images of ours are.
const REGISTRY: &str = "ghcr.io/c5c3";

/// The image of libvirt and QEMU on hypervisors, which belongs to no release of OpenStack.
pub const LIBVIRT: &str = "ghcr.io/c5c3/libvirt:11.3.0";

/// The image of a tiny guest, which hypervisors boot to find out whether KVM works.
pub const GUEST: &str = "ghcr.io/c5c3/guest:6.12.117";

/// The version of a service, as upstream counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Goes up with each release of OpenStack.
    pub major: u32,
    minor: u32,
    patch: u32,
}

impl Version {
    /// The version that a tag begins with: `28.0.0`, `28.0.0-p1`; none of a branch or a commit.
    pub fn of(tag: &str) -> Option<Self> {
        let mut numbers = tag.split('-').next()?.splitn(3, '.').map(str::parse::<u32>);
        let mut number = || numbers.next()?.ok();
        Some(Self { major: number()?, minor: number()?, patch: number()? })
    }

    /// The release of OpenStack that a service of this version is of. Each adds one to its major version, listed or not.
    pub fn release(self, service: &str) -> Option<String> {
        let usual = Release::default_release();
        let (year, half) = usual.name.split_once('.')?;
        let known = Self::of(usual.version(service)?)?.major;
        // Two releases a year, counted from the first of year 0.
        let usual = year.parse::<i64>().ok()? * 2 + half.parse::<i64>().ok()? - 1;
        let halves = usual + i64::from(self.major) - i64::from(known);
        Some(format!("{}.{}", halves / 2, halves % 2 + 1))
    }
}

/// The image of a service in a release; none of a service that is not known.
pub fn in_release(release: &Release, service: &str) -> Option<Image> {
    let tag = Tag::new(release.version(service)?).ok()?;
    let repository = Repository::new(format!("{REGISTRY}/{service}")).ok()?;
    Some(Image { repository, tag: Some(tag), digest: None })
}

/// The image of a spec. Without one it is that of the version that is installed, so that a new operator upgrades nothing by
/// itself; and of the usual release where nothing is installed.
pub fn of(service: &str, spec: Option<&Image>, installed: Option<&str>) -> String {
    let unasked = || format!("{REGISTRY}/{service}:{}", unasked_tag(service, installed));
    spec.map_or_else(unasked, Image::reference)
}

/// The tag of the same image; none of an image that is named by digest.
pub fn tag(service: &str, spec: Option<&Image>, installed: Option<&str>) -> Option<String> {
    match spec {
        Some(image) => image.tag.as_ref().map(ToString::to_string),
        None => Some(unasked_tag(service, installed).to_owned()),
    }
}

fn unasked_tag<'a>(service: &str, installed: Option<&'a str>) -> &'a str {
    installed.filter(|tag| Version::of(tag).is_some()).unwrap_or_else(|| usual_tag(service))
}

/// An operator's service is in the list; another one gets a tag that is not built.
fn usual_tag(service: &str) -> &'static str {
    Release::default_release().version(service).unwrap_or("0.0.0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::RELEASES;

    #[test]
    fn a_version_names_a_release() {
        let release = |service: &str, tag: &str| Version::of(tag).and_then(|version| version.release(service));
        assert_eq!(release("keystone", "28.0.0").as_deref(), Some("2025.2"));
        assert_eq!(release("keystone", "27.0.0-p1").as_deref(), Some("2025.1"));
        assert_eq!(release("nova", "33.1.2").as_deref(), Some("2026.1"));
        assert_eq!(release("nova", "stable-2025.2"), None);
        assert_eq!(release("nova", "a1b2c3d"), None);
    }

    #[test]
    fn an_image_that_no_spec_names_is_of_the_usual_release() {
        assert_eq!(of("nova", None, None), "ghcr.io/c5c3/nova:32.1.0");
        assert_eq!(tag("neutron", None, None).as_deref(), Some("27.0.1"));
    }

    #[test]
    fn a_new_operator_upgrades_nothing_that_names_no_image() {
        assert_eq!(of("nova", None, Some("31.0.0")), "ghcr.io/c5c3/nova:31.0.0");
        assert_eq!(tag("nova", None, Some("stable-2025.1")).as_deref(), Some("32.1.0"), "a branch is no version");
    }

    #[test]
    fn every_service_of_a_release_has_an_image_whose_tag_is_its_version() {
        for release in RELEASES {
            for (service, version) in release.versions {
                let image = in_release(release, service).map(|image| image.reference());
                assert_eq!(image, Some(format!("ghcr.io/c5c3/{service}:{version}")));
            }
            let keystone = Version::of(release.version("keystone").unwrap()).unwrap();
            assert_eq!(keystone.release("keystone").as_deref(), Some(release.name));
        }
        assert!(in_release(Release::default_release(), "kestrel").is_none());
    }
}
