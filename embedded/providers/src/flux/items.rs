//! From what files say to objects of this cluster: their kinds as the API serves them, their namespaces, their order.

use std::collections::HashMap;

use c5c3_kit::Ref;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{Scope, pinned_kind};
use serde_json::{Value, json};

use super::build::Built;
use crate::failure::Error;

/// Leaves an object as it is.
const RECONCILE: &str = "kustomize.toolkit.fluxcd.io/reconcile";

/// How an object is applied; only the usual way is provided.
const APPLY: &str = "kustomize.toolkit.fluxcd.io/ssa";

/// What others need comes first; what is called for each write comes last. Other kinds are in between.
const FIRST: [&str; 13] = [
    "CustomResourceDefinition",
    "Namespace",
    "ResourceQuota",
    "StorageClass",
    "PriorityClass",
    "ServiceAccount",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
    "ConfigMap",
    "Secret",
    "Service",
];
const LAST: [&str; 3] = ["APIService", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

/// Kinds that name objects of other namespaces, which `targetNamespace` would have to change as well.
const NAMING_NAMESPACES: [&str; 5] = [
    "RoleBinding",
    "ClusterRoleBinding",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

/// An object to apply.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) file: String,
    pub(super) at: Ref,
    pub(super) object: Value,
    /// Whether the API serves its kind now.
    pub(super) is_served: bool,
    /// Whether it is left as it is.
    pub(super) is_left_alone: bool,
}

impl Item {
    /// What others stand on: kinds and namespaces.
    pub(super) fn is_ground(&self) -> bool {
        self.is_definition() || self.is_namespace()
    }

    pub(super) fn is_definition(&self) -> bool {
        self.at.resource.group == "apiextensions.k8s.io" && self.at.resource.kind == "CustomResourceDefinition"
    }

    pub(super) fn is_namespace(&self) -> bool {
        self.at.resource.group.is_empty() && self.at.resource.kind == "Namespace"
    }

    /// The group and the kind that a definition makes.
    pub(super) fn defines(&self) -> (String, String) {
        let spec = &self.object["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&spec["group"]), text(&spec["names"]["kind"]))
    }
}

/// Who applies: what every object is labelled with, and the namespace that all are put into.
pub(super) struct Applier<'a> {
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
    pub(super) target: Option<&'a str>,
}

/// The labels by which an object is known as applied by a Kustomization.
pub(super) fn labels(name: &str, namespace: &str) -> [(&'static str, String); 2] {
    [
        ("kustomize.toolkit.fluxcd.io/name", name.to_owned()),
        ("kustomize.toolkit.fluxcd.io/namespace", namespace.to_owned()),
    ]
}

/// Why objects cannot be made of what the files say.
pub(super) enum Unresolved {
    /// The files have to change.
    Wrong(String),
    /// The API does not answer.
    Error(Error),
}

/// The objects of a commit, in the order in which they are applied.
pub(super) async fn resolve(
    client: &Client,
    built: Vec<Built>,
    applier: &Applier<'_>,
) -> Result<Vec<Item>, Unresolved> {
    let mut kinds = Kinds { client, own: own_kinds(&built)?, known: HashMap::new() };
    let mut items = Vec::new();
    for built in built {
        let (resource, is_namespaced, is_served) = kinds.find(&built).await?;
        items.push(item(built, resource, is_namespaced, is_served, applier).map_err(Unresolved::Wrong)?);
    }
    items.sort_by_key(|item| rank(&item.at.resource.kind));
    Ok(items)
}

/// Where a kind is in the order.
pub(super) fn rank(kind: &str) -> usize {
    let first = FIRST.iter().position(|known| *known == kind);
    let last = || LAST.contains(&kind).then_some(FIRST.len() + 1);
    first.or_else(last).unwrap_or(FIRST.len())
}

fn item(
    built: Built,
    resource: ApiResource,
    is_namespaced: bool,
    is_served: bool,
    applier: &Applier<'_>,
) -> Result<Item, String> {
    let about = format!("{}: {} {}", built.file, built.kind(), built.name());
    let forced = applier.target.map(str::to_owned).or_else(|| built.namespace.clone());
    if forced.is_some() && NAMING_NAMESPACES.contains(&built.kind()) {
        return Err(format!(
            "{about}: names objects of namespaces, which targetNamespace and namespace do not change here; write namespaces into \
            the files instead"
        ));
    }
    let own = built.object["metadata"]["namespace"].as_str().map(str::to_owned);
    let namespace = if is_namespaced {
        Some(forced.or(own).ok_or_else(|| format!("{about}: namespace not specified"))?)
    } else {
        None
    };
    let name = built.name().to_owned();
    let Built { file, mut object, .. } = built;
    let annotation = |key: &str| object["metadata"]["annotations"][key].as_str().map(str::to_lowercase);
    let is_left_alone = annotation(RECONCILE).as_deref() == Some("disabled");
    if let Some(how) = annotation(APPLY).filter(|how| how != "override") {
        return Err(format!("{about}: the annotation {APPLY}: {how} is not provided"));
    }
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    let Some(metadata) = object["metadata"].as_object_mut() else { return Err(format!("{about}: has no metadata")) };
    metadata.remove("namespace");
    metadata.extend(namespace.iter().map(|namespace| ("namespace".to_owned(), json!(namespace))));
    let own_labels = metadata.entry("labels").or_insert(Value::Null);
    if own_labels.is_null() {
        *own_labels = json!({});
    }
    let Some(own_labels) = own_labels.as_object_mut() else {
        return Err(format!("{about}: metadata.labels is not a map"));
    };
    own_labels.extend(labels(applier.name, applier.namespace).map(|(label, value)| (label.to_owned(), value.into())));
    Ok(Item { file, at: Ref { resource, namespace, name }, object, is_served, is_left_alone })
}

/// Kinds by group, version and kind: how the API serves them, and whether they have namespaces.
struct Kinds<'a> {
    client: &'a Client,
    /// Those that the commit defines.
    own: HashMap<GroupVersionKind, (ApiResource, bool)>,
    /// Those that were asked for; none if the API does not serve it.
    known: HashMap<GroupVersionKind, Option<(ApiResource, bool)>>,
}

impl Kinds<'_> {
    async fn find(&mut self, built: &Built) -> Result<(ApiResource, bool, bool), Unresolved> {
        let (group, version) = built.api_version().split_once('/').unwrap_or(("", built.api_version()));
        let kind = GroupVersionKind::gvk(group, version, built.kind());
        if !self.known.contains_key(&kind) {
            let found = served(self.client, &kind).await.map_err(Unresolved::Error)?;
            self.known.insert(kind.clone(), found);
        }
        if let Some((resource, is_namespaced)) = self.known[&kind].clone() {
            return Ok((resource, is_namespaced, true));
        }
        if let Some((resource, is_namespaced)) = self.own.get(&kind).cloned() {
            return Ok((resource, is_namespaced, false));
        }
        let hint = if group.ends_with(".toolkit.fluxcd.io") {
            "; the stand-in for Flux has GitRepository and Kustomization only: install charts with `helm`"
        } else {
            ""
        };
        Err(Unresolved::Wrong(format!(
            "{}: {} {}: the cluster has no kind {} of {}{hint}",
            built.file,
            built.kind(),
            built.name(),
            built.kind(),
            built.api_version()
        )))
    }
}

