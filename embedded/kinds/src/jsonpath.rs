//! The part of JSONPath that printer columns and selectable fields use: `.a.b`, `['a.b']`, `.a\.b`, `[0]`, `[-1]`,
//! `[*]`, `[1:3]` and `[?(@.type=="Ready")]`. No recursive descent, no functions, no logic in filters.

use std::cmp::Ordering;

use serde_json::Value;

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    Slice(Option<i64>, Option<i64>),
    All,
    Filter { path: JsonPath, test: Option<(Compare, Value)> },
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Compare {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Operators, the longer ones first so that `<=` is not read as `<`.
const COMPARISONS: [(&str, Compare); 6] = [
    ("==", Compare::Equal),
    ("!=", Compare::NotEqual),
    ("<=", Compare::LessOrEqual),
    (">=", Compare::GreaterOrEqual),
    ("<", Compare::Less),
    (">", Compare::Greater),
];

impl JsonPath {
    /// Parses a path. The error says what of it is not understood.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut rest = text.trim();
        rest = rest.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(rest);
        rest = rest.strip_prefix('$').unwrap_or(rest);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, after) = match rest.strip_prefix('[') {
                Some(inner) => bracket(inner)?,
                None => field(rest)?,
            };
            steps.extend(step);
            rest = after;
        }
        Ok(Self(steps))
    }

    /// Everything that the path leads to.
    pub(crate) fn find<'v>(&self, root: &'v Value) -> Vec<&'v Value> {
        self.0.iter().fold(vec![root], |found, step| found.into_iter().flat_map(|value| step.below(value)).collect())
    }
}

/// `.name`, or a lone `.`, which stands for where it is.
fn field(text: &str) -> Result<(Option<Step>, &str), String> {
    let rest = text.strip_prefix('.').unwrap_or(text);
    if rest.starts_with('.') {
        return Err(format!("{text:?}: recursive descent is not supported"));
    }
    let mut name = String::new();
    let mut end = rest.len();
    let mut characters = rest.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
            '.' | '[' => {
                end = at;
                break;
            }
            other => name.push(other),
        }
    }
    let step = match name.as_str() {
        "" => None,
        "*" => Some(Step::All),
        _ => Some(Step::Field(name)),
    };
    if step.is_none() && rest.starts_with('.') {
        return Err(format!("{text:?}: a name is missing"));
    }
    Ok((step, &rest[end..]))
}

/// What stands between brackets; `text` begins after the opening one.
fn bracket(text: &str) -> Result<(Option<Step>, &str), String> {
    let end = closing(text).ok_or_else(|| format!("\"[{text}\": the bracket is not closed"))?;
    let (inner, after) = (text[..end].trim(), &text[end + 1..]);
    let number = |text: &str| text.trim().parse::<i64>().map_err(|_| format!("{text:?} is not a number"));
    let bound = |text: &str| if text.trim().is_empty() { Ok(None) } else { number(text).map(Some) };
    let step = if let Some(condition) = inner.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        filter(condition)?
    } else if inner == "*" {
        Step::All
    } else if let Some(name) = quoted(inner) {
        Step::Field(name)
    } else if let Some((from, to)) = inner.split_once(':') {
        Step::Slice(bound(from)?, bound(to)?)
    } else {
        Step::Index(number(inner)?)
    };
    Ok((Some(step), after))
}

/// Where the bracket closes, brackets within quotes and within filters left aside.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0_u32, None);
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn quoted(text: &str) -> Option<String> {
    ['\'', '"'].iter().find_map(|&quote| {
        let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
        Some(inner.replace('\\', ""))
    })
}

fn filter(condition: &str) -> Result<Step, String> {
    let operator = COMPARISONS.iter().filter_map(|(sign, compare)| condition.find(sign).map(|at| (at, sign, *compare)));
    let (left, test) = match operator.min_by_key(|(at, sign, _)| (*at, std::cmp::Reverse(sign.len()))) {
        Some((at, sign, compare)) => {
            let literal = condition[at + sign.len()..].trim();
            let value = match quoted(literal) {
                Some(text) => Value::String(text),
                None => serde_json::from_str(literal).map_err(|_| format!("{literal:?} is not a literal"))?,
            };
            (&condition[..at], Some((compare, value)))
        }
        None => (condition, None),
    };
    let path = left.trim().strip_prefix('@').ok_or_else(|| format!("{condition:?}: a filter starts with @"))?;
    Ok(Step::Filter { path: JsonPath::parse(path)?, test })
}

