//! Static types of CEL expressions: what a real API server finds when it compiles a rule against the schema it stands
//! in. The types follow cel-go's checker and Kubernetes' declaration of schemas to it; where a value's type is open,
//! as an int-or-string's is, so is everything done with it.

mod check;
mod decl;
mod expand;
mod library;
mod literals;
mod signatures;
mod types;

pub(super) use check::{Checked, Fault, check};
pub(super) use decl::{Decls, Id, Kind, REQUEST, maximum};
pub(super) use expand::GATHERED;
pub(super) use types::Type;
