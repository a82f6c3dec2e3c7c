//! Tables: the rows that `kubectl get` prints, with upstream's columns for built-in kinds and the printer columns of
//! their definitions for custom ones.

mod access;
mod autoscaling;
mod cluster;
mod columns;
mod custom;
mod duration;
mod format;
mod network;
mod pod;
mod storage;
mod workload;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub use columns::Column;
pub use duration::human_duration;

use crate::resource::Resource;

/// How much of each object stands beside its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// Its metadata, as a PartialObjectMetadata.
    #[default]
    Metadata,
    /// All of it.
    Object,
}

impl IncludeObject {
    /// The value of the `includeObject` parameter; none if it is not one of the three.
    pub fn parse(parameter: &str) -> Option<Self> {
        match parameter {
            "" | "Metadata" => Some(Self::Metadata),
            "None" => Some(Self::None),
            "Object" => Some(Self::Object),
            _ => None,
        }
    }
}

/// A `meta.k8s.io/v1` Table of objects as of `now`. The list's own metadata (resource version, continue token) is the
/// caller's to add.
pub fn table(resource: &Resource, objects: &[Value], include: IncludeObject, now: Timestamp) -> Value {
    let layout = Layout::of(resource);
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let mut row = Map::new();
            row.insert("cells".to_owned(), Value::Array(layout.cells(object, now)));
            match include {
                IncludeObject::None => {}
                IncludeObject::Metadata => drop(row.insert("object".to_owned(), partial(object))),
                IncludeObject::Object => drop(row.insert("object".to_owned(), object.clone())),
            }
            Value::Object(row)
        })
        .collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": layout.columns().iter().map(Column::definition).collect::<Vec<_>>(),
        "rows": rows,
    })
}

/// The object's metadata alone, as `application/json;as=PartialObjectMetadata` asks for it.
pub fn partial(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

/// Makes the cells of one object.
type Cells = fn(&Value, Timestamp) -> Vec<Value>;

/// The columns of a kind and how they are filled.
enum Layout {
    BuiltIn(Vec<Column>, Cells),
    Custom(Vec<Column>),
}

impl Layout {
    fn of(resource: &Resource) -> Self {
        if let Some(definition) = resource.custom() {
            return Self::Custom(custom::columns(definition));
        }
        let (columns, cells) = columns::built_in(&resource.group, &resource.kind);
        Self::BuiltIn(columns.iter().map(Column::built_in).collect(), cells)
    }

    fn columns(&self) -> &[Column] {
        match self {
            Self::BuiltIn(columns, _) | Self::Custom(columns) => columns,
        }
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match self {
            Self::BuiltIn(_, cells) => cells(object, now),
            Self::Custom(columns) => custom::cells(columns, object, now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::{builtin, find};

    pub(super) fn now() -> Timestamp {
        "2024-05-01T12:00:00Z".parse().unwrap()
    }

    /// The row of one object as kubectl prints it, wide columns included.
    pub(super) fn row(group: &str, plural: &str, object: &Value) -> String {
        let resource = builtin().iter().find(|r| r.group == group && r.plural == plural).unwrap();
        let table = table(resource, std::slice::from_ref(object), IncludeObject::None, now());
        let text = |cell: &Value| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned);
        table["rows"][0]["cells"].as_array().unwrap().iter().map(text).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn every_kind_has_as_many_cells_as_columns_whatever_the_object() {
        for resource in builtin() {
            for object in [json!({}), json!({"metadata": {"name": "x"}, "spec": {}, "status": {}}), json!({"spec": 1})]
            {
                let table = table(resource, &[object], IncludeObject::None, now());
                let columns = table["columnDefinitions"].as_array().unwrap().len();
                assert_eq!(table["rows"][0]["cells"].as_array().unwrap().len(), columns, "{}", resource.kind);
            }
        }
    }

    #[test]
    fn a_row_carries_as_much_of_its_object_as_was_asked_for() {
        let maps = find("", "v1", "configmaps").unwrap();
        let object = json!({"kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "b"}});
        let row = |include| table(maps, std::slice::from_ref(&object), include, now())["rows"][0].clone();
        assert!(row(IncludeObject::None).get("object").is_none());
        assert_eq!(row(IncludeObject::Object)["object"], object);
        assert_eq!(
            row(IncludeObject::Metadata)["object"],
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "m"}})
        );
        assert_eq!(IncludeObject::parse("Nothing"), None);
    }

    #[test]
    fn columns_say_their_type_and_how_wide_a_view_they_are_for() {
        let table = table(find("", "v1", "pods").unwrap(), &[], IncludeObject::None, now());
        let columns = table["columnDefinitions"].as_array().unwrap();
        assert_eq!(columns[0]["format"], "name");
        assert_eq!((&columns[5]["name"], &columns[5]["priority"]), (&json!("IP"), &json!(1)));
    }
}
