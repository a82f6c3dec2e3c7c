//! What every kind of K-ORC has in common: the envelope around the resource, and the conditions that tell how it fares.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::duration::ParseError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::blocks::ConditionStatus;

/// What a user asks for: `R` is the resource to create, `I` how to find an existing one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"message": "resource must be specified when policy is managed",
     "rule": "self.managementPolicy == 'managed' ? has(self.resource) : true"},
    {"message": "import may not be specified when policy is managed",
     "rule": "self.managementPolicy == 'managed' ? !has(self.__import__) : true"},
    {"message": "resource may not be specified when policy is unmanaged",
     "rule": "self.managementPolicy == 'unmanaged' ? !has(self.resource) : true"},
    {"message": "import must be specified when policy is unmanaged",
     "rule": "self.managementPolicy == 'unmanaged' ? has(self.__import__) : true"},
    {"message": "managedOptions may only be provided when policy is managed",
     "rule": "has(self.managedOptions) ? self.managementPolicy == 'managed' : true"},
]))]
pub struct Spec<R, I> {
    /// The Secret with the credentials to use.
    pub cloud_credentials_ref: CloudCredentialsRef,
    /// Whether the resource is made and kept by us, or only read; `managed` when absent.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-validations" = [
        {"message": "managementPolicy is immutable", "rule": "self == oldSelf"},
    ]))]
    pub management_policy: ManagementPolicy,
    /// How a managed resource is treated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_options: Option<ManagedOptions>,
    /// Which existing resource to read. Only for `unmanaged`, and required there.
    // An absent `Option` is `None` anyway; serde's `default` would ask for `I: Default`. So in all generic types here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import: Option<I>,
    /// The resource as it should be. Only for `managed`, and required there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<R>,
    /// How often to look for changes made outside, in Go's notation such as `10m`; `0s` for never. The operator's own
    /// period when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resync_period: Option<String>,
}

impl<R, I> Spec<R, I> {
    /// A resource that we create, keep and delete.
    pub fn managed(credentials: CloudCredentialsRef, resource: R) -> Self {
        Self { resource: Some(resource), ..Self::empty(credentials, ManagementPolicy::Managed) }
    }

    /// A resource that was created by another tool and is only read.
    pub fn unmanaged(credentials: CloudCredentialsRef, import: I) -> Self {
        Self { import: Some(import), ..Self::empty(credentials, ManagementPolicy::Unmanaged) }
    }

    fn empty(cloud_credentials_ref: CloudCredentialsRef, management_policy: ManagementPolicy) -> Self {
        Self {
            cloud_credentials_ref,
            management_policy,
            managed_options: None,
            import: None,
            resource: None,
            resync_period: None,
        }
    }

    /// How often to look for changes made outside: `None` leaves it to the operator, zero is never. The schema takes
    /// any string, so what is no duration shows only here.
    pub fn resync(&self) -> Result<Option<Duration>, ParseError> {
        let Some(period) = &self.resync_period else { return Ok(None) };
        let period: kube::core::Duration = period.parse()?;
        Ok(Some(if period.is_negative() { Duration::ZERO } else { period.into() }))
    }

    /// Whether the OpenStack resource is deleted with the object.
    pub fn deletes(&self) -> bool {
        let on_delete = self.managed_options.as_ref().map_or(OnDelete::Delete, |options| options.on_delete);
        self.management_policy == ManagementPolicy::Managed && on_delete == OnDelete::Delete
    }
}

/// Where the credentials are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloudCredentialsRef {
    /// A Secret of the same namespace. Its key `clouds.yaml` holds the clouds, its key `cacert` the CA to trust, if any.
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: String,
    /// Which entry of `clouds.yaml` to use.
    #[schemars(length(min = 1, max = 256))]
    pub cloud_name: String,
}

/// Whether the resource is managed or only read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ManagementPolicy {
    /// We create, change and delete it.
    #[default]
    Managed,
    /// Another tool does; it is only read.
    Unmanaged,
}

/// How a managed resource is treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedOptions {
    /// What becomes of the resource when the object is deleted; `delete` when absent.
    #[serde(default)]
    pub on_delete: OnDelete,
}

/// What becomes of the resource when the object is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnDelete {
    /// It is deleted too.
    #[default]
    Delete,
    /// It stays.
    Detach,
}

/// Which existing resource to read: exactly one of `id` and `filter`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub struct Import<F> {
    /// The resource's UUID, with or without dashes. It must exist already. The id `default` of the first domain is
    /// none; find that domain by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 36), extend("format" = "uuid"))]
    pub id: Option<String>,
    /// What to search for. Nothing found is waited for; more than one is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<F>,
}

