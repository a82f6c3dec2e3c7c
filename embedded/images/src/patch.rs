//! Patches of installed packages: each applies as a whole, or says which of its hunks does not fit.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A patch, of a service or of a library.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Patch {
    /// `service` or `library`.
    pub kind: String,
    /// The image or the library that it is for.
    pub of: String,
    /// Its file's name, which is its place in the order.
    pub name: String,
    /// Its text, as `git format-patch` or `diff -u` writes it.
    pub text: String,
}

/// Why a patch was not applied.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PatchError {
    /// It is no patch.
    #[error("patch {patch} cannot be read: {why}")]
    Malformed {
        /// Its name.
        patch: String,
        /// What is wrong with it.
        why: String,
    },
    /// What it changes is there already.
    #[error("patch {patch} is already applied: {file}, hunk {hunk}")]
    AlreadyApplied {
        /// Its name.
        patch: String,
        /// The file.
        file: String,
        /// The hunk, as the patch heads it.
        hunk: String,
    },
    /// It is for other source than this.
    #[error("patch {patch} does not apply: {file}, hunk {hunk}")]
    DoesNotApply {
        /// Its name.
        patch: String,
        /// The file.
        file: String,
        /// The hunk, as the patch heads it.
        hunk: String,
    },
    /// It changes a file that is not installed.
    #[error("patch {patch} does not apply: {file} is not there")]
    NoFile {
        /// Its name.
        patch: String,
        /// The file.
        file: String,
    },
}

/// What a patch makes of files: new contents, or none for those that it deletes.
pub type Changed = BTreeMap<String, Option<String>>;

/// The part of a patch that is about one file.
#[derive(Debug, Eq, PartialEq)]
struct Part<'a> {
    old: Option<String>,
    new: Option<String>,
    text: &'a str,
}

/// Applies a patch to files, which are looked up by their paths in the source.
pub fn apply(patch: &Patch, read: impl Fn(&str) -> Option<String>) -> Result<Changed, PatchError> {
    let malformed = |why: String| PatchError::Malformed { patch: patch.name.clone(), why };
    let parts = parts(&patch.text);
    if parts.is_empty() {
        return Err(malformed("it changes no file".into()));
    }
    let mut changed = Changed::new();
    for part in parts {
        let file = part.new.as_ref().or(part.old.as_ref()).ok_or_else(|| malformed("a file has no name".into()))?;
        let parsed = diffy::Patch::from_str(part.text).map_err(|error| malformed(format!("{file}: {error}")))?;
        let there = match &part.old {
            Some(old) => {
                Some(read(old).ok_or_else(|| PatchError::NoFile { patch: patch.name.clone(), file: old.clone() })?)
            }
            None => read(file),
        };
        // A file that is to be made must not be there, or have nothing in it.
        let base = there.unwrap_or_default();
        if part.old.is_none() && !base.is_empty() {
            return Err(unfit(patch, file, &base, &parsed));
        }
        if is_at_place(&base, &parsed, After) && !is_at_place(&base, &parsed, Before) {
            return Err(unfit(patch, file, &base, &parsed));
        }
        let result = diffy::apply(&base, &parsed).map_err(|_| unfit(patch, file, &base, &parsed))?;
        changed.insert(file.clone(), part.new.is_some().then_some(result));
    }
    Ok(changed)
}

/// A side of a patch.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Side {
    Before,
    After,
}
use Side::{After, Before};

/// Whether every hunk's text, as it is before or after the patch, is exactly where the patch says. A patch that only adds
/// lines could otherwise be applied over and over: what it looks for stays there.
fn is_at_place(base: &str, parsed: &diffy::Patch<'_, str>, side: Side) -> bool {
    let lines: Vec<_> = base.split_inclusive('\n').collect();
    parsed.hunks().iter().all(|hunk| {
        let start = if side == Before { hunk.old_range().start() } else { hunk.new_range().start() };
        let wanted = hunk.lines().iter().filter_map(|line| match (line, side) {
            (diffy::Line::Context(text), _)
            | (diffy::Line::Delete(text), Before)
            | (diffy::Line::Insert(text), After) => Some(*text),
            _ => None,
        });
        wanted.enumerate().all(|(offset, text)| lines.get(start.saturating_sub(1) + offset) == Some(&text))
    })
}

/// Which hunk does not fit, and whether it is because its change is there.
fn unfit(patch: &Patch, file: &str, base: &str, parsed: &diffy::Patch<'_, str>) -> PatchError {
    let (patch, file) = (patch.name.clone(), file.to_owned());
    let header = |index: usize| {
        let hunk = parsed.hunks().get(index).or(parsed.hunks().first());
        hunk.map(|hunk| format!("@@ -{} +{} @@", hunk.old_range(), hunk.new_range())).unwrap_or_default()
    };
    if diffy::apply(base, &parsed.reverse()).is_ok() {
        return PatchError::AlreadyApplied { patch, file, hunk: header(0) };
    }
    // The error tells the number of the hunk, counted from 1, by its text alone.
    let said = diffy::apply(base, parsed).err().map(|error| error.to_string()).unwrap_or_default();
    let number = said.rsplit('#').next().and_then(|number| number.trim().parse::<usize>().ok());
    PatchError::DoesNotApply { patch, file, hunk: header(number.unwrap_or(1).saturating_sub(1)) }
}

