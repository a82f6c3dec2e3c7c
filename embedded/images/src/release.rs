//! What a release of OpenStack puts into images: sources, extra packages, overrides, patches.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::catalogue::Catalogue;
use crate::patch::Patch;
use crate::strays;
use crate::version::normal;

/// The name of the overrides that are no single image's.
pub(crate) const FOR_ALL: &str = "constraints";

/// A release, as its folder has it.
#[derive(Clone, Debug)]
pub struct Release {
    /// Its name, such as `2025.2`.
    pub name: String,
    /// What is published later gets into no lock.
    pub cutoff: String,
    sources: BTreeMap<String, Source>,
    extras: BTreeMap<String, Extras>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sources {
    cutoff: String,
    images: BTreeMap<String, Source>,
}

/// Where the main package of an image comes from.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Its name on PyPI.
    pub package: String,
    /// Its version, which is the image's.
    pub version: String,
    /// Its own cut-off, for one that was published after the release's.
    pub cutoff: Option<String>,
}

/// What an image of a release has beside what its definition says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Extras {
    /// Extras of the main package.
    pub pip_extras: Vec<String>,
    /// Packages of PyPI.
    pub pip_packages: Vec<String>,
    /// Debian packages.
    pub apt_packages: Vec<String>,
}

/// A version that is chosen against what packages ask for.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub enum Override {
    /// This version and no other.
    Pin {
        /// The package, in its normal spelling.
        package: String,
        /// The version.
        version: String,
    },
    /// Not at all.
    Remove {
        /// The package, in its normal spelling.
        package: String,
    },
}

impl Override {
    /// What it is about.
    pub fn package(&self) -> &str {
        match self {
            Self::Pin { package, .. } | Self::Remove { package } => package,
        }
    }
}

impl Release {
    pub(crate) fn read(catalogue: &Catalogue, name: &str) -> Result<Self, Error> {
        let sources: Sources = yaml(catalogue, &format!("releases/{name}/sources.yaml"))?;
        let extras = format!("releases/{name}/extra-packages.yaml");
        let extras = if catalogue.file(&extras).is_some() { yaml(catalogue, &extras)? } else { BTreeMap::new() };
        let release = Self { name: name.to_owned(), cutoff: sources.cutoff, sources: sources.images, extras };
        strays::refuse(catalogue, &release)?;
        Ok(release)
    }

    /// The images that have a source.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &str> {
        self.sources.keys().map(String::as_str)
    }

    /// The images that have something beside their definitions, with it.
    pub(crate) fn all_extras(&self) -> impl Iterator<Item = (&str, &Extras)> {
        self.extras.iter().map(|(image, extras)| (image.as_str(), extras))
    }

    /// Where the main package of an image comes from.
    pub fn source(&self, image: &str) -> Result<&Source, Error> {
        let file = || format!("releases/{}/sources.yaml", self.name);
        self.sources.get(image).ok_or_else(|| Error::definition(file(), format!("it has no source for {image}")))
    }

    /// What an image has beside its definition.
    pub fn extras(&self, image: &str) -> Extras {
        self.extras.get(image).cloned().unwrap_or_default()
    }

    /// The file of an image's Python lock.
    pub fn lock_file(&self, image: &str) -> String {
        format!("releases/{}/locks/{image}.txt", self.name)
    }

    /// What the lock of an image must have: the image's own overrides, then those of all images.
    pub fn overrides(&self, catalogue: &Catalogue, image: &str) -> Result<Vec<Override>, Error> {
        let mut found: Vec<Override> = Vec::new();
        for change in [image, FOR_ALL].map(|name| self.overrides_of(catalogue, name)) {
            for change in change? {
                if found.iter().all(|known| known.package() != change.package()) {
                    found.push(change);
                }
            }
        }
        Ok(found)
    }

    /// The overrides of one file: an image's own, or those of all.
    pub(crate) fn overrides_of(&self, catalogue: &Catalogue, name: &str) -> Result<Vec<Override>, Error> {
        let file = self.overrides_file(name);
        let text = catalogue.file(&file).unwrap_or_default();
        parse_overrides(text).map_err(|reason| Error::definition(file, reason))
    }

    /// Where the overrides of an image are, or of all.
    pub(crate) fn overrides_file(&self, name: &str) -> String {
        format!("releases/{}/overrides/{name}.txt", self.name)
    }

    /// The cut-offs of packages that have one of their own.
    pub fn cutoffs(&self, image: &str) -> Result<Vec<(String, String)>, Error> {
        let source = self.source(image)?;
        Ok(source.cutoff.iter().map(|cutoff| (source.package.clone(), cutoff.clone())).collect())
    }

    /// The patches of an image in their order: those of the libraries that it has, then its own.
    pub fn patches(&self, catalogue: &Catalogue, image: &str, has: impl Fn(&str) -> bool) -> Vec<Patch> {
        let mut patches = Vec::new();
        let mut found = |kind: &str, is_for: &dyn Fn(&str) -> bool| {
            let folder = format!("releases/{}/patches/{kind}", self.name);
            for path in catalogue.below(&folder) {
                if let Some((of, name)) = path.split_once('/').filter(|(of, name)| is_patch(name) && is_for(of)) {
                    let text = catalogue.file(&format!("{folder}/{path}")).unwrap_or_default().to_owned();
                    patches.push(Patch { kind: kind.into(), of: normal(of), name: name.into(), text });
                }
            }
        };
        found("library", &|library| has(&normal(library)));
        found("service", &|name| name == image);
        patches
    }
}

