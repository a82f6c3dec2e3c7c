//! All definitions and releases, read from a folder or from this binary.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::definition::Definition;
use crate::release::Release;
use crate::{Error, embedded::EMBEDDED};

/// The registry that images are named after. Nothing is pulled from it.
pub const REGISTRY: &str = "ghcr.io/c5c3";

/// The release that is built unless another one is asked for.
pub const DEFAULT_RELEASE: &str = "2025.2";

/// The definitions, as texts by their paths.
#[derive(Clone, Debug)]
pub struct Catalogue {
    pub(crate) files: BTreeMap<String, String>,
    /// The folder that they were read from, if not from this binary.
    pub folder: Option<PathBuf>,
    definitions: BTreeMap<String, Definition>,
}

impl Catalogue {
    /// The definitions of a folder that is given, or else of the checkout that this folder is in, or else of this binary.
    pub fn find(given: Option<&Path>) -> Result<Self, Error> {
        if let Some(folder) = given {
            return Self::read(folder);
        }
        let here = std::env::current_dir().map_err(Error::file(Path::new(".")))?;
        let checkout = here.ancestors().map(|above| above.join("images"));
        match checkout.into_iter().find(|images| images.join("base.yaml").exists() && images.join("releases").exists())
        {
            Some(images) => Self::read(&images),
            None => Self::embedded(),
        }
    }

    /// The definitions of this binary.
    pub fn embedded() -> Result<Self, Error> {
        let files = EMBEDDED.iter().map(|&(path, text)| (path.to_owned(), text.to_owned()));
        Self::new(files.collect(), None)
    }

    /// The definitions of a folder.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let mut files = BTreeMap::new();
        collect(folder, folder, &mut files)?;
        Self::new(files, Some(folder.to_owned()))
    }

    fn new(files: BTreeMap<String, String>, folder: Option<PathBuf>) -> Result<Self, Error> {
        let mut definitions = BTreeMap::new();
        for (path, text) in &files {
            let layer = path.starts_with("layers/");
            let name = path.strip_prefix("layers/").unwrap_or(path).strip_suffix(".yaml");
            let Some(name) = name.filter(|name| !name.contains('/')) else { continue };
            let mut definition: Definition =
                serde_saphyr::from_str(text).map_err(|error| Error::definition(path, error))?;
            name.clone_into(&mut definition.name);
            definition.layer = layer;
            definitions.insert(name.to_owned(), definition);
        }
        let catalogue = Self { files, folder, definitions };
        catalogue.definitions.values().try_for_each(|definition| catalogue.check(definition))?;
        for file in catalogue.below("debian") {
            let known = file.strip_suffix(".lock").is_some_and(|name| catalogue.definitions.contains_key(name));
            if !known {
                return Err(Error::definition(format!("debian/{file}"), "it is the lock of no image and no layer"));
            }
        }
        Ok(catalogue)
    }

    /// What a definition stands on is there, and not the definition itself.
    fn check(&self, definition: &Definition) -> Result<(), Error> {
        let file = format!("{}.yaml", definition.name);
        for name in definition.foundation().into_iter().chain(definition.builder()) {
            if !self.definitions.contains_key(name) {
                return Err(Error::definition(file, format!("there is no {name} to stand on")));
            }
        }
        let mut below = definition.foundation();
        for _ in 0..=self.definitions.len() {
            match below {
                None => return Ok(()),
                Some(name) => below = self.definitions.get(name).and_then(Definition::foundation),
            }
        }
        Err(Error::definition(file, "it stands on itself"))
    }

    /// An image or layer by its name.
    pub fn definition(&self, name: &str) -> Result<&Definition, Error> {
        self.definitions.get(name).ok_or_else(|| {
            let known = self.images().map(|image| image.name.as_str()).collect::<Vec<_>>().join(", ");
            Error::Unknown { name: name.to_owned(), known }
        })
    }

    /// All images.
    pub fn images(&self) -> impl Iterator<Item = &Definition> {
        self.definitions.values().filter(|definition| !definition.layer)
    }

    /// All definitions, those of layers too.
    pub fn definitions(&self) -> impl Iterator<Item = &Definition> {
        self.definitions.values()
    }

    /// The names of all releases.
    pub fn releases(&self) -> Vec<String> {
        let names = self.files.keys().filter_map(|path| {
            path.strip_prefix("releases/").and_then(|path| path.strip_suffix("/sources.yaml")).map(str::to_owned)
        });
        names.collect()
    }

    /// A release.
    pub fn release(&self, name: &str) -> Result<Release, Error> {
        if !self.releases().iter().any(|known| known == name) {
            return Err(Error::Release { name: name.to_owned(), known: self.releases().join(", ") });
        }
        Release::read(self, name)
    }

    pub(crate) fn file(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// The paths of all files in a folder and those below, seen from there, in their order.
    pub(crate) fn below<'a>(&'a self, folder: &str) -> impl Iterator<Item = &'a str> {
        let prefix = format!("{folder}/");
        self.files.range(prefix.clone()..).map_while(move |(path, _)| path.strip_prefix(&prefix))
    }
}

fn collect(root: &Path, folder: &Path, files: &mut BTreeMap<String, String>) -> Result<(), Error> {
    for entry in fs::read_dir(folder).map_err(Error::file(folder))? {
        let path = entry.map_err(Error::file(folder))?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
            continue;
        }
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        files.insert(name, fs::read_to_string(&path).map_err(Error::file(&path))?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue(files: &[(&str, &str)]) -> Result<Catalogue, Error> {
        let files = files.iter().map(|&(path, text)| (path.to_owned(), text.to_owned()));
        Catalogue::new(files.collect(), None)
    }

    #[test]
    fn what_this_binary_carries_is_what_the_checkout_has() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../images");
        assert_eq!(Catalogue::read(&folder).unwrap().files, Catalogue::embedded().unwrap().files);
    }

    #[test]
    fn every_image_has_a_title_and_a_check() {
        let catalogue = Catalogue::embedded().unwrap();
        assert_eq!(catalogue.images().count(), 19);
        for image in catalogue.images() {
            assert!(!image.title.is_empty() && !image.check.is_empty(), "{}", image.name);
        }
    }

    #[test]
    fn a_definition_that_stands_on_nothing_or_on_itself_is_refused_by_name() {
        let missing = catalogue(&[("a.yaml", "title: A\nfrom: b")]).unwrap_err().to_string();
        assert_eq!(missing, "a.yaml: there is no b to stand on");
        let circle = catalogue(&[("a.yaml", "title: A\nfrom: b"), ("layers/b.yaml", "title: B\nfrom: a")]);
        assert_eq!(circle.unwrap_err().to_string(), "a.yaml: it stands on itself");
    }

    #[test]
    fn a_debian_lock_of_nothing_is_refused_by_its_file() {
        let error = catalogue(&[("a.yaml", "title: A\nbootstrap: { suite: x }"), ("debian/b.lock", "")]).unwrap_err();
        assert_eq!(error.to_string(), "debian/b.lock: it is the lock of no image and no layer");
    }

    #[test]
    fn a_mistyped_field_is_refused_with_its_file() {
        let error = catalogue(&[("a.yaml", "title: A\ndebain: [x]")]).unwrap_err().to_string();
        assert!(error.starts_with("a.yaml: ") && error.contains("debain"), "{error}");
    }

    #[test]
    fn an_unknown_image_is_answered_with_those_there_are() {
        let catalogue = Catalogue::embedded().unwrap();
        let error = catalogue.definition("keystnoe").unwrap_err().to_string();
        assert!(error.contains("keystnoe") && error.contains("keystone"), "{error}");
    }
}