/// A patch of several files, one by one: from `--- a/old` on, up to what comes before the next one.
fn parts(text: &str) -> Vec<Part<'_>> {
    let mut heads = Vec::new();
    let mut offset = 0;
    let lines: Vec<(usize, &str)> = text
        .split_inclusive('\n')
        .map(|line| {
            let start = offset;
            offset += line.len();
            (start, line.trim_end_matches(['\n', '\r']))
        })
        .collect();
    for pair in lines.windows(2) {
        if let [(start, old), (_, new)] = pair
            && let (Some(old), Some(new)) = (old.strip_prefix("--- "), new.strip_prefix("+++ "))
        {
            heads.push((*start, name(old), name(new)));
        }
    }
    let ends = heads.iter().skip(1).map(|head| head.0).chain([text.len()]).collect::<Vec<_>>();
    let parts = heads.into_iter().zip(ends).map(|((start, old, new), end)| {
        let part = &text[start..end];
        // What git writes between files, and after the last, is no part of a hunk.
        let cut = ["\ndiff --git ", "\n-- \n"].iter().filter_map(|mark| part.find(mark)).min();
        Part { old, new, text: &part[..cut.map_or(part.len(), |cut| cut + 1)] }
    });
    parts.collect()
}

/// A file's name as it is in the source, without the first folder; none for `/dev/null`.
fn name(word: &str) -> Option<String> {
    let word = word.split('\t').next().unwrap_or(word).trim();
    if word == "/dev/null" { None } else { word.split_once('/').map(|(_, rest)| rest.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n";
    const GOOD: &str = "From a1b2 Mon Sep 17 00:00:00 2001\nSubject: two and nine\n---\n svc/core.py | 4 ++--\n\n\
        diff --git a/svc/core.py b/svc/core.py\nindex 1..2 100644\n--- a/svc/core.py\n+++ b/svc/core.py\n\
        @@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n@@ -8,3 +8,3 @@\n eight\n-nine\n+NINE\n ten\n\
        diff --git a/svc/new.py b/svc/new.py\nnew file mode 100644\n--- /dev/null\n+++ b/svc/new.py\n\
        @@ -0,0 +1,1 @@\n+fresh\n-- \n2.47.3\n\n";

    fn patch(text: &str) -> Patch {
        Patch { kind: "service".into(), of: "svc".into(), name: "0001-two.patch".into(), text: text.into() }
    }

    fn core(text: &'static str) -> impl Fn(&str) -> Option<String> {
        move |path| (path == "svc/core.py").then(|| text.to_owned())
    }

    #[test]
    fn a_patch_changes_what_it_says_and_makes_what_is_new() {
        let changed = apply(&patch(GOOD), core(SOURCE)).unwrap();
        let expected = SOURCE.replace("two", "TWO").replace("nine", "NINE");
        assert_eq!(changed["svc/core.py"].as_deref(), Some(expected.as_str()));
        assert_eq!(changed["svc/new.py"].as_deref(), Some("fresh\n"));
        assert_eq!(changed.len(), 2);
    }

    #[test]
    fn a_broken_patch_is_named_with_its_hunk() {
        let error =
            apply(&patch(GOOD), core("one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nNEUF\nten\n")).unwrap_err();
        assert_eq!(error.to_string(), "patch 0001-two.patch does not apply: svc/core.py, hunk @@ -8,3 +8,3 @@");
    }

    #[test]
    fn a_patch_that_is_in_the_source_is_named_as_applied() {
        let applied = "one\nTWO\nthree\nfour\nfive\nsix\nseven\neight\nNINE\nten\n";
        let error = apply(&patch(GOOD), core(applied)).unwrap_err();
        assert_eq!(error.to_string(), "patch 0001-two.patch is already applied: svc/core.py, hunk @@ -1,3 +1,3 @@");
    }

    #[test]
    fn lines_that_are_only_added_are_not_added_twice() {
        let adding = "--- a/svc/core.py\n+++ b/svc/core.py\n@@ -1,2 +1,3 @@\n+zero\n one\n two\n";
        let once = apply(&patch(adding), core("one\ntwo\n")).unwrap();
        assert_eq!(once["svc/core.py"].as_deref(), Some("zero\none\ntwo\n"));
        let twice = apply(&patch(adding), core("zero\none\ntwo\n")).unwrap_err();
        assert!(matches!(twice, PatchError::AlreadyApplied { .. }), "{twice}");
    }

    #[test]
    fn a_patch_of_a_file_that_is_not_there_says_so() {
        let error = apply(&patch(GOOD), |_| None).unwrap_err();
        assert_eq!(error.to_string(), "patch 0001-two.patch does not apply: svc/core.py is not there");
    }

    #[test]
    fn a_file_can_be_deleted() {
        let text = "--- a/svc/core.py\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-gone\n";
        let changed = apply(&patch(text), core("gone\n")).unwrap();
        assert_eq!(changed, Changed::from([("svc/core.py".to_owned(), None)]));
    }

    #[test]
    fn a_text_without_hunks_is_no_patch() {
        assert!(matches!(apply(&patch("hello\n"), core(SOURCE)), Err(PatchError::Malformed { .. })));
    }
}
