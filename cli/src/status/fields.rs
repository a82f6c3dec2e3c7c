//! Which field of which object a mistake comes from: the one that a person wrote, highest on the way down to it.

use serde_json::Value;

use super::pods;
use super::world::Object;

/// The field, of those on the way, that names an image. The highest one decides; workloads are written by operators.
pub(super) fn of_image(image: &str, way: &[&Object]) -> Option<String> {
    way.iter().filter(|object| is_written_by_people(object)).find_map(|object| {
        let field = path_to(&object.value["spec"], "spec", &|value| {
            let whole = value.as_str() == Some(image);
            let parts = || Some(format!("{}:{}", value["repository"].as_str()?, value["tag"].as_str()?));
            whole || (value.is_object() && parts().as_deref() == Some(image))
        })?;
        Some(format!("{field} of {}", object.reference.short()))
    })
}

/// What to do about an image that a ControlPlane chooses by its release; none if another field of it names the image.
pub(super) fn of_release(image: &str, way: &[&Object]) -> Option<String> {
    let plane = way.first().filter(|object| object.kind() == "ControlPlane")?;
    if of_image(image, &way[..1]).is_some() {
        return None;
    }
    let release = plane.text("/spec/openStackRelease")?;
    let name = image.rsplit('/').next()?.split([':', '@']).next()?;
    Some(format!(
        "spec.openStackRelease of {} ({release}) chooses it: provide the image; on an embedded cluster \
         `c5c3 image import {name} --release {release}`",
        plane.reference.short()
    ))
}

/// The field that names the server which a container of a pod was to reach; none if it was there for something else.
pub(super) fn of_server(pod: &Object, container: &str, way: &[&Object]) -> Option<String> {
    let arguments = pods::arguments(pod, container);
    let host = arguments.iter().rev().nth(1).filter(|_| container.starts_with("reach-"))?;
    of_value(host, way)
}

/// The highest field, of those on the way, by which a workload has no replicas.
pub(super) fn of_no_replicas(way: &[&Object]) -> Option<String> {
    way.iter().filter(|object| is_written_by_people(object)).find_map(|object| {
        let field = path_to(&object.value["spec"], "spec", &|value| value["replicas"] == 0)?;
        Some(format!("{field}.replicas of {}", object.reference.short()))
    })
}

/// The highest field, of those on the way, that selects nodes.
pub(super) fn of_selector(way: &[&Object]) -> Option<String> {
    way.iter().filter(|object| is_written_by_people(object)).find_map(|object| {
        ["nodeSelector", "affinity"].into_iter().find_map(|selector| {
            let field = path_to(&object.value["spec"], "spec", &|value| value.get(selector).is_some())?;
            Some(format!("{field}.{selector} of {}", object.reference.short()))
        })
    })
}

/// The highest field, of those on the way, that holds this text.
pub(super) fn of_value(text: &str, way: &[&Object]) -> Option<String> {
    way.iter().filter(|object| is_written_by_people(object)).find_map(|object| of_text(text, object))
}

/// The field of an object that holds this text.
pub(super) fn of_text(text: &str, object: &Object) -> Option<String> {
    let field = path_to(&object.value["spec"], "spec", &|value| value.as_str() == Some(text))?;
    Some(format!("{field} of {}", object.reference.short()))
}

/// Where a field comes from that is wrong (`problem` begins with its path) in an object that another one was made from:
/// the field above that holds the same, under whatever.
pub(super) fn origin(problem: &str, above: &[&Object]) -> Option<String> {
    let (path, _) = problem.split_once(": ")?;
    let path = path.strip_prefix("spec.")?;
    above.iter().filter(|object| is_written_by_people(object)).find_map(|object| {
        let field = place_of(&object.value["spec"], "spec", path)?;
        Some(format!("it comes from {field} of {}: change it there", object.reference.short()))
    })
}

fn is_written_by_people(object: &Object) -> bool {
    !matches!(object.reference.resource.group.as_str(), "" | "apps" | "batch")
}

/// The path to the first value that is meant.
fn path_to(value: &Value, path: &str, meant: &dyn Fn(&Value) -> bool) -> Option<String> {
    if meant(value) {
        return Some(path.to_owned());
    }
    match value {
        Value::Object(fields) => {
            fields.iter().find_map(|(field, value)| path_to(value, &format!("{path}.{field}"), meant))
        }
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(index, value)| path_to(value, &format!("{path}[{index}]"), meant))
        }
        _ => None,
    }
}

/// The path of the first field whose path ends with `wanted`.
pub(crate) fn place_of(value: &Value, path: &str, wanted: &str) -> Option<String> {
    if leads(value, wanted) {
        return Some(format!("{path}.{wanted}"));
    }
    value.as_object()?.iter().find_map(|(field, value)| place_of(value, &format!("{path}.{field}"), wanted))
}

/// Whether a path leads somewhere. Names of fields may have dots in them, so they are not split at dots.
fn leads(value: &Value, path: &str) -> bool {
    value.as_object().is_some_and(|fields| {
        fields.iter().any(|(field, value)| match path.strip_prefix(field.as_str()) {
            Some("") => true,
            Some(rest) => rest.strip_prefix('.').is_some_and(|rest| leads(value, rest)),
            None => false,
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_is_found_where_it_was_copied_from() {
        let spec = json!({"services": {"keystone": {"policyOverrides": {"rules": {"identity:get.user": "x"}}}}});
        assert_eq!(
            place_of(&spec, "spec", "policyOverrides.rules.identity:get.user").as_deref(),
            Some("spec.services.keystone.policyOverrides.rules.identity:get.user")
        );
        assert_eq!(place_of(&spec, "spec", "policyOverrides.rules.identity:get"), None);
    }
}
