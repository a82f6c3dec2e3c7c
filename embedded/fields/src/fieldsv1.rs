//! The wire format of a field set, `FieldsV1`: an object whose keys are steps (`f:`, `k:`, `v:`, `i:`) and `.`.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::element::Element;
use crate::set::{FieldSet, Node};

/// Why a `FieldsV1` object could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldsV1Error {
    /// The set, or a part of it, is not an object.
    #[error("expected an object of fields, got {0}")]
    NotAnObject(String),
    /// A key is too short or has no colon.
    #[error("{0:?} is not a path element")]
    NotAnElement(String),
    /// What follows the prefix of a key does not parse.
    #[error("{0:?} is not a valid path element: {1}")]
    Unreadable(String, String),
}

impl FieldSet {
    /// The set as `FieldsV1`.
    pub fn to_fields_v1(&self) -> Value {
        Value::Object(self.write(false))
    }

    fn write(&self, with_self: bool) -> Map<String, Value> {
        let mut object = Map::new();
        if with_self {
            object.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for node in &self.nodes {
            let below = node.children.write(node.member && !node.children.is_empty());
            object.insert(write_element(&node.element), Value::Object(below));
        }
        object
    }

    /// Reads `FieldsV1`. Kinds of steps that are not known are left out, as a later version may know them.
    pub fn from_fields_v1(fields: &Value) -> Result<Self, FieldsV1Error> {
        read(fields).map(|(set, _)| set)
    }
}

/// The set, and whether the path that leads to it is itself a member.
fn read(fields: &Value) -> Result<(FieldSet, bool), FieldsV1Error> {
    let object = match fields {
        Value::Object(object) => object,
        Value::Null => return Ok((FieldSet::default(), true)),
        other => return Err(FieldsV1Error::NotAnObject(other.to_string())),
    };
    let mut nodes = Vec::with_capacity(object.len());
    for (key, below) in object.iter().filter(|(key, _)| *key != ".") {
        if let Some(element) = read_element(key)? {
            let (children, member) = read(below)?;
            nodes.push(Node { element, member, children });
        }
    }
    let mut set = FieldSet::from_nodes(nodes);
    // `k:{"a":1,"b":2}` and `k:{"b":2,"a":1}` are the same item.
    set.nodes.dedup_by(|later, first| {
        let twin = later.element == first.element;
        if twin {
            first.member |= later.member;
            first.children = first.children.union(&later.children);
        }
        twin
    });
    let member = set.is_empty() || object.contains_key(".");
    Ok((set, member))
}

fn read_element(key: &str) -> Result<Option<Element>, FieldsV1Error> {
    let unreadable = |why: &dyn ToString| FieldsV1Error::Unreadable(key.to_owned(), why.to_string());
    let Some((prefix, rest)) = key.split_at_checked(2).filter(|(prefix, _)| prefix.ends_with(':')) else {
        return Err(FieldsV1Error::NotAnElement(key.to_owned()));
    };
    match prefix {
        "f:" => Ok(Some(Element::field(rest))),
        "k:" => {
            let keys = if let Some((name, value)) = one_plain_key(rest) {
                vec![(Arc::from(name), Value::from(value))]
            } else {
                let keys: Map<String, Value> = serde_json::from_str(rest).map_err(|why| unreadable(&why))?;
                keys.into_iter().map(|(name, value)| (Arc::from(name), value)).collect()
            };
            Ok(Some(Element::key(keys)))
        }
        "v:" => serde_json::from_str(rest).map(|value| Some(Element::item(value))).map_err(|why| unreadable(&why)),
        "i:" => rest.parse().map(|index| Some(Element::Index(index))).map_err(|why| unreadable(&why)),
        _ => Ok(None),
    }
}

/// `{"name":"value"}`, which nearly all keys are, without a JSON parser.
fn one_plain_key(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.strip_prefix("{\"")?.strip_suffix("\"}")?.split_once("\":\"")?;
    let plain = |text: &str| !text.bytes().any(|byte| byte == b'"' || byte == b'\\' || byte < b' ');
    (plain(name) && plain(value)).then_some((name, value))
}

fn write_element(element: &Element) -> String {
    match element {
        Element::Field(name) => ["f:", name].concat(),
        Element::Key(keys) => {
            let mut text = "k:{".to_owned();
            for (i, (name, value)) in keys.iter().enumerate() {
                text.push_str(if i > 0 { "," } else { "" });
                push_text(&mut text, name);
                text.push(':');
                push_value(&mut text, value);
            }
            text.push('}');
            text
        }
        Element::Item(value) => {
            let mut text = "v:".to_owned();
            push_value(&mut text, value);
            text
        }
        Element::Index(index) => format!("i:{index}"),
    }
}

fn push_value(text: &mut String, value: &Value) {
    match value {
        Value::String(value) => push_text(text, value),
        other => text.push_str(&escape_html(other.to_string())),
    }
}

fn push_text(text: &mut String, value: &str) {
    // Nearly every key is a plain word.
    if value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./: ".contains(&byte)) {
        text.push('"');
        text.push_str(value);
        text.push('"');
    } else {
        text.push_str(&escape_html(Value::from(value).to_string()));
    }
}

/// Go writes JSON safe for HTML; clients compare these keys as text.
fn escape_html(json: String) -> String {
    if !json.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return json;
    }
    [("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("\u{2028}", "\\u2028"), ("\u{2029}", "\\u2029")]
        .iter()
        .fold(json, |json, (plain, escaped)| json.replace(plain, escaped))
}
