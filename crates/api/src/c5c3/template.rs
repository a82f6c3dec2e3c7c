//! A part of a service's own spec, written into a ControlPlane.
//!
//! Its schema is open: the specs of six services, each in two spellings of the ControlPlane, would make the definition larger
//! than an API server and `kubectl apply` take. The rules of the service's kind judge it instead, in the admission webhook, in the CLI
//! and in the operator, and name a field by its path in the ControlPlane.

use std::borrow::Cow;

use c5c3_schema::Problem;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::catalog;

/// Fields of a service's spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Template(pub Map<String, Value>);

impl Template {
    /// Whether it sets nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Everything that is wrong with it as the spec of that kind, together with the fields that the ControlPlane sets beside it,
    /// by its path in a ControlPlane.
    pub fn problems(&self, service: &str, kind: &str, projected: &Map<String, Value>) -> Vec<Problem> {
        if self.is_empty() {
            return Vec::new();
        }
        let place = format!("spec.services.{service}.template");
        match self.kind(service, kind) {
            Some((kind, mut object)) => {
                if let Some(spec) = object["spec"].as_object_mut() {
                    add_absent(spec, projected);
                }
                kind.check(&object, None).into_iter().map(|found| moved(found, &place)).collect()
            }
            None => Vec::new(),
        }
    }

    /// Its fields, in the spelling that the operators of that kind write.
    pub fn canonical(&self, service: &str, kind: &str) -> Map<String, Value> {
        let Some((kind, mut object)) = self.kind(service, kind) else { return self.0.clone() };
        kind.normalize(&mut object);
        object["spec"].as_object().cloned().unwrap_or_default()
    }

    /// The kind, and an object of it with this spec.
    fn kind(&self, service: &str, kind: &str) -> Option<(&'static catalog::Kind, Value)> {
        let version = format!("{service}.openstack.c5c3.io/v1alpha1");
        let found = catalog::find(&version, kind)?;
        let metadata = json!({"name": service, "namespace": "default"});
        Some((found, json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": self.0})))
    }
}

/// Adds the fields that a spec does not have, also within others. A field that both have differently is a conflict, which the
/// operator tells with its reason.
fn add_absent(spec: &mut Map<String, Value>, projected: &Map<String, Value>) {
    for (name, value) in projected {
        match (spec.get_mut(name), value) {
            (Some(Value::Object(inner)), Value::Object(projected)) => add_absent(inner, projected),
            (Some(_), _) => {}
            (None, value) => drop(spec.insert(name.clone(), value.clone())),
        }
    }
}

/// A problem of a service's object as one of the template that it comes from.
fn moved(found: Problem, place: &str) -> Problem {
    let path = found.path.strip_prefix("spec").map_or_else(|| place.to_owned(), |rest| format!("{place}{rest}"));
    Problem { path, fix: found.fix.replace("spec.", &format!("{place}.")), ..found }
}

impl JsonSchema for Template {
    fn schema_name() -> Cow<'static, str> {
        "Template".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(template: &Value) -> Vec<String> {
        beside(template, &json!({}))
    }

    fn beside(template: &Value, projected: &Value) -> Vec<String> {
        let template: Template = serde_json::from_value(template.clone()).unwrap();
        let found = template.problems("glance", "Glance", projected.as_object().unwrap());
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_template_is_judged_together_with_what_is_projected() {
        let more = json!({"storage": {"stores": [{"name": "archive", "file": {"accessMode": "ReadWriteMany"}}]}});
        let alone = said(&more);
        assert!(alone[0].contains("has backend rbd without a pool"), "{alone:?}");
        let pool = json!({"storage": {"rbd": {"cephSecretRef": {"name": "keys"}}}, "replicas": 2});
        assert_eq!(beside(&more, &pool), Vec::<String>::new());
        // What is projected does not hide what is wrong with the rest.
        let lonely = json!({"storage": {"stores": [{"name": "archive", "file": {}}]}});
        let said = beside(&lonely, &pool);
        assert!(said[0].starts_with("spec.services.glance.template.storage.stores[archive].file: "), "{said:?}");
    }

    #[test]
    fn fields_of_the_service_are_taken_and_others_are_named_with_their_place() {
        assert_eq!(said(&json!({})), Vec::<String>::new());
        assert_eq!(said(&json!({"resources": {"requests": {"cpu": "1"}}})), Vec::<String>::new());
        let unknown = said(&json!({"resorces": {}}));
        assert!(unknown[0].starts_with("spec.services.glance.template.resorces: "), "{unknown:?}");
        let wrong = said(&json!({"resources": {"requests": {"cpu": "many"}}}));
        assert!(wrong[0].starts_with("spec.services.glance.template.resources.requests.cpu: "), "{wrong:?}");
        let option = said(&json!({"extraConfig": {"DEFAULT": {"a=b": "c"}}}));
        assert!(option[0].starts_with("spec.services.glance.template.extraConfig.DEFAULT.a=b: "), "{option:?}");
    }

    #[test]
    fn a_second_spelling_becomes_the_first() {
        let template: Template = serde_json::from_value(json!({"keystoneAuth": {"region": "north"}})).unwrap();
        assert_eq!(Value::Object(template.canonical("glance", "Glance")), json!({"keystone": {"region": "north"}}));
    }
}