/// Whether a file is a patch, by its name.
pub(crate) fn is_patch(name: &str) -> bool {
    std::path::Path::new(name).extension().is_some_and(|end| end == "patch")
}

fn yaml<T: for<'de> Deserialize<'de>>(catalogue: &Catalogue, file: &str) -> Result<T, Error> {
    let text = catalogue.file(file).ok_or_else(|| Error::definition(file, "it is not there"))?;
    serde_saphyr::from_str(text).map_err(|error| Error::definition(file, error))
}

/// `package===version` replaces, `-package` removes, `#` comments.
fn parse_overrides(text: &str) -> Result<Vec<Override>, String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let mut overrides: Vec<Override> = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let change = match (line.strip_prefix('-'), line.split_once("===")) {
            (Some(package), _) => Override::Remove { package: normal(package) },
            (None, Some((package, version))) => {
                Override::Pin { package: normal(package), version: version.trim().to_owned() }
            }
            (None, None) => return Err(format!("{line:?} is neither package===version nor -package")),
        };
        if overrides.iter().any(|known| known.package() == change.package()) {
            return Err(format!("{} is there twice", change.package()));
        }
        overrides.push(change);
    }
    Ok(overrides)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_pin_and_remove_and_may_be_explained() {
        let parsed = parse_overrides("# why\nOslo.DB===17.4.1 # and why\n\n-google_api_python-client\n").unwrap();
        let pin = Override::Pin { package: "oslo-db".into(), version: "17.4.1".into() };
        assert_eq!(parsed, [pin, Override::Remove { package: "google-api-python-client".into() }]);
    }

    #[test]
    fn overrides_that_say_nothing_or_two_things_are_refused() {
        assert!(parse_overrides("oslo.db==17").unwrap_err().contains("oslo.db==17"));
        assert!(parse_overrides("oslo.db===17\n-oslo_db").unwrap_err().contains("oslo-db is there twice"));
    }

    #[test]
    fn an_images_own_override_goes_before_the_general_one() {
        let catalogue = Catalogue::embedded().unwrap();
        let release = catalogue.release("2025.2").unwrap();
        let overrides = release.overrides(&catalogue, "keystone").unwrap();
        let cryptography = Override::Pin { package: "cryptography".into(), version: "43.0.3".into() };
        assert!(overrides.contains(&cryptography), "{overrides:?}");
    }

    #[test]
    fn every_release_has_a_source_for_every_python_image() {
        let catalogue = Catalogue::embedded().unwrap();
        for name in catalogue.releases() {
            let release = catalogue.release(&name).unwrap();
            for image in catalogue.images().filter(|image| image.python.is_some()) {
                release.source(&image.name).unwrap();
            }
        }
    }
}
