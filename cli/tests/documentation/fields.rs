//! The fields that pages name exist: of one of our kinds on any page, of the operator's own kinds on its page.

use std::sync::LazyLock;

use serde_json::Value;

use crate::pages::{Page, below, written};

/// Fields of Kubernetes' own kinds and of other projects', and a file.
const OTHERS: &[&str] = &["spec.kubeConfig", "spec.nodeName", "spec.rs"];

/// Pages about how operators are written: the fields in them are of invented kinds.
const INVENTED: &[&str] = &["docs/writing-an-operator.md", "docs/adding-a-service.md"];

/// Whether a schema has the field: `spec.cells[].name`, `spec.services.<service>.template`, `spec.extraConfig.DEFAULT`.
fn has(schema: &Value, path: &[&str]) -> bool {
    let Some((first, rest)) = path.split_first() else { return true };
    let (name, is_item) = first.strip_suffix("[]").map_or((*first, false), |name| (name, true));
    let properties = schema["properties"].as_object();
    let below: Vec<&Value> = if name.starts_with('<') {
        properties.into_iter().flat_map(serde_json::Map::values).collect()
    } else {
        properties.and_then(|properties| properties.get(name)).into_iter().collect()
    };
    let below = below.into_iter().map(|below| if is_item { &below["items"] } else { below });
    // What is below a map, and below a field that takes any object, cannot be wrong.
    let is_open = schema["additionalProperties"].is_object() || schema["x-kubernetes-preserve-unknown-fields"] == true;
    is_open || below.into_iter().any(|below| has(below, rest))
}

/// The field that a piece of code is about: `spec.korc.enabled: false` is about `spec.korc.enabled`.
fn field(code: &str) -> Option<Vec<&str>> {
    let code = code.split_once([':', ' ', '=']).map_or(code, |(field, _)| field);
    let is_field = code.starts_with("spec.") || code.starts_with("status.");
    let is_plain = code.chars().all(|c| c.is_ascii_alphanumeric() || "._[]<>-".contains(c));
    (is_field && is_plain && !OTHERS.contains(&code)).then(|| code.split('.').collect())
}

/// The schemas of all kinds, with their groups. To make one takes long.
static SCHEMAS: LazyLock<Vec<(&str, Value)>> =
    LazyLock::new(|| c5c3_api::all().iter().map(|kind| (kind.group(), kind.open_api())).collect());

/// The schemas of the kinds that a page is about: on the page of an operator its own and the ControlPlane, else all.
fn schemas(page: &Page) -> Vec<&'static Value> {
    let operator = page.path.strip_prefix("docs/operators/").and_then(|name| name.strip_suffix(".md"));
    let groups: &[&str] = match operator {
        Some("cinder") => &["cinder.openstack.c5c3.io"],
        Some("controlplane") => &["c5c3.io"],
        // A Nova names the scheduler that it asks.
        Some("cortex") => &["cortex.c5c3.io", "nova.openstack.c5c3.io"],
        Some("glance") => &["glance.openstack.c5c3.io"],
        // nova-compute runs on hypervisors.
        Some("ha" | "hypervisor") => &["hypervisor.c5c3.io", "nova.openstack.c5c3.io"],
        Some("keystone") => &["keystone.openstack.c5c3.io"],
        Some("neutron") => &["neutron.openstack.c5c3.io"],
        Some("nova") => &["nova.openstack.c5c3.io"],
        Some("orc") => &["openstack.k-orc.cloud"],
        Some("ovn") => &["ovn.c5c3.io", "ovs.c5c3.io"],
        Some("placement") => &["placement.openstack.c5c3.io"],
        Some("tempest") => &["tempest.openstack.c5c3.io"],
        _ => &[],
    };
    // A ControlPlane has fields for every service.
    let is_about = |group: &str| groups.is_empty() || groups.contains(&group) || group == "c5c3.io";
    SCHEMAS.iter().filter(|(group, _)| is_about(group)).map(|(_, schema)| schema).collect()
}

#[test]
fn every_field_that_a_page_names_exists() {
    let mut unknown = Vec::new();
    let mut count = 0;
    for page in written().into_iter().filter(|page| !INVENTED.contains(&page.path.as_str())) {
        let schemas = schemas(&page);
        for (number, code) in page.code() {
            let Some(path) = field(code) else { continue };
            count += 1;
            if !schemas.iter().any(|schema| has(schema, &path)) {
                unknown.push(format!("{}:{number}: `{code}`", page.path));
            }
        }
    }
    assert!(unknown.is_empty(), "no kind that the page is about has these fields:\n{}", unknown.join("\n"));
    assert!(count > 100, "{count} fields were found: are they still written as `spec.field`?");
}

#[test]
fn the_pages_of_the_api_are_those_of_the_kinds() {
    assert!(below("docs/api", ".md").len() > c5c3_api::all().len(), "one page each, and one that lists them");
}
