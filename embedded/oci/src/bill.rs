//! Bills of materials: what is in an image, from where, under which licence, changed how.
//!
//! A [`Bill`] is read from the image's own files, so it says what is there and not what was meant to be: Debian packages
//! from dpkg's database, with the licences that their copyright files name in machine-readable form; Python packages from
//! their metadata. What files cannot tell, such as the hashes of a lock and the patches that were applied, is given as
//! [`Provenance`]. Documents are made of the bill alone, without random numbers and without the clock.

mod cyclonedx;
mod debian;
mod files;
mod licence;
mod python;
mod spdx;

use std::collections::BTreeMap;

use oci_spec::distribution::Reference;
use oci_spec::image::{ANNOTATION_TITLE, Descriptor, Digest};
use serde::{Deserialize, Serialize};

pub use licence::Licence;

use crate::content::json;
use crate::{Artifact, Error, Layout};

/// What an image is made of.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Bill {
    /// The image's name.
    pub name: Reference,
    /// Its digest.
    pub digest: Digest,
    /// When it was made, as it says itself.
    pub created: String,
    /// Which distribution its files are of.
    pub distribution: Distribution,
    /// What is installed in it.
    pub packages: Vec<Package>,
}

/// A distribution, as `os-release` says.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Distribution {
    /// Such as `debian`; empty if the image does not say.
    pub id: String,
    /// Such as `13`.
    pub version: String,
}

/// Something that is installed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Package {
    /// What installed it.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Under which licences; all of them apply. Empty if it does not say so in a way that programs can read.
    pub licences: Vec<Licence>,
    /// The SHA-256 hashes of the files of which one was installed, in hexadecimal.
    pub hashes: Vec<String>,
    /// Who makes it available.
    pub supplier: Option<String>,
    /// Where to read about it.
    pub website: Option<String>,
    /// What was changed in it.
    pub patches: Vec<Patch>,
    /// Which constraint on its version was overridden, and how.
    pub constraint_override: Option<String>,
}

/// What installed a package.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Kind {
    /// dpkg, from a distribution.
    Debian {
        /// For which architecture.
        architecture: String,
        /// The source package that it was built from.
        source: String,
    },
    /// An installer of Python packages.
    #[default]
    Python,
}

/// What is known of an image's packages beside what its files say: of Python packages, by name.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Provenance(BTreeMap<String, Origin>);

/// Where a package comes from.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Origin {
    /// The SHA-256 hashes that its lock allows, in hexadecimal.
    pub hashes: Vec<String>,
    /// What was changed in it.
    pub patches: Vec<Patch>,
    /// Which constraint on its version was overridden, and how.
    pub constraint_override: Option<String>,
}

/// A change to a package.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Patch {
    /// Where it is, relative to the definitions of images.
    pub file: String,
    /// The digest of the file.
    pub digest: Digest,
    /// Whether a later version has it.
    #[serde(default)]
    pub backport: bool,
    /// Which defects it mends, by their names.
    #[serde(default)]
    pub resolves: Vec<String>,
}

impl Provenance {
    /// Says where a package comes from.
    pub fn insert(&mut self, package: &str, origin: Origin) {
        self.0.insert(python::normalised(package), origin);
    }

    fn of(&self, package: &str) -> Option<&Origin> {
        self.0.get(&python::normalised(package))
    }
}

/// How a bill of materials is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Format {
    /// CycloneDX 1.6, as JSON.
    CycloneDx,
    /// SPDX 2.3, as JSON.
    Spdx,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 2] = [Self::CycloneDx, Self::Spdx];

    /// What such a document is among the referrers of an image.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::CycloneDx => "application/vnd.cyclonedx+json",
            Self::Spdx => "application/spdx+json",
        }
    }

    fn is_that_of(self, referrer: &Descriptor) -> bool {
        referrer.artifact_type().as_ref().is_some_and(|kind| kind.to_string() == self.media_type())
    }

    fn file(self) -> &'static str {
        match self {
            Self::CycloneDx => "bom.cdx.json",
            Self::Spdx => "bom.spdx.json",
        }
    }
}

