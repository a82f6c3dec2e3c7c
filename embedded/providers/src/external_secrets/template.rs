//! The part of Go's templates that secrets are made with: `{{ .key }}`, and functions behind it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use regex::{Captures, Regex};

/// Something in double braces.
static ACTION: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\{\{-?\s*(.*?)\s*-?\}\}").expect("it is well formed"));

/// A template with its values put in; or the first thing in it that is not provided.
pub(super) fn render(template: &str, values: &BTreeMap<String, String>) -> Result<String, String> {
    let mut problem = None;
    let rendered = ACTION.replace_all(template, |found: &Captures<'_>| {
        value(&found[1], values).unwrap_or_else(|why| {
            problem.get_or_insert(why);
            String::new()
        })
    });
    problem.map_or_else(|| Ok(rendered.into_owned()), Err)
}

fn value(action: &str, values: &BTreeMap<String, String>) -> Result<String, String> {
    let mut parts = action.split('|').map(str::trim);
    let named = parts.next().unwrap_or_default();
    let key = named.strip_prefix('.').filter(|key| !key.contains(' '));
    let key = key.ok_or_else(|| format!("{{{{ {named} }}}} is not provided; write {{{{ .key }}}}"))?;
    let mut value = values.get(key).cloned().ok_or_else(|| format!("there is no {key} to put into the template"))?;
    for function in parts {
        value = match function {
            "toString" => value,
            "b64enc" => STANDARD.encode(&value),
            "b64dec" => {
                let decoded = STANDARD.decode(&value).ok().and_then(|bytes| String::from_utf8(bytes).ok());
                decoded.ok_or_else(|| format!("{key} is not text in base64"))?
            }
            "quote" => serde_json::Value::from(value).to_string(),
            "trim" => value.trim().to_owned(),
            "upper" => value.to_uppercase(),
            "lower" => value.to_lowercase(),
            other => return Err(format!("the template function {other} is not provided")),
        };
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_put_in_and_what_is_not_known_is_named() {
        let values = [("user", "nova"), ("password", "s3cret")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let values = values.into();
        let with = |template: &str| render(template, &values);
        assert_eq!(with("rabbit://{{ .user }}:{{.password | toString}}@x").unwrap(), "rabbit://nova:s3cret@x");
        assert_eq!(with("{{ .user | upper | b64enc }}").unwrap(), "Tk9WQQ==");
        assert_eq!(with("plain").unwrap(), "plain");
        assert!(with("{{ .nobody }}").unwrap_err().contains("nobody"));
        assert!(with("{{ .user | sha1sum }}").unwrap_err().contains("sha1sum"));
        assert!(with("{{ range .user }}").unwrap_err().contains("range"));
    }
}
