//! `c5c3 crds`: the CRDs of every kind.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use crate::args::CrdsArgs;
use crate::{Done, print};

pub(crate) fn run(args: &CrdsArgs) -> Done {
    let files = files()?;
    match &args.output {
        None => print(&files.into_values().collect::<Vec<_>>().join("---\n")),
        Some(folder) => {
            write(folder, "yaml", &files)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// File name and content of each CRD.
fn files() -> Result<BTreeMap<String, String>, String> {
    c5c3_api::all()
        .iter()
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
