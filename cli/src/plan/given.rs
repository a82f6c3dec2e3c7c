//! The objects of the files, as they would be in the cluster: put there in a dry run.

use c5c3_kit::Ref;
use c5c3_kit::object::api;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{Scope, pinned_kind};
use kube::{Client, Resource};
use serde_json::Value;

use super::PlanArgs;
use crate::validate::{self, Checked};
use crate::{operator, target};

/// The field manager that takes objects of other projects' kinds in a dry run.
const MANAGER: &str = "c5c3-plan";

/// An object of the files.
pub(super) struct Object {
    pub(super) reference: Ref,
    /// As it is; none if it is not there.
    pub(super) before: Option<DynamicObject>,
    /// As it would be.
    pub(super) after: DynamicObject,
    /// Whether an operator of ours looks after it.
    pub(super) is_ours: bool,
}

/// What was given, and where.
pub(super) struct Given {
    pub(super) client: Client,
    pub(super) objects: Vec<Object>,
    /// What is wrong with them, a line each; then there are no objects.
    pub(super) problems: Vec<String>,
}

impl Given {
    pub(super) async fn read(args: &PlanArgs) -> Result<Self, String> {
        let cluster = &args.cluster;
        let config = target::config(&cluster.target, cluster.data.as_deref()).await?;
        let namespace = cluster.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).map_err(|error| format!("no cluster: {}", target::root(&error)))?;
        let mut given = Self { client, objects: Vec::new(), problems: Vec::new() };
        let mut checked: Vec<Checked> = Vec::new();
        for read in args.files.iter().flat_map(|file| validate::checked(file)) {
            match read {
                Ok(one) => checked.push(one),
                Err(line) => given.problems.push(line),
            }
        }
        // Objects as they are decide whether they may be changed like this.
        let operators = operator::all(true);
        let mut found = Vec::new();
        for mut one in checked {
            let mut value = one.value().clone();
            let Some((reference, is_ours)) = given.reference(&mut value, &namespace).await? else {
                given.problems.extend(one.problems(&[], &operators));
                continue;
            };
            one.set(value.clone());
            let before = given.get(&reference).await?;
            let old = before.as_ref().and_then(|before| serde_json::to_value(before).ok());
            if is_ours {
                given.problems.extend(one.problems(old.as_slice(), &operators));
            }
            found.push((reference, is_ours, before, value));
        }
        if !given.problems.is_empty() {
            return Ok(given);
        }
        for (reference, is_ours, before, value) in found {
            match given.would_be(&reference, before.as_ref(), &value, is_ours).await? {
                Ok(after) => given.objects.push(Object { reference, before, after, is_ours }),
                Err(line) => given.problems.push(line),
            }
        }
        Ok(given)
    }

    /// Which object it is, in the namespace if it names none; none of a kind that the cluster does not have.
    async fn reference(&self, value: &mut Value, namespace: &str) -> Result<Option<(Ref, bool)>, String> {
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let is_known = c5c3_api::find(&version, &kind).is_some() || validate::is_foreign(value);
        if kind.is_empty() || name.is_empty() || !is_known {
            return Ok(None);
        }
        let (group, plain) = version.split_once('/').unwrap_or(("", &version));
        let (resource, is_namespaced) = match c5c3_api::find(&version, &kind) {
            Some(known) => {
                let crd = known.crd();
                let gvk = GroupVersionKind::gvk(group, plain, &kind);
                (ApiResource::from_gvk_with_plural(&gvk, &crd.spec.names.plural), crd.spec.scope == "Namespaced")
            }
            None => match pinned_kind(&self.client, &GroupVersionKind::gvk(group, plain, &kind)).await {
                Ok((resource, capabilities)) => (resource, capabilities.scope == Scope::Namespaced),
                Err(error) => {
                    return Err(format!("the cluster does not know {version} {kind}: {}", target::root(&error)));
                }
            },
        };
        if is_namespaced && value["metadata"]["namespace"].is_null() {
            value["metadata"]["namespace"] = namespace.into();
        }
        let namespace = value["metadata"]["namespace"].as_str().filter(|_| is_namespaced).map(ToOwned::to_owned);
        let is_ours = c5c3_api::find(&version, &kind).is_some();
        Ok(Some((Ref { resource, namespace, name }, is_ours)))
    }

    async fn get(&self, reference: &Ref) -> Result<Option<DynamicObject>, String> {
        let objects = api(self.client.clone(), &reference.resource, reference.namespace.as_deref());
        objects
            .get_opt(&reference.name)
            .await
            .map_err(|error| format!("cannot read {reference}: {}", target::root(&error)))
    }

    /// The object as it would be. `Err` within is a line for the person who wrote it.
    async fn would_be(
        &self,
        reference: &Ref,
        before: Option<&DynamicObject>,
        value: &Value,
        is_ours: bool,
    ) -> Result<Result<DynamicObject, String>, String> {
        let objects = api(self.client.clone(), &reference.resource, reference.namespace.as_deref());
        let params = PostParams { dry_run: true, field_manager: Some(MANAGER.into()) };
        let parsed = |value: Value| {
            serde_json::from_value::<DynamicObject>(value).map_err(|error| format!("{reference} is malformed: {error}"))
        };
        let sent = match before {
            Some(before) if is_ours => {
                let whole = in_place(before, value);
                objects.replace(&reference.name, &params, &parsed(whole)?).await
            }
            None if is_ours => {
                let mut whole = value.clone();
                if let Some(fields) = whole.as_object_mut() {
                    fields.remove("status");
                }
                objects.create(&params, &parsed(whole)?).await
            }
            _ => {
                let params = PatchParams { dry_run: true, ..PatchParams::apply(MANAGER).force() };
                objects.patch(&reference.name, &params, &Patch::Apply(value)).await
            }
        };
        match sent {
            Ok(after) => Ok(Ok(with_types(after, reference))),
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 413 | 422) => {
                Ok(Err(format!("{reference}: the API server refuses it: {}", status.message)))
            }
            // Its namespace may be another object of the files.
            Err(kube::Error::Api(status)) if status.code == 404 && before.is_none() && self.is_coming(reference) => {
                Ok(Ok(with_types(parsed(value.clone())?, reference)))
            }
            Err(error) => Err(format!(
                "cannot try {reference} in a dry run: {}; c5c3 plan needs the right to change it",
                target::root(&error)
            )),
        }
    }

    /// Whether the namespace of an object is among the objects that were given.
    fn is_coming(&self, reference: &Ref) -> bool {
        let namespace = ApiResource::erase::<Namespace>(&());
        self.objects.iter().any(|object| {
            object.reference.resource.kind == namespace.kind
                && Some(&object.reference.name) == reference.namespace.as_ref()
        })
    }
}

/// The object that is there, with the desired state of the new one in the place of its own.
fn in_place(before: &DynamicObject, value: &Value) -> Value {
    let mut whole = serde_json::to_value(before).unwrap_or_default();
    whole["spec"] = value["spec"].clone();
    for field in ["labels", "annotations"] {
        for (key, text) in value["metadata"][field].as_object().into_iter().flatten() {
            whole["metadata"][field][key] = text.clone();
        }
    }
    if let Some(meta) = whole["metadata"].as_object_mut() {
        meta.remove("managedFields");
    }
    whole
}

fn with_types(mut object: DynamicObject, reference: &Ref) -> DynamicObject {
    object.types = Some(kube::core::TypeMeta {
        api_version: reference.resource.api_version.clone(),
        kind: reference.resource.kind.clone(),
    });
    object.meta_mut().namespace.clone_from(&reference.namespace);
    object
}
