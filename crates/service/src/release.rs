//! Releases of OpenStack, with the version of each service in them: the tags of images. What is listed here is what the
//! image pipeline builds (`images/releases`), which a test of the whole project holds it to.

/// A release, and the versions in it.
#[derive(Debug)]
pub struct Release {
    /// Its name, such as `2025.2`.
    pub name: &'static str,
    /// Each service with its version.
    pub versions: &'static [(&'static str, &'static str)],
}

/// The releases that images are built for; the first is what an object gets that names none.
pub const RELEASES: &[Release] = &[
    Release {
        name: "2025.2",
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

/// Services of other projects, which build their own images: the same version with every release.
pub const ELSEWHERE: &[(&str, &str)] = &[("cortex", "0.5.0")];

impl Release {
    /// A release that images are built for.
    pub fn of(name: &str) -> Option<&'static Self> {
        RELEASES.iter().find(|release| release.name == name)
    }

    /// The release of an object that names none.
    pub fn usual() -> &'static Self {
        &RELEASES[0]
    }

    /// The version of a service; none of one that is not known.
    pub fn version(&self, service: &str) -> Option<&'static str> {
        self.versions.iter().chain(ELSEWHERE).find(|(name, _)| *name == service).map(|(_, version)| *version)
    }
}

/// The names of all releases, for who asked for another.
pub fn known() -> String {
    RELEASES.iter().map(|release| release.name).collect::<Vec<_>>().join(", ")
}
