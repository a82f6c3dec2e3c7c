//! `c5c3 validate`: every problem of every object, one line each: where, what is wrong, how to fix it.

mod document;
mod source;

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use c5c3_api::{Kind, Problem};
use c5c3_kit::Operator;
use serde_json::Value;

use self::document::Document;
use self::source::Source;
use crate::args::ValidateArgs;
use crate::{Done, operator, print, rules};

pub(crate) fn run(args: &ValidateArgs) -> Done {
    let mut old = Vec::new();
    for read in args.old.iter().flat_map(|file| read(file)) {
        old.extend(read?.1.into_iter().map(|document| document.value));
    }
    // Whether an operator may reach into other namespaces is said where it is started.
    let operators = operator::all(true);
    let (mut lines, mut checked, mut skipped) = (Vec::new(), 0, 0);
    for read in args.files.iter().chain(&args.paths).flat_map(|file| read(file)) {
        match read {
            Ok((name, documents)) => {
                for document in &documents {
                    if args.ignore_foreign && is_foreign(&document.value) {
                        skipped += 1;
                        continue;
                    }
                    checked += 1;
                    lines.extend(check(&name, document, &old, &operators));
                }
            }
            Err(line) => lines.push(line),
        }
    }
    if lines.is_empty() {
        return print(&summary(checked, skipped));
    }
    let mut text = String::new();
    for line in &lines {
        let _ = writeln!(text, "{line}");
    }
    print(&text)?;
    Ok(ExitCode::FAILURE)
}

/// The problems of a file, one line each. Kinds of other projects are skipped.
pub(crate) fn problems(path: &Path) -> Vec<String> {
    let operators = operator::all(true);
    let lines = |read: Result<(String, Vec<Document>), String>| match read {
        Ok((name, documents)) => {
            let own = documents.iter().filter(|document| !is_foreign(&document.value));
            own.flat_map(|document| check(&name, document, &[], &operators)).collect()
        }
        Err(line) => vec![line],
    };
    read(path).into_iter().flat_map(lines).collect()
}

/// An object of a file, to be checked.
pub(crate) struct Checked {
    file: String,
    document: Document,
}

impl Checked {
    pub(crate) fn value(&self) -> &Value {
        &self.document.value
    }

    /// Takes the object to be this, such as with the namespace that it does not name. Its lines stay.
    pub(crate) fn set(&mut self, value: Value) {
        self.document.value = value;
    }

    /// What is wrong with it, a line each.
    pub(crate) fn problems(&self, old: &[Value], operators: &[Operator]) -> Vec<String> {
        check(&self.file, &self.document, old, operators)
    }
}

/// The objects of a file or a folder; `Err` is the line to print in the place of a file that cannot be read.
pub(crate) fn checked(path: &Path) -> Vec<Result<Checked, String>> {
    let of_file = |(file, documents): (String, Vec<Document>)| {
        documents.into_iter().map(move |document| Checked { file: file.clone(), document })
    };
    let all = read(path).into_iter().map(|read| read.map(|found| of_file(found).collect::<Vec<_>>()));
    all.flat_map(|read| match read {
        Ok(found) => found.into_iter().map(Ok).collect(),
        Err(line) => vec![Err(line)],
    })
    .collect()
}

/// What was looked at, when nothing was wrong with it.
fn summary(checked: usize, skipped: usize) -> String {
    let objects = if checked == 1 { "object" } else { "objects" };
    match (checked, skipped) {
        (0, 0) => "there is no object to check\n".into(),
        (_, 0) => format!("{checked} {objects}, no problems\n"),
        (0, _) => format!("0 checked, {skipped} skipped\n"),
        _ => format!("{checked} checked, no problems; {skipped} skipped\n"),
    }
}

/// Whether an object is of a kind of another project.
pub(crate) fn is_foreign(object: &Value) -> bool {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let is_ours = c5c3_api::all().iter().any(|known| known.group() == group(version));
    !version.is_empty() && object["kind"].is_string() && !is_ours
}

/// The documents of a file, or of each file of a folder, with its name; `Err` is the line to print in their place.
fn read(path: &Path) -> Vec<Result<(String, Vec<Document>), String>> {
    match Source::find(path) {
        Ok(sources) => sources
            .into_iter()
            .map(|source| source.and_then(|source| document::parse(&source).map(|found| (source.name, flat(found)))))
            .collect(),
        Err(line) => vec![Err(line)],
    }
}

/// The documents, with the items of each List in its place.
fn flat(documents: Vec<Document>) -> Vec<Document> {
    documents.into_iter().flat_map(Document::items).collect()
}

/// The lines of one object.
fn check(file: &str, document: &Document, old: &[Value], operators: &[Operator]) -> Vec<String> {
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
        let unknown = unknown_kind(version, kind, is_foreign(object));
        return vec![format!("{file}:{}: {unknown}", document.line_of("kind"))];
    };
    let before = old.iter().find(|old| same_object(old, object));
    let mut problems: Vec<Problem> = metadata(object, known);
    problems.extend(rules::all_problems(operators, known, object, before).into_vec());
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
