//! What is wrong with an object, where, and how to put it right. Nothing here knows about schemas.

use std::fmt;

/// One thing wrong with an object: where, what, and how to put it right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where: `spec.database.secretRef`, `spec.cells[0].name`, `metadata.labels[a.b/c]`. Empty for the object itself.
    pub path: String,
    /// Which of Kubernetes' categories it falls in.
    pub kind: ProblemKind,
    /// What is wrong, naming the value.
    pub what: String,
    /// How to put it right; may be empty.
    pub fix: String,
}

impl Problem {
    /// A problem at `path`; use an empty `fix` when there is nothing better to say than `what`.
    pub fn new(path: impl Into<String>, kind: ProblemKind, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { path: path.into(), kind, what: what.into(), fix: fix.into() }
    }

    /// The part after the path: `what; fix`. This is what a Kubernetes `Status` carries beside the field.
    pub fn message(&self) -> String {
        if self.fix.is_empty() { self.what.clone() } else { format!("{}; {}", self.what, self.fix) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.what)?;
        if !self.fix.is_empty() {
            write!(f, "; {}", self.fix)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

/// Kubernetes' categories of field errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProblemKind {
    /// A field that must be there is not.
    Required,
    /// The value breaks a rule.
    Invalid,
    /// The value is of the wrong JSON type.
    TypeInvalid,
    /// The value is not one of the enumerated ones.
    NotSupported,
    /// The value occurs twice where it may occur once.
    Duplicate,
    /// The string is too long.
    TooLong,
    /// The list or map has too many entries.
    TooMany,
    /// The schema has no such field.
    Unknown,
    /// The value may not be given here.
    Forbidden,
}

impl ProblemKind {
    /// The reason Kubernetes puts into a `StatusCause`.
    pub fn as_cause(&self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            // Kubernetes has no cause of its own for unknown fields.
            Self::Invalid | Self::Unknown => "FieldValueInvalid",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Forbidden => "FieldValueForbidden",
        }
    }
}

/// Everything wrong with an object, in the order it was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// No problems.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether all is well.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds one.
    pub fn push(&mut self, problem: Problem) {
        self.0.push(problem);
    }

    /// The problems, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.0.iter()
    }

    /// The problems as a slice.
    pub fn as_slice(&self) -> &[Problem] {
        &self.0
    }

    /// The problems as a vector.
    pub fn into_vec(self) -> Vec<Problem> {
        self.0
    }

    /// The same problems ordered by path, those of one path in the order they were found.
    pub fn sorted(mut self) -> Self {
        self.0.sort_by(|a, b| a.path.cmp(&b.path));
        self
    }

    /// `Ok` when there are none, so that a caller can write `?`.
    pub fn into_result(self) -> Result<(), Self> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

impl From<Vec<Problem>> for Problems {
    fn from(problems: Vec<Problem>) -> Self {
        Self(problems)
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl FromIterator<Problem> for Problems {
    fn from_iter<I: IntoIterator<Item = Problem>>(problems: I) -> Self {
        Self(problems.into_iter().collect())
    }
}

impl Extend<Problem> for Problems {
    fn extend<I: IntoIterator<Item = Problem>>(&mut self, problems: I) {
        self.0.extend(problems);
    }
}

impl IntoIterator for Problems {
    type Item = Problem;
    type IntoIter = std::vec::IntoIter<Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_reads_as_where_what_and_fix_and_leaves_out_what_it_has_not() {
        let problem = |path: &str, fix: &str| Problem::new(path, ProblemKind::Required, "is missing", fix).to_string();
        assert_eq!(problem("spec.a", "add it"), "spec.a: is missing; add it");
        assert_eq!(problem("spec.a", ""), "spec.a: is missing");
        assert_eq!(problem("", "add it"), "is missing; add it");
    }

    #[test]
    fn problems_print_one_a_line_and_sort_by_path() {
        let at = |path: &str| Problem::new(path, ProblemKind::Invalid, "is bad", "");
        let problems = Problems::from(vec![at("b"), at("a")]).sorted();
        assert_eq!(problems.to_string(), "a: is bad\nb: is bad");
        assert_eq!(problems.len(), 2);
        assert!(problems.into_result().is_err());
    }

    #[test]
    fn an_unknown_field_is_reported_to_kubernetes_clients_as_invalid() {
        assert_eq!(ProblemKind::Unknown.as_cause(), "FieldValueInvalid");
        assert_eq!(ProblemKind::TooMany.as_cause(), "FieldValueTooMany");
    }
}
