//! The values that enumerated strings of built-in kinds may have, which the generated types leave open.

use serde_json::{Map, Value, json};

const PROTOCOL: &[&str] = &["SCTP", "TCP", "UDP"];
const EFFECT: &[&str] = &["NoExecute", "NoSchedule", "PreferNoSchedule"];
const CLUSTER_LOCAL: &[&str] = &["Cluster", "Local"];
const SELECTOR: &[&str] = &["DoesNotExist", "Exists", "In", "NotIn"];
const PREEMPTION: &[&str] = &["Never", "PreemptLowerPriority"];
const VOLUME_MODE: &[&str] = &["Block", "Filesystem"];
const ON_DELETE: &[&str] = &["OnDelete", "RollingUpdate"];
const FAILURE: &[&str] = &["Fail", "Ignore"];
const MATCH: &[&str] = &["Equivalent", "Exact"];
const SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun"];
const SCOPE: &[&str] = &["Cluster", "Namespaced"];

/// Enumerations by definition (without its `io.k8s.` prefix) and field.
#[rustfmt::skip]
const ENUMS: &[(&str, &str, &[&str])] = &[
    ("api.admissionregistration.v1.MutatingWebhook", "failurePolicy", FAILURE),
    ("api.admissionregistration.v1.MutatingWebhook", "matchPolicy", MATCH),
    ("api.admissionregistration.v1.MutatingWebhook", "reinvocationPolicy", &["IfNeeded", "Never"]),
    ("api.admissionregistration.v1.MutatingWebhook", "sideEffects", SIDE_EFFECTS),
    ("api.admissionregistration.v1.RuleWithOperations", "scope", &["*", "Cluster", "Namespaced"]),
    ("api.admissionregistration.v1.ValidatingWebhook", "failurePolicy", FAILURE),
    ("api.admissionregistration.v1.ValidatingWebhook", "matchPolicy", MATCH),
    ("api.admissionregistration.v1.ValidatingWebhook", "sideEffects", SIDE_EFFECTS),
    ("api.apps.v1.DaemonSetUpdateStrategy", "type", ON_DELETE),
    ("api.apps.v1.DeploymentStrategy", "type", &["Recreate", "RollingUpdate"]),
    ("api.apps.v1.StatefulSetSpec", "podManagementPolicy", &["OrderedReady", "Parallel"]),
    ("api.apps.v1.StatefulSetUpdateStrategy", "type", ON_DELETE),
    ("api.autoscaling.v2.MetricSpec", "type", &["ContainerResource", "External", "Object", "Pods", "Resource"]),
    ("api.autoscaling.v2.MetricTarget", "type", &["AverageValue", "Utilization", "Value"]),
    ("api.batch.v1.CronJobSpec", "concurrencyPolicy", &["Allow", "Forbid", "Replace"]),
    ("api.batch.v1.JobSpec", "completionMode", &["Indexed", "NonIndexed"]),
    ("api.batch.v1.JobSpec", "podReplacementPolicy", &["Failed", "TerminatingOrFailed"]),
    ("api.core.v1.Container", "imagePullPolicy", &["Always", "IfNotPresent", "Never"]),
    ("api.core.v1.Container", "terminationMessagePolicy", &["FallbackToLogsOnError", "File"]),
    ("api.core.v1.ContainerPort", "protocol", PROTOCOL),
    ("api.core.v1.EndpointPort", "protocol", PROTOCOL),
    ("api.core.v1.HTTPGetAction", "scheme", &["HTTP", "HTTPS"]),
    ("api.core.v1.NodeSelectorRequirement", "operator", &["DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"]),
    ("api.core.v1.PersistentVolumeClaimSpec", "volumeMode", VOLUME_MODE),
    ("api.core.v1.PersistentVolumeSpec", "persistentVolumeReclaimPolicy", &["Delete", "Recycle", "Retain"]),
    ("api.core.v1.PersistentVolumeSpec", "volumeMode", VOLUME_MODE),
    ("api.core.v1.PodSpec", "dnsPolicy", &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"]),
    ("api.core.v1.PodSpec", "preemptionPolicy", PREEMPTION),
    ("api.core.v1.PodSpec", "restartPolicy", &["Always", "Never", "OnFailure"]),
    ("api.core.v1.SeccompProfile", "type", &["Localhost", "RuntimeDefault", "Unconfined"]),
    ("api.core.v1.ServicePort", "protocol", PROTOCOL),
    ("api.core.v1.ServiceSpec", "externalTrafficPolicy", CLUSTER_LOCAL),
    ("api.core.v1.ServiceSpec", "internalTrafficPolicy", CLUSTER_LOCAL),
    ("api.core.v1.ServiceSpec", "ipFamilyPolicy", &["PreferDualStack", "RequireDualStack", "SingleStack"]),
    ("api.core.v1.ServiceSpec", "sessionAffinity", &["ClientIP", "None"]),
    ("api.core.v1.ServiceSpec", "type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]),
    ("api.core.v1.Taint", "effect", EFFECT),
    ("api.core.v1.Toleration", "effect", EFFECT),
    ("api.core.v1.Toleration", "operator", &["Equal", "Exists"]),
    ("api.core.v1.TopologySpreadConstraint", "whenUnsatisfiable", &["DoNotSchedule", "ScheduleAnyway"]),
    ("api.core.v1.VolumeMount", "mountPropagation", &["Bidirectional", "HostToContainer", "None"]),
    ("api.discovery.v1.EndpointPort", "protocol", PROTOCOL),
    ("api.discovery.v1.EndpointSlice", "addressType", &["FQDN", "IPv4", "IPv6"]),
    ("api.networking.v1.HTTPIngressPath", "pathType", &["Exact", "ImplementationSpecific", "Prefix"]),
    ("api.networking.v1.NetworkPolicyPort", "protocol", PROTOCOL),
    ("api.policy.v1.PodDisruptionBudgetSpec", "unhealthyPodEvictionPolicy", &["AlwaysAllow", "IfHealthyBudget"]),
    ("api.scheduling.v1.PriorityClass", "preemptionPolicy", PREEMPTION),
    ("api.storage.v1.StorageClass", "reclaimPolicy", &["Delete", "Retain"]),
    ("api.storage.v1.StorageClass", "volumeBindingMode", &["Immediate", "WaitForFirstConsumer"]),
    ("apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceConversion", "strategy", &["None", "Webhook"]),
    ("apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionSpec", "scope", SCOPE),
    ("apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement", "operator", SELECTOR),
];

/// Writes the enumerations of one definition into its schema.
pub(super) fn annotate(name: &str, schema: &mut Map<String, Value>) {
    let short = name.strip_prefix("io.k8s.").unwrap_or(name);
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for (_, field, values) in ENUMS.iter().filter(|(definition, _, _)| *definition == short) {
        if let Some(property) = properties.get_mut(*field) {
            property["enum"] = json!(values);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::definitions;

    #[test]
    fn every_row_names_a_field_that_exists() {
        for (definition, field, values) in ENUMS {
            let schema = definitions().get(&format!("io.k8s.{definition}")).unwrap();
            assert_eq!(schema["properties"][field]["enum"], json!(values), "{definition} {field}");
        }
    }
}
