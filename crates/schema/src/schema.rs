//! The compiled schema and the order in which its parts are applied.

use std::sync::Arc;

use serde_json::Value;

use crate::compile::{self, CompileError};
use crate::node::Node;
use crate::problem::{Problem, Problems};
use crate::{cel, default, path, prune, unique, validate};

/// A compiled schema. Cheap to clone and to share between threads.
#[derive(Debug, Clone)]
pub struct Schema {
    root: Arc<Node>,
}

impl Schema {
    /// Compiles a CRD version's `openAPIV3Schema`: patterns and CEL rules included, so that applying it cannot fail.
    pub fn compile(open_api_v3_schema: &Value) -> Result<Self, CompileError> {
        Ok(Self { root: Arc::new(compile::compile(open_api_v3_schema)?) })
    }

    /// Whether the schema names the field at that path.
    pub fn has_field(&self, path: &[&str]) -> bool {
        let mut node = &*self.root;
        path.iter().all(|name| {
            let below = node.properties.get(*name);
            below.inspect(|below| node = below).is_some()
        })
    }

    /// The fields that the schema does not know: what strict field validation rejects and pruning drops.
    pub fn unknown_fields(&self, object: &Value) -> Problems {
        prune::unknown_fields(&self.root, object)
    }

    /// The same for a value that is part of an object, where `metadata` is a field like any other.
    pub(crate) fn unknown_below(&self, value: &Value) -> Problems {
        prune::unknown_below(&self.root, value)
    }

    /// Drops the fields that the schema does not know and returns their paths.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(&self.root, object)
    }

    /// Applies defaults. A null where the schema does not allow one is replaced by the default if there is one and
    /// dropped otherwise; only in a list, where dropping it would move its neighbours, does it stay.
    pub fn default(&self, object: &mut Value) {
        default::default(&self.root, object);
    }

    /// Validates values, then the keys of list maps and sets, then CEL rules, which need sound values to work on and
    /// are left out when there are none. Expects a defaulted object. With `old`, transition rules apply too, and what
    /// the update leaves as it was is accepted.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Problems {
        let root = &self.root;
        let mut problems = validate::validate(root, object, old);
        problems.extend(unique::validate(root, object, old));
        if problems.is_empty() {
            problems.extend(cel::validate(root, object, old));
        }
        problems
    }

    /// All that a write goes through, on a copy: unknown fields, defaults, validation, and every problem of them at once.
    /// The old object, which was
    /// stored perhaps before a default existed, is defaulted as the API server does when it reads.
    pub fn check(&self, object: &Value, old: Option<&Value>) -> Problems {
        let mut problems = self.unknown_fields(object);
        let mut object = object.clone();
        self.prune(&mut object);
        self.default(&mut object);
        let old = old.map(|old| {
            let mut old = old.clone();
            self.default(&mut old);
            old
        });
        problems.extend(self.everything(&object, old.as_ref()));
        problems
    }

    /// What [`Schema::validate`] finds, and also the rules that a value of the wrong shape elsewhere leaves standing: an
    /// API server holds them back until the shape is right, but a person would rather hear all of it at once.
    fn everything(&self, object: &Value, old: Option<&Value>) -> Problems {
        let root = &self.root;
        let mut shape = validate::validate(root, object, old);
        shape.extend(unique::validate(root, object, old));
        let is_sound = |rule: &Problem| !shape.iter().any(|wrong| path::is_within(&wrong.path, &rule.path));
        let rules: Vec<Problem> = cel::validate(root, object, old).into_iter().filter(is_sound).collect();
        shape.extend(rules);
        shape
    }
}
