//! Releases of OpenStack, with the version of each service in them: the tags of images. `RELEASES` is what the image pipeline
//! builds (`images/releases`), which a test of the whole project holds it to. Which release may be upgraded to which is here,
//! too.

use c5c3_api::{Problem, problem};

use crate::image::Version;

/// A release, and the versions in it.
#[derive(Debug)]
pub struct Release {
    /// Its name, such as `2025.2`.
    pub name: &'static str,
    /// Whether it is a "skip level upgrade release process" release: upstream tests upgrades from one SLURP release to the
    /// next, skipping the one between them.
    pub slurp: bool,
    /// Each service with its version.
    pub versions: &'static [(&'static str, &'static str)],
}

/// The releases that images are built for; the first is what an object gets that names none.
pub const RELEASES: &[Release] = &[
    Release {
        name: "2025.2",
        slurp: false,
        versions: &[
            ("keystone", "28.0.0"),
            ("glance", "31.0.0"),
            ("placement", "14.0.0"),
            ("nova", "32.1.0"),
            ("neutron", "27.0.1"),
            ("cinder", "27.0.0"),
            ("tempest", "45.0.0"),
        ],
    },
    Release {
        name: "2026.1",
        slurp: true,
        versions: &[
            ("keystone", "29.0.0"),
            ("glance", "32.0.0"),
            ("placement", "15.0.0"),
            ("nova", "33.0.0"),
            ("neutron", "28.0.0"),
            ("cinder", "28.0.0"),
            ("tempest", "46.2.0"),
        ],
    },
];

/// Releases that no images are built for, but which a database may be upgraded from or to. A release that leaves `RELEASES`
/// moves here, so that no release is missing between two others.
const NOT_BUILT: &[Release] = &[
    Release {
        name: "2025.1",
        slurp: true,
        versions: &[
            ("keystone", "27.0.0"),
            ("glance", "30.0.0"),
            ("placement", "13.0.0"),
            ("nova", "31.0.0"),
            ("neutron", "26.0.0"),
            ("cinder", "26.0.0"),
        ],
    },
    Release { name: "2026.2", slurp: false, versions: &[] },
];

impl Release {
    /// A release that images are built for.
    pub fn of(name: &str) -> Option<&'static Self> {
        RELEASES.iter().find(|release| release.name == name)
    }

    /// The release of an object that names none.
    pub fn default_release() -> &'static Self {
        &RELEASES[0]
    }

    /// The version of a service; none of one that is not known.
    pub fn version(&self, service: &str) -> Option<&'static str> {
        self.versions.iter().find(|(name, _)| *name == service).map(|(_, version)| *version)
    }

    /// The releases that this one may be upgraded to directly, the nearest first: the next one, and from a SLURP release the
    /// next SLURP release.
    pub fn upgrades_to(&self) -> Vec<&'static Self> {
        let later = in_order().into_iter().filter(|release| release.name > self.name);
        let next_slurp = later.clone().position(|release| release.slurp).unwrap_or_default();
        let allowed = |place: usize| place == 0 || self.slurp && place == next_slurp;
        later.enumerate().filter(|(place, _)| allowed(*place)).map(|(_, release)| release).collect()
    }

    /// The release that has this major version of a service.
    fn with_major(service: &str, major: u32) -> Option<&'static Self> {
        in_order().into_iter().find(|release| release.major(service) == Some(major))
    }

    fn major(&self, service: &str) -> Option<u32> {
        let (_, version) = self.versions.iter().find(|(name, _)| *name == service)?;
        Version::of(version).map(|version| version.major)
    }
}

/// All releases that are known, the oldest first.
fn in_order() -> Vec<&'static Release> {
    let mut releases: Vec<_> = RELEASES.iter().chain(NOT_BUILT).collect();
    releases.sort_by_key(|release| release.name);
    releases
}

