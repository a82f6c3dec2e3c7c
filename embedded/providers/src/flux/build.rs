//! From the files of a commit to objects: what `kustomize build` makes of a folder, as far as it is provided.
//!
//! A folder with a `kustomization.yaml` has the resources that this names; one without has all YAML files in it and below.
//! Whatever else a `kustomization.yaml` asks for is refused by name. Every error names the file.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::kinds::PatchSpec;
use super::patch::Patch;

/// The names of a folder's own description.
const DESCRIPTIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Files of other programs, which Flux leaves out of every commit.
const LEFT_OUT: [&str; 9] = [
    ".flux.yaml",
    ".sops.yaml",
    ".travis.yml",
    ".gitlab-ci.yml",
    ".drone.yml",
    "appveyor.yml",
    "cloudbuild.yaml",
    "codeship-services.yml",
    "codeship-steps.yml",
];

/// Folders of other programs, likewise.
const FOLDERS_LEFT_OUT: [&str; 2] = [".github", ".circleci"];

/// How deep folders may name each other.
const DEEPEST: usize = 20;

/// A file of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum File {
    /// What it says.
    Text(String),
    /// It was not read, and why.
    Unread(&'static str),
}

impl File {
    /// Whether a file may hold objects or describe a folder, by its name.
    pub(super) fn is_read(path: &str) -> bool {
        let has_ending = path.rsplit_once('.').is_some_and(|(_, ending)| ["yaml", "yml", "json"].contains(&ending));
        has_ending || DESCRIPTIONS.contains(&last(path))
    }
}

/// The files of a commit by their paths.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree(BTreeMap<String, File>);

impl Tree {
    pub(super) fn add(&mut self, path: &str, file: File) {
        self.0.insert(path.to_owned(), file);
    }

    fn is_folder(&self, path: &str) -> bool {
        path.is_empty() || self.below(path).next().is_some()
    }

    /// The files in a folder and below.
    fn below(&self, folder: &str) -> impl Iterator<Item = (&String, &File)> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        self.0.range(prefix.clone()..).take_while(move |(path, _)| path.starts_with(&prefix))
    }

    /// The path of a folder's own description.
    fn description(&self, folder: &str) -> Result<Option<String>, String> {
        let found: Vec<String> = DESCRIPTIONS
            .iter()
            .filter_map(|name| join(folder, name))
            .filter(|path| self.0.contains_key(path))
            .collect();
        match found.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(one.clone())),
            more => Err(format!("{}: keep one of them", more.join(", "))),
        }
    }

    fn text(&self, path: &str) -> Result<&str, String> {
        match self.0.get(path) {
            Some(File::Text(text)) => Ok(text),
            Some(File::Unread(why)) => Err(format!("{path}: {why}")),
            None => Err(format!("{path}: is not in the commit")),
        }
    }
}

/// An object, and the file that it is from.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Built {
    pub(super) file: String,
    /// The namespace that a `kustomization.yaml` puts it into, if its kind has namespaces.
    pub(super) namespace: Option<String>,
    pub(super) object: Value,
}

impl Built {
    pub(super) fn kind(&self) -> &str {
        self.object["kind"].as_str().unwrap_or_default()
    }

    pub(super) fn api_version(&self) -> &str {
        self.object["apiVersion"].as_str().unwrap_or_default()
    }

    pub(super) fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// The namespace as far as the files say.
    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref().or_else(|| self.object["metadata"]["namespace"].as_str())
    }
}

/// The folder that `spec.path` names.
pub(super) fn folder(tree: &Tree, path: Option<&str>) -> Result<String, String> {
    let asked = path.unwrap_or_default();
    let folder = join("", asked.trim_start_matches('/'));
    let found = folder.filter(|folder| tree.is_folder(folder));
    found.ok_or_else(|| format!("kustomization path not found: the commit has no folder {asked}"))
}

