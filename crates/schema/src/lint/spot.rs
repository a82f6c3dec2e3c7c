//! One node of a schema under lint, and what its ancestors mean for it.

use serde_json::{Map, Value};

use super::typing::maximum;
use crate::path::Path;
use crate::problem::{Problem, ProblemKind};

/// A node on the schema's spine: the root, a property, a map's values or a list's items. Not a junctor's branch.
#[derive(Clone)]
pub(super) struct Spot<'a> {
    pub(super) schema: &'a Value,
    pub(super) path: Path<'a>,
    pub(super) level: Level,
    /// The list or map above in which old and new entries cannot be matched, so that `oldSelf` means nothing here.
    pub(super) uncorrelatable: Option<String>,
    /// How often the node can occur in an object.
    pub(super) times: Times,
    /// Within the schema of a resource's own `metadata`, `apiVersion` or `kind`.
    pub(super) inside_meta: bool,
    /// Within the schema of the root's, where even defaults are forbidden.
    pub(super) inside_root_meta: bool,
}

/// The number of times that a node can occur, by the lists and maps it is in.
#[derive(Clone)]
pub(super) struct Times {
    /// `None` if one of them may hold any number of entries.
    pub(super) bound: Option<u64>,
    /// Those that may, and the keyword that would bound them.
    pub(super) open: Vec<(String, &'static str)>,
}

impl Times {
    /// How often the children of a node occur that is itself a list, a map or a single value.
    fn below(&self, schema: &Value, path: &Path<'_>) -> Self {
        let keyword = match text(schema, "type") {
            Some("array") => "maxItems",
            Some("object") if schema.get("additionalProperties").is_some_and(|value| !value.is_null()) => {
                "maxProperties"
            }
            _ => return self.clone(),
        };
        let mut times = self.clone();
        if let Some(most) = maximum(schema, keyword) {
            times.bound = times.bound.map(|bound| bound.saturating_mul(most));
        } else {
            times.bound = None;
            times.open.push((path.to_string(), keyword));
        }
        times
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Root,
    Field,
    Item,
}

pub(super) const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl<'a> Spot<'a> {
    pub(super) fn root(schema: &'a Value) -> Self {
        Self {
            schema,
            path: Path::ROOT,
            level: Level::Root,
            uncorrelatable: None,
            times: Times { bound: Some(1), open: Vec::new() },
            inside_meta: false,
            inside_root_meta: false,
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        has(self.schema, name)
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        flag(self.schema, name)
    }

    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        text(self.schema, name)
    }

    /// Whether the schema is of a whole resource.
    pub(super) fn is_resource(&self) -> bool {
        self.level == Level::Root || self.flag("x-kubernetes-embedded-resource")
    }

    /// A problem with one keyword of this node.
    pub(super) fn problem(
        &self,
        keyword: &str,
        kind: ProblemKind,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> Problem {
        Problem::new(&self.path.field(keyword), kind, what, fix)
    }
}

/// Visits a node and then all below it.
pub(super) fn walk(spot: &Spot<'_>, visit: &mut dyn FnMut(&Spot<'_>)) {
    visit(spot);
    let atomic_map = spot.text("x-kubernetes-map-type") == Some("atomic");
    let path = spot.path.to_string();
    let uncorrelatable = |blocked: bool| spot.uncorrelatable.clone().or_else(|| blocked.then(|| path.clone()));
    let times = spot.times.below(spot.schema, &spot.path);

    let properties = spot.path.field("properties");
    for (name, schema) in entries(spot.schema, "properties") {
        let meta = spot.is_resource() && META.contains(&name.as_str());
        let child = Spot {
            schema,
            path: properties.key(name),
            level: Level::Field,
            uncorrelatable: uncorrelatable(atomic_map),
            times: times.clone(),
            inside_meta: spot.inside_meta || meta,
            inside_root_meta: spot.inside_root_meta || (meta && spot.level == Level::Root),
        };
        walk(&child, visit);
    }
    if let Some(schema) = spot.schema.get("additionalProperties").filter(|schema| schema.is_object()) {
        let child = Spot {
            schema,
            path: spot.path.field("additionalProperties"),
            level: Level::Field,
            uncorrelatable: uncorrelatable(atomic_map),
            times: times.clone(),
            ..spot.clone()
        };
        walk(&child, visit);
    }
    if let Some(schema) = spot.schema.get("items").filter(|schema| schema.is_object()) {
        let child = Spot {
            schema,
            path: spot.path.field("items"),
            level: Level::Item,
            uncorrelatable: uncorrelatable(spot.text("x-kubernetes-list-type") != Some("map")),
            times,
            ..spot.clone()
        };
        walk(&child, visit);
    }
}

/// Whether a keyword is there and says something: `false`, null and the empty are as good as absent in Go's decoding.
pub(super) fn has(schema: &Value, name: &str) -> bool {
    match schema.get(name) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(list)) => !list.is_empty(),
        Some(Value::Object(map)) => !map.is_empty(),
        Some(_) => true,
    }
}

pub(super) fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

pub(super) fn text<'a>(schema: &'a Value, name: &str) -> Option<&'a str> {
    schema.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

pub(super) fn entries<'a>(schema: &'a Value, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    schema.get(name).and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

pub(super) fn list<'a>(schema: &'a Value, name: &str) -> &'a [Value] {
    schema.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
