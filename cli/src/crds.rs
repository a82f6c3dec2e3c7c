//! `c5c3 crds`: the CRDs of every kind.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;

use crate::args::CrdsArgs;
use crate::{Done, print};

pub(crate) fn run(args: &CrdsArgs) -> Done {
    let files = files(&args.without)?;
    match &args.output {
        None => print(&files.into_values().collect::<Vec<_>>().join("---\n")),
        Some(folder) => {
            write(folder, "yaml", &files)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The API groups of all kinds.
pub(crate) fn groups() -> BTreeSet<&'static str> {
    c5c3_api::all().iter().map(c5c3_api::Kind::group).collect()
}

/// File name and content of each CRD but those of the groups `without`.
fn files(without: &[String]) -> Result<BTreeMap<String, String>, String> {
    let all = c5c3_api::all();
    all.iter().filter(|kind| !without.iter().any(|group| group == kind.group())).map(file).collect()
}

/// File name and content of the CRD of a kind.
pub(crate) fn file(kind: &c5c3_api::Kind) -> Result<(String, String), String> {
    let definition = kind.crd();
    let names = &definition.spec.names;
    let mut crd = serde_json::to_value(&definition).map_err(|error| error.to_string())?;
    // What a server writes; in a file it would only be noise.
    crd.as_object_mut().map(|crd| crd.remove("status"));
    let text = serde_saphyr::to_string(&crd).map_err(|error| format!("cannot write {}: {error}", names.kind))?;
    let text = if text.ends_with('\n') { text } else { format!("{text}\n") };
    Ok((format!("{}_{}.yaml", kind.group(), names.plural), text))
}

/// Writes generated files into a folder and removes those that are no longer generated.
pub(crate) fn write(folder: &Path, extension: &str, files: &BTreeMap<String, String>) -> Result<(), String> {
    let cannot = |what: &str, path: &Path, error: std::io::Error| format!("cannot {what} {}: {error}", path.display());
    std::fs::create_dir_all(folder).map_err(|error| cannot("make", folder, error))?;
    for entry in std::fs::read_dir(folder).map_err(|error| cannot("read", folder, error))?.flatten() {
        let path = entry.path();
        let ours = path.extension().is_some_and(|found| found == extension);
        if ours && !files.contains_key(entry.file_name().to_string_lossy().as_ref()) {
            std::fs::remove_file(&path).map_err(|error| cannot("remove", &path, error))?;
        }
    }
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|error| cannot("write", &path, error))?;
    }
    Ok(())
}

/// Replaces what is in a folder by generated files, whose names may have folders in them. Refuses a folder with files that no
/// version of this program generates: their owner would lose them.
pub(crate) fn replace(folder: &Path, files: &BTreeMap<String, String>) -> Result<(), String> {
    const MARK: &str = ".generated";
    let cannot = |what: &str, path: &Path, error: std::io::Error| format!("cannot {what} {}: {error}", path.display());
    let is_empty = std::fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none());
    if !is_empty && !folder.join(MARK).exists() {
        return Err(format!("{} holds other files; name an empty folder, or a new one", folder.display()));
    }
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(|error| cannot("remove", folder, error))?;
    }
    let mark =
        (MARK.to_owned(), "All of this folder is generated and replaced as a whole: see `make crds`.\n".to_owned());
    for (name, text) in files.iter().chain([(&mark.0, &mark.1)]) {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).map_err(|error| cannot("make", parent, error))?;
        std::fs::write(&path, text).map_err(|error| cannot("write", &path, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_of_a_group_can_be_left_out() {
        let all = files(&[]).expect("all can be written");
        let rest = files(&["openstack.k-orc.cloud".to_owned()]).expect("the others can be written");
        let left_out: Vec<&String> = all.keys().filter(|name| !rest.contains_key(*name)).collect();
        assert_eq!(left_out.len(), 9, "{left_out:?}");
        assert!(left_out.iter().all(|name| name.starts_with("openstack.k-orc.cloud_")), "{left_out:?}");
    }

    #[test]
    fn a_folder_with_other_files_is_not_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let generated = BTreeMap::from([("sub/a.yaml".to_owned(), "a".to_owned())]);
        std::fs::write(folder.path().join("diary.txt"), "mine").expect("a file");
        assert!(replace(folder.path(), &generated).is_err());
        assert!(folder.path().join("diary.txt").exists());
        let folder = folder.path().join("new");
        replace(&folder, &generated).expect("a new folder is written");
        let other = BTreeMap::from([("b.yaml".to_owned(), "b".to_owned())]);
        replace(&folder, &other).expect("a generated folder is replaced");
        assert!(folder.join("b.yaml").exists() && !folder.join("sub").exists());
    }
}