/// All objects of a folder, patched.
pub(super) fn build(tree: &Tree, folder: &str, patches: &[Patch]) -> Result<Vec<Built>, String> {
    if let Some(path) = tree.0.keys().find(|path| last(path) == ".sourceignore") {
        return Err(format!("{path}: is not heeded by the stand-in for Flux of this cluster; remove it"));
    }
    let mut objects = match tree.description(folder)? {
        Some(description) => described(tree, folder, &description, &mut Vec::new())?,
        None => scanned(tree, folder)?,
    };
    if objects.is_empty() {
        let folder = if folder.is_empty() { "the commit" } else { folder };
        return Err(format!("{folder}: has no object; to delete all of them, delete the Kustomization"));
    }
    for patch in patches {
        patch.apply(&mut objects)?;
    }
    twice(&objects)?;
    Ok(objects)
}

/// No object may be there twice: the last one would win, whichever that is.
fn twice(objects: &[Built]) -> Result<(), String> {
    let mut seen = BTreeMap::new();
    for built in objects {
        let group = built.api_version().split_once('/').map_or("", |(group, _)| group);
        let key =
            (group.to_owned(), built.kind().to_owned(), built.namespace().map(str::to_owned), built.name().to_owned());
        if let Some(other) = seen.insert(key, &built.file) {
            return Err(format!("{}: {} {} is in {other}, too", built.file, built.kind(), built.name()));
        }
    }
    Ok(())
}

/// A folder with a description.
fn described(tree: &Tree, folder: &str, description: &str, above: &mut Vec<String>) -> Result<Vec<Built>, String> {
    if above.iter().any(|known| known == folder) || above.len() >= DEEPEST {
        return Err(format!("{description}: names itself by way of {}", above.join(", ")));
    }
    let fields = fields(description, tree.text(description)?)?;
    above.push(folder.to_owned());
    let mut objects = Vec::new();
    for resource in texts(description, &fields, "resources")? {
        let missing = || format!("{description}: the resource {resource} is not in the commit");
        if resource.contains("://") || resource.starts_with("git@") {
            return Err(format!(
                "{description}: the resource {resource} is elsewhere; only files of the repository are used"
            ));
        }
        let path = join(folder, resource).ok_or_else(missing)?;
        if tree.0.contains_key(&path) {
            objects.extend(parse(&path, tree.text(&path)?)?);
        } else if tree.is_folder(&path) {
            let inner = tree.description(&path)?;
            let inner =
                inner.ok_or_else(|| format!("{description}: the folder {resource} has no kustomization.yaml"))?;
            objects.extend(described(tree, &path, &inner, above)?);
        } else {
            return Err(missing());
        }
    }
    above.pop();
    let patches: Vec<PatchSpec> = match fields.get("patches") {
        Some(patches) => {
            serde_json::from_value(patches.clone()).map_err(|error| format!("{description}: patches: {error}"))?
        }
        None => Vec::new(),
    };
    for (index, mut patch) in patches.into_iter().enumerate() {
        if let Some(Value::String(path)) = patch.other.remove("path") {
            let file =
                join(folder, &path).ok_or_else(|| format!("{description}: the patch {path} is not in the commit"))?;
            patch.patch = Some(tree.text(&file)?.to_owned());
        }
        Patch::read(&format!("{description}: patches[{index}]"), &patch)?.apply(&mut objects)?;
    }
    if let Some(namespace) = fields.get("namespace").and_then(Value::as_str).filter(|namespace| !namespace.is_empty()) {
        for built in &mut objects {
            built.namespace = Some(namespace.to_owned());
        }
    }
    Ok(objects)
}

/// The fields of a folder's description, of which all are provided.
fn fields(description: &str, text: &str) -> Result<Map<String, Value>, String> {
    let mut documents = documents(description, text)?;
    let (Some(Value::Object(fields)), true) = (documents.pop(), documents.is_empty()) else {
        return Err(format!("{description}: is not one object; write resources, namespace, patches"));
    };
    let kind = fields.get("kind").and_then(Value::as_str).unwrap_or("Kustomization");
    if kind != "Kustomization" {
        return Err(format!("{description}: the kind {kind} is not provided, only Kustomization"));
    }
    let provided = ["apiVersion", "kind", "metadata", "resources", "namespace", "patches"];
    let others: Vec<&str> = fields.keys().map(String::as_str).filter(|field| !provided.contains(field)).collect();
    if others.is_empty() {
        return Ok(fields);
    }
    Err(format!(
        "{description}: {} is not provided by the stand-in for Flux of this cluster; it knows resources, namespace and patches",
        others.join(", ")
    ))
}

