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
    c5c3_api::all()
        .iter()
        .filter(|kind| !without.iter().any(|group| group == kind.group()))
        .map(|kind| {
            let definition = kind.crd();
            let names = &definition.spec.names;
            let mut crd = serde_json::to_value(&definition).map_err(|error| error.to_string())?;
            // What a server writes; in a file it would only be noise.
            crd.as_object_mut().map(|crd| crd.remove("status"));
            let text =
                serde_saphyr::to_string(&crd).map_err(|error| format!("cannot write {}: {error}", names.kind))?;
            let text = if text.ends_with('\n') { text } else { format!("{text}\n") };
            Ok((format!("{}_{}.yaml", kind.group(), names.plural), text))
        })
        .collect()
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
}
