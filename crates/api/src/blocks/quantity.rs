//! Quantities as Kubernetes writes them in `resources`: an integer or a string such as `250m`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

/// The grammar of a quantity. In a map of quantities it is a pattern and not a CEL rule: the API server's cost
/// estimate takes an int-or-string for as long as a whole request, and a few maps of them would exceed its budget.
const PATTERN: &str = r"^[+-]?([0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+|[KMGTPE]i|[numkMGTPE])?$";

/// A quantity of a resource, such as `250m`, `2` or `512Mi`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Quantity(String);

impl Quantity {
    /// The only way in.
    pub fn new(text: impl Into<String>) -> Result<Self, String> {
        let text = text.into();
        match bytes(&text) {
            Some(number) if number >= 0.0 => Ok(Self(text)),
            _ => Err(format!("{text:?} is not a quantity; write a number with a unit, such as 500m or 2Gi")),
        }
    }

    /// The amount: bytes, or CPUs. Exact for whole numbers up to 2^53.
    pub fn value(&self) -> f64 {
        bytes(&self.0).unwrap_or(0.0)
    }

    /// The text, as Kubernetes takes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(i64),
            Text(String),
        }
        let text = match Written::deserialize(deserializer)? {
            Written::Number(number) => number.to_string(),
            Written::Text(text) => text,
        };
        Self::new(text).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Write a number with a unit, such as 500m or 2Gi.",
            "x-kubernetes-int-or-string": true,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": PATTERN,
        })
    }
}

/// The value of a quantity, or nothing if it does not parse. An `f64` is exact enough to compare sizes with.
pub(super) fn bytes(text: &str) -> Option<f64> {
    let unit_at = text.find(|c: char| !(c.is_ascii_digit() || "+-.".contains(c))).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let factor = match unit {
        "" => 1.0,
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024f64,
        "Mi" => 1024f64.powi(2),
        "Gi" => 1024f64.powi(3),
        "Ti" => 1024f64.powi(4),
        "Pi" => 1024f64.powi(5),
        "Ei" => 1024f64.powi(6),
        exponent if exponent.len() > 1 && exponent.starts_with(['e', 'E']) => return text.parse().ok(),
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_parse_as_in_kubernetes() {
        for good in ["0", "1", "250m", "2Gi", "1.5", ".5", "1e3", "10E"] {
            assert!(Quantity::new(good).is_ok(), "{good}");
        }
        for bad in ["", "Gi", "10GB", "1 Gi", "ten", "-1", "1.2.3"] {
            assert!(Quantity::new(bad).is_err(), "{bad}");
        }
        assert_eq!(serde_json::from_str::<Quantity>("2").unwrap().as_str(), "2");
    }
}
