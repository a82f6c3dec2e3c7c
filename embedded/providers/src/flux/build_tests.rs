//! Folders, and what becomes of them.

use super::*;

fn tree(files: &[(&str, &str)]) -> Tree {
    let mut tree = Tree::default();
    for (path, text) in files {
        tree.add(path, File::Text((*text).to_owned()));
    }
    tree
}

fn config(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n")
}

fn names(tree: &Tree, path: &str) -> Result<Vec<String>, String> {
    let built = build(tree, &folder(tree, Some(path))?, &[])?;
    Ok(built.iter().map(|built| format!("{} {}", built.file, built.name())).collect())
}

#[test]
fn a_folder_without_a_description_has_all_yaml_files_below_it() {
    let two = format!("# nothing\n---\n{}---\n{}---\n", config("heron"), config("wren"));
    let files = [
        ("apps/b.yaml", two.as_str()),
        ("apps/deep/a.yml", &config("owl")),
        ("apps/deep/values.json", "{}"),
        ("apps/.github/flow.yaml", "on: push"),
        ("other/c.yaml", "not: an object"),
    ];
    let expected = ["apps/b.yaml heron", "apps/b.yaml wren", "apps/deep/a.yml owl"];
    assert_eq!(names(&tree(&files), "./apps/").unwrap(), expected);
}

#[test]
fn a_description_names_files_and_folders_and_what_it_does_not_name_is_left_out() {
    let files = [
        ("apps/kustomization.yaml", "resources: [heron.yaml, ../base]\nnamespace: marsh\n"),
        ("apps/heron.yaml", &config("heron")),
        ("apps/spare.yaml", "not: used"),
        ("base/Kustomization", "resources:\n- wren.yaml\npatches:\n- path: more.yaml\n  target: {kind: ConfigMap}\n"),
        ("base/wren.yaml", &config("wren")),
        ("base/more.yaml", "- {op: add, path: /data, value: {song: loud}}"),
    ];
    let tree = tree(&files);
    assert_eq!(names(&tree, "apps").unwrap(), ["apps/heron.yaml heron", "base/wren.yaml wren"]);
    let built = build(&tree, "apps", &[]).unwrap();
    assert!(built.iter().all(|built| built.namespace() == Some("marsh")));
    assert_eq!((&built[0].object["data"], &built[1].object["data"]["song"]), (&Value::Null, &"loud".into()));
    assert_eq!(names(&tree, "").unwrap().len(), 3, "each folder with a description speaks for itself");
}

#[test]
fn what_is_wrong_is_told_with_its_file() {
    let heron = config("heron");
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[("a/b.yaml", "apiVersion: v1\nkind: [")], "a/b.yaml:2: "),
        (&[("a/b.yaml", "kind: ConfigMap")], "a/b.yaml: document 1: has no apiVersion"),
        (&[("a/b.yaml", "- 1")], "a/b.yaml: document 1: is not an object"),
        (&[("a/b.yaml", &heron), ("a/c.yaml", &heron)], "a/c.yaml: ConfigMap heron is in a/b.yaml, too"),
        (&[("a/b.yaml", "")], "a: has no object"),
        (&[("c/b.yaml", &heron)], "kustomization path not found: the commit has no folder a"),
        (&[("a/kustomization.yaml", "images: []\nresources: []")], "a/kustomization.yaml: images is not provided"),
        (
            &[("a/kustomization.yaml", "resources: [x.yaml]")],
            "a/kustomization.yaml: the resource x.yaml is not in the commit",
        ),
        (&[("a/kustomization.yaml", "resources: [../../x]")], "a/kustomization.yaml: the resource ../../x is not in"),
        (&[("a/kustomization.yaml", "resources: [https://x.example/y]")], "a/kustomization.yaml: the resource https"),
        (&[("a/kustomization.yaml", "resources: [../a]")], "a/kustomization.yaml: names itself"),
        (
            &[("a/kustomization.yaml", ""), ("a/kustomization.yml", "")],
            "a/kustomization.yaml, a/kustomization.yml: keep",
        ),
        (&[("a/b.yaml", &heron), (".sourceignore", "x")], ".sourceignore: is not heeded"),
        (
            &[("a/b.yaml", "{apiVersion: v1, kind: Secret, metadata: {name: x}, sops: {mac: y}}")],
            "a/b.yaml: document 1: is encrypted",
        ),
    ];
    for (files, expected) in cases {
        let said = names(&tree(files), "a").unwrap_err();
        assert!(said.starts_with(expected), "{said}\nis not\n{expected}");
    }
    let mut linked = tree(&[]);
    linked.add("a/b.yaml", File::Unread("is a symbolic link, which is not followed"));
    assert!(names(&linked, "a").unwrap_err().starts_with("a/b.yaml: is a symbolic link"));
}

#[test]
fn a_path_never_leads_out_of_the_repository() {
    assert_eq!(join("a/b", "../c/./d.yaml").as_deref(), Some("a/c/d.yaml"));
    assert_eq!(join("a", "../.."), None);
    assert!(folder(&tree(&[("a/b.yaml", "")]), Some("../etc")).is_err());
    assert_eq!(folder(&tree(&[("a/b.yaml", "")]), None).as_deref(), Ok(""));
}
