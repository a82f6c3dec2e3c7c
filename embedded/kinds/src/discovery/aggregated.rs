//! Aggregated discovery: everything in two documents, at `/api` and at `/apis`.

use serde_json::{Value, json};

use super::{Group, groups};
use crate::resource::{Resource, Subresource, gvk};

/// The content type of aggregated discovery; a client that accepts it gets these documents.
pub const AGGREGATED_CONTENT_TYPE: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// `/api`: the core group.
pub fn aggregated_core(resources: &[&Resource]) -> Value {
    list(groups(resources).iter().filter(|group| group.name.is_empty()))
}

/// `/apis`: all named groups.
pub fn aggregated_groups(resources: &[&Resource]) -> Value {
    list(groups(resources).iter().filter(|group| !group.name.is_empty()))
}

fn list<'g, 'r: 'g>(groups: impl Iterator<Item = &'g Group<'r>>) -> Value {
    let items: Vec<Value> = groups.map(group).collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn group(group: &Group<'_>) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|(version, resources)| {
            let resources: Vec<Value> = resources.iter().map(|resource| entry(resource)).collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let mut metadata = json!({"creationTimestamp": null});
    if !group.name.is_empty() {
        metadata["name"] = json!(group.name);
    }
    json!({"metadata": metadata, "versions": versions})
}

fn entry(resource: &Resource) -> Value {
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": gvk(&resource.group, &resource.version, &resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    for (key, words) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
        if !words.is_empty() {
            entry[key] = json!(words);
        }
    }
    if !resource.subresources.is_empty() {
        entry["subresources"] = resource.subresources.iter().map(below).collect();
    }
    entry
}

fn below(subresource: &Subresource) -> Value {
    json!({
        "subresource": subresource.name,
        "responseKind": gvk(&subresource.group, &subresource.version, &subresource.kind),
        "verbs": subresource.verbs,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::builtin;

    #[test]
    fn one_document_has_all_named_groups_and_the_other_the_core_group() {
        let resources: Vec<&Resource> = builtin().iter().collect();
        let core = aggregated_core(&resources);
        assert_eq!(core["items"].as_array().unwrap().len(), 1);
        let groups = aggregated_groups(&resources);
        let apps = groups["items"].as_array().unwrap().iter().find(|g| g["metadata"]["name"] == "apps").unwrap();
        let deployments = apps["versions"][0]["resources"]
            .as_array()
            .unwrap()
            .iter()
            .find(|r| r["resource"] == "deployments")
            .unwrap();
        assert_eq!(deployments["responseKind"], json!({"group": "apps", "version": "v1", "kind": "Deployment"}));
        assert_eq!(deployments["scope"], "Namespaced");
        assert_eq!(
            deployments["subresources"][0],
            json!({
                "subresource": "scale",
                "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                "verbs": ["get", "patch", "update"],
            })
        );
    }
}
