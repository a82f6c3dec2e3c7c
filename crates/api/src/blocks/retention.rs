//! What becomes of data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What becomes of data when the object that it belongs to is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// Data is retained, with the Secrets to access it: a new object of the same name uses both again.
    #[default]
    Retain,
    /// Data is deleted, and its volumes with it.
    Delete,
}
