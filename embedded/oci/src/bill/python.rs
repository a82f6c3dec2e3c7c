//! Python packages, from what their installer has written beside them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::files::Files;
use super::{Kind, Licence, Origin, Package, Provenance};

const METADATA: &str = ".dist-info/METADATA";
/// Where a package came from that was not installed by its name.
const DIRECT: &str = ".dist-info/direct_url.json";

/// Whether a file is looked at.
pub(super) fn is_read(path: &str) -> bool {
    path.ends_with(METADATA) || path.ends_with(DIRECT)
}

/// A name as indexes compare it: `Foo_Bar.baz` is `foo-bar-baz`.
pub(super) fn normalised(name: &str) -> String {
    let parts = name.split(['-', '_', '.']).filter(|part| !part.is_empty());
    parts.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
}

/// The packages that are installed, with what else is known of them.
pub(super) fn packages(files: &Files, known: &Provenance) -> Vec<Package> {
    let installed = files.paths().filter(|path| path.ends_with(METADATA));
    installed.filter_map(|path| package(files, path, known)).collect()
}

fn package(files: &Files, path: &str, known: &Provenance) -> Option<Package> {
    let headers = headers(&files.text(path)?);
    let first = |name: &str| headers.get(name).and_then(|values| values.first()).cloned();
    let name = first("Name")?;
    let Origin { mut hashes, patches, constraint_override } = known.of(&name).cloned().unwrap_or_default();
    let direct = files.text(&path.replace(METADATA, DIRECT));
    hashes.extend(direct.as_deref().and_then(archive_hash).filter(|hash| !hashes.contains(hash)));
    Some(Package {
        kind: Kind::Python,
        version: first("Version")?,
        licences: licences(&headers),
        hashes,
        supplier: first("Author").or_else(|| first("Maintainer")).filter(|author| !author.is_empty()),
        website: first("Home-page").or_else(|| project_url(&headers)).filter(|url| url.starts_with("http")),
        patches,
        constraint_override,
        name,
    })
}

type Headers = BTreeMap<String, Vec<String>>;

/// The headers of a metadata file; the text after them is for people.
fn headers(text: &str) -> Headers {
    let mut headers = Headers::new();
    for line in text.lines().take_while(|line| !line.is_empty()) {
        // Lines that go on are texts of licences, which are not taken.
        if let Some((name, value)) = line.split_once(": ").filter(|(name, _)| !name.starts_with([' ', '\t'])) {
            headers.entry(name.to_owned()).or_default().push(value.trim().to_owned());
        }
    }
    headers
}

/// What a package says of its licence, in the most precise of the three ways that there have been.
fn licences(headers: &Headers) -> Vec<Licence> {
    let values = |name: &str| headers.get(name).into_iter().flatten();
    let expression = values("License-Expression").next().and_then(|text| Licence::of_expression(text));
    let classified = || {
        let classes = values("Classifier").filter_map(|class| class.strip_prefix("License :: "));
        let names = classes.filter_map(|class| class.rsplit(" :: ").next()).filter(|name| *name != "OSI Approved");
        let licences: Vec<Licence> = names.map(Licence::of_classifier).collect();
        Some(licences).filter(|licences| !licences.is_empty())
    };
    let named = || {
        let name = values("License").next().filter(|name| !name.is_empty() && name.len() <= 60 && *name != "UNKNOWN");
        name.map(|name| Licence::of_name(name))
    };
    // A name that stands for one licence says more than a class such as "BSD License".
    let exact = named().filter(|licence| !matches!(licence, Licence::Named(_)));
    expression.or(exact).map(|one| vec![one]).or_else(classified).or_else(|| Some(vec![named()?])).unwrap_or_default()
}

fn project_url(headers: &Headers) -> Option<String> {
    let urls = headers.get("Project-URL")?.iter().filter_map(|entry| entry.split_once(", "));
    let wanted = ["homepage", "home-page", "source", "repository"];
    let mut known: Vec<_> = urls.map(|(label, url)| (label.to_ascii_lowercase(), url)).collect();
    known.sort_by_key(|(label, _)| wanted.iter().position(|want| want == label).unwrap_or(wanted.len()));
    known.first().map(|(_, url)| (*url).to_owned())
}

fn archive_hash(direct: &str) -> Option<String> {
    let direct: Value = serde_json::from_str(direct).ok()?;
    let archive = &direct["archive_info"];
    let old = || archive["hash"].as_str()?.strip_prefix("sha256=");
    archive["hashes"]["sha256"].as_str().or_else(old).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expressions(text: &str) -> Vec<String> {
        licences(&headers(text)).iter().map(Licence::expression).collect()
    }

    #[test]
    fn names_are_compared_as_indexes_do() {
        assert_eq!(normalised("Oslo.Config_x--y"), "oslo-config-x-y");
    }

    #[test]
    fn the_most_precise_word_on_the_licence_counts() {
        assert_eq!(expressions("License-Expression: MIT OR Apache-2.0\nLicense: BSD\n"), ["MIT OR Apache-2.0"]);
        assert_eq!(
            expressions("License: BSD-3-Clause\nClassifier: License :: OSI Approved :: BSD License\n"),
            ["BSD-3-Clause"]
        );
        assert_eq!(
            expressions("Classifier: License :: OSI Approved :: Apache Software License\nLicense: see the file\n"),
            ["Apache-2.0"]
        );
        assert_eq!(expressions("License: UNKNOWN\nName: a\n\nLicense: not a header\n"), Vec::<String>::new());
    }

    #[test]
    fn the_hash_of_what_was_installed_from_a_url_is_taken() {
        let direct = r#"{"url":"file:///a.tar.gz","archive_info":{"hashes":{"sha256":"ab"}}}"#;
        assert_eq!(archive_hash(direct).as_deref(), Some("ab"));
        assert_eq!(archive_hash(r#"{"url":"x","archive_info":{"hash":"sha256=cd"}}"#).as_deref(), Some("cd"));
        assert_eq!(archive_hash(r#"{"url":"x","vcs_info":{}}"#), None);
    }
}
