//! What becomes of data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What becomes of data when the object that it belongs to is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// Data stays, with the Secrets that open it: a new object of the same name goes on with it.
    #[default]
    Retain,
    /// Data goes, and its volumes with it.
    Delete,
}
