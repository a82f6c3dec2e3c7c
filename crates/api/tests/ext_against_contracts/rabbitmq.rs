use c5c3_api::ext::NamedRef;
use c5c3_api::ext::rabbitmq::*;
use k8s_openapi::api::core::v1::{Affinity, PodAffinityTerm, PodAntiAffinity};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::*;

fn cluster_ref() -> RabbitmqClusterRef {
    RabbitmqClusterRef {
        name: Some("burrow".to_string()),
        namespace: Some("warren".to_string()),
        connection_secret: Some(NamedRef::new("burrow-connection")),
    }
}

#[test]
fn a_rabbitmq_cluster() {
    let spread = PodAffinityTerm {
        label_selector: Some(LabelSelector { match_labels: Some(map("app", "burrow")), match_expressions: None }),
        topology_key: "kubernetes.io/hostname".to_string(),
        ..PodAffinityTerm::default()
    };
    let mut cluster = RabbitmqCluster::new(
        "burrow",
        RabbitmqClusterSpec {
            replicas: Some(3),
            image: Some("docker.io/library/rabbitmq:4.1-management".to_string()),
            persistence: Some(Persistence {
                storage_class_name: Some("ceph-rbd".to_string()),
                storage: Some(quantity("50Gi")),
            }),
            resources: Some(BrokerResources::new(resources())),
            rabbitmq: Some(Configuration {
                additional_plugins: vec!["rabbitmq_shovel".to_string()],
                additional_config: Some("cluster_partition_handling = pause_minority\n".to_string()),
                advanced_config: Some("[].".to_string()),
                env_config: Some("RABBITMQ_DISTRIBUTION_BUFFER_SIZE=128000\n".to_string()),
            }),
            tls: Some(RabbitmqTls {
                secret_name: Some("burrow-tls".to_string()),
                ca_secret_name: Some("burrow-ca".to_string()),
                disable_non_tls_listeners: Some(true),
            }),
            service: Some(ClientService {
                r#type: Some(ServiceType::ClusterIp),
                annotations: map("example.com/pool", "internal"),
            }),
            secret_backend: Some(SecretBackend { external_secret: Some(NamedRef::new("burrow-default-user")) }),
            affinity: Some(Affinity {
                pod_anti_affinity: Some(PodAntiAffinity {
                    required_during_scheduling_ignored_during_execution: Some(vec![spread]),
                    preferred_during_scheduling_ignored_during_execution: None,
                }),
                ..Affinity::default()
            }),
            tolerations: vec![toleration()],
            termination_grace_period_seconds: Some(60),
            delay_start_seconds: Some(0),
            auto_enable_all_feature_flags: Some(true),
            overrides: Some(serde_json::json!({"service": {"spec": {"type": "ClusterIP"}}})),
        },
    );
    cluster.metadata.annotations = Some(map(ALLOWED_NAMESPACES, "*"));
    cluster.status = Some(RabbitmqClusterStatus {
        conditions: ["AllReplicasReady", "ClusterAvailable", "NoWarnings", "ReconcileSuccess"]
            .map(|r#type| condition(r#type, None))
            .to_vec(),
        observed_generation: Some(1),
        default_user: Some(DefaultUser {
            secret_reference: Some(DefaultUserSecret {
                name: default_user_secret("burrow"),
                namespace: "warren".to_string(),
                keys: map("username", "username"),
            }),
            service_reference: Some(DefaultUserService { name: "burrow".to_string(), namespace: "warren".to_string() }),
        }),
        binding: Some(NamedRef::new(default_user_secret("burrow"))),
        quorum_status: Some("ok".to_string()),
    });
    accepts_namespaced(&cluster);
}

#[test]
fn a_cluster_of_which_nothing_is_known_yet_has_conditions_nevertheless() {
    let mut cluster = RabbitmqCluster::new("burrow", RabbitmqClusterSpec::default());
    cluster.status = Some(RabbitmqClusterStatus::default());
    accepts(&cluster);
}

#[test]
fn a_vhost() {
    let mut vhost = Vhost::new(
        "nova",
        VhostSpec {
            rabbitmq_cluster_reference: cluster_ref(),
            name: "nova".to_string(),
            default_queue_type: Some(QueueType::Quorum),
            deletion_policy: Some(DeletionPolicy::Retain),
            limits: Some(VhostLimits { connections: Some(1000), queues: Some(2000) }),
        },
    );
    vhost.status = Some(TopologyStatus { conditions: vec![condition("Ready", None)], observed_generation: Some(1) });
    accepts_namespaced(&vhost);
}

#[test]
fn a_user() {
    let mut user = User::new(
        "nova",
        UserSpec {
            rabbitmq_cluster_reference: cluster_ref(),
            import_credentials_secret: Some(NamedRef::new("nova-rabbitmq")),
            tags: UserTag::ALL.to_vec(),
            limits: Some(UserLimits { connections: Some(1000), channels: Some(2000) }),
        },
    );
    user.status = Some(UserStatus {
        conditions: vec![condition("Ready", None)],
        observed_generation: Some(1),
        username: "nova".to_string(),
        credentials: Some(NamedRef::new(user_credentials_secret("nova"))),
    });
    accepts_namespaced(&user);
}

#[test]
fn a_permission() {
    let mut permission = Permission::new(
        "nova",
        PermissionSpec {
            rabbitmq_cluster_reference: cluster_ref(),
            vhost: "nova".to_string(),
            user: Some("nova".to_string()),
            user_reference: Some(NamedRef::new("nova")),
            permissions: Permissions {
                configure: Some(".*".to_string()),
                write: Some(".*".to_string()),
                read: Some(".*".to_string()),
            },
        },
    );
    permission.status =
        Some(TopologyStatus { conditions: vec![condition("Ready", None)], observed_generation: Some(1) });
    accepts_namespaced(&permission);
}