/// Which existing resource to read, for kinds without an id of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ImportByFilter<F> {
    /// What to search for. Nothing found is waited for; more than one is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<F>,
}

/// What was observed: `O` is the resource as it is in OpenStack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Status<O> {
    /// Available: the resource is there. Progressing: there is still something to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The resource's id in OpenStack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub id: Option<String>,
    /// When the resource was last read without anything left to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sync_time: Option<Time>,
    /// The resource as it is in OpenStack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<O>,
}

impl<O> Default for Status<O> {
    fn default() -> Self {
        Self { conditions: Vec::new(), id: None, last_sync_time: None, resource: None }
    }
}

/// One observation about an object: `metav1.Condition` to the letter, where [`crate::blocks::Condition`] is more lenient.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What is observed: `Available` or `Progressing`.
    #[schemars(
        length(max = 316),
        regex(
            pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
        )
    )]
    pub r#type: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, in one word for programs.
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"))]
    pub reason: String,
    /// Why, in words for people. May be empty.
    #[schemars(length(max = 32768))]
    pub message: String,
    /// When the condition last changed.
    pub last_transition_time: Time,
    /// The generation of the object that the observation is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

/// The condition that says whether the resource can be used.
pub const AVAILABLE: &str = "Available";
/// The condition that says whether there is still something to do.
pub const PROGRESSING: &str = "Progressing";
/// Reasons of [`PROGRESSING`] that only a change of the spec ends.
pub const TERMINAL_REASONS: [&str; 2] = ["InvalidConfiguration", "UnrecoverableError"];

fn current<'a>(conditions: &'a [Condition], r#type: &str, generation: i64) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.r#type == r#type && c.observed_generation == Some(generation))
}

/// Whether the resource is there and both conditions are about this generation of the object.
pub fn is_available(conditions: &[Condition], generation: i64) -> bool {
    current(conditions, PROGRESSING, generation).is_some()
        && current(conditions, AVAILABLE, generation).is_some_and(|c| c.status == ConditionStatus::True)
}

/// The error that only a change of the spec ends, if the object is in one at this generation.
pub fn terminal_error(conditions: &[Condition], generation: i64) -> Option<&Condition> {
    current(conditions, PROGRESSING, generation).filter(|c| TERMINAL_REASONS.contains(&c.reason.as_str()))
}

/// What code that treats all kinds alike needs to know of each.
pub trait OrcKind: kube::Resource<DynamicType = ()> {
    /// The resource as it should be.
    type Resource;
    /// How to find an existing one.
    type Import;
    /// The resource as it is.
    type Observed;

    /// The spec.
    fn envelope(&self) -> &Spec<Self::Resource, Self::Import>;
    /// The conditions; none before the first pass.
    fn conditions(&self) -> &[Condition];
    /// The resource as it is in OpenStack, if the last pass read it.
    fn observed(&self) -> Option<&Self::Observed>;

    /// [`is_available`] for this object.
    fn is_available(&self) -> bool {
        is_available(self.conditions(), self.meta().generation.unwrap_or_default())
    }

    /// [`terminal_error`] for this object.
    fn terminal_error(&self) -> Option<&Condition> {
        terminal_error(self.conditions(), self.meta().generation.unwrap_or_default())
    }
}

