//! The list of every kind we own, and what is known of each: its CRD, its aliases, its rules.

use std::sync::LazyLock;

use c5c3_schema::{Problem, ProblemKind, Problems, Schema};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
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

/// One kind that we own, in one version.
pub struct Kind {
    /// The CRD as it is installed.
    pub crd: CustomResourceDefinition,
    /// Second spellings of fields of its spec.
    pub aliases: &'static [Alias],
    schema: Schema,
    rules: fn(Value) -> Problems,
}

impl Kind {
    pub(crate) fn of<K: CustomResourceExt + DeserializeOwned + Rules>() -> Self {
        let crd = crd::finish(&K::crd(), K::ALIASES);
        let schema = crd.spec.versions[0].schema.as_ref().and_then(|s| s.open_api_v3_schema.as_ref());
        let schema = serde_json::to_value(schema).expect("a schema is JSON");
        let schema = Schema::compile(&schema).unwrap_or_else(|error| panic!("{}: {error}", crd.spec.names.kind));
        Self { crd, aliases: K::ALIASES, schema, rules: rules::<K> }
    }

    /// `group/version`, as manifests write it.
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.crd.spec.group, self.crd.spec.versions[0].name)
    }

    /// The kind's name, such as `Keystone`.
    pub fn name(&self) -> &str {
        &self.crd.spec.names.kind
    }

    /// The compiled schema.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Everything that is wrong with `object`: unknown fields, types, CEL rules (also those about a change from `old`),
    /// contradicting spellings, and the kind's own rules. The one place where it is decided; the CLI, the admission
    /// webhook and the operators all call it.
    pub fn check(&self, object: &Value, old: Option<&Value>) -> Problems {
        let mut problems = self.schema.check(object, old);
        if !problems.is_empty() {
            return problems;
        }
        let mut normal = object.clone();
        problems.extend(self.normalize(&mut normal));
        if problems.is_empty() {
            self.schema.default(&mut normal);
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
    match serde_json::from_value::<K>(object) {
        Ok(object) => object.problems().into(),
        // The schema let something through that the type refuses, such as a cron expression that never fires.
        Err(error) => vec![problem("spec", error.to_string(), "")].into(),
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
