//! Slim definitions of other projects' kinds: names, columns and the fields that we model as the genuine ones have them,
//! and open to every other field.
//!
//! A definition that someone else installed, the genuine one for instance, is left as it is.

use c5c3_kit::KindRef;
use c5c3_kit::ownership::{MANAGED_BY, label};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::runtime::{conditions, wait};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};

/// The field manager of definitions, and the value of their label.
const MANAGER: &str = "c5c3-providers";

/// The columns of conditions that most projects begin with.
pub const READY: &str = ".status.conditions[?(@.type==\"Ready\")].status";

/// The column that all tables end with.
pub const AGE: &str = ".metadata.creationTimestamp";

/// A definition that is being put together, of a kind that `c5c3_api::ext` has a slice of.
#[derive(Clone, Debug)]
pub struct Definition {
    kind: KindRef,
    short_names: Vec<&'static str>,
    categories: Vec<&'static str>,
    columns: Vec<Value>,
    spec: Value,
    status: Value,
    scale: Option<Value>,
}

impl Definition {
    /// The definition of a kind, open to all fields.
    pub fn of<K: Resource<DynamicType = ()>>() -> Self
    where
        K::Scope: 'static,
    {
        Self {
            kind: KindRef::of::<K>(),
            short_names: Vec::new(),
            categories: Vec::new(),
            columns: Vec::new(),
            spec: json!({}),
            status: json!({}),
            scale: None,
        }
    }

    /// Adds a short name.
    pub fn short(mut self, name: &'static str) -> Self {
        self.short_names.push(name);
        self
    }

    /// Adds a category.
    pub fn category(mut self, name: &'static str) -> Self {
        self.categories.push(name);
        self
    }

    /// Adds a column of text, or of a date if it is [`AGE`].
    pub fn column(mut self, name: &str, path: &str) -> Self {
        let kind = if path == AGE { "date" } else { "string" };
        self.columns.push(json!({"name": name, "type": kind, "jsonPath": path}));
        self
    }

    /// Adds a column in full, for one with a type or priority of its own.
    pub fn column_like(mut self, column: Value) -> Self {
        self.columns.push(column);
        self
    }

    /// What is known of the spec: a schema, to which openness is added wherever it has properties.
    pub fn spec(self, schema: Value) -> Self {
        Self { spec: schema, ..self }
    }

    /// What is known of the status, likewise.
    pub fn status(self, schema: Value) -> Self {
        Self { status: schema, ..self }
    }

    /// Lets the kind be scaled by its usual fields.
    pub fn scaled(self) -> Self {
        let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
        Self { scale: Some(scale), ..self }
    }

    /// The definition.
    pub fn build(mut self) -> CustomResourceDefinition {
        let resource = &self.kind.resource;
        let mut subresources = json!({"status": {}});
        if let Some(scale) = self.scale {
            subresources["scale"] = scale;
        }
        open(&mut self.spec);
        open(&mut self.status);
        serde_json::from_value(json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": format!("{}.{}", resource.plural, resource.group),
                "labels": {MANAGED_BY: MANAGER},
            },
            "spec": {
                "group": resource.group,
                "scope": if self.kind.namespaced { "Namespaced" } else { "Cluster" },
                "names": {
                    "kind": resource.kind,
                    "listKind": format!("{}List", resource.kind),
                    "plural": resource.plural,
                    "singular": resource.kind.to_lowercase(),
                    "shortNames": self.short_names,
                    "categories": self.categories,
                },
                "versions": [{
                    "name": resource.version,
                    "served": true,
                    "storage": true,
                    "additionalPrinterColumns": self.columns,
                    "subresources": subresources,
                    "schema": {"openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": self.spec, "status": self.status},
                    }},
                }],
            },
        }))
        .expect("a definition made of these parts is well formed")
    }
}

/// Says of every object in a schema that has properties, or nothing at all, that it may have others.
fn open(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    let is_object = fields.get("type").is_none_or(|kind| kind == "object");
    let int_or_string = fields.contains_key("x-kubernetes-int-or-string");
    if is_object && !int_or_string {
        fields.insert("type".into(), "object".into());
        if !fields.contains_key("additionalProperties") {
            fields.insert("x-kubernetes-preserve-unknown-fields".into(), true.into());
        }
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(open);
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(inner) {
            open(inner);
        }
    }
}

/// Why definitions cannot be installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The API refuses one.
    #[error("{name}: {source}")]
    Refused {
        /// Which.
        name: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// One is not served after it was accepted.
    #[error("{name} is not served: {source}")]
    NotServed {
        /// Which.
        name: String,
        /// Why.
        source: Box<wait::Error>,
    },
}

/// Whether a definition is one of these, not one that its own project installed.
pub fn is_ours(definition: &CustomResourceDefinition) -> bool {
    label(&definition.metadata, MANAGED_BY).is_some_and(|by| by == MANAGER)
}

/// Installs definitions and waits until they are served.
pub async fn install(client: &Client, definitions: &[CustomResourceDefinition]) -> Result<(), InstallError> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    for definition in definitions {
        let name = definition.name_any();
        let refused = |source| InstallError::Refused { name: name.clone(), source: Box::new(source) };
        let found = api.get_opt(&name).await.map_err(refused)?;
        if found.as_ref().is_none_or(is_ours) {
            let params = PatchParams::apply(MANAGER).force();
            api.patch(&name, &params, &Patch::Apply(definition)).await.map_err(refused)?;
        }
    }
    for definition in definitions {
        let name = definition.name_any();
        wait::await_condition(api.clone(), &name, conditions::is_crd_established())
            .await
            .map_err(|source| InstallError::NotServed { name, source: Box::new(source) })?;
    }
    Ok(())
}
