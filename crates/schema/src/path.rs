//! Where in an object we are. Kept as a chain on the stack and written out only when there is something to report,
//! because a valid object, the common case, should cost no string at all.

use std::fmt;

/// Whether a written path is that of `outer` or of something inside it.
pub(crate) fn is_within(path: &str, outer: &str) -> bool {
    outer.is_empty() || path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// A place in an object, as a chain back to its root.
#[derive(Clone, Copy)]
pub(crate) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Field(&'a str),
    Key(&'a str),
    Index(usize),
    /// A path already written out, as a rule's `fieldPath` gives.
    Tail(&'a str),
}

impl<'a> Path<'a> {
    pub(crate) const ROOT: Path<'static> = Path { parent: None, step: Step::Root };

    /// A field that the schema names.
    pub(crate) fn field(&'a self, name: &'a str) -> Path<'a> {
        self.then(Step::Field(name))
    }

    /// A key of a map, which may hold anything: bracketed unless it reads like a field.
    pub(crate) fn key(&'a self, key: &'a str) -> Path<'a> {
        self.then(Step::Key(key))
    }

    pub(crate) fn index(&'a self, index: usize) -> Path<'a> {
        self.then(Step::Index(index))
    }

    pub(crate) fn tail(&'a self, tail: &'a str) -> Path<'a> {
        self.then(Step::Tail(tail))
    }

    fn then(&'a self, step: Step<'a>) -> Path<'a> {
        Path { parent: Some(self), step }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(parent) = self.parent else {
            return Ok(());
        };
        parent.fmt(f)?;
        let dot = if parent.parent.is_some() { "." } else { "" };
        match self.step {
            Step::Root => Ok(()),
            Step::Field(name) => write!(f, "{dot}{name}"),
            Step::Key(key) if is_identifier(key) => write!(f, "{dot}{key}"),
            Step::Key(key) => write!(f, "[{key}]"),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Tail(tail) if tail.starts_with('[') => f.write_str(tail),
            Step::Tail(tail) => write!(f, "{dot}{tail}"),
        }
    }
}

impl From<&Path<'_>> for String {
    fn from(path: &Path<'_>) -> Self {
        path.to_string()
    }
}

fn is_identifier(key: &str) -> bool {
    let mut chars = key.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_like_the_yaml_it_points_into() {
        let root = Path::ROOT;
        assert_eq!(root.to_string(), "");
        let spec = root.field("spec");
        let cells = spec.field("cells");
        let first = cells.index(0);
        assert_eq!(first.field("name").to_string(), "spec.cells[0].name");
        let labels = spec.field("labels");
        assert_eq!(labels.key("zone").to_string(), "spec.labels.zone");
        assert_eq!(labels.key("a.b/c").to_string(), "spec.labels[a.b/c]");
        assert_eq!(labels.key("").to_string(), "spec.labels[]");
        assert_eq!(root.tail("spec.x").to_string(), "spec.x");
        assert_eq!(spec.tail("['a b']").to_string(), "spec['a b']");
    }
}
