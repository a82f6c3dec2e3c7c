//! What a spec may not ask for: refused by name, before anything is done.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;

use super::kinds::Other;

/// Why a spec is refused. Only a change of the spec helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// Why, in one word.
    pub(super) reason: &'static str,
    /// Why, in words.
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// A field with a value that cannot be used.
    pub(super) fn field(message: impl Into<String>) -> Self {
        Self::new("InvalidField", message)
    }
}

/// Refuses fields that are not provided here, unless they ask for nothing. `at` is what they are fields of.
pub(super) fn unknown(at: &str, other: &Other, asks_for_nothing: &[(&str, &str)]) -> Result<(), Refusal> {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Bool(set) => !set,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Number(_) => false,
    };
    let is_harmless = |(name, value): &(&String, &Value)| {
        is_empty(value) || asks_for_nothing.iter().any(|(field, usual)| *field == name.as_str() && value == usual)
    };
    let named: Vec<String> =
        other.iter().filter(|field| !is_harmless(field)).map(|(name, _)| format!("{at}.{name}")).collect();
    if named.is_empty() {
        return Ok(());
    }
    Err(Refusal::new(
        "UnsupportedField",
        format!(
            "{}: not provided by the stand-in for Flux of this cluster, which would do something else than Flux if it went on \
            without; remove it here, or run Flux itself on a cluster of yours",
            named.join(", ")
        ),
    ))
}

/// The duration of a field.
pub(super) fn duration(field: &str, text: &str) -> Result<Duration, Refusal> {
    let parsed = text.parse::<SignedDuration>().ok().and_then(|parsed| Duration::try_from(parsed).ok());
    let usable = parsed.filter(|duration| !duration.is_zero());
    usable.ok_or_else(|| Refusal::field(format!("{field}: {text} is not a duration such as 10s, 5m or 1h30m")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_ask_for_something_that_is_not_provided_are_named() {
        let other = |value: Value| serde_json::from_value::<Other>(value).unwrap();
        let nothing = json!({"force": false, "images": [], "namePrefix": "", "provider": "generic"});
        assert_eq!(unknown("spec", &other(nothing), &[("provider", "generic")]), Ok(()));
        let refused =
            unknown("spec", &other(json!({"force": true, "kubeConfig": {"secretRef": {"name": "hub"}}})), &[]);
        let refused = refused.unwrap_err();
        assert_eq!(refused.reason, "UnsupportedField");
        assert!(refused.message.starts_with("spec.force, spec.kubeConfig: not provided"), "{refused:?}");
    }

    #[test]
    fn durations_are_those_of_go() {
        for (text, seconds) in [("10m", 600), ("1h30m", 5400), ("90s", 90)] {
            assert_eq!(duration("spec.interval", text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(duration("spec.interval", "500ms"), Ok(Duration::from_millis(500)));
        for text in ["0s", "often", "-5m", ""] {
            assert!(duration("spec.interval", text).is_err(), "{text}");
        }
    }
}
