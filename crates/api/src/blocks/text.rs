//! Strings with a grammar: each is a type with one constructor, and its grammar is in the CRD as a CEL rule.
//!
//! The API server and the constructor enforce the same thing; the constructor may know more (that a cron expression
//! ever fires). A rule's message is "what is wrong; how to fix it", and `c5c3-schema` splits it there.

/// Defines a string newtype: its documentation, its length, the CEL rules and the check behind its constructor.
macro_rules! text {
    ($(#[$doc:meta])* $name:ident, max $max:literal, $([$rule:expr, $message:expr]),+, |$text:ident| $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The longest value, in characters.
            pub const MAX_LENGTH: usize = $max;

            /// The only way in: `Err` says what is wrong and how to fix it.
            pub fn new(text: impl Into<String>) -> Result<Self, String> {
                let text = text.into();
                if text.is_empty() || text.chars().count() > Self::MAX_LENGTH {
                    return Err(format!("{text:?} is empty or too long; use 1 to {} characters", Self::MAX_LENGTH));
                }
                let check: fn(&str) -> Result<(), String> = |$text| $check;
                check(&text)?;
                Ok(Self(text))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = String;
            fn try_from(text: String) -> Result<Self, String> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(text: $name) -> Self {
                text.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn inline_schema() -> bool {
                true
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "minLength": 1,
                    "maxLength": $max,
                    "x-kubernetes-validations": [$({"rule": $rule, "message": $message}),+]
                })
            }
        }
    };
}
pub(crate) use text;
