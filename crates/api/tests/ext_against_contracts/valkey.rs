use c5c3_api::ext::Toggle;
use c5c3_api::ext::valkey::*;
use k8s_openapi::api::core::v1::{Affinity, PodAffinityTerm, PodAntiAffinity, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::*;

#[test]
fn a_valkey() {
    let selector = || Some(LabelSelector { match_labels: Some(map("app", "larder")), match_expressions: None });
    let mut valkey = Valkey::new(
        "larder",
        ValkeySpec {
            replicas: Some(3),
            version: Some("8.1.3".to_string()),
            sentinel: Some(Toggle { enabled: true }),
            tls: Some(ValkeyTls { enabled: true, cert_manager: Some(ValkeyCertManager { issuer: Some(issuer()) }) }),
            metrics: Some(ValkeyMetrics {
                enabled: true,
                monitor: Some(Toggle { enabled: true }),
                prometheus_rule: Some(Toggle { enabled: true }),
            }),
            persistence: Some(ValkeyPersistence {
                enabled: true,
                storage_class: Some("ceph-rbd".to_string()),
                size: Some(quantity("8Gi")),
            }),
            binding: Some(ValkeyBinding {
                secret_name: Some(binding_secret("larder")),
                template: Some("host: {{ .host }}".into()),
            }),
            resources: Some(resources()),
            node_selector: map("role", "cache"),
            tolerations: vec![toleration()],
            affinity: Some(Affinity {
                pod_anti_affinity: Some(PodAntiAffinity {
                    required_during_scheduling_ignored_during_execution: Some(vec![PodAffinityTerm {
                        label_selector: selector(),
                        topology_key: "kubernetes.io/hostname".to_string(),
                        ..PodAffinityTerm::default()
                    }]),
                    preferred_during_scheduling_ignored_during_execution: None,
                }),
                ..Affinity::default()
            }),
            topology_spread_constraints: vec![TopologySpreadConstraint {
                max_skew: 1,
                topology_key: "topology.kubernetes.io/zone".to_string(),
                when_unsatisfiable: "ScheduleAnyway".to_string(),
                label_selector: selector(),
                ..TopologySpreadConstraint::default()
            }],
            priority_class_name: Some("system-cluster-critical".to_string()),
        },
    );
    valkey.status = Some(ValkeyStatus {
        observed_generation: 1,
        state: Some("Ready".to_string()),
        conditions: vec![condition("Ready", None)],
    });
    accepts_namespaced(&valkey);
}
