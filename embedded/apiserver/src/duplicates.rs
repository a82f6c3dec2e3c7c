//! Keys that a body has twice, of which a parser keeps the last without a word.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Error;

/// What is said of the keys that a JSON text has twice: `duplicate field "spec.replicas"`.
pub fn in_json(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let looked = Look { place: Place::Top, found: &mut found };
    // What does not parse is refused elsewhere.
    let _ = looked.deserialize(&mut serde_json::Deserializer::from_str(text));
    found.into_iter().map(|path| format!("duplicate field \"{path}\"")).collect()
}

/// What is said of the first key that a YAML text has twice: `line 9: key "replicas" already set in map`.
pub fn in_yaml(text: &str) -> Option<String> {
    let error = serde_saphyr::from_str::<serde_json::Value>(text).err()?;
    match error.without_snippet() {
        Error::DuplicateMappingKey { key, location } => {
            let key = key.as_deref().unwrap_or_default();
            Some(format!("yaml: unmarshal errors:\n  line {}: key \"{key}\" already set in map", location.line()))
        }
        _ => None,
    }
}

/// Where a value is. Its path is only written out for what is there twice.
#[derive(Clone, Copy)]
enum Place<'a> {
    Top,
    Field(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Top => Ok(()),
            Self::Field(Self::Top, key) => write!(formatter, "{key}"),
            Self::Field(of, key) => write!(formatter, "{of}.{key}"),
            Self::Item(of, index) => write!(formatter, "{of}[{index}]"),
        }
    }
}

/// A key, which is only copied if it has escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// Looks for duplicates below a place.
struct Look<'a> {
    place: Place<'a>,
    found: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Look<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Look<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("anything")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(Key(key)) = map.next_key()? {
            let place = Place::Field(&self.place, &key);
            if seen.contains(&key) && !self.found.contains(&place.to_string()) {
                self.found.push(place.to_string());
            }
            map.next_value_seed(Look { place, found: self.found })?;
            seen.insert(key);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0;
        while items.next_element_seed(Look { place: Place::Item(&self.place, index), found: self.found })?.is_some() {
            index += 1;
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_duplicate_is_named_once_by_its_path() {
        let text = r#"{"a": 1, "b": [{"c": 1, "c": 2, "c": 3}], "a": {"d": null}}"#;
        assert_eq!(in_json(text), ["duplicate field \"b[0].c\"", "duplicate field \"a\""]);
        assert!(in_json(r#"{"a": {"x": 1}, "b": {"x": 1}}"#).is_empty());
        assert_eq!(
            in_yaml("a: 1\nb: 2\na: 3\n").as_deref(),
            Some("yaml: unmarshal errors:\n  line 3: key \"a\" already set in map")
        );
        assert_eq!(in_yaml("a: 1"), None);
    }
}
