//! Children held against the schemas that their API servers have: ours, and the genuine ones of other projects, which are
//! kept beside the repository.

use std::path::Path;

use c5c3_schema::Schema;
use serde_json::Value;

use crate::plan::Child;

/// What an API server would refuse, leave out or fill in; none for a kind whose schema is not known.
pub fn problems(child: &Child) -> Option<Vec<String>> {
    let resource = &child.resource;
    let mut value = serde_json::to_value(&child.object).expect("an object is JSON");
    value["apiVersion"] = resource.api_version.clone().into();
    value["kind"] = resource.kind.clone().into();
    if let Some(kind) = c5c3_api::find(&resource.api_version, &resource.kind) {
        let said = kind.check(&value, None).to_string();
        return Some(said.lines().map(ToOwned::to_owned).chain(defaulted_fields(kind.schema(), &value)).collect());
    }
    let schema = upstream(&resource.group, &resource.version, &resource.plural)?;
    let said = schema.check(&value, None).to_string();
    Some(said.lines().map(ToOwned::to_owned).chain(defaulted_fields(&schema, &value)).collect())
}

/// The genuine schema of another project's kind.
pub fn upstream(group: &str, version: &str, plural: &str) -> Option<Schema> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/crds");
    let projects = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let file = format!("{group}_{plural}.yaml");
    let path = projects.flatten().map(|project| project.path().join(&file)).find(|path| path.is_file())?;
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let definition: Value = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let served = versions.into_iter().find(|served| served["name"] == version)?;
    Some(Schema::compile(&served["schema"]["openAPIV3Schema"]).unwrap_or_else(|error| panic!("{file}: {error}")))
}

/// What defaults would add to items of lists. A list that is applied as a whole is compared as a whole, and one that comes back
/// with more in it looks like a change to older API servers: each apply would be a write, and each write a reconcile.
pub fn defaulted_fields(schema: &Schema, object: &Value) -> Vec<String> {
    let mut filled = object.clone();
    schema.default(&mut filled);
    let mut places = Vec::new();
    compare(object, &filled, "", &mut places);
    places
}

fn compare(written: &Value, filled: &Value, place: &str, places: &mut Vec<String>) {
    match (written, filled) {
        (Value::Object(written), Value::Object(filled)) => {
            for (name, value) in written {
                compare(value, filled.get(name).unwrap_or(&Value::Null), &format!("{place}.{name}"), places);
            }
        }
        (Value::Array(written), Value::Array(filled)) => {
            let differing = written.iter().zip(filled).enumerate().filter(|(_, (written, filled))| written != filled);
            places.extend(differing.map(|(index, (written, filled))| {
                format!("{place}[{index}]: {written} would come back as {filled}: write the defaults out")
            }));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_default_that_is_left_out_of_a_list_is_found_and_one_beside_it_is_no_matter() {
        let item = json!({"type": "object", "properties": {"name": {"type": "string"}, "ripe": {"type": "boolean", "default": true}}});
        let schema =
            Schema::compile(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "apples": {"type": "array", "items": item}, "press": {"type": "string", "default": "wooden"}}}}}));
        let found = |apple: Value| defaulted_fields(schema.as_ref().unwrap(), &json!({"spec": {"apples": [apple]}}));
        assert_eq!(found(json!({"name": "a", "ripe": false})), Vec::<String>::new());
        let left_out = found(json!({"name": "a"}));
        assert!(left_out[0].starts_with(".spec.apples[0]: "), "{left_out:?}");
    }
}
