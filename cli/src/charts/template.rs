//! A Helm template as a value: an object whose fields may be expressions, and may depend on values of the chart.

use std::fmt::Write as _;

use serde_json::Value;

/// A field of a template.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// A scalar as it is written.
    Scalar(String),
    Map(Vec<Entry>),
    List(Vec<Entry>),
}

/// An item of a list, or a field with its key.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    key: String,
    node: Node,
    /// An action that opens a block, such as `if .Values.webhooks.enabled`; the entry is all that is in it.
    within: Option<String>,
}

/// What stands in objects for what a chart decides, and the expression that it becomes.
pub(super) type Marks<'a> = &'a [(&'static str, String)];

impl Node {
    /// An object as a template that does not vary, but for the marks in its texts.
    pub(super) fn new(value: &Value, marks: Marks<'_>) -> Self {
        let entry = |key: &str, value| Entry { key: key.to_owned(), node: Self::new(value, marks), within: None };
        match value {
            Value::Object(fields) => Self::Map(fields.iter().map(|(key, value)| entry(key, value)).collect()),
            Value::Array(items) => Self::List(items.iter().map(|value| entry("", value)).collect()),
            Value::String(text) => Self::Scalar(scalar(text, marks)),
            other => Self::Scalar(other.to_string()),
        }
    }

    /// An expression of the template language.
    pub(super) fn expression(text: impl AsRef<str>) -> Self {
        Self::Scalar(format!("{{{{ {} }}}}", text.as_ref()))
    }

    /// An expression that gives a text.
    pub(super) fn text(expression: impl AsRef<str>) -> Self {
        Self::Scalar(format!("'{{{{ {} }}}}'", expression.as_ref()))
    }

    /// Replaces the field at a path, such as `spec.containers.0.image`.
    pub(super) fn set(&mut self, path: &str, node: Self) {
        self.entry(path).node = node;
    }

    /// Lets the field at a path depend on values.
    pub(super) fn within(&mut self, path: &str, action: &str) {
        self.entry(path).within = Some(action.to_owned());
    }

    /// Lets the items of a list depend on values whose text contains this.
    pub(super) fn items_within(&mut self, path: &str, containing: &str, action: &str) {
        let Self::List(items) = &mut self.entry(path).node else { panic!("{path} is no list") };
        let found: Vec<&mut Entry> = items.iter_mut().filter(|item| item.node.render(0).contains(containing)).collect();
        assert!(!found.is_empty(), "{path} has no item with {containing}");
        for item in found {
            item.within = Some(action.to_owned());
        }
    }

    /// Adds a field or an item below a path, all of which is in a block.
    pub(super) fn add(&mut self, path: &str, key: &str, node: Self, action: &str) {
        let below = if path.is_empty() { self } else { &mut self.entry(path).node };
        match below {
            Self::Map(entries) | Self::List(entries) => {
                entries.push(Entry { key: key.to_owned(), node, within: Some(action.to_owned()) });
            }
            Self::Scalar(_) => panic!("{path} is a scalar"),
        }
    }

    fn entry(&mut self, path: &str) -> &mut Entry {
        let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
        let found = match self {
            Self::Map(entries) => entries.iter_mut().find(|entry| entry.key == first),
            Self::List(entries) => first.parse().ok().and_then(|index: usize| entries.get_mut(index)),
            Self::Scalar(_) => None,
        };
        let entry = found.unwrap_or_else(|| panic!("the object has no field {first}"));
        match rest {
            Some(rest) => entry.node.entry(rest),
            None => entry,
        }
    }

    /// The YAML of the template, each line indented so far.
    pub(super) fn render(&self, indent: usize) -> String {
        let mut text = String::new();
        let margin = " ".repeat(indent);
        match self {
            Self::Scalar(scalar) => text += scalar,
            Self::Map(entries) | Self::List(entries) => {
                for entry in entries {
                    if let Some(action) = &entry.within {
                        let _ = writeln!(text, "{{{{- {action} }}}}");
                    }
                    text += &entry.render(&margin, indent);
                    if entry.within.is_some() {
                        text += "{{- end }}\n";
                    }
                }
            }
        }
        text
    }
}

impl Entry {
    fn render(&self, margin: &str, indent: usize) -> String {
        let is_item = self.key.is_empty();
        let key = match self.key.as_str() {
            "" => "-".to_owned(),
            expression if expression.starts_with("{{") => format!("{expression}:"),
            key => format!("{}:", quoted(key)),
        };
        match &self.node {
            Node::Scalar(scalar) => format!("{margin}{key} {scalar}\n"),
            Node::Map(entries) | Node::List(entries) if entries.is_empty() => {
                let empty = if matches!(self.node, Node::Map(_)) { "{}" } else { "[]" };
                format!("{margin}{key} {empty}\n")
            }
            // The first line of an item's content is beside its dash.
            node if is_item => {
                let text = node.render(indent + 2);
                assert!(!text.starts_with("{{"), "the first field of an item depends on values");
                format!("{margin}- {}", text.trim_start())
            }
            node @ Node::List(_) => format!("{margin}{key}\n{}", node.render(indent)),
            node => format!("{margin}{key}\n{}", node.render(indent + 2)),
        }
    }
}

/// A text as YAML, with expressions for the marks in it.
fn scalar(text: &str, marks: Marks<'_>) -> String {
    assert!(!text.contains("{{"), "{text} would be taken for an expression");
    if !marks.iter().any(|(mark, _)| text.contains(mark)) {
        return quoted(text);
    }
    let escaped = text.replace('\'', "''");
    let filled =
        marks.iter().fold(escaped, |text, (mark, expression)| text.replace(mark, &format!("{{{{ {expression} }}}}")));
    format!("'{filled}'")
}

/// A text as YAML that reads back as the same text.
fn quoted(text: &str) -> String {
    const WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    let is_plain = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "._/-".contains(letter))
        && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    if is_plain { text.to_owned() } else { Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_become_expressions_and_depend_on_values() {
        let marks = [("@where@", ".Release.Namespace".to_owned())];
        let object = json!({"kind": "Bed", "metadata": {"namespace": "@where@"},
            "spec": {"args": ["dig", "--deep=@where@"], "empty": {}, "on": "yes", "size": 2, "tools": [{"a": 1, "b": [2]}]}});
        let mut bed = Node::new(&object, &marks);
        bed.set("spec.size", Node::expression(".Values.size"));
        bed.within("spec.tools", "if .Values.tools");
        bed.items_within("spec.args", "--deep", "if .Values.deep");
        bed.add("spec", "shade", Node::expression("toJson ."), "with .Values.shade");
        let expected = "\
kind: Bed
metadata:
  namespace: '{{ .Release.Namespace }}'
spec:
  args:
  - dig
{{- if .Values.deep }}
  - '--deep={{ .Release.Namespace }}'
{{- end }}
  empty: {}
  \"on\": \"yes\"
  size: {{ .Values.size }}
{{- if .Values.tools }}
  tools:
  - a: 1
    b:
    - 2
{{- end }}
{{- with .Values.shade }}
  shade: {{ toJson . }}
{{- end }}
";
        assert_eq!(bed.render(0), expected);
    }
}
