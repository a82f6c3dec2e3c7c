//! Keys that a body has twice, of which a parser keeps the last without a word.

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Error;

/// What is said of the keys that a JSON text has twice: `duplicate field "spec.replicas"`.
pub fn in_json(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let looked = Look { path: String::new(), found: &mut found };
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

/// Looks for duplicates below a path.
struct Look<'a> {
    path: String,
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

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("anything")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = std::collections::HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let path = if self.path.is_empty() { key.clone() } else { format!("{}.{key}", self.path) };
            if !seen.insert(key) && !self.found.contains(&path) {
                self.found.push(path.clone());
            }
            map.next_value_seed(Look { path, found: self.found })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0;
        while items.next_element_seed(Look { path: format!("{}[{index}]", self.path), found: self.found })?.is_some() {
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