/// Whether the database of a service may be upgraded from one version directly to another. Within a major version it always
/// may; a version of no release that is known may be followed by the next major version.
pub fn may_upgrade(service: &str, from: Version, to: Version) -> Result<(), Problem> {
    const FIELD: &str = "spec.image.tag";
    if to.major < from.major {
        let what = format!("is older than {}.x, whose schema the database has", from.major);
        let fix = format!("set it to {}.x, or restore a backup of the database under another object", from.major);
        return Err(problem(FIELD, what, fix));
    }
    let reachable = Release::with_major(service, from.major).map(Release::upgrades_to).unwrap_or_default();
    let majors = reachable.iter().filter_map(|release| release.major(service)).chain([from.major + 1]);
    if to.major == from.major || majors.clone().any(|major| major == to.major) {
        return Ok(());
    }
    let what = format!("skips releases: {}.x cannot be upgraded directly to {}.x", from.major, to.major);
    let nearest = majors.filter(|major| *major < to.major).max().unwrap_or(from.major + 1);
    let name = Release::with_major(service, nearest).map_or_else(String::new, |release| format!(" ({})", release.name));
    Err(problem(FIELD, what, format!("upgrade to {nearest}.x{name} first")))
}

/// The names of all releases, for who asked for another.
pub fn known() -> String {
    RELEASES.iter().map(|release| release.name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(releases: &[&Release]) -> Vec<&'static str> {
        releases.iter().map(|release| release.name).collect()
    }

    #[test]
    fn no_release_is_missing_between_two_others_and_every_second_is_slurp() {
        let known: Vec<_> = in_order().iter().map(|release| (release.name, release.slurp)).collect();
        assert_eq!(known, [("2025.1", true), ("2025.2", false), ("2026.1", true), ("2026.2", false)]);
    }

    #[test]
    fn a_release_goes_to_the_next_and_a_slurp_release_to_the_next_slurp_release() {
        let to = |name: &str| {
            let release = in_order().into_iter().find(|release| release.name == name).unwrap();
            names(&release.upgrades_to())
        };
        assert_eq!(to("2025.1"), ["2025.2", "2026.1"]);
        assert_eq!(to("2025.2"), ["2026.1"]);
        assert_eq!(to("2026.1"), ["2026.2"]);
        assert_eq!(to("2026.2"), [""; 0]);
    }

    #[test]
    fn services_are_upgraded_as_their_releases_are() {
        for (service, from, to, fix) in [
            ("keystone", "28.0.0", "28.1.0", None),
            ("keystone", "28.1.0", "28.0.0", None),
            ("keystone", "27.0.0", "28.0.0", None),
            ("keystone", "27.0.0", "29.0.0", None),
            ("keystone", "28.0.0", "29.0.0", None),
            ("keystone", "29.0.0", "30.0.0", None),
            ("glance", "30.1.0", "32.0.0", None),
            ("placement", "13.0.0", "15.0.0", None),
            ("nova", "31.2.0", "33.0.0", None),
            ("neutron", "26.0.1", "28.0.0", None),
            ("cinder", "26.1.0", "28.0.0", None),
            ("keystone", "27.0.0", "30.0.0", Some("upgrade to 29.x (2026.1) first")),
            ("keystone", "28.0.0", "30.0.0", Some("upgrade to 29.x (2026.1) first")),
            ("keystone", "26.0.0", "28.0.0", Some("upgrade to 27.x (2025.1) first")),
            ("keystone", "20.0.0", "21.0.0", None),
            ("keystone", "20.0.0", "22.0.0", Some("upgrade to 21.x first")),
            ("kestrel", "1.0.0", "2.0.0", None),
            ("kestrel", "1.0.0", "3.0.0", Some("upgrade to 2.x first")),
            (
                "nova",
                "33.0.0",
                "32.0.0",
                Some("set it to 33.x, or restore a backup of the database under another object"),
            ),
        ] {
            let version = |tag: &str| Version::of(tag).unwrap();
            let said = may_upgrade(service, version(from), version(to)).err().map(|problem| problem.fix);
            assert_eq!(said.as_deref(), fix, "{service} {from} -> {to}");
        }
    }
}
