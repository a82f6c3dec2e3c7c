//! Images and the versions that their tags name.

use c5c3_api::blocks::Image;

/// The release that the tables below are about.
const RELEASE: (u32, u32) = (2025, 2);

/// The major version of each service in [`RELEASE`]; each release since has added one.
const MAJORS: &[(&str, u32)] =
    &[("keystone", 28), ("glance", 31), ("placement", 14), ("nova", 32), ("neutron", 27), ("cinder", 27)];

/// Where images of ours are.
const REGISTRY: &str = "ghcr.io/c5c3";

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

    /// The release of OpenStack that a service of this version is of.
    pub fn release(self, service: &str) -> Option<String> {
        let known = i64::from(MAJORS.iter().find(|(name, _)| *name == service)?.1);
        // Two releases a year, counted from the first of year 0.
        let halves = i64::from(RELEASE.0 * 2 + RELEASE.1 - 1) + i64::from(self.major) - known;
        Some(format!("{}.{}", halves / 2, halves % 2 + 1))
    }
}

/// The image of a spec, or the one of the release that this operator is made for.
pub fn of(service: &str, spec: Option<&Image>) -> String {
    spec.map_or_else(|| format!("{REGISTRY}/{service}:{}", default_tag(service)), Image::reference)
}

/// The tag of a spec's image, or of the default one; none of an image that is named by digest.
pub fn tag(service: &str, spec: Option<&Image>) -> Option<String> {
    match spec {
        Some(image) => image.tag.as_ref().map(ToString::to_string),
        None => Some(default_tag(service)),
    }
}

fn default_tag(service: &str) -> String {
    let major = MAJORS.iter().find(|(name, _)| *name == service).map_or(0, |(_, major)| *major);
    format!("{major}.0.0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_names_a_release() {
        let release = |service: &str, tag: &str| Version::of(tag).and_then(|version| version.release(service));
        assert_eq!(release("keystone", "28.0.0").as_deref(), Some("2025.2"));
        assert_eq!(release("keystone", "27.0.0-p1").as_deref(), Some("2025.1"));
        assert_eq!(release("nova", "33.1.2").as_deref(), Some("2026.1"));
        assert_eq!(release("nova", "stable-2025.2"), None);
        assert_eq!(release("nova", "a1b2c3d"), None);
    }
}
