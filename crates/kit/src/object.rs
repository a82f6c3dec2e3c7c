//! References to objects of any kind, and the small questions that are asked of all of them.

use std::any::TypeId;
use std::fmt;

use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, ObjectMeta, PartialObjectMeta};
use kube::{Client, Resource};
use serde_json::Value;

/// One object in the cluster: its kind, its namespace (none for a cluster-scoped kind) and its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ref {
    /// The kind.
    pub resource: ApiResource,
    /// The namespace; none for a cluster-scoped kind.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

impl Ref {
    /// An object of a namespaced kind.
    pub fn namespaced<K: Resource<DynamicType = ()>>(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { resource: ApiResource::erase::<K>(&()), namespace: Some(namespace.into()), name: name.into() }
    }

    /// An object of a cluster-scoped kind.
    pub fn cluster<K: Resource<DynamicType = ()>>(name: impl Into<String>) -> Self {
        Self { resource: ApiResource::erase::<K>(&()), namespace: None, name: name.into() }
    }

    /// The object that has this metadata.
    pub fn of(resource: &ApiResource, meta: &ObjectMeta) -> Self {
        Self {
            resource: resource.clone(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }

    /// The API that serves the object.
    pub fn api(&self, client: Client) -> Api<DynamicObject> {
        api(client, &self.resource, self.namespace.as_deref())
    }

    /// The object as seen from `namespace`: `secret/name`, or `secret/namespace/name` if it is in another one.
    pub fn relative_to(&self, namespace: Option<&str>) -> String {
        match &self.namespace {
            Some(own) if Some(own.as_str()) != namespace => {
                format!("{}/{own}/{}", self.resource.kind.to_lowercase(), self.name)
            }
            _ => self.short(),
        }
    }

    /// `secret/name`.
    pub fn short(&self) -> String {
        format!("{}/{}", self.resource.kind.to_lowercase(), self.name)
    }
}

impl fmt::Display for Ref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.relative_to(None))
    }
}

/// The API that serves objects of a kind, in one namespace or in all.
pub fn api(client: Client, resource: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, resource),
        None => Api::all_with(client, resource),
    }
}

/// A kind, and whether its objects are in namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KindRef {
    /// The kind.
    pub resource: ApiResource,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
}

impl KindRef {
    /// The kind of a type.
    pub fn of<K: Resource<DynamicType = ()>>() -> Self
    where
        K::Scope: 'static,
    {
        let namespaced = TypeId::of::<K::Scope>() == TypeId::of::<NamespaceResourceScope>();
        Self { resource: ApiResource::erase::<K>(&()), namespaced }
    }

    /// The API for the metadata of its objects, in one namespace if there is one and the kind is in namespaces.
    pub fn metadata_api(&self, client: Client, namespace: Option<&str>) -> Api<PartialObjectMeta<DynamicObject>> {
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => Api::namespaced_with(client, namespace, &self.resource),
            None => Api::all_with(client, &self.resource),
        }
    }
}

/// The condition of that type in an object's status, as JSON.
pub fn condition<'a>(object: &'a DynamicObject, condition_type: &str) -> Option<&'a Value> {
    object.data.get("status")?.get("conditions")?.as_array()?.iter().find(|c| c["type"] == condition_type)
}

/// Whether a Kubernetes API answered that the object is not there. An API that does not know the kind answers 404 too,
/// with another reason; the object is not there then, either.
pub(crate) fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Whether a 404 means that the API does not know the kind at all.
pub(crate) fn is_unknown_kind(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404
        && (status.reason != "NotFound" || status.message.starts_with("the server could not find")))
}

/// What an API said, without the dump of its answer that kube's error prints beside it.
pub(crate) fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Api(status) => format!("the API answered {}", status.code),
        other => other.to_string(),
    }
}
