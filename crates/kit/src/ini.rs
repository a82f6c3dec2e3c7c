//! Configuration files as oslo.config reads them, rendered from typed values: deterministic, and closed to injection.
//!
//! A value cannot contain a line break, so it cannot open a section of its own; a `$` is doubled, so that a password is
//! not taken for the name of an option; a secret cannot be printed on the way.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

/// What cannot be written into a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IniError {
    /// The name of a section.
    #[error("section {0:?} cannot be written; use a name without brackets, line breaks and spaces at its ends")]
    Section(String),
    /// The name of an option.
    #[error("option {section}.{key:?} cannot be written; use letters, digits, '_', '-' and '.'")]
    Key {
        /// In which section.
        section: String,
        /// The name.
        key: String,
    },
    /// A value. It is not quoted here: it may be a secret.
    #[error(
        "the value of {section}.{key} cannot be written; remove line breaks, control characters, spaces at its ends, \
         and commas in the items of a list"
    )]
    Value {
        /// In which section.
        section: String,
        /// Of which option.
        key: String,
    },
}

/// The value of an option.
#[derive(Clone)]
pub struct OsloValue(Text);

#[derive(Clone)]
enum Text {
    Plain(String),
    Secret(SecretString),
    /// The same with one line per value.
    Secrets(Vec<SecretString>),
    /// An option that is given once per value (oslo's MultiStrOpt).
    Many(Vec<String>),
    /// Something that cannot be written, such as a list with a comma in one of its items.
    Unwritable,
}

impl OsloValue {
    /// A text in which `$name` stands for another option.
    pub fn interpolated(text: impl Into<String>) -> Self {
        Self(Text::Plain(text.into()))
    }

    /// A secret in which `$name` stands for another option, as in a hand-written file.
    pub fn raw_secret(text: SecretString) -> Self {
        Self(Text::Secret(text))
    }

    /// An option that is given once per value, as in a hand-written file. Of an option with one value the last one counts.
    pub fn raw_secrets(texts: Vec<SecretString>) -> Self {
        Self(Text::Secrets(texts))
    }

    /// An option that is given once per value.
    pub fn many(texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self(Text::Many(texts.into_iter().map(|text| literal(&text.into())).collect()))
    }

    fn lines(&self) -> Vec<&str> {
        match &self.0 {
            Text::Plain(text) => vec![text],
            Text::Secret(text) => vec![text.expose_secret()],
            Text::Secrets(texts) => texts.iter().map(ExposeSecret::expose_secret).collect(),
            Text::Many(texts) => texts.iter().map(String::as_str).collect(),
            Text::Unwritable => Vec::new(),
        }
    }
}

/// The text as oslo reads it back: `$` would name another option, and one pair of quotes around it would be taken off.
fn literal(text: &str) -> String {
    let quoted = ['"', '\''].iter().any(|quote| text.starts_with(*quote) && text.ends_with(*quote));
    let text = text.replace('$', "$$");
    if quoted { format!("\"{text}\"") } else { text }
}

impl fmt::Debug for OsloValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Text::Plain(text) => write!(f, "{text:?}"),
            Text::Secret(_) | Text::Secrets(_) => f.write_str("<secret>"),
            Text::Many(texts) => write!(f, "{texts:?}"),
            Text::Unwritable => f.write_str("<unwritable>"),
        }
    }
}

impl From<&str> for OsloValue {
    fn from(text: &str) -> Self {
        Self(Text::Plain(literal(text)))
    }
}
impl From<String> for OsloValue {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}
impl From<bool> for OsloValue {
    fn from(switch: bool) -> Self {
        Self(Text::Plain(switch.to_string()))
    }
}
impl From<i64> for OsloValue {
    fn from(number: i64) -> Self {
        Self(Text::Plain(number.to_string()))
    }
}
impl From<i32> for OsloValue {
    fn from(number: i32) -> Self {
        i64::from(number).into()
    }
}
/// In whole seconds, as oslo's options of time are.
impl From<Duration> for OsloValue {
    fn from(duration: Duration) -> Self {
        Self(Text::Plain(duration.as_secs().to_string()))
    }
}
/// A list, separated by commas.
impl<T: AsRef<str>> From<&[T]> for OsloValue {
    fn from(items: &[T]) -> Self {
        if items.iter().any(|item| item.as_ref().contains(',')) {
            return Self(Text::Unwritable);
        }
        let items: Vec<String> = items.iter().map(|item| literal(item.as_ref())).collect();
        Self(Text::Plain(items.join(",")))
    }
}
impl From<SecretString> for OsloValue {
    fn from(secret: SecretString) -> Self {
        Self(Text::Secret(literal(secret.expose_secret()).into()))
    }
}

/// A configuration file: sections of options.
#[derive(Clone, Debug, Default)]
pub struct Ini {
    sections: BTreeMap<String, BTreeMap<String, OsloValue>>,
}

