//! The generated files are those that this version generates: `make crds` writes them again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

fn generate(command: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let status =
        Command::new(env!("CARGO_BIN_EXE_c5c3")).args([command, "--output"]).arg(folder.path()).status().unwrap();
    assert!(status.success());
    folder
}

/// The files of a folder and of those within it, by their paths.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let entries =
        std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}; run `make crds`", folder.display()));
    for entry in entries.map(|entry| entry.unwrap()) {
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            files.extend(self::files(&entry.path()).into_iter().map(|(path, text)| (format!("{name}/{path}"), text)));
        } else {
            files.insert(name, std::fs::read_to_string(entry.path()).unwrap());
        }
    }
    files
}

fn assert_fresh(command: &str, committed: &str) {
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(committed);
    let (fresh, committed) = (files(generate(command).path()), files(&committed));
    assert_eq!(fresh.keys().collect::<Vec<_>>(), committed.keys().collect::<Vec<_>>(), "run `make crds`");
    for (name, text) in &fresh {
        assert!(committed[name] == *text, "{name} is stale: run `make crds`");
    }
}

#[test]
fn the_crds_in_deploy_are_fresh() {
    assert_fresh("crds", "deploy/crds");
}

#[test]
fn the_manifests_of_operators_in_deploy_are_fresh() {
    assert_fresh("manifests", "deploy/operators");
}

#[test]
fn the_charts_in_deploy_are_fresh() {
    assert_fresh("charts", "deploy/charts");
}

#[test]
fn the_flux_tree_in_deploy_is_fresh() {
    assert_fresh("flux", "deploy/flux");
}

#[test]
fn monitors_rules_and_dashboards_in_deploy_are_fresh() {
    assert_fresh("monitoring", "deploy/monitoring");
}

#[test]
fn the_api_reference_is_fresh() {
    assert_fresh("reference", "docs/api");
}

#[test]
fn generating_again_changes_nothing_and_removes_what_is_gone() {
    let folder = generate("crds");
    let before = files(folder.path());
    std::fs::write(folder.path().join("c5c3.io_forgotten.yaml"), "kind: Gone\n").unwrap();
    let status =
        Command::new(env!("CARGO_BIN_EXE_c5c3")).args(["crds", "--output"]).arg(folder.path()).status().unwrap();
    assert!(status.success());
    assert_eq!(files(folder.path()), before);
}

#[test]
fn crds_without_a_group_are_all_the_others() {
    let all = files(generate("crds").path());
    let group = |name: &str| name.split_once('_').unwrap().0.to_owned();
    let groups: BTreeSet<String> = all.keys().map(|name| group(name)).collect();
    assert!(groups.len() > 5 && groups.contains("openstack.k-orc.cloud"), "{groups:?}");
    for left_out in groups {
        let mut rest = all.clone();
        rest.retain(|name, _| group(name) != left_out);
        // What is piped to `kubectl apply`.
        let printed =
            Command::new(env!("CARGO_BIN_EXE_c5c3")).args(["crds", "--without", left_out.as_str()]).output().unwrap();
        let wanted = rest.into_values().collect::<Vec<_>>().join("---\n");
        let is_same = printed.status.success() && printed.stdout == wanted.as_bytes();
        assert!(is_same, "what is printed without {left_out} is something else");
    }
}

/// Cargo resets `strip` for a package that has a profile of its own: the program had 40 MB of symbols once.
#[test]
fn the_release_profile_strips_the_program() {
    let manifest = include_str!("../../Cargo.toml");
    assert!(manifest.contains("strip = \"symbols\""));
    assert!(!manifest.contains(".package.c5c3]"), "a profile of the linked package needs its own strip");
}