/// How the API serves a kind, and whether it has namespaces; none if it does not.
pub(super) async fn served(client: &Client, kind: &GroupVersionKind) -> Result<Option<(ApiResource, bool)>, Error> {
    match pinned_kind(client, kind).await {
        Ok((resource, capabilities)) => Ok(Some((resource, capabilities.scope == Scope::Namespaced))),
        Err(kube::Error::Discovery(_)) => Ok(None),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(Error::api(format!("ask for the kind {}", kind.kind))(error)),
    }
}

/// The kinds that a commit defines itself.
fn own_kinds(built: &[Built]) -> Result<HashMap<GroupVersionKind, (ApiResource, bool)>, Unresolved> {
    let mut kinds = HashMap::new();
    let is_definition = |built: &&Built| {
        built.kind() == "CustomResourceDefinition" && built.api_version().starts_with("apiextensions.k8s.io/")
    };
    for built in built.iter().filter(is_definition) {
        let definition: CustomResourceDefinition = serde_json::from_value(built.object.clone()).map_err(|error| {
            Unresolved::Wrong(format!("{}: CustomResourceDefinition {}: {error}", built.file, built.name()))
        })?;
        let spec = definition.spec;
        for version in &spec.versions {
            let kind = GroupVersionKind::gvk(&spec.group, &version.name, &spec.names.kind);
            let resource = ApiResource::from_gvk_with_plural(&kind, &spec.names.plural);
            kinds.insert(kind, (resource, spec.scope == "Namespaced"));
        }
    }
    Ok(kinds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const APPLIER: Applier<'static> = Applier { name: "cloud", namespace: "marsh", target: None };

    fn made(object: Value, is_namespaced: bool, target: Option<&str>) -> Result<Item, String> {
        let kind = GroupVersionKind::gvk("", "v1", object["kind"].as_str().unwrap());
        let built = Built { file: "a.yaml".into(), namespace: None, object };
        item(built, ApiResource::from_gvk(&kind), is_namespaced, true, &Applier { target, ..APPLIER })
    }

    fn object(kind: &str, metadata: &str) -> Value {
        serde_saphyr::from_str(&format!(
            "{{apiVersion: v1, kind: {kind}, metadata: {{name: heron, {metadata}}}, status: {{}}}}"
        ))
        .unwrap()
    }

    #[test]
    fn an_object_says_who_applied_it_and_is_where_the_kustomization_says() {
        let item = made(object("ConfigMap", "namespace: pond, labels: {a: b}"), true, Some("lake")).unwrap();
        assert_eq!(item.at.namespace.as_deref(), Some("lake"));
        let expected = json!({"name": "heron", "namespace": "lake", "labels": {"a": "b",
            "kustomize.toolkit.fluxcd.io/name": "cloud", "kustomize.toolkit.fluxcd.io/namespace": "marsh"}});
        assert_eq!((&item.object["metadata"], item.object.get("status")), (&expected, None));
        let cluster = made(object("Namespace", "namespace: pond"), false, Some("lake")).unwrap();
        assert_eq!((cluster.at.namespace, cluster.object["metadata"].get("namespace")), (None, None));
    }

    #[test]
    fn what_would_be_put_somewhere_else_than_by_flux_is_refused() {
        assert_eq!(
            made(object("ConfigMap", ""), true, None).unwrap_err(),
            "a.yaml: ConfigMap heron: namespace not specified"
        );
        assert!(
            made(object("RoleBinding", ""), true, Some("lake")).unwrap_err().contains("names objects of namespaces")
        );
        let merged = "namespace: pond, annotations: {kustomize.toolkit.fluxcd.io/ssa: Merge}";
        assert!(made(object("ConfigMap", merged), true, None).unwrap_err().contains("ssa: merge is not provided"));
        let alone = "namespace: pond, annotations: {kustomize.toolkit.fluxcd.io/reconcile: Disabled}";
        assert!(made(object("ConfigMap", alone), true, None).unwrap().is_left_alone);
    }

    #[test]
    fn kinds_and_namespaces_come_before_what_needs_them_and_webhooks_last() {
        let mut kinds =
            ["ValidatingWebhookConfiguration", "ControlPlane", "Secret", "Namespace", "CustomResourceDefinition"];
        kinds.sort_by_key(|kind| rank(kind));
        assert_eq!(
            kinds,
            ["CustomResourceDefinition", "Namespace", "Secret", "ControlPlane", "ValidatingWebhookConfiguration"]
        );
    }
}
