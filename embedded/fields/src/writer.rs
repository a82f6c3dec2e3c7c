//! Who writes, and which fields a write to an endpoint can own.

use crate::set::FieldSet;

/// Who writes an object, and through which endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The field manager: the request's `fieldManager`, or its user agent up to the first `/`. Empty is `unknown`.
    pub manager: &'a str,
    /// The version of the endpoint: `apps/v1`.
    pub api_version: &'a str,
    /// The subresource of the endpoint, or empty.
    pub subresource: &'a str,
    /// The time, as `2026-01-31T12:00:00Z`.
    pub now: &'a str,
    /// The fields that a write to this endpoint can own.
    pub scope: Scope<'a>,
}

/// The fields that a write to an endpoint can own, by dotted paths. The server resets the others to what they were.
#[derive(Clone, Copy, Debug, Default)]
pub enum Scope<'a> {
    /// All of them: a kind without a status subresource.
    #[default]
    Everything,
    /// All but these and what is in them: `&["status"]` for an object whose status has its own endpoint.
    Without(&'a [&'a str]),
    /// These and what is in them: `&["status"]` for that endpoint.
    Only(&'a [&'a str]),
}

impl Writer<'_> {
    pub(crate) fn name(&self) -> &str {
        if self.manager.is_empty() { "unknown" } else { self.manager }
    }
}

impl Scope<'_> {
    pub(crate) fn filter(self, mut set: FieldSet) -> FieldSet {
        match self {
            Self::Everything => set,
            Self::Without(paths) => {
                set.cut(&FieldSet::of(paths));
                set
            }
            Self::Only(paths) => set.within(&FieldSet::of(paths)),
        }
    }
}
