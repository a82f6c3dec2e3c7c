//! What is served: the built-in resources, and one for each version of each CRD.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use c5c3_fields::Shape;
use c5c3_kinds::{Resource, Verb};
use c5c3_schema::Schema;
use c5c3_store::Entry;
use serde_json::Value;

use crate::openapi::Documents;
use crate::path::Target;

/// A resource, with what writing to it takes.
pub struct Served {
    /// What clients know of it.
    pub resource: Resource,
    schema: OnceLock<Option<Schema>>,
    shape: OnceLock<Shape>,
}

impl Served {
    fn new(resource: Resource) -> Self {
        Self { resource, schema: OnceLock::new(), shape: OnceLock::new() }
    }

    fn is_at(&self, group: &str, version: &str) -> bool {
        self.resource.group == group && self.resource.version == version
    }

    /// Its schema; none for a definition whose schema does not compile, which is refused on the way in.
    pub fn schema(&self) -> Option<&Schema> {
        let compile = || match self.resource.custom() {
            Some(_) => Schema::compile(&c5c3_kinds::schema(&self.resource)).ok(),
            None => c5c3_kinds::compiled(&self.resource).cloned(),
        };
        self.schema.get_or_init(compile).as_ref()
    }

    /// How its objects merge.
    pub fn shape(&self) -> &Shape {
        self.shape.get_or_init(|| Shape::compile(&c5c3_kinds::schema(&self.resource)))
    }

    /// Whether its status has an endpoint of its own, and so is not written with the object.
    pub fn has_status(&self) -> bool {
        self.resource.subresource("status").is_some()
    }

    /// An object as a reader sees it: with the defaults of its definition as it is now.
    pub fn readable(&self, mut object: Value) -> Value {
        if self.resource.custom().is_some()
            && let Some(schema) = self.schema()
        {
            schema.prune(&mut object);
            schema.default(&mut object);
        }
        object
    }

    /// Whether what is stored is what a reader sees: in this version, and without anything that changes with a definition.
    /// The version comes first in what we write.
    pub fn is_shown_as_stored(&self, value: &[u8]) -> bool {
        let version = value.strip_prefix(br#"{"apiVersion":""#);
        let version = version.and_then(|rest| rest.strip_prefix(self.resource.api_version().as_bytes()));
        self.resource.custom().is_none() && version.is_some_and(|rest| rest.starts_with(b"\""))
    }

    /// The prefix of its objects' keys; with a namespace, of those in it.
    pub fn prefix(&self, namespace: Option<&str>) -> String {
        match namespace {
            Some(namespace) => format!("/{}/{namespace}/", self.resource.storage_prefix),
            None => format!("/{}/", self.resource.storage_prefix),
        }
    }

    /// The key of an object. Cluster-scoped objects are in a namespace that no one can have.
    pub fn key(&self, namespace: Option<&str>, name: &str) -> String {
        format!("/{}/{}/{name}", self.resource.storage_prefix, namespace.unwrap_or("-"))
    }
}

/// Everything that is served at one moment.
#[derive(Default)]
pub struct Registry {
    /// By their plurals, which few have in common.
    served: HashMap<String, Vec<Arc<Served>>>,
    /// What each definition brought, and the revision at which it was read.
    definitions: HashMap<Arc<str>, (u64, Vec<Arc<Served>>)>,
    documents: Documents,
}

impl Registry {
    /// The built-in resources.
    pub fn builtin() -> Self {
        let mut registry = Self::default();
        for resource in c5c3_kinds::builtin() {
            registry.add(&Arc::new(Served::new(resource.clone())));
        }
        registry
    }

    /// The built-in resources and those of the definitions that are stored now. What has not changed is not read again,
    /// and its schemas stay compiled.
    pub fn with_definitions<'a>(
        &self,
        definitions: impl IntoIterator<Item = &'a Entry>,
        read: impl Fn(&Entry) -> Vec<Resource>,
    ) -> Self {
        let mut next = Self::default();
        self.each().filter(|served| served.resource.custom().is_none()).for_each(|served| next.add(served));
        for entry in definitions {
            let known = self.definitions.get(&entry.key).filter(|(revision, _)| *revision == entry.revision);
            let brought = match known {
                Some((_, brought)) => brought.clone(),
                None => read(entry).into_iter().map(|resource| self.kept(resource)).collect(),
            };
            for served in &brought {
                next.add(served);
            }
            next.definitions.insert(entry.key.clone(), (entry.revision, brought));
        }
        next
    }

    fn kept(&self, resource: Resource) -> Arc<Served> {
        let before = self.find(&resource.group, &resource.version, &resource.plural);
        before.filter(|before| before.resource == resource).unwrap_or_else(|| Arc::new(Served::new(resource)))
    }

    fn add(&mut self, served: &Arc<Served>) {
        let resource = &served.resource;
        let namesakes = self.served.entry(resource.plural.clone()).or_default();
        namesakes.retain(|other| !other.is_at(&resource.group, &resource.version));
        namesakes.push(served.clone());
    }

    fn each(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.served.values().flatten()
    }

    /// The OpenAPI documents of what is served.
    pub fn documents(&self) -> &Documents {
        &self.documents
    }

    /// The resource of that group, version and plural.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Served>> {
        self.served.get(plural)?.iter().find(|served| served.is_at(group, version)).cloned()
    }

    /// The resource that a request asks for.
    pub fn target(&self, target: &Target) -> Option<Arc<Served>> {
        self.find(&target.group, &target.version, &target.plural)
    }

    /// The resource of an object, by its `apiVersion` and `kind`.
    pub fn of_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Served>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.each().find(|served| served.resource.kind == kind && served.is_at(group, version)).cloned()
    }

    /// Every resource, in a stable order.
    pub fn all(&self) -> Vec<Arc<Served>> {
        let mut all: Vec<Arc<Served>> = self.each().cloned().collect();
        all.sort_by(|a, b| {
            let key = |s: &Served| (s.resource.group.clone(), s.resource.version.clone(), s.resource.plural.clone());
            key(a).cmp(&key(b))
        });
        all
    }

    /// One resource for each place where objects are stored.
    pub fn stored(&self) -> Vec<Arc<Served>> {
        let mut seen = std::collections::HashSet::new();
        let mut all = self.all();
        all.retain(|s| {
            let resource = &s.resource;
            resource.allows(Verb::List)
                && resource.api_version() == resource.storage_version
                && seen.insert(resource.storage_prefix.clone())
        });
        all
    }
}
