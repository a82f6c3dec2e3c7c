//! The names that specs hold. Upstream bounds their length and little else, so these types do the same: an object
//! that its CRD accepts must always deserialize here.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A name of 1 to `MAX` characters; with `COMMA` false, without commas.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name<const MAX: usize, const COMMA: bool = true>(String);

/// The name of another object of the same namespace.
pub type ObjectRef = Name<253>;
/// The name of a domain, project, role or group, which Keystone keeps within 64 characters.
pub type KeystoneName = Name<64>;
/// A tag of a project.
pub type KeystoneTag = Name<255>;
/// A name as most OpenStack services take it. A comma separates names in query strings, so it cannot be in one.
pub type OpenStackName = Name<255, false>;

impl<const MAX: usize, const COMMA: bool> Name<MAX, COMMA> {
    /// The only way in: `Err` says what is wrong and how to fix it.
    pub fn new(text: impl Into<String>) -> Result<Self, String> {
        let text = text.into();
        if text.is_empty() || text.chars().count() > MAX {
            return Err(format!("{text:?} is empty or too long; use 1 to {MAX} characters"));
        }
        if !COMMA && text.contains(',') {
            return Err(format!("{text:?} has a comma; remove it"));
        }
        Ok(Self(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<const MAX: usize, const COMMA: bool> TryFrom<String> for Name<MAX, COMMA> {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::new(text)
    }
}

impl<const MAX: usize, const COMMA: bool> From<Name<MAX, COMMA>> for String {
    fn from(name: Name<MAX, COMMA>) -> Self {
        name.0
    }
}

impl<const MAX: usize, const COMMA: bool> fmt::Display for Name<MAX, COMMA> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<const MAX: usize, const COMMA: bool> JsonSchema for Name<MAX, COMMA> {
    fn schema_name() -> Cow<'static, str> {
        format!("Name{MAX}{}", if COMMA { "" } else { "WithoutComma" }).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = json_schema!({"type": "string", "minLength": 1, "maxLength": MAX});
        if !COMMA {
            schema.insert("pattern".into(), "^[^,]+$".into());
        }
        schema
    }
}
