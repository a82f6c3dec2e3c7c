//! What merging means for each part of a type: which objects and lists are taken apart and which are one value.

mod compile;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

use crate::element::Element;

/// The merge semantics of a type. Compiled once per type and version; cheap to clone.
#[derive(Clone, Debug)]
pub struct Shape(pub(crate) Kind);

/// What a value of the type is.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// Told by the value: objects are taken apart, lists and scalars are one value.
    Any,
    Scalar(Scalar),
    List(Arc<List>),
    Map(Arc<Map>),
}

/// What a scalar may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Number,
    Text,
    Bool,
    /// Any scalar: quantities, times, `x-kubernetes-int-or-string`.
    Untyped,
}

/// A list and how its items are told apart.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) items: Shape,
    pub(crate) relation: Relation,
}

#[derive(Debug)]
pub(crate) enum Relation {
    /// The list is one value.
    Atomic,
    /// Items are their own identity.
    Set,
    /// Items are told apart by these fields.
    Keys(Vec<KeyField>),
}

#[derive(Debug)]
pub(crate) struct KeyField {
    pub(crate) name: Arc<str>,
    /// What an item that leaves the key out means: `protocol` of a port is TCP.
    pub(crate) default: Option<Value>,
}

/// An object: declared fields, and what other fields are (`None`: there may be none).
#[derive(Debug, Default)]
pub(crate) struct Map {
    pub(crate) fields: BTreeMap<Arc<str>, Field>,
    pub(crate) others: Option<Shape>,
    pub(crate) atomic: bool,
}

/// A declared field.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) shape: Shape,
    pub(crate) strategy: Strategy,
}

/// How a strategic merge patch treats a field (`x-kubernetes-patch-strategy`, `x-kubernetes-patch-merge-key`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Strategy {
    /// A list whose items are merged instead of replaced.
    pub(crate) merge: bool,
    /// The field that tells objects of such a list apart; none for lists of scalars.
    pub(crate) key: Option<Arc<str>>,
    /// An object that is replaced instead of merged.
    pub(crate) replace: bool,
}

/// How one value is handled.
#[derive(Clone, Copy)]
pub(crate) enum Form<'s> {
    /// As one value.
    Leaf,
    /// Item by item; never an atomic list.
    List(&'s List),
    /// Field by field; never an atomic object.
    Map(&'s Map),
}

static OPEN: LazyLock<Map> = LazyLock::new(|| Map { others: Some(Shape::deduced()), ..Map::default() });

impl Shape {
    /// The shape of a type that nothing is known of: objects are merged field by field, lists are replaced.
    pub fn deduced() -> Self {
        Self(Kind::Any)
    }

    pub(crate) fn is_deduced(&self) -> bool {
        matches!(self.0, Kind::Any)
    }

    /// How a value is handled; without one, as the object or list that it would be.
    pub(crate) fn form(&self, value: Option<&Value>) -> Form<'_> {
        match &self.0 {
            Kind::Any => match value {
                None | Some(Value::Null | Value::Object(_)) => Form::Map(&OPEN),
                Some(_) => Form::Leaf,
            },
            Kind::List(list) if !matches!(list.relation, Relation::Atomic) => Form::List(list),
            Kind::Map(map) if !map.atomic => Form::Map(map),
            _ => Form::Leaf,
        }
    }
}

impl Form<'_> {
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl Map {
    /// What is known of a field.
    pub(crate) fn field(&self, name: &str) -> Known<'_> {
        match self.fields.get_key_value(name) {
            Some((name, field)) => Known { declared: Some(name), shape: Some(&field.shape) },
            None => Known { declared: None, shape: self.others.as_ref() },
        }
    }
}

/// A field as an object's type sees it.
#[derive(Clone, Copy)]
pub(crate) struct Known<'s> {
    declared: Option<&'s Arc<str>>,
    /// The shape of what is allowed there; none if nothing is.
    pub(crate) shape: Option<&'s Shape>,
}

impl<'s> Known<'s> {
    pub(crate) fn is_declared(&self) -> bool {
        self.declared.is_some()
    }

    /// The step to the field of this name.
    pub(crate) fn step(&self, name: &str) -> Element {
        self.declared.map_or_else(|| Element::field(name), |name| Element::Field(name.clone()))
    }

    /// The shape of what is there, allowed or not.
    pub(crate) fn shape_or_deduced(&self) -> &'s Shape {
        self.shape.unwrap_or(&DEDUCED)
    }
}

/// The shape of what no schema describes.
pub(crate) static DEDUCED: Shape = Shape(Kind::Any);

impl List {
    /// The step to an item, or why the item has none. In upstream's words: clients see them.
    pub(crate) fn step(&self, item: &Value) -> Result<Element, String> {
        match &self.relation {
            Relation::Atomic => Err("invalid indexing of non-associative list".to_owned()),
            Relation::Set => match item {
                Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
                Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
                Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
                scalar => Ok(Element::item(scalar.clone())),
            },
            Relation::Keys(keys) => keyed_step(keys, item),
        }
    }
}

fn keyed_step(keys: &[KeyField], item: &Value) -> Result<Element, String> {
    let object = match item {
        Value::Object(object) => object,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let Some(value) = object.get(key.name.as_ref()).or(key.default.as_ref()) else {
            return Err(format!(
                "associative list with keys has an element that omits key field {:?} (and doesn't have default value)",
                key.name
            ));
        };
        found.push((key.name.clone(), value.clone()));
    }
    Ok(Element::key(found))
}
