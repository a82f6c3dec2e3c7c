//! One node of a compiled schema: everything the other modules need of it, looked up once.

use std::collections::{BTreeMap, HashMap};

use regex::Regex;
use serde_json::Value;

use crate::cel::Rule;
use crate::format::Format;

/// A schema, ready to be applied. Junctor branches (`allOf` and its kin) are nodes too, with most parts empty.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a keyword of the schema")]
pub(crate) struct Node {
    pub(crate) kind: Option<Kind>,
    pub(crate) nullable: bool,
    pub(crate) int_or_string: bool,
    pub(crate) preserve_unknown: bool,
    pub(crate) embedded: bool,
    /// The description's first sentence, which is what a message can quote.
    pub(crate) summary: Option<String>,
    pub(crate) default: Option<Value>,

    /// Boxed, because a map has room for more than it holds, and a node is large.
    pub(crate) properties: BTreeMap<String, Box<Node>>,
    pub(crate) additional: Additional,
    pub(crate) items: Option<Box<Node>>,

    pub(crate) limits: Limits,
    pub(crate) required: Vec<String>,
    pub(crate) allowed: Option<Vec<Value>>,
    pub(crate) pattern: Option<Regex>,
    pub(crate) format: Option<Format>,
    pub(crate) all_of: Vec<Node>,
    pub(crate) any_of: Vec<Node>,
    pub(crate) one_of: Vec<Node>,
    pub(crate) not: Option<Box<Node>>,

    pub(crate) list: ListType,
    /// `x-kubernetes-map-type: atomic`: replaced as a whole, so nothing in it has an old counterpart.
    pub(crate) atomic_map: bool,

    pub(crate) rules: Vec<Rule>,
    /// Whether this node or any below has rules: most subtrees have none and are skipped.
    pub(crate) ruled: bool,
    /// Whether this node or any below is a set or map list.
    pub(crate) keyed: bool,
}

/// The JSON types a schema can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Kind {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }

    /// Whether a value is of this type. As in Kubernetes `1.0` counts as an integer, because YAML tools write it.
    pub(crate) fn admits(self, value: &Value) -> bool {
        match self {
            Self::Object => value.is_object(),
            Self::Array => value.is_array(),
            Self::String => value.is_string(),
            Self::Boolean => value.is_boolean(),
            Self::Number => value.is_number(),
            Self::Integer => is_integer(value),
        }
    }
}

pub(crate) fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|f| f.fract() == 0.0)
}

/// `additionalProperties`.
#[derive(Debug, Default)]
pub(crate) enum Additional {
    /// Absent or `false`: other keys are unknown.
    #[default]
    None,
    /// `true`: other keys are welcome, with anything scalar in them; what is below them is pruned.
    Any,
    /// Other keys hold values of this schema.
    Of(Box<Node>),
}

/// How a list's elements are told apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// The numeric bounds of a schema.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    pub(crate) minimum: Option<f64>,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) exclusive_maximum: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_items: Option<u64>,
    pub(crate) min_properties: Option<u64>,
    pub(crate) max_properties: Option<u64>,
}

impl Node {
    /// The schema of one key of an object.
    pub(crate) fn child(&self, key: &str) -> Child<'_> {
        match (self.properties.get(key), &self.additional) {
            (Some(node), _) => Child::Field(node),
            (None, Additional::Of(node)) => Child::Key(node),
            (None, Additional::Any) => Child::Anything,
            (None, Additional::None) => Child::Unknown,
        }
    }

    /// The elements of an old list, to be found by what is the same element: only map lists can tell.
    pub(crate) fn old_items<'v>(&'v self, old: Option<&'v Value>) -> OldItems<'v> {
        let keys = match &self.list {
            ListType::Map(keys) => keys.as_slice(),
            _ => &[],
        };
        let mut items = HashMap::new();
        if !keys.is_empty() {
            for item in old.and_then(Value::as_array).into_iter().flatten() {
                items.entry(identity(keys, item)).or_insert(item);
            }
        }
        OldItems { keys, items }
    }

    /// The earlier state of a key of an object.
    pub(crate) fn old_value<'v>(&self, old: Option<&'v Value>, key: &str) -> Option<&'v Value> {
        if self.atomic_map { None } else { old?.as_object()?.get(key) }
    }
}

/// The elements of an old list. Looking each up in the list itself would take the square of its length.
pub(crate) struct OldItems<'v> {
    keys: &'v [String],
    items: HashMap<String, &'v Value>,
}

impl<'v> OldItems<'v> {
    /// The earlier state of an item.
    pub(crate) fn of(&self, item: &Value) -> Option<&'v Value> {
        // An item without its keys has no identity; Kubernetes correlates it with nothing.
        if self.keys.is_empty() || !item.is_object() {
            return None;
        }
        self.items.get(&identity(self.keys, item)).copied()
    }
}

/// What an element of a map list is known by.
pub(crate) fn identity(keys: &[String], item: &Value) -> String {
    keys.iter().map(|key| item.get(key).map_or_else(String::new, Value::to_string) + "\n").collect()
}

/// What a schema says of one key.
pub(crate) enum Child<'a> {
    /// A named property.
    Field(&'a Node),
    /// A key of a map.
    Key(&'a Node),
    /// A key of a map of anything.
    Anything,
    /// Not in the schema.
    Unknown,
}
