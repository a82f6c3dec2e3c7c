//! The list of every kind we own, and what is known of each: its CRD, its aliases, its rules.

use std::sync::{LazyLock, OnceLock};

use c5c3_schema::{Problem, ProblemKind, Problems, Schema};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResourceExt, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::alias::{self, Alias};
use crate::crd;

/// What a kind adds to its schema: second spellings, and rules that no schema can express.
pub trait Rules {
    /// Second spellings of fields.
    const ALIASES: &'static [Alias] = &[];

    /// What is wrong with the object beyond what its schema and CEL rules find. The object has passed those.
    fn problems(&self) -> Vec<Problem> {
        Vec::new()
    }
}

/// A problem with one field, for implementations of [`Rules`].
pub fn problem(path: impl Into<String>, what: impl Into<String>, fix: impl Into<String>) -> Problem {
    Problem { path: path.into(), kind: ProblemKind::Invalid, what: what.into(), fix: fix.into() }
}

/// One kind that we own, in one version. Its schema is made when it is first asked for: making all of them takes longer
/// than most commands and tests otherwise need. Its CRD is made each time: as Rust types, all of them would take more memory
/// than the rest of an operator.
pub struct Kind {
    /// Second spellings of fields of its spec.
    pub aliases: &'static [Alias],
    api_version: String,
    name: String,
    crd: fn() -> CustomResourceDefinition,
    schema: OnceLock<Schema>,
    rules: fn(Value) -> Problems,
}

impl Kind {
    pub(crate) fn of<K>() -> Self
    where
        K: CustomResourceExt + Resource<DynamicType = ()> + DeserializeOwned + Rules,
    {
        Self {
            aliases: K::ALIASES,
            api_version: K::api_version(&()).into_owned(),
            name: K::kind(&()).into_owned(),
            crd: || crd::finish(&K::crd(), K::ALIASES),
            schema: OnceLock::new(),
            rules: rules::<K>,
        }
    }

    /// `group/version`, as manifests write it.
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// The API group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// The kind's name, such as `Keystone`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The CRD as it is installed.
    pub fn crd(&self) -> CustomResourceDefinition {
        (self.crd)()
    }

    /// The compiled schema.
    pub fn schema(&self) -> &Schema {
        self.schema
            .get_or_init(|| Schema::compile(&self.open_api()).unwrap_or_else(|error| panic!("{}: {error}", self.name)))
    }

    /// The schema as the CRD has it: `openAPIV3Schema`.
    pub fn open_api(&self) -> Value {
        let version = self.crd().spec.versions.into_iter().next();
        let schema = version.and_then(|version| version.schema?.open_api_v3_schema);
        serde_json::to_value(schema).expect("a schema is JSON")
    }

    /// Whether its status has a field of that name.
    pub fn has_status_field(&self, name: &str) -> bool {
        self.schema().has_field(&["status", name])
    }

    /// Everything that is wrong with `object`: unknown fields, types, CEL rules (also those about a change from `old`),
    /// contradicting spellings, and the kind's own rules. The one place where it is decided; the CLI, the admission
    /// webhook and the operators all call it.
    pub fn check(&self, object: &Value, old: Option<&Value>) -> Problems {
        let mut problems = self.schema().check(object, old);
        let (mut normal, mut normal_old) = (object.clone(), old.cloned());
        let differing = self.normalize(&mut normal);
        // A rule may have said so already, in better words.
        let said = |path: &str| problems.iter().any(|problem| path.starts_with(&problem.path));
        let unsaid: Vec<Problem> = differing.into_iter().filter(|differing| !said(&differing.path)).collect();
        problems.extend(unsaid);
        normal_old.as_mut().map(|old| self.normalize(old));
        if !problems.is_empty() {
            return problems;
        }
        if normal != *object || normal_old.as_ref() != old {
            // A rule sees the canonical fields only, so it has not seen those that were spelled differently.
            problems.extend(self.schema().check(&normal, normal_old.as_ref()));
        }
        if problems.is_empty() {
            self.schema().default(&mut normal);
            problems.extend((self.rules)(normal));
        }
        problems
    }

    /// Moves second spellings to the canonical fields.
    pub fn normalize(&self, object: &mut Value) -> Problems {
        match object.get_mut("spec") {
            Some(spec) => alias::normalize(self.aliases, spec),
            None => Problems::default(),
        }
    }
}

fn rules<K: DeserializeOwned + Rules>(object: Value) -> Problems {
    // Not read by reference: that would compile the deserializer of every kind a second time.
    let kept = object.clone();
    match serde_path_to_error::deserialize::<_, K>(object) {
        Ok(object) => object.problems().into(),
        // The schema let something through that the type refuses, such as a cron expression that never fires.
        Err(error) => {
            let said = error.inner().to_string();
            // What serde says of a missing field is about the object that lacks it.
            if let Some(field) = said.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
                let path = format!("{}.{field}", error.path()).trim_start_matches('.').to_owned();
                return vec![problem(path, "is missing", format!("set {field}"))].into();
            }
            let (what, fix) = said.split_once("; ").unwrap_or((&said, ""));
            let path = error.path().to_string();
            vec![problem(place_of_quoted(&kept, &said).unwrap_or(path), what, fix)].into()
        }
    }
}

/// The path of the text that a message begins with, in quotes, if one field alone holds it. Serde knows no path below a field that
/// is flattened into another.
fn place_of_quoted(object: &Value, said: &str) -> Option<String> {
    let quoted = serde_json::Deserializer::from_str(said).into_iter::<String>().next()?.ok()?;
    let mut places = Vec::new();
    places_of(&object["spec"], "spec".to_owned(), &quoted, &mut places);
    places.pop().filter(|_| places.is_empty())
}

fn places_of(value: &Value, path: String, wanted: &str, places: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(field, value)| places_of(value, format!("{path}.{field}"), wanted, places));
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, value)| places_of(value, format!("{path}[{index}]"), wanted, places));
        }
        Value::String(text) if text == wanted => places.push(path),
        _ => {}
    }
}

/// Every kind we own.
pub fn all() -> &'static [Kind] {
    static ALL: LazyLock<Vec<Kind>> = LazyLock::new(crate::kinds);
    &ALL
}

/// The kind of that `apiVersion` and `kind`.
pub fn find(api_version: &str, kind: &str) -> Option<&'static Kind> {
    all().iter().find(|k| k.name() == kind && k.api_version() == api_version)
}
