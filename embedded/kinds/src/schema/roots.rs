//! Which generated type describes which kind.

use k8s_openapi::api::{
    admissionregistration, apps, authentication, authorization, autoscaling, batch, certificates, coordination, core,
    discovery, events, flowcontrol, networking, node, policy, rbac, scheduling, storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration;
use k8s_openapi::schemars::{JsonSchema, Schema, SchemaGenerator};

/// Adds a type, and all it refers to, to a generator's definitions.
pub(super) type Root = fn(&mut SchemaGenerator) -> Schema;

/// The generated type of a kind.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    /// `io.k8s.api.core.v1.Pod`.
    pub(super) name: fn() -> std::borrow::Cow<'static, str>,
    pub(super) add: Root,
}

macro_rules! rows {
    ($($group:literal $version:literal: $module:ident $number:ident { $($kind:ident)+ })+) => {
        &[$($(Row {
            group: $group,
            version: $version,
            kind: stringify!($kind),
            name: <$module::$number::$kind as JsonSchema>::schema_name,
            add: SchemaGenerator::subschema_for::<$module::$number::$kind>,
        },)+)+]
    };
}

/// Every kind that is served or spoken by a subresource.
pub(super) const ROOTS: &[Row] = rows! {
    "" "v1": core v1 {
        Binding ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume PersistentVolumeClaim Pod
        PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount
    }
    "apps" "v1": apps v1 { ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet }
    "batch" "v1": batch v1 { CronJob Job }
    "autoscaling" "v1": autoscaling v1 { HorizontalPodAutoscaler Scale }
    "autoscaling" "v2": autoscaling v2 { HorizontalPodAutoscaler }
    "certificates.k8s.io" "v1": certificates v1 { CertificateSigningRequest }
    "policy" "v1": policy v1 { Eviction PodDisruptionBudget }
    "events.k8s.io" "v1": events v1 { Event }
    "authentication.k8s.io" "v1": authentication v1 { SelfSubjectReview TokenRequest TokenReview }
    "authorization.k8s.io" "v1": authorization v1 {
        LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview
    }
    "networking.k8s.io" "v1": networking v1 { Ingress IngressClass IPAddress NetworkPolicy ServiceCIDR }
    "rbac.authorization.k8s.io" "v1": rbac v1 { ClusterRole ClusterRoleBinding Role RoleBinding }
    "storage.k8s.io" "v1": storage v1 { CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment }
    "admissionregistration.k8s.io" "v1": admissionregistration v1 {
        MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
        ValidatingWebhookConfiguration
    }
    // These are served as they became v1: as they were before.
    "storage.k8s.io" "v1": storage v1beta1 { VolumeAttributesClass }
    "admissionregistration.k8s.io" "v1": admissionregistration v1alpha1 {
        MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
    }
    "apiextensions.k8s.io" "v1": apiextensions v1 { CustomResourceDefinition }
    "apiregistration.k8s.io" "v1": apiregistration v1 { APIService }
    "scheduling.k8s.io" "v1": scheduling v1 { PriorityClass }
    "coordination.k8s.io" "v1": coordination v1 { Lease }
    "node.k8s.io" "v1": node v1 { RuntimeClass }
    "discovery.k8s.io" "v1": discovery v1 { EndpointSlice }
    "flowcontrol.apiserver.k8s.io" "v1": flowcontrol v1 { FlowSchema PriorityLevelConfiguration }
};

/// What every document needs besides: the parts of the machinery that requests and answers are made of.
pub(super) const MACHINERY: &[Root] = &[
    SchemaGenerator::subschema_for::<meta::v1::DeleteOptions>,
    SchemaGenerator::subschema_for::<meta::v1::ListMeta>,
    SchemaGenerator::subschema_for::<meta::v1::ObjectMeta>,
    SchemaGenerator::subschema_for::<meta::v1::Patch>,
    SchemaGenerator::subschema_for::<meta::v1::Status>,
];

/// The generated type of that kind.
pub(super) fn root(group: &str, version: &str, kind: &str) -> Option<&'static Row> {
    ROOTS.iter().find(|row| row.group == group && row.version == version && row.kind == kind)
}
