//! What a schema means to CEL: the type of each place, how large a value there can be, and how small.

use std::collections::BTreeMap;

use serde_json::Value;

use super::types::Type;
use crate::cel::escape;
use crate::lint::spot::{META, entries, flag, list, text};
use crate::path::Path;

/// The largest request that an API server reads.
pub(in crate::lint) const REQUEST: u64 = 3 * 1024 * 1024;

/// Which declaration.
pub(in crate::lint) type Id = usize;

/// One place of a schema.
#[derive(Debug)]
pub(in crate::lint) struct Decl {
    pub(in crate::lint) kind: Kind,
    /// The most characters, items or entries that a value can have; 0 for what has none.
    pub(in crate::lint) most: u64,
    /// The fewest bytes that a value takes in JSON.
    pub(in crate::lint) least: u64,
    /// Where and by what keyword it could be bounded, if it is not.
    pub(in crate::lint) open: Option<(String, &'static str)>,
}

#[derive(Debug)]
pub(in crate::lint) enum Kind {
    Scalar(Type),
    List(Id),
    Map(Id),
    /// Fields by their escaped names.
    Object(BTreeMap<String, Id>),
}

/// The declarations of a schema and all below it.
#[derive(Debug, Default)]
pub(in crate::lint) struct Decls {
    all: Vec<Decl>,
}

impl Decls {
    /// Declares a schema; `None` if CEL cannot see it, as what has no type cannot be seen. A resource shows its names.
    pub(in crate::lint) fn of(schema: &Value, resource: bool, path: &Path<'_>) -> Option<(Self, Id)> {
        let mut decls = Self::default();
        let root = decls.declare(schema, resource, path)?;
        Some((decls, root))
    }

    pub(in crate::lint) fn get(&self, id: Id) -> &Decl {
        &self.all[id]
    }

    pub(in crate::lint) fn type_of(&self, id: Id) -> Type {
        match &self.get(id).kind {
            Kind::Scalar(scalar) => scalar.clone(),
            Kind::List(items) => Type::list(self.type_of(*items)),
            Kind::Map(values) => Type::map(Type::String, self.type_of(*values)),
            Kind::Object(_) => Type::Object(id),
        }
    }

    /// The fields of an object.
    pub(in crate::lint) fn fields(&self, id: Id) -> Option<&BTreeMap<String, Id>> {
        match &self.get(id).kind {
            Kind::Object(fields) => Some(fields),
            _ => None,
        }
    }

    fn add(&mut self, kind: Kind, most: u64, least: u64, open: Option<(String, &'static str)>) -> Id {
        self.all.push(Decl { kind, most, least, open });
        self.all.len() - 1
    }

    fn declare(&mut self, schema: &Value, resource: bool, path: &Path<'_>) -> Option<Id> {
        if flag(schema, "x-kubernetes-int-or-string") {
            let (most, open) = length(schema, path);
            return Some(self.add(Kind::Scalar(Type::Dyn), most, 1, open));
        }
        let scalar = |this: &mut Self, scalar, least| Some(this.add(Kind::Scalar(scalar), 0, least, None));
        match text(schema, "type")? {
            "array" => {
                let items = self.child(schema, "items", path)?;
                let open = || (REQUEST - 2) / (self.get(items).least + 1);
                let (most, open) = bound(schema, "maxItems", open, path);
                Some(self.add(Kind::List(items), most, 2, open))
            }
            "object" if schema.get("additionalProperties").is_some_and(Value::is_object) => {
                let values = self.child(schema, "additionalProperties", path)?;
                // A pair takes at least a key's quotes and one character, a colon, a comma and the value.
                let open = || (REQUEST - 2) / (self.get(values).least + 6);
                let (most, open) = bound(schema, "maxProperties", open, path);
                Some(self.add(Kind::Map(values), most, 2, open))
            }
            "object" => Some(self.object(schema, resource, path)),
            "string" => Some(self.string(schema, path)),
            "boolean" => scalar(self, Type::Bool, 4),
            "number" => scalar(self, Type::Double, 1),
            "integer" => scalar(self, Type::Int, 1),
            _ => None,
        }
    }

    fn child(&mut self, schema: &Value, keyword: &str, path: &Path<'_>) -> Option<Id> {
        let child = schema.get(keyword).filter(|child| child.is_object())?;
        self.declare(child, flag(child, "x-kubernetes-embedded-resource"), &path.field(keyword))
    }

    fn object(&mut self, schema: &Value, resource: bool, path: &Path<'_>) -> Id {
        let properties = path.field("properties");
        let required = list(schema, "required");
        let replaced = resource && !names_itself(schema);
        let mut fields = BTreeMap::new();
        let mut least = 2;
        for (name, property) in entries(schema, "properties") {
            if replaced && META.contains(&name.as_str()) {
                continue;
            }
            let embedded = flag(property, "x-kubernetes-embedded-resource");
            let Some(field) = self.declare(property, embedded, &properties.key(name)) else {
                continue;
            };
            if required.iter().any(|one| one == name) && property.get("default").is_none_or(Value::is_null) {
                least += name.len() as u64 + self.get(field).least + 4;
            }
            if let Some(name) = escape(name) {
                fields.insert(name.into_owned(), field);
            }
        }
        if replaced {
            fields.extend(self.names(&properties));
        }
        self.add(Kind::Object(fields), 0, least, None)
    }

    /// What every resource shows, whatever its schema says: `apiVersion`, `kind` and of the metadata the names.
    fn names(&mut self, properties: &Path<'_>) -> Vec<(String, Id)> {
        let text = |this: &mut Self, path: &Path<'_>| {
            this.add(Kind::Scalar(Type::String), REQUEST - 2, 2, Some((path.to_string(), "maxLength")))
        };
        let metadata = properties.field("metadata");
        let inner = metadata.field("properties");
        let names = ["name", "generateName"].map(|name| (name.to_owned(), text(self, &inner.field(name))));
        let metadata = self.add(Kind::Object(names.into_iter().collect()), 0, 2, None);
        let mut fields = vec![("metadata".to_owned(), metadata)];
        for name in ["apiVersion", "kind"] {
            fields.push((name.to_owned(), text(self, &properties.field(name))));
        }
        fields
    }

