//! The paths of a document and what can be done at each.

use serde_json::{Map, Value, json};

use super::schemas::{meta, name_of, name_of_list};
use super::{Dialect, parameters, root};
use crate::resource::{Resource, Subresource, Verb, gvk};

const JSON: &[&str] = &["application/json", "application/yaml"];
const PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
/// Without merge keys there is no strategic merge patch.
const PATCHES_OF_CUSTOM: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

/// All paths of these resources.
pub(super) fn paths(dialect: Dialect, resources: &[&Resource]) -> Map<String, Value> {
    let mut paths = Map::new();
    for resource in resources {
        let place = Place { dialect, resource };
        let base = root(&resource.group, &resource.version);
        let collection = if resource.namespaced {
            format!("{base}/namespaces/{{namespace}}/{}", resource.plural)
        } else {
            format!("{base}/{}", resource.plural)
        };
        paths.insert(collection.clone(), place.collection(&collection));
        if resource.namespaced && resource.allows(Verb::List) {
            let everywhere = format!("{base}/{}", resource.plural);
            paths.insert(everywhere.clone(), place.everywhere(&everywhere));
        }
        if resource.allows(Verb::Get) {
            let item = format!("{collection}/{{name}}");
            paths.insert(item.clone(), place.item(&item));
        }
        for below in &resource.subresources {
            let path = format!("{collection}/{{name}}/{}", below.name);
            paths.insert(path.clone(), place.below(&path, below));
        }
    }
    paths
}

/// A resource in a document.
struct Place<'r> {
    dialect: Dialect,
    resource: &'r Resource,
}

/// HTTP method, verb that allows it, and what OpenAPI calls the action.
type Act = (&'static str, Verb, &'static str);

impl Place<'_> {
    fn collection(&self, path: &str) -> Value {
        let acts: [Act; 3] = [
            ("get", Verb::List, "list"),
            ("post", Verb::Create, "post"),
            ("delete", Verb::DeleteCollection, "deletecollection"),
        ];
        self.item_of(path, &acts, "")
    }

    fn everywhere(&self, path: &str) -> Value {
        self.item_of(path, &[("get", Verb::List, "list")], "ForAllNamespaces")
    }

    fn item(&self, path: &str) -> Value {
        let acts: [Act; 4] = [
            ("get", Verb::Get, "get"),
            ("put", Verb::Update, "put"),
            ("patch", Verb::Patch, "patch"),
            ("delete", Verb::Delete, "delete"),
        ];
        self.item_of(path, &acts, "")
    }

    fn item_of(&self, path: &str, acts: &[Act], suffix: &str) -> Value {
        let resource = self.resource;
        let mut item = Map::new();
        for (method, _, action) in acts.iter().filter(|(_, verb, _)| resource.allows(*verb)) {
            let kind = (resource.group.as_str(), resource.version.as_str(), resource.kind.as_str());
            item.insert((*method).to_owned(), self.operation(action, kind, suffix));
        }
        item.insert("parameters".to_owned(), json!(parameters::of_path(self.dialect, path)));
        Value::Object(item)
    }

    fn below(&self, path: &str, below: &Subresource) -> Value {
        let mut item = Map::new();
        let connects = below.kind.ends_with("Options");
        for verb in below.verbs {
            let (method, action) = match *verb {
                Verb::Get => ("get", "get"),
                Verb::Create => ("post", "post"),
                Verb::Update => ("put", "put"),
                Verb::Patch => ("patch", "patch"),
                Verb::Delete => ("delete", "delete"),
                Verb::DeleteCollection | Verb::List | Verb::Watch => continue,
            };
            let action = if connects { "connect" } else { action };
            let kind = (below.group.as_str(), below.version.as_str(), below.kind.as_str());
            item.insert(method.to_owned(), self.operation(action, kind, &capitalized(&below.name)));
        }
        item.insert("parameters".to_owned(), json!(parameters::of_path(self.dialect, path)));
        Value::Object(item)
    }

    fn operation(&self, action: &str, (group, version, kind): (&str, &str, &str), suffix: &str) -> Value {
        let resource = self.resource;
        let own = self.dialect.reference(&name_of(group, version, kind));
        let answer = match action {
            "list" => self.dialect.reference(&name_of_list(resource)),
            "delete" | "deletecollection" => self.dialect.reference(&meta("Status")),
            "connect" => json!({"type": "string"}),
            _ => own.clone(),
        };
        let mut responses = Map::new();
        responses.insert("200".to_owned(), self.dialect.response("OK", &answer));
        if matches!(action, "post" | "put" | "patch") {
            responses.insert("201".to_owned(), self.dialect.response("Created", &answer));
        }
        if matches!(action, "post" | "delete") {
            responses.insert("202".to_owned(), self.dialect.response("Accepted", &answer));
        }
        responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
        let mut operation = json!({
            "description": format!("{action} {kind}"),
            "operationId": self.operation_id(action, suffix),
            "tags": [tag(resource)],
            "parameters": parameters::of_action(self.dialect, action),
            "responses": responses,
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": gvk(group, version, kind),
        });
        if self.dialect == Dialect::V2 {
            operation["produces"] = json!(JSON);
        }
        match action {
            "post" | "put" => self.dialect.set_body(&mut operation, &own, JSON),
            "patch" => {
                let kinds = if resource.custom().is_some() { PATCHES_OF_CUSTOM } else { PATCHES };
                self.dialect.set_body(&mut operation, &self.dialect.reference(&meta("Patch")), kinds);
            }
            _ => {}
        }
        operation
    }

    /// `listCoreV1NamespacedPod`.
    fn operation_id(&self, action: &str, suffix: &str) -> String {
        let resource = self.resource;
        let verb = match action {
            "post" => "create",
            "put" => "replace",
            "get" => "read",
            "deletecollection" => "deleteCollection",
            other => other,
        };
        let scope = if resource.namespaced && suffix != "ForAllNamespaces" { "Namespaced" } else { "" };
        let group: String = group_words(resource).map(capitalized).collect();
        format!("{verb}{group}{}{scope}{}{suffix}", capitalized(&resource.version), resource.kind)
    }
}

