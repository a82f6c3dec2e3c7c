//! The spec of a service's object: what a ControlPlane decides, each field with the field of the ControlPlane that it comes
//! from, and below that what a user adds by a template.

use c5c3_api::{Problem, problem};
use serde_json::{Map, Value};

/// The fields that a ControlPlane decides.
#[derive(Default)]
pub(crate) struct Spec {
    fields: Map<String, Value>,
    /// Each field that was set, with where it comes from.
    origins: Vec<(String, String)>,
}

impl Spec {
    /// Sets a field, given as names with dots between them, from a field of the ControlPlane.
    pub(super) fn set(&mut self, field: &str, value: impl Into<Value>, from: impl Into<String>) {
        let (outer, name) = field.rsplit_once('.').unwrap_or(("", field));
        let mut place = &mut self.fields;
        for step in outer.split('.').filter(|step| !step.is_empty()) {
            let inner = place.entry(step).or_insert_with(|| Value::Object(Map::new()));
            place = inner.as_object_mut().expect("a field within another is set after it as an object, or not at all");
        }
        place.insert(name.to_owned(), value.into());
        self.origins.push((field.to_owned(), from.into()));
    }

    /// Sets a field if there is a value for it.
    pub(super) fn maybe(&mut self, field: &str, value: Option<impl Into<Value>>, from: impl Into<String>) {
        if let Some(value) = value {
            self.set(field, value, from);
        }
    }

    /// The whole spec: what the ControlPlane decides, and the fields of the template that it does not.
    pub(super) fn over(&self, template: &Map<String, Value>) -> Map<String, Value> {
        let mut whole = template.clone();
        put(&mut whole, &self.fields);
        whole
    }

    /// The fields of a template at `place` that the ControlPlane decides otherwise.
    pub(super) fn conflicts(&self, place: &str, template: &Map<String, Value>) -> Vec<Problem> {
        let mut found = Vec::new();
        differing("", template, &self.fields, &mut found);
        let conflict = |(field, asked, decided): (String, &Value, &Value)| {
            let from = self.origin(&field);
            problem(
                format!("{place}.{field}"),
                format!("is {asked}, and the ControlPlane sets it to {decided} from {from}"),
                format!("remove it; {from} decides it"),
            )
        };
        found.into_iter().map(conflict).collect()
    }

    /// Where a field comes from: as the innermost field says that was set and has it, or else as one says that is within it.
    fn origin(&self, field: &str) -> &str {
        let is_in = |inner: &str, outer: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let around = self.origins.iter().filter(|(set, _)| is_in(field, set)).max_by_key(|(set, _)| set.len());
        let within = || self.origins.iter().find(|(set, _)| is_in(set, field));
        around.or_else(within).map_or("spec", |(_, from)| from)
    }
}

fn put(whole: &mut Map<String, Value>, decided: &Map<String, Value>) {
    for (name, value) in decided {
        match (whole.get_mut(name), value) {
            (Some(Value::Object(inner)), Value::Object(decided)) => put(inner, decided),
            _ => drop(whole.insert(name.clone(), value.clone())),
        }
    }
}

fn differing<'v>(
    place: &str,
    template: &'v Map<String, Value>,
    decided: &'v Map<String, Value>,
    found: &mut Vec<(String, &'v Value, &'v Value)>,
) {
    for (name, asked) in template {
        let field = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
        match (asked, decided.get(name)) {
            (_, None) => {}
            (Value::Object(asked), Some(Value::Object(decided))) => differing(&field, asked, decided, found),
            (asked, Some(decided)) if asked == decided => {}
            (asked, Some(decided)) => found.push((field, asked, decided)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decided() -> Spec {
        let mut spec = Spec::default();
        spec.set("barrels", 3, "spec.cellar.barrels");
        spec.set("press.wood", "oak", "spec.press");
        spec.set("apples", json!({"red": 1}), "spec.orchard");
        spec
    }

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn a_template_adds_what_is_not_decided() {
        let template = map(&json!({"press": {"screw": "iron"}, "apples": {"green": 2}, "label": "x", "barrels": 3}));
        assert!(decided().conflicts("here", &template).is_empty());
        assert_eq!(
            Value::Object(decided().over(&template)),
            json!({"barrels": 3, "press": {"wood": "oak", "screw": "iron"}, "apples": {"red": 1, "green": 2}, "label": "x"})
        );
    }

    #[test]
    fn a_field_that_is_decided_otherwise_is_refused_with_both_places() {
        let said = |template: Value| {
            let found = decided().conflicts("here", &map(&template));
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let conflict = |field: &str, asked: &str, decided: &str, from: &str| {
            format!(
                "here.{field}: is {asked}, and the ControlPlane sets it to {decided} from {from}; remove it; {from} decides it"
            )
        };
        assert_eq!(said(json!({"barrels": 5})), [conflict("barrels", "5", "3", "spec.cellar.barrels")]);
        assert_eq!(
            said(json!({"press": {"wood": "ash"}})),
            [conflict("press.wood", "\"ash\"", "\"oak\"", "spec.press")]
        );
        assert_eq!(said(json!({"apples": {"red": 2}})), [conflict("apples.red", "2", "1", "spec.orchard")]);
        assert_eq!(said(json!({"press": 1})), [conflict("press", "1", "{\"wood\":\"oak\"}", "spec.press")]);
    }
}
