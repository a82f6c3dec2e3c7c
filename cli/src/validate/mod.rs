//! `c5c3 validate`: every problem of every object, one line each: where, what is wrong, how to fix it.

mod document;
mod source;

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use c5c3_api::{Kind, Problem};
use serde_json::Value;

use self::document::Document;
use self::source::Source;
use crate::args::ValidateArgs;
use crate::{Done, print};

pub(crate) fn run(args: &ValidateArgs) -> Done {
    let mut old = Vec::new();
    for read in args.old.iter().flat_map(|file| read(file)) {
        old.extend(read?.1.into_iter().map(|document| document.value));
    }
    let (mut lines, mut checked) = (Vec::new(), 0);
    for read in args.files.iter().flat_map(|file| read(file)) {
        match read {
            Ok((name, documents)) => {
                checked += documents.len();
                lines.extend(documents.iter().flat_map(|document| check(&name, document, &old, args.ignore_foreign)));
            }
            Err(line) => lines.push(line),
        }
    }
    if lines.is_empty() {
        return print(&format!("{checked} objects, no problems\n"));
    }
    let mut text = String::new();
    for line in &lines {
        let _ = writeln!(text, "{line}");
    }
    print(&text)?;
    Ok(ExitCode::FAILURE)
}

/// The documents of a file, or of each file of a folder, with its name; `Err` is the line to print in their place.
fn read(path: &Path) -> Vec<Result<(String, Vec<Document>), String>> {
    match Source::find(path) {
        Ok(sources) => sources
            .into_iter()
            .map(|source| source.and_then(|source| document::parse(&source).map(|documents| (source.name, documents))))
            .collect(),
        Err(line) => vec![Err(line)],
    }
}

/// The lines of one object.
fn check(file: &str, document: &Document, old: &[Value], ignore_foreign: bool) -> Vec<String> {
    let object = &document.value;
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    if version.is_empty() || kind.is_empty() {
        let missing = if version.is_empty() { "apiVersion" } else { "kind" };
        return vec![format!(
            "{file}:{}: {missing}: is missing; every object has apiVersion and kind",
            document.line_of("")
        )];
    }
    let Some(known) = c5c3_api::find(version, kind) else {
        let foreign = !c5c3_api::all().iter().any(|known| known.group() == group(version));
        if foreign && ignore_foreign {
            return Vec::new();
        }
        return vec![format!("{file}:{}: {}", document.line_of("kind"), unknown_kind(version, kind, foreign))];
    };
    let before = old.iter().find(|old| same_object(old, object));
    let mut problems: Vec<Problem> = metadata(object, known);
    problems.extend(known.check(object, before).iter().cloned());
    let name = object["metadata"]["name"].as_str().unwrap_or("(no name)");
    let about = format!("{}/{name}", kind.to_lowercase());
    let mut lines: Vec<(u64, &Problem)> =
        problems.iter().map(|problem| (document.line_of(&problem.path), problem)).collect();
    lines.sort_by_key(|(line, _)| *line);
    lines.into_iter().map(|(line, problem)| format!("{file}:{line}: {about}: {}", one_line(problem))).collect()
}

fn one_line(problem: &Problem) -> String {
    problem.to_string().replace('\n', " ")
}

fn group(version: &str) -> &str {
    version.split_once('/').map_or("", |(group, _)| group)
}

fn same_object(a: &Value, b: &Value) -> bool {
    let key = |o: &Value| [o["kind"].clone(), o["metadata"]["namespace"].clone(), o["metadata"]["name"].clone()];
    key(a) == key(b)
        && group(a["apiVersion"].as_str().unwrap_or_default()) == group(b["apiVersion"].as_str().unwrap_or_default())
}

fn unknown_kind(version: &str, kind: &str, foreign: bool) -> String {
    let what = format!("{version} {kind} is not a kind of ours");
    let close = c5c3_api::all()
        .iter()
        .map(|known| (strsim::jaro_winkler(&known.name().to_lowercase(), &kind.to_lowercase()), known))
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .filter(|(score, _)| *score > 0.85);
    match close {
        Some((_, known)) => {
            format!("{what}; did you mean apiVersion: {}, kind: {}?", known.api_version(), known.name())
        }
        None if foreign => format!("{what}; pass --ignore-foreign to skip the kinds of others"),
        None => format!("{what}; c5c3 crds lists the kinds there are"),
    }
}

/// What an API server checks of every object's metadata.
fn metadata(object: &Value, kind: &Kind) -> Vec<Problem> {
    let meta = &object["metadata"];
    let mut problems = Vec::new();
    match meta["name"].as_str() {
        None if meta["generateName"].is_string() => {}
        None => problems.push(c5c3_api::problem("metadata.name", "is missing", "name the object")),
        Some(name) => {
            if let Err(wrong) = c5c3_api::blocks::ObjectName::new(name) {
                let (what, fix) = wrong.split_once("; ").unwrap_or((&wrong, ""));
                problems.push(c5c3_api::problem("metadata.name", what, fix));
            }
        }
    }
    if kind.crd().spec.scope == "Cluster" && meta["namespace"].is_string() {
        problems.push(c5c3_api::problem("metadata.namespace", "is set on a kind that is in no namespace", "remove it"));
    }
    problems
}