    fn string(&mut self, schema: &Value, path: &Path<'_>) -> Id {
        let mut add = |scalar, most, least, open| self.add(Kind::Scalar(scalar), most, least, open);
        match text(schema, "format") {
            Some("byte") => {
                let (most, open) = bound(schema, "maxLength", || REQUEST - 2, path);
                add(Type::Bytes, most, 2, open)
            }
            // As long, and as short, as such text can be with its quotes.
            Some("duration") => add(Type::Duration, 32, 3, None),
            Some("date") => add(Type::Timestamp, 12, 12, None),
            Some("date-time") => add(Type::Timestamp, 32, 21, None),
            _ => {
                let longest = list(schema, "enum").iter().filter_map(Value::as_str).map(str::len).max();
                let longest = longest.filter(|_| schema.get("maxLength").is_none_or(Value::is_null));
                let (most, open) = longest.map_or_else(|| length(schema, path), |longest| (longest as u64, None));
                add(Type::String, most, 2, open)
            }
        }
    }
}

type Bound = (u64, Option<(String, &'static str)>);

fn bound(schema: &Value, keyword: &'static str, open: impl Fn() -> u64, path: &Path<'_>) -> Bound {
    match maximum(schema, keyword) {
        Some(most) => (most, None),
        None => (open(), Some((path.to_string(), keyword))),
    }
}

/// The bytes of a string: `maxLength` counts characters, of up to four bytes each.
fn length(schema: &Value, path: &Path<'_>) -> Bound {
    match maximum(schema, "maxLength") {
        Some(most) => (most.saturating_mul(4), None),
        None => bound(schema, "maxLength", || REQUEST - 2, path),
    }
}

/// A bound that a schema sets; a negative one is none at all.
pub(in crate::lint) fn maximum(schema: &Value, keyword: &str) -> Option<u64> {
    let number = schema.get(keyword)?;
    number.as_u64().or_else(|| number.as_i64().map(|_| 0))
}

/// Whether a resource's schema describes all that a resource shows anyway.
fn names_itself(schema: &Value) -> bool {
    let is = |schema: Option<&Value>, wanted: &str| schema.is_some_and(|schema| text(schema, "type") == Some(wanted));
    let field = |name: &str| schema.get("properties").and_then(|properties| properties.get(name));
    let name = |name: &str| field("metadata").and_then(|metadata| metadata.get("properties")?.get(name));
    is(field("kind"), "string")
        && is(field("apiVersion"), "string")
        && is(field("metadata"), "object")
        && is(name("name"), "string")
        && is(name("generateName"), "string")
}
