//! One contract: the facts about one kind, as a file and as a definition that an API server installs.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::genuine::entries;
use crate::select::{self, Paths};
use crate::text;

pub(crate) const HOW_TO_ADD: &str =
    "if the kind really has it, add it with `make contracts CRDS=FOLDER` (docs/contracts.md)";

/// The facts about one version of a kind of another project.
#[derive(Clone, Debug, PartialEq)]
pub struct Contract {
    /// Its API group.
    pub group: String,
    /// Its version.
    pub version: String,
    /// The name of its resource.
    pub plural: String,
    /// Everything but the fields, as in a definition: `names`, `scope`, `subresources`, `columns`.
    head: Map<String, Value>,
    /// The schema, cut down to what we use.
    schema: Value,
}

/// The folder with a folder for each group.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kinds")
}

impl Contract {
    /// Every contract, sorted.
    pub fn all() -> Vec<Self> {
        let mut files = Vec::new();
        for group in entries(&folder()) {
            files.extend(entries(&group));
        }
        files.iter().map(|file| Self::read(file)).collect()
    }

    /// The contract with a resource.
    pub fn find(group: &str, plural: &str) -> Option<Self> {
        let file = folder().join(group).join(format!("{plural}.yaml"));
        file.is_file().then(|| Self::read(&file))
    }

    /// The contract with a kind, of a version.
    pub fn of_kind(group: &str, version: &str, kind: &str) -> Option<Self> {
        let folder = folder().join(group);
        let files = if folder.is_dir() { entries(&folder) } else { Vec::new() };
        files.iter().map(|file| Self::read(file)).find(|found| found.version == version && found.kind() == kind)
    }

    /// Makes a contract of a genuine definition. None if it has no such version.
    pub fn made_of(definition: &Value, version: &str, wanted: &Paths) -> Option<Self> {
        let spec = &definition["spec"];
        let served = spec["versions"].as_array()?.iter().find(|served| served["name"] == version)?;
        let mut head = Map::new();
        head.insert("names".into(), spec["names"].clone());
        head.insert("scope".into(), spec["scope"].clone());
        head.insert("subresources".into(), served.get("subresources").cloned().unwrap_or_else(|| json!({})));
        head.insert("columns".into(), without_prose(&served["additionalPrinterColumns"]));
        Some(Self {
            group: spec["group"].as_str()?.to_owned(),
            version: version.to_owned(),
            plural: spec["names"]["plural"].as_str()?.to_owned(),
            head,
            schema: select::select(&served["schema"]["openAPIV3Schema"], wanted),
        })
    }

    fn read(file: &Path) -> Self {
        let read = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        Self::parse(&read).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    }

    /// The contract of a file's text.
    pub(crate) fn parse(read: &str) -> Result<Self, String> {
        let mut parsed: Map<String, Value> = serde_saphyr::from_str(read).map_err(|error| error.to_string())?;
        let mut take = |field: &str| parsed.remove(field).ok_or_else(|| format!("has no {field}"));
        let word = |value: Value| value.as_str().map(str::to_owned).ok_or_else(|| format!("{value} is not a word"));
        let (group, version) = (word(take("group")?)?, word(take("version")?)?);
        let schema = text::nested(take("fields")?.as_object().ok_or("fields is not a map")?)?;
        let plural = word(parsed.get("names").map_or(Value::Null, |names| names["plural"].clone()))?;
        Ok(Self { group, version, plural, head: parsed, schema })
    }

    /// The text of its file.
    pub fn to_text(&self) -> String {
        text::written(&self.group, &self.version, &self.head, &self.schema)
    }

    /// Where its file is.
    pub fn file(&self) -> PathBuf {
        folder().join(&self.group).join(format!("{}.yaml", self.plural))
    }

    /// Its kind.
    pub fn kind(&self) -> &str {
        self.head["names"]["kind"].as_str().unwrap_or_default()
    }

    /// Its schema, as a definition has it.
    pub fn schema(&self) -> Value {
        self.schema.clone()
    }

    /// Every field that it has.
    pub fn paths(&self) -> Paths {
        Paths::of_schema(&self.schema)
    }

    /// A definition that an API server installs: it serves this version, and knows no other fields.
    pub fn definition(&self) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}.{}", self.plural, self.group)},
            "spec": {
                "group": self.group,
                "names": self.head["names"],
                "scope": self.head["scope"],
                "versions": [{
                    "name": self.version,
                    "served": true,
                    "storage": true,
                    "subresources": self.head["subresources"],
                    "additionalPrinterColumns": self.head["columns"],
                    "schema": {"openAPIV3Schema": self.schema},
                }],
            },
        })
    }
}

/// Printer columns without their descriptions; no columns are an empty list.
pub fn without_prose(columns: &Value) -> Value {
    let mut columns = columns.as_array().cloned().unwrap_or_default();
    for column in columns.iter_mut().filter_map(Value::as_object_mut) {
        column.remove("description");
    }
    Value::Array(columns)
}
