//! Parameters of steps, with the types that they must have.

use std::collections::BTreeMap;

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Param {
    /// Words.
    Text(String),
    /// Yes or no.
    Switch(bool),
    /// A number.
    Number(f64),
    /// Names.
    List(Vec<String>),
    /// A number for each name.
    Weights(BTreeMap<String, f64>),
}

impl Param {
    /// What it is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Switch(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::List(_) => "a list of strings",
            Self::Weights(_) => "a map of numbers",
        }
    }
}

/// The parameters of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params(pub BTreeMap<String, Param>);

impl Params {
    /// A list; empty when absent.
    pub(crate) fn list(&self, name: &str) -> &[String] {
        match self.0.get(name) {
            Some(Param::List(list)) => list,
            _ => &[],
        }
    }

    /// A number, if it is there.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        match self.0.get(name) {
            Some(Param::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// The weight of a resource: 1 for `memory` and `cpu` when no weights are given, 0 for one that is not listed.
    pub(crate) fn weight(&self, resource: &str) -> f64 {
        match self.0.get("resourceWeights") {
            Some(Param::Weights(weights)) => weights.get(resource).copied().unwrap_or(0.0),
            _ => 1.0,
        }
    }
}
