//! JSON pointers (RFC 6901) into a document, with the negative indices that the real server's library allows.

use serde_json::Value;

use super::PatchError;

/// A parsed pointer and how it was written.
pub(super) struct Pointer {
    pub(super) text: String,
    pub(super) tokens: Vec<String>,
}

impl Pointer {
    pub(super) fn parse(text: &str) -> Result<Self, PatchError> {
        let tokens = match text.split_once('/') {
            None if text.is_empty() => Vec::new(),
            Some(("", rest)) => rest.split('/').map(|token| token.replace("~1", "/").replace("~0", "~")).collect(),
            _ => {
                return Err(PatchError::Malformed(format!(
                    "{text:?} is not a JSON pointer: it must start with a slash"
                )));
            }
        };
        Ok(Self { text: text.to_owned(), tokens })
    }

    /// The value that is pointed at.
    pub(super) fn find<'d>(&self, document: &'d Value) -> Option<&'d Value> {
        self.tokens.iter().try_fold(document, |value, token| match value {
            Value::Object(fields) => fields.get(token),
            Value::Array(items) => items.get(existing(token, items.len())?),
            _ => None,
        })
    }

    /// What holds the value that is pointed at, there or not, and the last token. `None` for the whole document.
    pub(super) fn parent<'d, 'p>(&'p self, document: &'d mut Value) -> Option<(Option<&'d mut Value>, &'p str)> {
        let (last, way) = self.tokens.split_last()?;
        let parent = way.iter().try_fold(document, |value, token| match value {
            Value::Object(fields) => fields.get_mut(token),
            Value::Array(items) => existing(token, items.len()).and_then(|i| items.get_mut(i)),
            _ => None,
        });
        Some((parent, last))
    }
}

/// The index of an item that is there.
pub(super) fn existing(token: &str, length: usize) -> Option<usize> {
    let index = from_end(token, length).or_else(|| plain(token))?;
    (index < length).then_some(index)
}

/// The index at which an item can be put in; `-` is the end.
pub(super) fn insertable(token: &str, length: usize) -> Option<usize> {
    let index = if token == "-" { length } else { from_end(token, length + 1).or_else(|| plain(token))? };
    (index <= length).then_some(index)
}

fn plain(token: &str) -> Option<usize> {
    let digits = token.bytes().all(|byte| byte.is_ascii_digit()) && (token == "0" || !token.starts_with('0'));
    if digits { token.parse().ok() } else { None }
}

fn from_end(token: &str, length: usize) -> Option<usize> {
    let back = token.strip_prefix('-').and_then(plain)?;
    length.checked_sub(back).filter(|_| back > 0)
}