/// Defines a kind from its resource, its filter and its observed state, in the envelope of this module.
///
/// The derive makes one object type per spec type and knows no generics, hence the newtype around [`Spec`].
macro_rules! kind {
    (
        #[doc = $doc:literal]
        $kind:literal, $object:ident, $spec:ident, $status:ident,
        resource $resource:ident, filter $filter:ident, observed $observed:ident
    ) => {
        #[doc = concat!("What was observed of ", $kind, " objects.")]
        pub type $status = crate::orc::Status<$observed>;

        crate::orc::envelope::kind! {
            #[doc = $doc]
            $kind, $object, $spec, $status,
            resource $resource, import crate::orc::Import<$filter>, observed $observed,
            columns [printcolumn(name = "ID", type_ = "string", json_path = ".status.id"),]
        }
    };
    (
        #[doc = $doc:literal]
        $kind:literal, $object:ident, $spec:ident, $status:ident,
        resource $resource:ident, import $import:ty, observed $observed:ident,
        columns [$($column:tt)*]
    ) => {
        #[doc = $doc]
        #[derive(kube::CustomResource, Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[kube(
            group = "openstack.k-orc.cloud",
            version = "v1alpha1",
            kind = $kind,
            doc = $doc,
            namespaced,
            status = $status,
            derive = "PartialEq",
            category = "openstack",
            category = "c5c3",
            $($column)*
            printcolumn(name = "Available", type_ = "string", json_path = ".status.conditions[?(@.type=='Available')].status"),
            printcolumn(name = "Message", type_ = "string", json_path = ".status.conditions[?(@.type=='Progressing')].message")
        )]
        #[serde(transparent)]
        pub struct $spec(pub crate::orc::Spec<$resource, $import>);

        impl std::ops::Deref for $spec {
            type Target = crate::orc::Spec<$resource, $import>;
            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        impl std::ops::DerefMut for $spec {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.0
            }
        }

        impl From<crate::orc::Spec<$resource, $import>> for $spec {
            fn from(spec: crate::orc::Spec<$resource, $import>) -> Self {
                Self(spec)
            }
        }

        impl crate::orc::OrcKind for $object {
            type Resource = $resource;
            type Import = $import;
            type Observed = $observed;
            fn envelope(&self) -> &crate::orc::Spec<$resource, $import> {
                &self.spec
            }
            fn conditions(&self) -> &[crate::orc::Condition] {
                self.status.as_ref().map_or(&[], |status| &status.conditions)
            }
            fn observed(&self) -> Option<&$observed> {
                self.status.as_ref()?.resource.as_ref()
            }
        }

        impl crate::catalog::Rules for $object {}
    };
}
pub(crate) use kind;

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(r#type: &str, status: ConditionStatus, reason: &str, generation: i64) -> Condition {
        Condition {
            r#type: r#type.into(),
            status,
            reason: reason.into(),
            message: String::new(),
            last_transition_time: Time("2030-01-02T03:04:05Z".parse().unwrap()),
            observed_generation: Some(generation),
        }
    }

    #[test]
    fn available_means_available_at_this_generation() {
        let available = condition(AVAILABLE, ConditionStatus::True, "Success", 2);
        let unknown = condition(AVAILABLE, ConditionStatus::Unknown, "TransientError", 2);
        let done = condition(PROGRESSING, ConditionStatus::False, "Success", 2);
        let stale = condition(PROGRESSING, ConditionStatus::False, "Success", 1);
        assert!(is_available(&[available.clone(), done.clone()], 2));
        assert!(!is_available(&[available.clone(), done.clone()], 3));
        assert!(!is_available(&[available.clone(), stale], 2));
        assert!(!is_available(&[available], 2));
        assert!(!is_available(&[unknown, done], 2));
        assert!(!is_available(&[], 0));
    }

    #[test]
    fn a_terminal_error_lasts_until_the_spec_changes() {
        let available = condition(AVAILABLE, ConditionStatus::True, "Success", 2);
        let failed = condition(PROGRESSING, ConditionStatus::False, "InvalidConfiguration", 2);
        let retried = condition(PROGRESSING, ConditionStatus::True, "TransientError", 2);
        // An update that Keystone refuses: the resource is there, as it was.
        let conditions = [available, failed.clone()];
        assert!(is_available(&conditions, 2));
        assert_eq!(terminal_error(&conditions, 2), Some(&failed));
        assert_eq!(terminal_error(&conditions, 3), None);
        assert_eq!(terminal_error(&[retried], 2), None);
    }

    #[test]
    fn a_resync_period_is_a_go_duration() {
        let resync = |period: Option<&str>| {
            let credentials = CloudCredentialsRef { secret_name: "clouds".into(), cloud_name: "marsh".into() };
            let mut spec: Spec<(), ()> = Spec::managed(credentials, ());
            spec.resync_period = period.map(Into::into);
            spec.resync()
        };
        assert_eq!(resync(None), Ok(None));
        assert_eq!(resync(Some("1h30m")), Ok(Some(Duration::from_mins(90))));
        assert_eq!(resync(Some("0s")), Ok(Some(Duration::ZERO)));
        assert_eq!(resync(Some("-5m")), Ok(Some(Duration::ZERO)));
        assert!(resync(Some("often")).is_err());
    }

    #[test]
    fn only_a_managed_resource_that_is_not_detached_is_deleted() {
        let credentials = CloudCredentialsRef { secret_name: "clouds".into(), cloud_name: "marsh".into() };
        let mut spec: Spec<(), ()> = Spec::managed(credentials.clone(), ());
        assert!(spec.deletes());
        spec.managed_options = Some(ManagedOptions { on_delete: OnDelete::Detach });
        assert!(!spec.deletes());
        assert!(!Spec::<(), ()>::unmanaged(credentials, ()).deletes());
    }
}
