//! The documents at `/api`, `/apis`, `/apis/GROUP` and `/apis/GROUP/VERSION`.

use serde_json::{Map, Value, json};

use super::{Group, groups};
use crate::resource::{Resource, Subresource, api_version};

/// `/api`: the versions of the core group. `server` is the address at which clients reach it, `host:port`.
pub fn api_versions(server: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server}],
    })
}

/// `/apis`: all named groups.
pub fn api_group_list(resources: &[&Resource]) -> Value {
    let groups: Vec<Value> = groups(resources).iter().filter(|group| !group.name.is_empty()).map(group).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`: one named group, if it is served.
pub fn api_group(resources: &[&Resource], name: &str) -> Option<Value> {
    let groups = groups(resources);
    let found = groups.iter().find(|group| group.name == name && !name.is_empty())?;
    let mut document = json!({"kind": "APIGroup", "apiVersion": "v1"});
    if let (Some(document), Value::Object(fields)) = (document.as_object_mut(), group(found)) {
        document.extend(fields);
    }
    Some(document)
}

fn group(group: &Group<'_>) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|(version, _)| json!({"groupVersion": api_version(group.name, version), "version": version}))
        .collect();
    json!({"name": group.name, "versions": versions, "preferredVersion": versions.first()})
}

/// `/api/v1` and `/apis/GROUP/VERSION`: the resources of one version of a group, if it is served.
pub fn api_resource_list(resources: &[&Resource], group: &str, version: &str) -> Option<Value> {
    let groups = groups(resources);
    let group = groups.iter().find(|candidate| candidate.name == group)?;
    let (_, resources) = group.versions.iter().find(|(name, _)| *name == version)?;
    let mut listed = Vec::new();
    for resource in resources {
        listed.push(entry(resource));
        listed.extend(resource.subresources.iter().map(|subresource| entry_below(resource, subresource)));
    }
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": api_version(group.name, version),
        "resources": listed,
    }))
}

fn entry(resource: &Resource) -> Value {
    let mut entry = Map::new();
    entry.insert("name".to_owned(), json!(resource.plural));
    entry.insert("singularName".to_owned(), json!(resource.singular));
    entry.insert("namespaced".to_owned(), json!(resource.namespaced));
    entry.insert("kind".to_owned(), json!(resource.kind));
    entry.insert("verbs".to_owned(), json!(resource.verbs));
    for (key, words) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
        if !words.is_empty() {
            entry.insert(key.to_owned(), json!(words));
        }
    }
    Value::Object(entry)
}

fn entry_below(resource: &Resource, subresource: &Subresource) -> Value {
    let mut entry = json!({
        "name": format!("{}/{}", resource.plural, subresource.name),
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": subresource.kind,
        "verbs": subresource.verbs,
    });
    if (&subresource.group, &subresource.version) != (&resource.group, &resource.version) {
        entry["group"] = json!(subresource.group);
        entry["version"] = json!(subresource.version);
    }
    entry
}

/// The APIService objects of what is served: one for each version of each group, all local and available.
pub fn api_services(resources: &[&Resource]) -> Vec<Value> {
    let groups = groups(resources);
    let services = groups.iter().enumerate().flat_map(|(rank, group)| {
        group.versions.iter().enumerate().map(move |(version_rank, (version, resources))| {
            let is_custom = resources.iter().all(|resource| resource.custom().is_some());
            let minimum = if is_custom { 1000 } else { 18000 - 100 * rank };
            api_service(group.name, version, minimum, 100 - version_rank.min(99), is_custom)
        })
    });
    services.collect()
}

fn api_service(group: &str, version: &str, group_priority: usize, version_priority: usize, is_custom: bool) -> Value {
    let mut spec = json!({
        "version": version,
        "groupPriorityMinimum": group_priority,
        "versionPriority": version_priority,
    });
    if !group.is_empty() {
        spec["group"] = json!(group);
    }
    json!({
        "kind": "APIService",
        "apiVersion": "apiregistration.k8s.io/v1",
        "metadata": {
            "name": format!("{version}.{group}"),
            "labels": {
                "kube-aggregator.kubernetes.io/automanaged": if is_custom { "true" } else { "onstart" },
            },
        },
        "spec": spec,
        "status": {"conditions": [{
            "type": "Available",
            "status": "True",
            "reason": "Local",
            "message": "Local APIServices are always available",
        }]},
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::{builtin, custom};

    fn built_in() -> Vec<&'static Resource> {
        builtin().iter().collect()
    }

    #[test]
    fn a_pod_and_its_subresources_are_listed_as_clients_expect() {
        let list = api_resource_list(&built_in(), "", "v1").unwrap();
        assert_eq!(list["groupVersion"], "v1");
        let entries = list["resources"].as_array().unwrap();
        let find = |name: &str| entries.iter().find(|entry| entry["name"] == name).unwrap();
        assert_eq!(
            *find("pods"),
            json!({
                "name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod",
                "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
                "shortNames": ["po"], "categories": ["all"],
            })
        );
        assert_eq!(
            *find("pods/eviction"),
            json!({
                "name": "pods/eviction", "singularName": "", "namespaced": true, "group": "policy", "version": "v1",
                "kind": "Eviction", "verbs": ["create"],
            })
        );
        assert_eq!(find("namespaces")["namespaced"], false);
    }

    #[test]
    fn a_group_prefers_its_latest_version() {
        let group = api_group(&built_in(), "autoscaling").unwrap();
        assert_eq!(group["preferredVersion"], json!({"groupVersion": "autoscaling/v2", "version": "v2"}));
        assert_eq!(group["versions"][1]["version"], "v1");
        assert_eq!(group["kind"], "APIGroup");
        assert_eq!(api_group(&built_in(), "nowhere.example"), None);
    }

    #[test]
    fn custom_groups_come_after_built_in_ones_and_the_core_group_is_not_among_them() {
        let custom = custom(&json!({"spec": {
            "group": "aaa.example", "scope": "Cluster", "names": {"plural": "as", "kind": "A"},
            "versions": [{"name": "v1", "served": true, "storage": true}],
        }}));
        let mut all: Vec<&Resource> = custom.iter().collect();
        all.extend(built_in());
        let list = api_group_list(&all);
        let names: Vec<&str> = list["groups"].as_array().unwrap().iter().filter_map(|g| g["name"].as_str()).collect();
        assert_eq!(names.first(), Some(&"apiregistration.k8s.io"));
        assert_eq!(names.last(), Some(&"aaa.example"));
        assert!(!names.contains(&""));
    }

    #[test]
    fn there_is_an_api_service_for_each_version() {
        let services = api_services(&built_in());
        let names: Vec<&str> = services.iter().filter_map(|s| s["metadata"]["name"].as_str()).collect();
        assert!(names.contains(&"v1.") && names.contains(&"v2.autoscaling") && names.contains(&"v1.apps"));
    }
}