impl Ini {
    /// An empty file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an option, in the place of an earlier value.
    pub fn set(&mut self, section: &str, key: &str, value: impl Into<OsloValue>) -> Result<&mut Self, IniError> {
        let value = value.into();
        let breaks = |text: &str| text.chars().any(char::is_control) || text.trim() != text;
        if section.is_empty() || breaks(section) || section.contains(['[', ']']) {
            return Err(IniError::Section(section.into()));
        }
        // Not ':': oslo ends the name of an option at the first of ':' and '='.
        let known = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        if key.is_empty() || !key.chars().all(known) {
            return Err(IniError::Key { section: section.into(), key: key.into() });
        }
        if matches!(value.0, Text::Unwritable) || value.lines().into_iter().any(breaks) {
            return Err(IniError::Value { section: section.into(), key: key.into() });
        }
        self.sections.entry(section.into()).or_default().insert(key.into(), value);
        Ok(self)
    }

    /// Sets every option of a section.
    pub fn section<'a, V: Into<OsloValue>>(
        &mut self,
        section: &str,
        options: impl IntoIterator<Item = (&'a str, V)>,
    ) -> Result<&mut Self, IniError> {
        for (key, value) in options {
            self.set(section, key, value)?;
        }
        Ok(self)
    }

    /// Whether an option is set.
    pub fn contains(&self, section: &str, key: &str) -> bool {
        self.sections.get(section).is_some_and(|options| options.contains_key(key))
    }

    /// Takes an option away.
    pub fn remove(&mut self, section: &str, key: &str) {
        if let Some(options) = self.sections.get_mut(section) {
            options.remove(key);
        }
    }

    /// The file with these sections only.
    pub fn only(&self, sections: &[&str]) -> Self {
        let kept = self.sections.iter().filter(|(name, _)| sections.contains(&name.as_str()));
        Self { sections: kept.map(|(name, options)| (name.clone(), options.clone())).collect() }
    }

    /// The file as two: the sections whose names `is_first` accepts, and the others.
    pub fn partition(&self, is_first: impl Fn(&str) -> bool) -> (Self, Self) {
        let (first, others) = self.sections.clone().into_iter().partition(|(name, _)| is_first(name));
        (Self { sections: first }, Self { sections: others })
    }

    /// The file. `DEFAULT` comes first, for people; the rest is sorted.
    pub fn render(&self) -> SecretString {
        let mut text = String::new();
        let default = self.sections.get_key_value("DEFAULT");
        let others = self.sections.iter().filter(|(name, _)| *name != "DEFAULT");
        for (name, options) in default.into_iter().chain(others) {
            if !text.is_empty() {
                text.push('\n');
            }
            let _ = writeln!(text, "[{name}]");
            for (key, value) in options {
                for line in value.lines() {
                    let _ = writeln!(text, "{key} = {line}");
                }
            }
        }
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_deterministic_whatever_the_order_of_calls() {
        let mut ini = Ini::new();
        ini.set("orchard", "trees", 12).unwrap().set("DEFAULT", "debug", false).unwrap();
        ini.set("orchard", "kinds", ["apple", "pear"].as_slice()).unwrap();
        ini.set("DEFAULT", "notify", OsloValue::many(["mail", "pager"])).unwrap();
        assert_eq!(
            ini.render().expose_secret(),
            "[DEFAULT]\ndebug = false\nnotify = mail\nnotify = pager\n\n[orchard]\nkinds = apple,pear\ntrees = 12\n"
        );
    }

    #[test]
    fn a_part_of_a_file_has_whole_sections() {
        let mut ini = Ini::new();
        ini.set("orchard", "trees", 12).unwrap().set("press", "speed", 3).unwrap();
        assert_eq!(ini.only(&["press", "cellar"]).render().expose_secret(), "[press]\nspeed = 3\n");
    }

    #[test]
    fn nothing_that_a_user_writes_can_open_a_section_or_an_option() {
        let mut ini = Ini::new();
        for value in ["x\n[database]", "x\rconnection = y", " x", "x\u{0}"] {
            assert!(matches!(ini.set("orchard", "name", value), Err(IniError::Value { .. })), "{value:?}");
        }
        assert!(matches!(ini.set("a]\n[b", "k", "v"), Err(IniError::Section(_))));
        assert!(matches!(ini.set("a", "k = v\nx", "v"), Err(IniError::Key { .. })));
        assert!(matches!(ini.set("a", "k:v", "v"), Err(IniError::Key { .. })));
        assert!(matches!(ini.set("a", "k", ["x,y"].as_slice()), Err(IniError::Value { .. })));
        assert!(ini.render().expose_secret().is_empty());
    }

    #[test]
    fn a_password_with_a_dollar_is_not_taken_for_the_name_of_an_option() {
        let mut ini = Ini::new();
        ini.set("database", "password", SecretString::from("pa$$w$ord")).unwrap();
        ini.set("DEFAULT", "lock_path", OsloValue::interpolated("$state_path/lock")).unwrap();
        ini.set("queue", "password", SecretString::from("'quoted'")).unwrap();
        assert_eq!(
            ini.render().expose_secret(),
            "[DEFAULT]\nlock_path = $state_path/lock\n\n[database]\npassword = pa$$$$w$$ord\n\n[queue]\npassword = \"'quoted'\"\n"
        );
    }

    #[test]
    fn a_secret_is_not_printed_by_debug_or_by_an_error() {
        let mut ini = Ini::new();
        ini.set("database", "password", SecretString::from("hunter2")).unwrap();
        assert!(!format!("{ini:?}").contains("hunter2"));
        let error = ini.set("database", "password", SecretString::from("hunter2\n")).unwrap_err();
        assert!(!error.to_string().contains("hunter2"));
    }
}
