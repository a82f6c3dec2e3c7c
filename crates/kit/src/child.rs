//! One object of a plan: what of it is ours, and how it is written, kept, waited for and printed.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use kube::Resource;
use kube::api::DynamicObject;
use kube::core::{ApiResource, TypeMeta};
use serde::Serialize;
use serde_json::Value;

use crate::hash;
use crate::object::Ref;
use crate::ownership::{JOB_GROUP, TEARDOWN, VERSION};
use crate::readiness;
use crate::wait::Wait;

/// An object that should be there.
#[derive(Clone)]
pub struct Child {
    /// Its kind.
    pub resource: ApiResource,
    /// The object, with just the fields that are ours.
    pub object: DynamicObject,
    /// Of objects that differ only by content hash, how many older ones are kept.
    pub keep_previous: usize,
    /// How long after a failure the object is deleted and made again; never when absent.
    pub retry_after: Option<Duration>,
    /// Keys of a Secret that get random values when it is made, with the length of each; see [`crate::random_secret`].
    pub random_keys: BTreeMap<String, usize>,
    /// What is said in the place of new random values; see [`Child::irreplaceable`].
    pub lost: Option<Wait>,
    /// Whether the object stays when its owner goes. Where that is chosen, one that an owner of the same name has left is
    /// taken over; see [`Child::kept`].
    pub kept: Option<bool>,
    /// Which state of the object the child was planned from; see [`Child::based_on`].
    pub basis: Basis,
    /// Whether an unclaimed object of that name is adopted; see [`Child::adoptable`].
    pub adoptable: bool,
    /// Whether its step is done although the object is not ready: nothing depends on it.
    pub readiness_optional: bool,
    /// Whether it is created when those before it are ready; see [`Child::in_order`].
    pub in_order: bool,
    /// What there is to say when it is waited for.
    pub because: Option<String>,
    /// What to do if an object of that name belongs to another owner; see [`Child::on_conflict`].
    pub on_conflict: Option<String>,
}

/// Which state of an object a write is based on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Basis {
    /// Whatever is there: our fields are written over it.
    #[default]
    Any,
    /// Nothing is there.
    Absent,
    /// The object with this resourceVersion.
    Version(String),
}

impl Child {
    /// A child from a typed object. Its status is left out: that belongs to its own controller.
    pub fn new<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> Self {
        let mut value = serde_json::to_value(object).expect("a Kubernetes object is JSON");
        if let Some(fields) = value.as_object_mut() {
            fields.remove("status");
        }
        let mut object: DynamicObject = serde_json::from_value(value).expect("a Kubernetes object has metadata");
        object.types = Some(TypeMeta::resource::<K>());
        Self::dynamic(ApiResource::erase::<K>(&()), object)
    }

    /// A child from an object that was put together by hand, of which just the fields are there that are ours.
    pub fn dynamic(resource: ApiResource, object: DynamicObject) -> Self {
        Self {
            resource,
            object,
            keep_previous: 0,
            retry_after: None,
            random_keys: BTreeMap::new(),
            lost: None,
            kept: None,
            basis: Basis::Any,
            adoptable: false,
            readiness_optional: false,
            in_order: false,
            because: None,
            on_conflict: None,
        }
    }

    /// Leaves the object there when its owner goes, or not. Either way it is taken over from an owner of the same name
    /// before, who may have been told otherwise.
    pub fn kept(self, kept: bool) -> Self {
        Self { kept: Some(kept), ..self }
    }

    /// Generates no random values in the place of lost ones, and waits until the old ones are restored: something that exists
    /// already uses the old ones, and would not accept others.
    pub fn irreplaceable(self, lost: Wait) -> Self {
        Self { lost: Some(lost), ..self }
    }

    /// Whether the object stays when its owner goes.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept == Some(true)
    }

    /// Puts a Job into a group: of all Jobs of one owner and group, one runs at a time. A Job without a group has its base as
    /// its group; see [`crate::job`].
    pub fn job_group(mut self, group: &'static str) -> Self {
        self.object.metadata.labels.get_or_insert_default().insert(JOB_GROUP.into(), group.into());
        self
    }

    /// Has the object deleted in the last wave of [`crate::Controller::teardown`] that has its kind. Others go in the first.
    pub fn last_of_its_kind(mut self) -> Self {
        self.object.metadata.annotations.get_or_insert_default().insert(TEARDOWN.into(), "last".into());
        self
    }

    /// Says which version of its software the object runs. A change of it waits for the steps that the child's step needs, as
    /// creation does; other changes of an existing object do not wait.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.object.metadata.annotations.get_or_insert_default().insert(VERSION.into(), version.into());
        self
    }

    /// Writes the object only in the state that the plan was made from: with the resourceVersion that was read, or, if
    /// `None` was there, by creating it. If it was changed or created meanwhile, the API answers with a conflict, and the next
    /// reconcile reads it again. For objects where a lost update is a lost secret.
    pub fn based_on(self, resource_version: Option<String>) -> Self {
        Self { basis: resource_version.map_or(Basis::Absent, Basis::Version), ..self }
    }

    /// Takes over an object of that name that no label, annotation or owner reference claims, such as a Secret that was
    /// restored from a backup, instead of refusing it as foreign.
    pub fn adoptable(self) -> Self {
        Self { adoptable: true, ..self }
    }

    /// Does not wait for the object to be ready.
    pub fn readiness_optional(self) -> Self {
        Self { readiness_optional: true, ..self }
    }

    /// Creates the object, and changes its version, when those before it in its step are ready. Otherwise all children of a step are
    /// made at once.
    pub fn in_order(self) -> Self {
        Self { in_order: true, ..self }
    }

    /// Says why the object is needed, or what it needs, to who waits for it.
    pub fn because(self, because: impl Into<String>) -> Self {
        Self { because: Some(because.into()), ..self }
    }

    /// Says what to do if an object of that name belongs to another owner, in the place of deleting or renaming that object.
    pub fn on_conflict(self, remedy: impl Into<String>) -> Self {
        Self { on_conflict: Some(remedy.into()), ..self }
    }

    /// What the object lacks to be ready, as it is now; none when it is.
    pub(crate) fn wait(&self, live: &DynamicObject) -> Option<Wait> {
        let wait = readiness::wait(&self.reference(), live)?;
        Some(match &self.because {
            Some(because) => wait.because(because.clone()),
            None => wait,
        })
    }

    /// Keeps that many older objects of the same base; see [`crate::config`].
    pub fn keep_previous(self, count: usize) -> Self {
        Self { keep_previous: count, ..self }
    }

    /// Makes the object again some time after it failed; see [`crate::job`].
    pub fn retry_after(self, delay: Duration) -> Self {
        Self { retry_after: Some(delay), ..self }
    }

    /// Which object this is.
    pub fn reference(&self) -> Ref {
        Ref::of(&self.resource, &self.object.metadata)
    }

    /// The object with each value of a Secret replaced by its hash: what may be printed.
    pub fn redacted(&self) -> DynamicObject {
        let mut object = self.object.clone();
        if self.resource.kind == "Secret" && self.resource.group.is_empty() {
            for field in ["data", "stringData"] {
                if let Some(Value::Object(values)) = object.data.get_mut(field) {
                    for value in values.values_mut() {
                        *value = format!("<secret {}>", hash::of_json(value)).into();
                    }
                }
            }
        }
        for (key, length) in &self.random_keys {
            object.data["data"][key] = format!("<{length} random characters, made once>").into();
        }
        object
    }
}

/// Names the object; a Secret's content is never printed.
impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Child").field(&self.reference().to_string()).finish()
    }
}