fn group_words(resource: &Resource) -> impl Iterator<Item = &str> {
    let group = if resource.group.is_empty() { "core" } else { &resource.group };
    group.strip_suffix(".k8s.io").unwrap_or(group).split('.')
}

/// `core_v1`.
fn tag(resource: &Resource) -> String {
    let mut words: Vec<&str> = group_words(resource).collect();
    words.push(&resource.version);
    words.join("_")
}

fn capitalized(word: &str) -> String {
    let mut characters = word.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::find;

    fn pods(dialect: Dialect) -> Map<String, Value> {
        paths(dialect, &[find("", "v1", "pods").unwrap()])
    }

    /// kubectl looks here before it leaves validation to the server, and before it sends a strategic merge patch.
    #[test]
    fn a_patch_says_that_it_validates_fields_and_which_patches_it_takes() {
        let patch = &pods(Dialect::V3)["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
        assert_eq!(patch["x-kubernetes-group-version-kind"], json!({"group": "", "version": "v1", "kind": "Pod"}));
        let parameters = patch["parameters"].as_array().unwrap();
        assert!(parameters.iter().any(|parameter| parameter["name"] == "fieldValidation"));
        assert!(patch["requestBody"]["content"]["application/strategic-merge-patch+json"].is_object());
    }

    #[test]
    fn operations_have_upstream_s_names() {
        let paths = pods(Dialect::V3);
        let id = |path: &str, method: &str| paths[path][method]["operationId"].as_str().unwrap().to_owned();
        assert_eq!(id("/api/v1/namespaces/{namespace}/pods", "get"), "listCoreV1NamespacedPod");
        assert_eq!(id("/api/v1/pods", "get"), "listCoreV1PodForAllNamespaces");
        assert_eq!(id("/api/v1/namespaces/{namespace}/pods/{name}/status", "put"), "replaceCoreV1NamespacedPodStatus");
    }

    #[test]
    fn subresources_speak_their_own_kind() {
        let paths = pods(Dialect::V2);
        let eviction = &paths["/api/v1/namespaces/{namespace}/pods/{name}/eviction"]["post"];
        assert_eq!(eviction["x-kubernetes-group-version-kind"]["kind"], "Eviction");
        let exec = &paths["/api/v1/namespaces/{namespace}/pods/{name}/exec"]["get"];
        assert_eq!(exec["x-kubernetes-action"], "connect");
    }

    #[test]
    fn a_review_can_only_be_created() {
        let paths = paths(Dialect::V3, &[find("authentication.k8s.io", "v1", "tokenreviews").unwrap()]);
        assert_eq!(paths.len(), 1);
        let only = paths.values().next().unwrap();
        assert!(only.get("post").is_some() && only.get("get").is_none());
    }
}