fn texts<'a>(description: &str, fields: &'a Map<String, Value>, name: &str) -> Result<Vec<&'a str>, String> {
    let Some(list) = fields.get(name).filter(|list| !list.is_null()) else { return Ok(Vec::new()) };
    let texts = list.as_array().and_then(|items| items.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
    texts.ok_or_else(|| format!("{description}: {name} is not a list of words"))
}

/// A folder without a description: all that is in it and below, where folders with a description speak for themselves.
fn scanned(tree: &Tree, folder: &str) -> Result<Vec<Built>, String> {
    let (mut objects, mut seen) = (Vec::new(), BTreeSet::new());
    for (path, _) in tree.below(folder) {
        if let Some((inner, description)) = nearest(tree, folder, path)? {
            if seen.insert(inner.clone()) {
                objects.extend(described(tree, &inner, &description, &mut Vec::new())?);
            }
            continue;
        }
        let has_objects = path.rsplit_once('.').is_some_and(|(_, ending)| ["yaml", "yml"].contains(&ending));
        let is_left_out =
            LEFT_OUT.contains(&last(path)) || path.split('/').any(|part| FOLDERS_LEFT_OUT.contains(&part));
        if has_objects && !is_left_out {
            objects.extend(parse(path, tree.text(path)?)?);
        }
    }
    Ok(objects)
}

/// The outermost folder between `above` and a file that has a description, and the description.
fn nearest(tree: &Tree, above: &str, path: &str) -> Result<Option<(String, String)>, String> {
    let from = if above.is_empty() { 0 } else { above.len() + 1 };
    for (end, _) in path[from..].match_indices('/') {
        let inner = &path[..from + end];
        if let Some(description) = tree.description(inner)? {
            return Ok(Some((inner.to_owned(), description)));
        }
    }
    Ok(None)
}

/// The objects of a file.
fn parse(path: &str, text: &str) -> Result<Vec<Built>, String> {
    let mut objects = Vec::new();
    for (index, document) in documents(path, text)?.into_iter().enumerate() {
        let at = |what: &str| format!("{path}: document {}: {what}", index + 1);
        let is_list = document["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
        let items = match document.get("items") {
            Some(Value::Array(items)) if is_list => items.clone(),
            _ => vec![document],
        };
        for object in items {
            if !object.is_object() {
                return Err(at("is not an object; write apiVersion, kind, metadata and spec"));
            }
            if !object["sops"].is_null() {
                return Err(at(
                    "is encrypted with SOPS, which is not provided by the stand-in for Flux of this cluster",
                ));
            }
            let built = Built { file: path.to_owned(), namespace: None, object };
            let missing =
                [("apiVersion", built.api_version()), ("kind", built.kind()), ("metadata.name", built.name())];
            if let Some((field, _)) = missing.iter().find(|(_, value)| value.is_empty()) {
                return Err(at(&format!("has no {field}")));
            }
            objects.push(built);
        }
    }
    Ok(objects)
}

/// The documents of a file; empty ones are left out.
pub(super) fn documents(path: &str, text: &str) -> Result<Vec<Value>, String> {
    let parsed: Result<Vec<Option<Value>>, _> = serde_saphyr::from_multiple(text);
    let parsed = parsed.map_err(|error| {
        // The parser draws a picture of several lines; one has to do.
        let plain = error.without_snippet().to_string();
        let first = plain.lines().next().unwrap_or("is not YAML");
        let line = error.location().map(|at| format!(":{}", at.line())).unwrap_or_default();
        format!("{path}{line}: {first}")
    })?;
    Ok(parsed.into_iter().flatten().filter(|document| !document.is_null()).collect())
}

/// A path as seen from a folder; none if it leads out of the repository.
fn join(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
