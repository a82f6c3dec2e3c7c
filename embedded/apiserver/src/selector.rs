//! Label and field selectors.

use c5c3_kinds::selector::meets;
use serde_json::Value;

/// The longest selector that is taken: a URL is not longer.
const LONGEST: usize = 64 * 1024;

/// One requirement on labels.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: &'static str,
    values: Vec<String>,
}

/// A label selector; the empty one takes everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Vec<Requirement>);

impl Labels {
    /// Reads `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("the label selector is longer than {LONGEST} bytes"));
        }
        split(text)?.into_iter().map(|part| requirement(part.trim())).collect::<Result<_, _>>().map(Self)
    }

    /// The selector of an object, as `matchLabels` and `matchExpressions`.
    pub fn from_object(selector: &Value) -> Result<Self, String> {
        let mut requirements = Vec::new();
        for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
            let values = vec![value.as_str().unwrap_or_default().to_owned()];
            requirements.push(Requirement { key: key.clone(), operator: "In", values });
        }
        for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
            let key = expression["key"].as_str().unwrap_or_default().to_owned();
            let values = expression["values"].as_array().into_iter().flatten();
            let values: Vec<String> = values.filter_map(Value::as_str).map(ToOwned::to_owned).collect();
            let wanted = expression["operator"].as_str().unwrap_or_default();
            let operator = ["In", "NotIn", "Exists", "DoesNotExist"].into_iter().find(|known| *known == wanted);
            let operator = operator.ok_or_else(|| format!("{wanted:?} is not a valid label selector operator"))?;
            requirements.push(Requirement { key, operator, values });
        }
        Ok(Self(requirements))
    }

    /// Whether everything is taken.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an object with these labels is taken.
    pub fn matches(&self, labels: &Value) -> bool {
        let label = |key: &str| labels.get(key).and_then(Value::as_str);
        self.0.iter().all(|one| meets(label(&one.key), one.operator, &one.values))
    }
}

/// Splits at commas outside parentheses.
fn split(text: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0usize);
    for (index, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1).ok_or_else(|| format!("unable to parse requirement: {text}"))?,
            ',' if depth == 0 => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err(format!("unable to parse requirement: {text}: a parenthesis is not closed"));
    }
    parts.push(&text[start..]);
    parts.retain(|part| !part.trim().is_empty());
    Ok(parts)
}

fn requirement(text: &str) -> Result<Requirement, String> {
    let bad = || format!("unable to parse requirement: {text:?}");
    let key = |text: &str| -> Result<String, String> {
        let text = text.trim();
        let known = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        if text.is_empty() || text.len() > 317 || !text.chars().all(known) { Err(bad()) } else { Ok(text.to_owned()) }
    };
    let value = |text: &str| -> Result<String, String> {
        let text = text.trim();
        let known = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if text.len() > 63 || !text.chars().all(known) { Err(bad()) } else { Ok(text.to_owned()) }
    };
    let values = |list: &str| -> Result<Vec<String>, String> {
        let inner = list.trim().strip_prefix('(').and_then(|list| list.strip_suffix(')')).ok_or_else(bad)?;
        inner.split(',').map(value).collect()
    };
    if let Some(rest) = text.strip_prefix('!') {
        return Ok(Requirement { key: key(rest)?, operator: "DoesNotExist", values: Vec::new() });
    }
    for (sign, operator) in [("!=", "NotIn"), ("==", "In"), ("=", "In")] {
        if let Some((left, right)) = text.split_once(sign) {
            return Ok(Requirement { key: key(left)?, operator, values: vec![value(right)?] });
        }
    }
    for (word, operator) in [(" notin ", "NotIn"), (" in ", "In"), (" notin(", "NotIn"), (" in(", "In")] {
        if let Some((left, right)) = text.split_once(word) {
            let right = if word.ends_with('(') { format!("({right}") } else { right.to_owned() };
            return Ok(Requirement { key: key(left)?, operator, values: values(&right)? });
        }
    }
    for (sign, operator) in [('>', "Gt"), ('<', "Lt")] {
        if let Some((left, right)) = text.split_once(sign) {
            let bound: i64 = right.trim().parse().map_err(|_| bad())?;
            return Ok(Requirement { key: key(left)?, operator, values: vec![bound.to_string()] });
        }
    }
    Ok(Requirement { key: key(text)?, operator: "Exists", values: Vec::new() })
}

/// A field selector: every field must be equal to, or different from, a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, bool, String)>);

impl Fields {
    /// Reads `metadata.name=a,status.phase!=Running`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("the field selector is longer than {LONGEST} bytes"));
        }
        let parts = text.split(',').filter(|part| !part.trim().is_empty());
        parts
            .map(|part| {
                let (field, equal, value) = if let Some((field, value)) = part.split_once("!=") {
                    (field, false, value)
                } else if let Some((field, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
                    (field, true, value)
                } else {
                    return Err(format!("invalid selector: '{part}'; can't understand '{part}'"));
                };
                Ok((field.trim().to_owned(), equal, value.trim().to_owned()))
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Whether everything is taken.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value that a field must have.
    pub fn required(&self, field: &str) -> Option<&str> {
        self.0.iter().find(|(name, equal, _)| name == field && *equal).map(|(_, _, value)| value.as_str())
    }

    /// The fields it looks at.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(field, _, _)| field.as_str())
    }

    /// Whether an object with these fields is taken.
    pub fn matches(&self, fields: &[(String, String)]) -> bool {
        self.0.iter().all(|(field, equal, value)| {
            let found = fields.iter().find(|(name, _)| name == field).map_or("", |(_, found)| found.as_str());
            (found == value) == *equal
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn label_selectors_take_what_kubernetes_takes() {
        let labels = json!({"app": "press", "tier": "back", "rank": "7"});
        for (selector, takes) in [
            ("", true),
            ("app=press", true),
            ("app==press,tier!=front", true),
            ("app in (mill, press),tier notin (front)", true),
            ("app in(mill,press)", true),
            ("app,!gone", true),
            ("gone", false),
            ("rank>6,rank<8", true),
            ("rank>7", false),
            ("gone!=x", true),
        ] {
            assert_eq!(Labels::parse(selector).unwrap().matches(&labels), takes, "{selector}");
        }
        for wrong in ["app in press", "a b", "=x", "app in (a", "!", "app=a b"] {
            assert!(Labels::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn field_selectors_compare_for_equality() {
        let fields = vec![("metadata.name".to_owned(), "tree".to_owned())];
        assert!(Fields::parse("metadata.name=tree").unwrap().matches(&fields));
        assert!(!Fields::parse("metadata.name!=tree").unwrap().matches(&fields));
        assert!(Fields::parse("metadata.name").is_err());
    }
}
