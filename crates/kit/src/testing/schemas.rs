//! Children held against the schemas that their API servers have: ours, and the contracts with other projects' kinds.

use c5c3_schema::Schema;
use serde_json::Value;

use crate::plan::{Child, Plan};

/// Fails if an API server would refuse or prune a child of a plan, or fill in items of its lists, by our kinds and by
/// contracts.
///
/// # Panics
/// With everything that is wrong.
pub fn check(plan: &Plan) {
    for child in plan.children() {
        let problems = said(child, false).unwrap_or_default();
        assert!(problems.is_empty(), "{}:\n{}\n{:#}", child.reference(), problems.join("\n"), child.object.data);
    }
}

/// What an API server would refuse, prune or fill in, by genuine CRDs as well if they are at hand; none for a kind that is
/// built into Kubernetes. A kind of another project without a contract is a problem.
pub fn problems(child: &Child) -> Option<Vec<String>> {
    said(child, true)
}

fn said(child: &Child, by_genuine: bool) -> Option<Vec<String>> {
    let resource = &child.resource;
    let mut value = serde_json::to_value(&child.object).expect("an object is JSON");
    value["apiVersion"] = resource.api_version.clone().into();
    value["kind"] = resource.kind.clone().into();
    if let Some(kind) = c5c3_api::find(&resource.api_version, &resource.kind) {
        let said = kind.check(&value, None).to_string();
        return Some(said.lines().map(ToOwned::to_owned).chain(defaulted_fields(kind.schema(), &value)).collect());
    }
    if is_built_in(&resource.group) {
        return None;
    }
    if c5c3_contracts::record(&value) {
        return Some(Vec::new());
    }
    let (group, version, kind) = (&resource.group, &resource.version, &resource.kind);
    let mut found = match c5c3_contracts::demand(group, version, kind) {
        Ok(contract) => [contract.unmet(&value), defaulted_fields(&contract.schema, &value)].concat(),
        Err(problem) => vec![problem],
    };
    match by_genuine.then(|| c5c3_contracts::genuine_demand(group, version, kind)) {
        Some(Ok(Some(genuine))) => {
            found.extend([genuine.unmet(&value), defaulted_fields(&genuine.schema, &value)].concat());
        }
        Some(Err(problem)) => found.push(problem),
        Some(Ok(None)) | None => {}
    }
    Some(found)
}

/// Whether Kubernetes itself serves a group. The Gateway API is published by a project of Kubernetes, as CRDs.
fn is_built_in(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io") && group != "gateway.networking.k8s.io"
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