impl Bill {
    /// Reads what an image is made of from its layers.
    pub fn of(layout: &Layout, name: &Reference, image: &Descriptor, known: &Provenance) -> Result<Self, Error> {
        let manifest = layout.manifest(image)?;
        let configuration = layout.configuration(&manifest)?;
        let files = files::Files::read(layout, &manifest, |path| debian::is_read(path) || python::is_read(path))?;
        let mut packages = debian::packages(&files);
        packages.extend(python::packages(&files, known));
        packages.sort_by_key(Package::purl);
        packages.dedup_by_key(|package| package.purl());
        let distribution = debian::distribution(&files);
        let created = configuration.created().clone().unwrap_or_else(|| "1970-01-01T00:00:00Z".to_owned());
        Ok(Self { name: name.clone(), digest: image.digest().clone(), created, distribution, packages })
    }

    /// The bill as a document; the same bill always gives the same bytes.
    pub fn document(&self, format: Format) -> Vec<u8> {
        match format {
            Format::CycloneDx => json(&cyclonedx::document(self)),
            Format::Spdx => json(&spdx::document(self)),
        }
    }

    /// Attaches bills to an image in the formats in which it has none yet. Only then are its layers read.
    pub fn furnish(layout: &Layout, name: &Reference, image: &Descriptor, known: &Provenance) -> Result<(), Error> {
        let missing = Self::missing(layout, image.digest())?;
        if missing.is_empty() {
            return Ok(());
        }
        let bill = Self::of(layout, name, image, known)?;
        missing.into_iter().try_for_each(|format| bill.attach(layout, image, format).map(drop))
    }

    /// Attaches the bill to its image, in a format.
    pub fn attach(&self, layout: &Layout, image: &Descriptor, format: Format) -> Result<Descriptor, Error> {
        let artifact = Artifact {
            artifact_type: format.media_type().to_owned(),
            media_type: format.media_type().to_owned(),
            content: self.document(format),
            annotations: BTreeMap::from([(ANNOTATION_TITLE.to_owned(), format.file().to_owned())]),
        };
        layout.attach(image, artifact)
    }

    /// The formats in which nothing is attached to an image yet.
    pub fn missing(layout: &Layout, image: &Digest) -> Result<Vec<Format>, Error> {
        let referrers = layout.referrers(image)?;
        Ok(Format::ALL.into_iter().filter(|format| !referrers.iter().any(|one| format.is_that_of(one))).collect())
    }

    /// The bill that is attached to an image in a format, if there is one.
    pub fn attached(layout: &Layout, image: &Digest, format: Format) -> Result<Option<Vec<u8>>, Error> {
        let referrers = layout.referrers(image)?;
        let found = referrers.iter().find(|referrer| format.is_that_of(referrer));
        Ok(found.map(|referrer| layout.artifact(referrer)).transpose()?.map(|artifact| artifact.content))
    }

    /// The image's name as a package URL.
    fn purl(&self) -> String {
        let last = self.name.repository().rsplit('/').next().unwrap_or_default();
        let repository = escaped(&format!("{}/{}", self.name.registry(), self.name.repository()));
        let tag = self.name.tag().map(|tag| format!("&tag={}", escaped(tag))).unwrap_or_default();
        format!("pkg:oci/{}@{}?repository_url={repository}{tag}", escaped(last), escaped(self.digest.as_ref()))
    }
}

impl Package {
    /// The package's name in the way that scanners of vulnerabilities use.
    fn purl(&self) -> String {
        let version = escaped(&self.version);
        match &self.kind {
            Kind::Debian { architecture, source } => {
                let upstream =
                    if *source == self.name { String::new() } else { format!("&upstream={}", escaped(source)) };
                format!("pkg:deb/debian/{}@{version}?arch={architecture}{upstream}", escaped(&self.name))
            }
            Kind::Python => format!("pkg:pypi/{}@{version}", escaped(&python::normalised(&self.name))),
        }
    }
}

/// Text as a part of a URL.
fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |escaped, byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => escaped + &char::from(byte).to_string(),
        _ => format!("{escaped}%{byte:02X}"),
    })
}
