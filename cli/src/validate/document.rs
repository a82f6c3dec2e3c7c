//! YAML documents with the line of each field, so that a problem can be found with an editor.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

use super::source::Source;

/// One document.
pub(super) struct Document {
    pub(super) value: Value,
    lines: HashMap<String, u64>,
}

impl Document {
    /// The items of a List, each with the lines that it has in it; the document itself if it is none.
    pub(super) fn items(mut self) -> Vec<Self> {
        let is_list = self.value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
        let Some(Value::Array(items)) = self.value.get_mut("items").filter(|_| is_list).map(Value::take) else {
            return vec![self];
        };
        let item = |(index, value): (usize, Value)| {
            let place = format!("items[{index}]");
            let inner = |path: &str| path.strip_prefix(&place).map(|rest| rest.trim_start_matches('.').to_owned());
            let lines = self.lines.iter().filter_map(|(path, line)| Some((inner(path)?, *line))).collect();
            Self { value, lines }.items()
        };
        items.into_iter().enumerate().flat_map(item).collect()
    }

    /// The line of the field at that path, or of the nearest field around it that is there.
    pub(super) fn line_of(&self, path: &str) -> u64 {
        let mut path = path;
        loop {
            if let Some(line) = self.lines.get(path) {
                return *line;
            }
            match path.rfind(['.', '[']) {
                Some(end) => path = &path[..end],
                None => return self.lines.get("").copied().unwrap_or(1),
            }
        }
    }
}

/// The documents of a source; empty ones are left out. `Err` is the line to print.
pub(super) fn parse(source: &Source) -> Result<Vec<Document>, String> {
    let nodes: Vec<Option<Node>> =
        serde_saphyr::from_multiple(&source.text).map_err(|error| describe(source, &error))?;
    let mut documents = Vec::new();
    for node in nodes.into_iter().flatten() {
        let mut lines = HashMap::new();
        let value = node.value("", &mut lines);
        match value {
            Value::Null => {}
            Value::Object(_) => documents.push(Document { value, lines }),
            _ => {
                let line = lines.get("").copied().unwrap_or(1);
                return Err(format!(
                    "{}:{line}: is not an object; write apiVersion, kind, metadata and spec",
                    source.name
                ));
            }
        }
    }
    if documents.is_empty() {
        return Err(format!("{}: has no object in it; write apiVersion, kind, metadata and spec", source.name));
    }
    Ok(documents)
}

/// One line for what the parser says, which draws a picture of several.
fn describe(source: &Source, error: &serde_saphyr::Error) -> String {
    let plain = error.without_snippet();
    let text = plain.to_string();
    let first = text.lines().next().unwrap_or("is not YAML");
    let fix = if text.contains("duplicate") { "remove one of the two" } else { "mend the YAML" };
    match error.location() {
        Some(location) => format!("{}:{}: {first}; {fix}", source.name, location.line()),
        None => format!("{}: {first}; {fix}", source.name),
    }
}

/// A value with the line that it starts on.
struct Node(Spanned<Tree>);

enum Tree {
    Scalar(Value),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    fn value(self, path: &str, lines: &mut HashMap<String, u64>) -> Value {
        lines.insert(path.to_owned(), self.0.referenced.line());
        match self.0.value {
            Tree::Scalar(value) => value,
            Tree::List(items) => {
                let items = items.into_iter().enumerate();
                Value::Array(items.map(|(index, item)| item.value(&format!("{path}[{index}]"), lines)).collect())
            }
            Tree::Object(fields) => {
                let mut object = Map::new();
                for (name, node) in fields {
                    let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    object.insert(name, node.value(&inner, lines));
                }
                Value::Object(object)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Spanned::deserialize(deserializer).map(Node)
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Tree, E> {
        let number =
            Number::from_f64(value).ok_or_else(|| E::custom(format!("{value} is not a number that JSON has")))?;
        Ok(Tree::Scalar(number.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        Tree::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Tree, A::Error> {
        let mut object = Vec::new();
        while let Some(field) = fields.next_entry()? {
            object.push(field);
        }
        Ok(Tree::Object(object))
    }
}
