//! Pages as they are read: Markdown with fenced blocks, headings, links, and code within a line.

use std::path::{Component, Path, PathBuf};

/// A page of the documentation.
pub(crate) struct Page {
    /// Its path from the root of the repository, such as `docs/operators/nova.md`.
    pub(crate) path: String,
    /// Its text.
    pub(crate) text: String,
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// All files with this ending below a folder, by their paths from the root of the repository.
pub(crate) fn below(folder: &str, ending: &str) -> Vec<Page> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(root().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    for entry in entries.map(Result::unwrap) {
        let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            found.extend(below(&path, ending));
        } else if path.ends_with(ending) {
            found.push(one(&path));
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// One file.
pub(crate) fn one(path: &str) -> Page {
    let text = std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    Page { path: path.to_owned(), text }
}

/// Pages outside `docs` that belong to the documentation.
const BESIDE: &[&str] = &[
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "bench/README.md",
    "deploy/openbao/README.md",
    "images/README.md",
];

/// Every page but the table of contents.
pub(crate) fn all() -> Vec<Page> {
    let mut pages = below("docs", ".md");
    pages.retain(|page| page.path != "docs/SUMMARY.md");
    pages.extend(BESIDE.iter().map(|path| one(path)));
    pages
}

/// Pages about what is: those about the API are made from the schemas, and the changelog is about what was.
pub(crate) fn written() -> Vec<Page> {
    let mut pages = all();
    pages.retain(|page| !page.path.starts_with("docs/api/") && page.path != "CHANGELOG.md");
    pages
}

impl Page {
    /// Lines outside fenced blocks, with their numbers.
    pub(crate) fn prose(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines().filter(|(_, _, fenced)| !fenced).map(|(number, line, _)| (number, line))
    }

    /// Lines of fenced blocks, with their numbers.
    pub(crate) fn fenced(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines().filter(|(_, _, fenced)| *fenced).map(|(number, line, _)| (number, line))
    }

    /// Lines with their numbers, and whether each is in a fenced block. The fences themselves are left out.
    fn lines(&self) -> impl Iterator<Item = (usize, &str, bool)> {
        let mut fenced = false;
        self.text.lines().enumerate().filter_map(move |(index, line)| {
            let is_fence = line.trim_start().starts_with("```");
            fenced ^= is_fence;
            (!is_fence).then_some((index + 1, line, fenced))
        })
    }

    /// What is in backticks, with the numbers of lines.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.prose().flat_map(|(number, line)| line.split('`').skip(1).step_by(2).map(move |code| (number, code)))
    }

    /// The targets of links, with the numbers of lines.
    pub(crate) fn links(&self) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for (number, line) in self.prose() {
            let text: String = line.split('`').step_by(2).collect::<Vec<_>>().join("code");
            let targets = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()));
            found.extend(targets.map(|target| (number, target)));
        }
        found
    }

    /// The anchors of headings, as GitHub and mdBook make them: a second heading of the same text ends with `-1`.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for (_, line) in self.prose() {
            let text = line.trim_start_matches('#');
            if text.len() == line.len() || !text.starts_with(' ') {
                continue;
            }
            let kept = text.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            let anchor = kept.collect::<String>().to_lowercase().replace(' ', "-");
            let again = found.iter().filter(|other| **other == anchor).count();
            found.push(if again == 0 { anchor } else { format!("{anchor}-{again}") });
        }
        found
    }
}

/// The path from the root that a link leads to from a page; none if it leads out of the repository.
pub(crate) fn target(page: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in Path::new(link).components() {
        match part {
            Component::Normal(name) => parts.push(name.to_str()?),
            Component::ParentDir => {
                parts.pop()?;
            }
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

#[test]
fn links_anchors_and_code_are_found_and_fenced_blocks_are_not_read_for_them() {
    let text = "# One `field` & more\n[a](b.md#c) and `[no](link)` and `code`\n```text\n# no [x](y)\n```\n# One field & more\n";
    let page = Page { path: "docs/a/b.md".into(), text: text.into() };
    assert_eq!(page.links(), [(2, "b.md#c".to_owned())]);
    assert_eq!(page.anchors(), ["one-field--more", "one-field--more-1"]);
    assert_eq!(page.code().map(|(_, code)| code).collect::<Vec<_>>(), ["field", "[no](link)", "code"]);
    assert_eq!(page.fenced().collect::<Vec<_>>(), [(4, "# no [x](y)")]);
    assert_eq!(target("docs/a/b.md", "../../deploy/x").as_deref(), Some("deploy/x"));
    assert_eq!(target("README.md", "../x"), None);
}
