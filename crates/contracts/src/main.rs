//! Makes contracts: `c5c3-contracts FOLDER RECORD`, from a folder of genuine CRDs and from what tests recorded.
//! `make contracts` calls it; see `docs/contracts.md`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use c5c3_contracts::{Contract, Genuine, Paths};
use serde_json::Value;

/// Group, version, kind.
type Key = (String, String, String);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, record] = arguments.as_slice() else {
        eprintln!("usage: c5c3-contracts FOLDER RECORD (docs/contracts.md)");
        return ExitCode::from(2);
    };
    match make(Path::new(folder), Path::new(record)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("c5c3-contracts: {error}");
            ExitCode::FAILURE
        }
    }
}

fn make(folder: &Path, record: &Path) -> Result<(), String> {
    let recorded = std::fs::read_to_string(record).map_err(|error| format!("{}: {error}", record.display()))?;
    let recorded: Vec<Value> = recorded
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{}: {error}", record.display()))?;
    let genuine: BTreeMap<Key, Genuine> = Genuine::all_in(folder, false).iter().flat_map(versions).collect();
    let mut wanted: BTreeMap<Key, Paths> = BTreeMap::new();
    for value in &recorded {
        let (key, paths) = fields(value, &genuine);
        wanted.entry(key).or_default().merge(paths);
    }
    for (key @ (group, version, kind), paths) in &wanted {
        let Some(genuine) = genuine.get(key) else {
            eprintln!("{group}/{version} {kind}: is not in {}; its contract stays as it is", folder.display());
            continue;
        };
        let made = Contract::made_of(&genuine.definition, version, paths).ok_or("a version is gone")?;
        let file = made.file();
        let parent = file.parent().ok_or("a contract has a folder")?;
        std::fs::create_dir_all(parent).map_err(|error| format!("{}: {error}", parent.display()))?;
        std::fs::write(&file, made.to_text()).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    for contract in Contract::all() {
        let key = (contract.group.clone(), contract.version.clone(), contract.kind().to_owned());
        if !wanted.contains_key(&key) {
            eprintln!("{}: no test uses this contract; delete the file", contract.file().display());
        }
    }
    Ok(())
}

/// The definition once for each of its versions that is served.
fn versions(genuine: &Genuine) -> Vec<(Key, Genuine)> {
    let spec = &genuine.definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let served = spec["versions"].as_array().into_iter().flatten().filter(|version| version["served"] == true);
    let keys: Vec<Key> =
        served.map(|version| (text(&spec["group"]), text(&version["name"]), text(&spec["names"]["kind"]))).collect();
    keys.into_iter()
        .map(|key| (key, Genuine { file: genuine.file.clone(), definition: genuine.definition.clone() }))
        .collect()
}

/// The kind of an object or of a definition, and the fields that it has.
fn fields(value: &Value, genuine: &BTreeMap<Key, Genuine>) -> (Key, Paths) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if value["kind"] == "CustomResourceDefinition" {
        let (spec, version) = (&value["spec"], &value["spec"]["versions"][0]);
        let key = (text(&spec["group"]), text(&version["name"]), text(&spec["names"]["kind"]));
        return (key, Paths::of_schema(&version["schema"]["openAPIV3Schema"]));
    }
    let api = text(&value["apiVersion"]);
    let (group, version) = api.split_once('/').unwrap_or(("", &api));
    let key = (group.to_owned(), version.to_owned(), text(&value["kind"]));
    let mut paths = Paths::default();
    if let Some(schema) = genuine.get(&key).and_then(|genuine| genuine.schema(version)) {
        paths.add_object(value, schema);
    }
    (key, paths)
}
