//! The genuine CRDs of other projects, where the environment says that they are at hand.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// Names a folder of genuine CRDs: a folder for each project, with files that are named as controller-gen names them,
/// `GROUP_PLURAL.yaml`. Folders within those hold other releases.
const FOLDER: &str = "C5C3_GENUINE_CRDS";

/// A definition as its project publishes it.
pub struct Genuine {
    /// Where it is from.
    pub file: PathBuf,
    /// The definition.
    pub definition: Value,
}

/// Whether genuine CRDs are at hand. Where they are not, says that this comparison was left out.
pub fn compared_with_genuine(what: &str) -> bool {
    if folder().is_none() {
        eprintln!("left out: {what}: {FOLDER} names no folder of genuine CRDs (docs/contracts.md)");
    }
    folder().is_some()
}

fn folder() -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os(FOLDER).filter(|folder| !folder.is_empty())?);
    assert!(
        folder.is_absolute() && folder.is_dir(),
        "{FOLDER}: {} is not an absolute path of a folder",
        folder.display()
    );
    Some(folder)
}

impl Genuine {
    /// The definition of a resource, of the release that the contracts are made of. None without genuine CRDs, or if the
    /// folder does not have this one.
    pub fn find(group: &str, plural: &str) -> Option<Self> {
        let name = format!("{group}_{plural}.yaml");
        let files = [folder()?].into_iter().chain(entries(&folder()?).into_iter().filter(|path| path.is_dir()));
        Self::read(&files.map(|folder| folder.join(&name)).find(|file| file.is_file())?).pop()
    }

    /// Every definition of the folder, those of other releases only if asked for; none without genuine CRDs.
    pub fn all(with_other_releases: bool) -> Vec<Self> {
        folder().map(|folder| Self::all_in(&folder, with_other_releases)).unwrap_or_default()
    }

    /// Every definition of a folder.
    pub fn all_in(folder: &Path, with_other_releases: bool) -> Vec<Self> {
        let mut files = Vec::new();
        yaml_files(folder, if with_other_releases { 2 } else { 1 }, &mut files);
        files.iter().flat_map(|file| Self::read(file)).collect()
    }

    /// The schema of one of its versions, if that is served.
    pub fn schema(&self, version: &str) -> Option<&Value> {
        let versions = self.definition["spec"]["versions"].as_array()?;
        let served = versions.iter().find(|served| served["name"] == version && served["served"] == true)?;
        Some(&served["schema"]["openAPIV3Schema"])
    }

    fn read(file: &Path) -> Vec<Self> {
        let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let definitions = documents.into_iter().filter(|document| document["kind"] == "CustomResourceDefinition");
        definitions.map(|definition| Self { file: file.to_owned(), definition }).collect()
    }
}

fn yaml_files(folder: &Path, deeper: u8, files: &mut Vec<PathBuf>) {
    for path in entries(folder) {
        if path.is_dir() && deeper > 0 {
            yaml_files(&path, deeper - 1, files);
        } else if path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
            files.push(path);
        }
    }
}

/// What a folder holds, sorted.
pub(crate) fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}
