//! Debian packages, from dpkg's database and the copyright files.

use std::collections::{BTreeMap, BTreeSet};

use super::files::Files;
use super::{Distribution, Kind, Licence, Package};

const STATUS: &str = "var/lib/dpkg/status";
const RELEASES: [&str; 2] = ["etc/os-release", "usr/lib/os-release"];
const DOCUMENTATION: &str = "usr/share/doc/";
/// How a copyright file begins that programs can read.
const FORMAT: &str = "copyright-format/1.0";

/// Whether a file is looked at.
pub(super) fn is_read(path: &str) -> bool {
    let documentation = path.strip_prefix(DOCUMENTATION);
    path == STATUS
        || RELEASES.contains(&path)
        || documentation.is_some_and(|path| !path.contains('/') || path.ends_with("/copyright"))
}

/// Which distribution the files are of.
pub(super) fn distribution(files: &Files) -> Distribution {
    let text = RELEASES.iter().find_map(|path| files.text(path)).unwrap_or_default();
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_default().trim_matches('"').to_owned()
    };
    Distribution { id: value("ID"), version: value("VERSION_ID") }
}

/// The packages that are installed.
pub(super) fn packages(files: &Files) -> Vec<Package> {
    let status = files.text(STATUS).unwrap_or_default();
    let installed = |fields: &Fields| fields.get("Status").is_some_and(|status| status.ends_with(" installed"));
    paragraphs(&status).filter(installed).filter_map(|fields| package(files, &fields)).collect()
}

fn package(files: &Files, fields: &Fields) -> Option<Package> {
    let field = |name: &str| fields.get(name).cloned();
    let name = field("Package")?;
    // `Source: name (version)`, where that differs.
    let source = field("Source").and_then(|source| source.split(' ').next().map(str::to_owned));
    Some(Package {
        kind: Kind::Debian { architecture: field("Architecture")?, source: source.unwrap_or_else(|| name.clone()) },
        version: field("Version")?,
        licences: licences(&files.text(&format!("{DOCUMENTATION}{name}/copyright")).unwrap_or_default()),
        supplier: field("Maintainer"),
        website: field("Homepage"),
        name,
        ..Package::default()
    })
}

/// What a copyright file names, if programs can read it; each once.
fn licences(copyright: &str) -> Vec<Licence> {
    if !copyright.lines().next().is_some_and(|line| line.contains(FORMAT)) {
        return Vec::new();
    }
    let named =
        paragraphs(copyright).filter_map(|fields| Some(fields.get("License")?.lines().next()?.trim().to_owned()));
    let named: BTreeSet<String> = named.filter(|name| !name.is_empty()).collect();
    let licences: BTreeSet<Licence> = named.iter().map(|name| Licence::of_debian(name)).collect();
    licences.into_iter().collect()
}

type Fields = BTreeMap<String, String>;

/// The paragraphs of a control file: fields, of which a value goes on in lines that begin with a space.
fn paragraphs(text: &str) -> impl Iterator<Item = Fields> {
    text.split("\n\n").map(|paragraph| {
        let mut fields = Fields::new();
        let mut last = String::new();
        for line in paragraph.lines().filter(|line| !line.starts_with('#')) {
            if line.starts_with([' ', '\t']) {
                let value = fields.entry(last.clone()).or_default();
                value.push('\n');
                value.push_str(line);
            } else if let Some((name, value)) = line.split_once(':') {
                name.clone_into(&mut last);
                fields.insert(name.to_owned(), value.trim().to_owned());
            }
        }
        fields
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copyright_file_for_programs_says_the_licences() {
        let text = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: *\nCopyright: \
                    someone\nLicense: GPL-2+\n\nFiles: debian/*\nLicense: Expat\n Permission is hereby granted\n\n\
                    License: GPL-2+\n On Debian systems ...\n";
        let names: Vec<String> = licences(text).iter().map(Licence::expression).collect();
        assert_eq!(names, ["GPL-2.0-or-later", "MIT"]);
    }

    #[test]
    fn a_copyright_file_for_people_says_nothing_to_programs() {
        assert_eq!(licences("This package was debianized by\nLicense: GPL\n"), []);
    }

    #[test]
    fn a_value_goes_on_in_lines_that_begin_with_a_space() {
        let fields: Vec<Fields> = paragraphs("A: 1\nB: 2\n more\n# no\n\nA: 3\n").collect();
        assert_eq!(fields.len(), 2);
        assert_eq!(fields[0]["B"], "2\n more");
        assert_eq!(fields[1]["A"], "3");
    }
}