impl Step {
    fn below<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Index(index) => {
                let Some(items) = value.as_array() else { return Vec::new() };
                items.get(position(*index, items.len())).into_iter().collect()
            }
            Self::Slice(from, to) => {
                let Some(items) = value.as_array() else { return Vec::new() };
                let from = from.map_or(0, |from| position(from, items.len()));
                let to = to.map_or(items.len(), |to| position(to, items.len())).min(items.len());
                items.get(from..to).into_iter().flatten().collect()
            }
            Self::All => children(value),
            Self::Filter { path, test } => {
                children(value).into_iter().filter(|item| passes(&path.find(item), test.as_ref())).collect()
            }
        }
    }
}

/// An index from the end if negative; one that is out of bounds stays so.
fn position(index: i64, len: usize) -> usize {
    let from_end = || len.checked_sub(usize::try_from(index.unsigned_abs()).ok()?);
    if index < 0 { from_end().unwrap_or(usize::MAX) } else { usize::try_from(index).unwrap_or(usize::MAX) }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => Vec::new(),
    }
}

fn passes(found: &[&Value], test: Option<&(Compare, Value)>) -> bool {
    let Some(left) = found.first() else { return false };
    let Some((compare, right)) = test else { return true };
    let ordering = match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => left.as_f64().partial_cmp(&right.as_f64()),
        (left, right) => (*left == right).then_some(Ordering::Equal),
    };
    match compare {
        Compare::Equal => ordering == Some(Ordering::Equal),
        Compare::NotEqual => ordering != Some(Ordering::Equal),
        Compare::Less => ordering == Some(Ordering::Less),
        Compare::LessOrEqual => matches!(ordering, Some(Ordering::Less | Ordering::Equal)),
        Compare::Greater => ordering == Some(Ordering::Greater),
        Compare::GreaterOrEqual => matches!(ordering, Some(Ordering::Greater | Ordering::Equal)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn find(path: &str) -> Vec<String> {
        let object = json!({
            "spec": {"replicas": 3, "ports": [{"port": 1}, {"port": 2}, {"port": 3}]},
            "metadata": {"labels": {"example.com/name": "oak"}},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "weight": 5}, {"type": "Done", "status": "False", "weight": 9},
            ]},
        });
        JsonPath::parse(path).unwrap().find(&object).into_iter().map(ToString::to_string).collect()
    }

    #[test]
    fn fields_indices_and_slices_are_followed() {
        assert_eq!(find(".spec.replicas"), ["3"]);
        assert_eq!(find("{.spec.replicas}"), ["3"]);
        assert_eq!(find("spec.replicas"), ["3"]);
        assert_eq!(find(".spec.ports[0].port"), ["1"]);
        assert_eq!(find(".spec.ports[-1].port"), ["3"]);
        assert_eq!(find(".spec.ports[*].port"), ["1", "2", "3"]);
        assert_eq!(find(".spec.ports[1:].port"), ["2", "3"]);
        assert!(find(".spec.ports[7]").is_empty() && find(".spec.ports[-7]").is_empty());
        assert!(find(".spec.missing.deeper").is_empty());
    }

    #[test]
    fn a_name_with_dots_is_escaped_or_quoted() {
        assert_eq!(find(r".metadata.labels.example\.com/name"), [r#""oak""#]);
        assert_eq!(find(".metadata.labels['example.com/name']"), [r#""oak""#]);
        assert_eq!(find(r".metadata.labels['example\.com/name']"), [r#""oak""#]);
    }

    #[test]
    fn a_filter_selects_the_items_that_pass_it() {
        assert_eq!(find(r#".status.conditions[?(@.type=="Ready")].status"#), [r#""True""#]);
        assert_eq!(find(".status.conditions[?(@.type == 'Done')].status"), [r#""False""#]);
        assert_eq!(find(".status.conditions[?(@.type != 'Done')].type"), [r#""Ready""#]);
        assert_eq!(find(".status.conditions[?(@.weight >= 9)].type"), [r#""Done""#]);
        assert_eq!(find(".status.conditions[?(@.weight)].type").len(), 2);
        assert!(find(r#".status.conditions[?(@.type=="Gone")].status"#).is_empty());
    }

    #[test]
    fn what_is_not_understood_is_an_error_and_not_an_empty_column() {
        for path in ["..name", ".a[", ".a[x]", ".a[?(b==1)]", ".a[?(@.b==x)]"] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }
}
