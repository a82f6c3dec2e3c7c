//! A KV engine of the second version: secrets with versions, which are deleted, restored and destroyed one by one.
//! Pure: it knows neither HTTP nor the disk, and is told the time.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// How many versions of a secret are kept where no one says.
const KEPT: u64 = 10;

/// Why something cannot be done.
#[derive(Debug, PartialEq)]
pub(super) enum Refused {
    /// There is no such secret or version. What there is to say about one that was deleted comes along.
    Missing(Option<Value>),
    /// The request is wrong.
    Bad(&'static str),
}

/// A KV engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Engine {
    #[serde(default)]
    max_versions: u64,
    #[serde(default)]
    cas_required: bool,
    secrets: BTreeMap<String, Secret>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Secret {
    created: Timestamp,
    updated: Timestamp,
    #[serde(default)]
    current: u64,
    #[serde(default)]
    max_versions: u64,
    #[serde(default)]
    cas_required: bool,
    #[serde(default)]
    custom: Option<Map<String, Value>>,
    versions: BTreeMap<u64, Version>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Version {
    created: Timestamp,
    deleted: Option<Timestamp>,
    /// None once it is destroyed.
    data: Option<Map<String, Value>>,
}

impl Version {
    fn describe(&self) -> Value {
        json!({
            "created_time": self.created,
            "deletion_time": self.deleted.map(|time| time.to_string()).unwrap_or_default(),
            "destroyed": self.data.is_none(),
        })
    }
}

impl Secret {
    fn new(now: Timestamp) -> Self {
        let (max_versions, cas_required, custom) = (0, false, None);
        Self { created: now, updated: now, current: 0, max_versions, cas_required, custom, versions: BTreeMap::new() }
    }

    /// What is said of a version beside its data.
    fn describe(&self, number: u64, version: &Version) -> Value {
        let mut said = version.describe();
        said["version"] = json!(number);
        said["custom_metadata"] = json!(self.custom);
        said
    }
}

impl Engine {
    /// Whether anything is known of a secret: a write to it is then an update.
    pub(super) fn knows(&self, path: &str) -> bool {
        self.secrets.contains_key(path)
    }

    /// Reads a version; the latest if it is zero.
    pub(super) fn read(&self, path: &str, number: u64) -> Result<Value, Refused> {
        let secret = self.secrets.get(path).ok_or(Refused::Missing(None))?;
        let number = if number == 0 { secret.current } else { number };
        let version = secret.versions.get(&number).ok_or(Refused::Missing(None))?;
        let metadata = secret.describe(number, version);
        match &version.data {
            Some(data) if version.deleted.is_none() => Ok(json!({"data": data, "metadata": metadata})),
            _ => Err(Refused::Missing(Some(json!({"data": null, "metadata": metadata})))),
        }
    }

    /// Writes a new version. With `cas` it must follow the version of that number.
    pub(super) fn write(
        &mut self,
        path: &str,
        data: Map<String, Value>,
        cas: Option<u64>,
        now: Timestamp,
    ) -> Result<Value, Refused> {
        let had = self.secrets.get(path);
        let required = self.cas_required || had.is_some_and(|secret| secret.cas_required);
        let current = had.map_or(0, |secret| secret.current);
        match cas {
            None if required => return Err(Refused::Bad("check-and-set parameter required for this call")),
            Some(cas) if cas != current => {
                return Err(Refused::Bad("check-and-set parameter did not match the current version"));
            }
            _ => {}
        }
        let kept = [had.map_or(0, |secret| secret.max_versions), self.max_versions, KEPT];
        let kept = kept.into_iter().find(|kept| *kept > 0).unwrap_or(KEPT);
        let secret = self.secrets.entry(path.to_owned()).or_insert_with(|| Secret::new(now));
        let version = Version { created: now, deleted: None, data: Some(data) };
        secret.current += 1;
        secret.updated = now;
        let said = secret.describe(secret.current, &version);
        secret.versions.insert(secret.current, version);
        while secret.versions.len() as u64 > kept {
            secret.versions.pop_first();
        }
        Ok(said)
    }

    /// Writes a new version that is the latest with some of its values changed; null takes one away.
    pub(super) fn patch(
        &mut self,
        path: &str,
        change: Map<String, Value>,
        cas: Option<u64>,
        now: Timestamp,
    ) -> Result<Value, Refused> {
        let latest = self.read(path, 0)?;
        let mut data = latest["data"].as_object().cloned().unwrap_or_default();
        for (key, value) in change {
            if value.is_null() {
                data.remove(&key);
            } else {
                data.insert(key, value);
            }
        }
        self.write(path, data, cas, now)
    }

    /// Marks versions as deleted, or takes the mark off; the latest version if none is named.
    pub(super) fn mark(&mut self, path: &str, numbers: &[u64], deleted: Option<Timestamp>) {
        let Some(secret) = self.secrets.get_mut(path) else { return };
        let latest = [secret.current];
        for number in if numbers.is_empty() { &latest } else { numbers } {
            if let Some(version) = secret.versions.get_mut(number) {
                version.deleted = deleted;
            }
        }
    }

    /// Destroys versions: their data is gone for good.
    pub(super) fn destroy(&mut self, path: &str, numbers: &[u64]) {
        let Some(secret) = self.secrets.get_mut(path) else { return };
        for number in numbers {
            if let Some(version) = secret.versions.get_mut(number) {
                version.data = None;
            }
        }
    }

    /// Forgets a secret with all its versions.
    pub(super) fn forget(&mut self, path: &str) {
        self.secrets.remove(path);
    }

    /// What is known of a secret beside its data.
    pub(super) fn metadata(&self, path: &str) -> Result<Value, Refused> {
        let secret = self.secrets.get(path).ok_or(Refused::Missing(None))?;
        let versions = secret.versions.iter().map(|(number, version)| (number.to_string(), version.describe()));
        Ok(json!({
            "cas_required": secret.cas_required,
            "created_time": secret.created,
            "updated_time": secret.updated,
            "current_version": secret.current,
            "custom_metadata": secret.custom,
            "delete_version_after": "0s",
            "max_versions": secret.max_versions,
            "oldest_version": secret.versions.keys().next().copied().unwrap_or(0),
            "versions": versions.collect::<Map<_, _>>(),
        }))
    }

    /// Says something about a secret beside its data, which it may not have yet.
    pub(super) fn describe(&mut self, path: &str, said: &Value, now: Timestamp) {
        let secret = self.secrets.entry(path.to_owned()).or_insert_with(|| Secret::new(now));
        secret.updated = now;
        if let Some(most) = said["max_versions"].as_u64() {
            secret.max_versions = most;
        }
        if let Some(required) = said["cas_required"].as_bool() {
            secret.cas_required = required;
        }
        if let Some(custom) = said["custom_metadata"].as_object() {
            secret.custom = Some(custom.clone());
        }
    }

    /// What is below a folder: secrets, and folders with a slash behind them.
    pub(super) fn list(&self, folder: &str) -> Result<Value, Refused> {
        let folder = folder.trim_end_matches('/');
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let below = self.secrets.keys().filter_map(|path| path.strip_prefix(&prefix));
        let keys: BTreeSet<String> = below
            .map(|rest| rest.split_once('/').map_or_else(|| rest.to_owned(), |(folder, _)| format!("{folder}/")))
            .collect();
        if keys.is_empty() { Err(Refused::Missing(None)) } else { Ok(json!({"keys": keys})) }
    }

    /// The engine's own settings.
    pub(super) fn settings(&self) -> Value {
        json!({"cas_required": self.cas_required, "max_versions": self.max_versions, "delete_version_after": "0s"})
    }

    /// Changes the engine's own settings.
    pub(super) fn set(&mut self, said: &Value) {
        if let Some(most) = said["max_versions"].as_u64() {
            self.max_versions = most;
        }
        if let Some(required) = said["cas_required"].as_bool() {
            self.cas_required = required;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(value: &str) -> Map<String, Value> {
        json!({"word": value}).as_object().cloned().unwrap()
    }

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn with(words: &[&str]) -> Engine {
        let mut engine = Engine::default();
        for word in words {
            engine.write("a/riddle", data(word), None, now()).unwrap();
        }
        engine
    }

    #[test]
    fn each_write_is_a_version_and_the_oldest_go() {
        let mut engine = with(&["one", "two"]);
        assert_eq!(engine.read("a/riddle", 0).unwrap()["data"]["word"], "two");
        assert_eq!(engine.read("a/riddle", 1).unwrap()["metadata"]["version"], 1);
        engine.describe("a/riddle", &json!({"max_versions": 2}), now());
        engine.write("a/riddle", data("three"), None, now()).unwrap();
        assert_eq!(engine.read("a/riddle", 1), Err(Refused::Missing(None)));
        assert_eq!(engine.metadata("a/riddle").unwrap()["oldest_version"], 2);
    }

    #[test]
    fn a_write_that_names_its_predecessor_fails_if_somebody_was_faster() {
        let mut engine = with(&["one"]);
        assert!(matches!(engine.write("a/riddle", data("x"), Some(0), now()), Err(Refused::Bad(_))));
        assert!(engine.write("a/riddle", data("two"), Some(1), now()).is_ok());
        assert!(engine.write("new", data("x"), Some(0), now()).is_ok());
        engine.set(&json!({"cas_required": true}));
        assert!(matches!(engine.write("new", data("x"), None, now()), Err(Refused::Bad(_))));
    }

    #[test]
    fn what_is_deleted_comes_back_and_what_is_destroyed_does_not() {
        let mut engine = with(&["one", "two"]);
        engine.mark("a/riddle", &[], Some(now()));
        assert!(matches!(engine.read("a/riddle", 0), Err(Refused::Missing(Some(_)))));
        assert_eq!(engine.read("a/riddle", 1).unwrap()["data"]["word"], "one");
        engine.mark("a/riddle", &[2], None);
        assert_eq!(engine.read("a/riddle", 0).unwrap()["data"]["word"], "two");
        engine.destroy("a/riddle", &[2]);
        engine.mark("a/riddle", &[2], None);
        let Err(Refused::Missing(Some(said))) = engine.read("a/riddle", 0) else { panic!() };
        assert_eq!(said["metadata"]["destroyed"], true);
        engine.forget("a/riddle");
        assert_eq!(engine.metadata("a/riddle"), Err(Refused::Missing(None)));
    }

    #[test]
    fn a_change_of_some_values_keeps_the_others() {
        let mut engine = with(&["one"]);
        let change = json!({"other": "x"}).as_object().cloned().unwrap();
        engine.patch("a/riddle", change, None, now()).unwrap();
        assert_eq!(engine.read("a/riddle", 0).unwrap()["data"], json!({"word": "one", "other": "x"}));
        let change = json!({"word": null}).as_object().cloned().unwrap();
        engine.patch("a/riddle", change, Some(2), now()).unwrap();
        assert_eq!(engine.read("a/riddle", 0).unwrap()["data"], json!({"other": "x"}));
        assert!(matches!(engine.patch("nowhere", Map::new(), None, now()), Err(Refused::Missing(None))));
    }

    #[test]
    fn folders_are_listed_with_a_slash() {
        let mut engine = with(&["one"]);
        for path in ["a/b/c", "a/b/d", "e"] {
            engine.write(path, data("x"), None, now()).unwrap();
        }
        assert_eq!(engine.list("").unwrap(), json!({"keys": ["a/", "e"]}));
        assert_eq!(engine.list("a/").unwrap(), json!({"keys": ["b/", "riddle"]}));
        assert_eq!(engine.list("nowhere"), Err(Refused::Missing(None)));
    }
}
