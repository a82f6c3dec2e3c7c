use c5c3_api::ext::mariadb::*;
use c5c3_api::ext::{Conditions, NamedRef, SecretKey, Toggle};
use c5c3_contracts::{Genuine, compared_with_genuine};
use c5c3_schema::Schema;
use k8s_openapi::api::core::v1::{
    NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm, PodAntiAffinity,
    VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::json;

use crate::*;

fn mariadb_ref() -> MariaDbRef {
    MariaDbRef { name: "ledger".to_string(), namespace: Some("vault".to_string()), wait_for_it: Some(true) }
}

fn affinity() -> Affinity {
    let requirement = NodeSelectorRequirement {
        key: "topology.kubernetes.io/zone".to_string(),
        operator: "In".to_string(),
        values: Some(vec!["a".to_string()]),
    };
    let term = NodeSelectorTerm { match_expressions: Some(vec![requirement]), match_fields: None };
    Affinity {
        anti_affinity_enabled: Some(true),
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(NodeSelector { node_selector_terms: vec![term] }),
            preferred_during_scheduling_ignored_during_execution: None,
        }),
        pod_anti_affinity: Some(PodAntiAffinity {
            required_during_scheduling_ignored_during_execution: Some(vec![PodAffinityTerm {
                label_selector: Some(LabelSelector {
                    match_labels: Some(map("app", "ledger")),
                    match_expressions: None,
                }),
                topology_key: "kubernetes.io/hostname".to_string(),
                ..PodAffinityTerm::default()
            }]),
            preferred_during_scheduling_ignored_during_execution: None,
        }),
    }
}

fn budget() -> DisruptionBudget {
    DisruptionBudget {
        max_unavailable: Some(IntOrString::Int(1)),
        min_available: Some(IntOrString::String("50%".to_string())),
    }
}

fn certificate() -> CertificateStatus {
    CertificateStatus {
        issuer: "CN=stamp".to_string(),
        subject: "CN=ledger".to_string(),
        not_before: Some(time()),
        not_after: Some(time()),
    }
}

#[test]
fn a_mariadb() {
    let mut mariadb = MariaDB::new(
        "ledger",
        MariaDBSpec {
            replicas: Some(3),
            image: Some("docker-registry1.mariadb.com/library/mariadb:11.8".to_string()),
            galera: Some(Galera {
                enabled: true,
                primary: Some(GaleraPrimary { auto_failover: Some(true) }),
                recovery: Some(GaleraRecovery { enabled: true, min_cluster_size: Some(IntOrString::Int(1)) }),
            }),
            root_password_secret_key_ref: Some(GeneratedSecretKey {
                name: "ledger-root".to_string(),
                key: "password".to_string(),
                generate: Some(true),
            }),
            storage: Some(Storage {
                size: Some(quantity("100Gi")),
                storage_class_name: Some("ceph-rbd".to_string()),
                ephemeral: Some(false),
                pvc_retention_policy: Some(PvcRetentionPolicy {
                    when_deleted: Some(PvcRetention::Delete),
                    when_scaled: Some(PvcRetention::Retain),
                }),
            }),
            my_cnf: Some("[mariadb]\nmax_connections=4096\n".to_string()),
            port: Some(3306),
            tls: Some(MariaDBTls {
                enabled: true,
                required: Some(true),
                server_cert_issuer_ref: Some(issuer()),
                server_cert_secret_ref: Some(NamedRef::new("ledger-server-cert")),
                server_ca_secret_ref: Some(NamedRef::new("ledger-ca")),
                client_cert_issuer_ref: Some(issuer()),
                client_cert_secret_ref: Some(NamedRef::new("ledger-client-cert")),
                client_ca_secret_ref: Some(NamedRef::new("ledger-ca")),
                galera_sst_enabled: Some(true),
            }),
            max_scale_ref: Some(MaxScaleRef { name: "usher".to_string(), namespace: Some("vault".to_string()) }),
            metrics: Some(Toggle { enabled: true }),
            resources: Some(resources()),
            node_selector: map("role", "database"),
            affinity: Some(affinity()),
            tolerations: vec![toleration()],
            priority_class_name: Some("system-cluster-critical".to_string()),
            pod_disruption_budget: Some(budget()),
            primary_service: Some(Service { r#type: Some(ServiceType::ClusterIp) }),
            cleanup_policy: Some(CleanupPolicy::Skip),
            suspend: Some(false),
            bootstrap_from: Some(json!({"backupRef": {"name": "nightly"}})),
        },
    );
    mariadb.status = Some(MariaDBStatus {
        conditions: vec![condition("Ready", Some(1))],
        current_primary: Some("ledger-0".to_string()),
        current_primary_pod_index: Some(0),
        replicas: Some(3),
        tls: Some(MariaDBTlsStatus { server_cert: Some(certificate()), client_cert: Some(certificate()) }),
    });
    accepts_namespaced(&mariadb);
}

#[test]
fn a_database() {
    let mut database = Database::new(
        "nova-api",
        DatabaseSpec {
            maria_db_ref: mariadb_ref(),
            name: Some("nova_api".to_string()),
            character_set: Some(DatabaseSpec::CHARACTER_SET.to_string()),
            collate: Some(DatabaseSpec::COLLATE.to_string()),
            cleanup_policy: Some(CleanupPolicy::Skip),
            requeue_interval: Some("30s".to_string()),
            retry_interval: Some("5s".to_string()),
        },
    );
    database.status = Some(Conditions { conditions: vec![condition("Ready", Some(1))] });
    accepts_namespaced(&database);
}

#[test]
fn a_user() {
    let mut user = User::new(
        "nova",
        UserSpec {
            maria_db_ref: mariadb_ref(),
            name: Some("nova".to_string()),
            host: Some("%".to_string()),
            password_secret_key_ref: Some(SecretKey::new("nova-db-credentials", "password")),
            max_user_connections: UserSpec::MANY_CONNECTIONS,
            require: Some(Require { ssl: Some(true), x509: Some(true) }),
            cleanup_policy: Some(CleanupPolicy::Delete),
            requeue_interval: Some("30s".to_string()),
            retry_interval: Some("5s".to_string()),
        },
    );
    user.status = Some(Conditions { conditions: vec![condition("Ready", Some(1))] });
    accepts_namespaced(&user);
}

#[test]
fn a_grant() {
    let mut grant = Grant::new(
        "nova",
        GrantSpec {
            maria_db_ref: mariadb_ref(),
            username: "nova".to_string(),
            host: Some("%".to_string()),
            privileges: vec!["ALL PRIVILEGES".to_string()],
            database: Some("nova_api".to_string()),
            table: Some("*".to_string()),
            grant_option: Some(false),
            cleanup_policy: Some(CleanupPolicy::Delete),
            requeue_interval: Some("30s".to_string()),
            retry_interval: Some("5s".to_string()),
        },
    );
    grant.status = Some(GrantStatus {
        conditions: vec![condition("Ready", Some(1))],
        current_privileges: vec!["ALL PRIVILEGES".to_string()],
    });
    accepts_namespaced(&grant);
}

#[test]
fn a_maxscale() {
    let mut maxscale = MaxScale::new(
        "usher",
        MaxScaleSpec {
            maria_db_ref: Some(mariadb_ref()),
            replicas: Some(2),
            image: Some("docker-registry2.mariadb.com/mariadb/maxscale:23.08.5".to_string()),
            services: vec![MaxScaleService {
                name: "rw-router".to_string(),
                router: Router::ReadWriteSplit,
                listener: Listener { port: 3306, protocol: Some("MariaDBProtocol".to_string()) },
                params: map("transaction_replay", "true"),
            }],
            monitor: Some(MaxScaleMonitor {
                module: Some("galeramon".to_string()),
                interval: Some("2s".to_string()),
                cooperative_monitoring: Some(Monitoring::MajorityOfAll),
                params: map("disable_master_failback", "false"),
            }),
            auth: Some(MaxScaleAuth {
                generate: Some(true),
                client_max_connections: Some(4096),
                server_max_connections: Some(4096),
            }),
            admin: Some(MaxScaleAdmin { port: Some(8989), gui_enabled: Some(false) }),
            tls: Some(MaxScaleTls {
                enabled: true,
                listener_cert_issuer_ref: Some(issuer()),
                admin_cert_issuer_ref: Some(issuer()),
                verify_peer_certificate: Some(true),
            }),
            kubernetes_service: Some(Service { r#type: Some(ServiceType::LoadBalancer) }),
            metrics: Some(Toggle { enabled: true }),
            resources: Some(resources()),
            node_selector: map("role", "database"),
            affinity: Some(affinity()),
            tolerations: vec![toleration()],
            pod_disruption_budget: Some(budget()),
            suspend: Some(false),
        },
    );
    maxscale.status = Some(MaxScaleStatus {
        conditions: vec![condition("Ready", Some(1))],
        primary_server: Some("ledger-0".to_string()),
        replicas: Some(2),
        servers: vec![NamedState { name: "ledger-0".to_string(), state: "Master, Running".to_string() }],
    });
    accepts_namespaced(&maxscale);
}

fn backed_up() -> BackedUpRef {
    BackedUpRef {
        name: "ledger".to_string(),
        namespace: Some("vault".to_string()),
        kind: Some("MariaDB".to_string()),
        wait_for_it: Some(true),
    }
}

fn backup_pods() -> BackupPods {
    BackupPods {
        backoff_limit: Some(3),
        restart_policy: Some(RestartPolicy::Never),
        log_level: Some("debug".to_string()),
        resources: Some(resources()),
        node_selector: map("disk", "large"),
        tolerations: vec![toleration()],
        priority_class_name: Some("low".to_string()),
    }
}

#[test]
fn a_backup() {
    let labels = LabelSelector { match_labels: Some(map("disk", "large")), match_expressions: None };
    let size = k8s_openapi::apimachinery::pkg::api::resource::Quantity("2Gi".to_string());
    let claim = BackupClaim {
        access_modes: vec!["ReadWriteOnce".to_string()],
        resources: Some(VolumeResourceRequirements {
            requests: Some(BTreeMap::from([("storage".to_string(), size)])),
            limits: None,
        }),
        selector: Some(labels),
        storage_class_name: Some("slow".to_string()),
    };
    let mut backup = Backup::new(
        "nightly",
        BackupSpec {
            maria_db_ref: backed_up(),
            storage: BackupStorage { persistent_volume_claim: Some(claim), volume: None, s3: None },
            schedule: Some(BackupSchedule { cron: "0 3 * * *".to_string(), suspend: Some(false) }),
            time_zone: Some("Europe/Berlin".to_string()),
            max_retention: Some("720h".to_string()),
            databases: vec!["accounts".to_string()],
            ignore_global_priv: Some(false),
            compression: Some(Compression::Gzip),
            pods: backup_pods(),
            successful_jobs_history_limit: Some(1),
            failed_jobs_history_limit: Some(2),
            others: BTreeMap::new(),
        },
    );
    backup.status = Some(Conditions { conditions: vec![condition("Complete", None)] });
    accepts_namespaced(&backup);
    let nfs = json!({"nfs": {"server": "attic.example", "path": "/dumps"}});
    backup.spec.storage = BackupStorage { persistent_volume_claim: None, volume: Some(nfs), s3: None };
    accepts_namespaced(&backup);
    let bucket = json!({"bucket": "dumps", "endpoint": "attic.example:9000"});
    backup.spec.storage = BackupStorage { persistent_volume_claim: None, volume: None, s3: Some(bucket) };
    accepts_namespaced(&backup);
}

#[test]
fn a_restore() {
    let mut restore = Restore::new(
        "back",
        RestoreSpec {
            maria_db_ref: backed_up(),
            backup_ref: Some(NamedRef::new("nightly")),
            volume: Some(json!({"persistentVolumeClaim": {"claimName": "nightly"}})),
            database: Some("accounts".to_string()),
            target_recovery_time: Some("2026-01-31T12:00:00Z".to_string()),
            pods: backup_pods(),
            others: BTreeMap::new(),
        },
    );
    restore.status = Some(Conditions { conditions: vec![condition("Complete", None)] });
    accepts_namespaced(&restore);
}

#[test]
fn what_the_constructors_make_is_accepted() {
    let password = SecretKey::new("nova-db-credentials", "password");
    accepts(&Database::new("nova", DatabaseSpec::new(MariaDbRef::new("ledger"), "nova")));
    accepts(&User::new("nova", UserSpec::new(MariaDbRef::new("ledger"), "nova", password)));
    accepts(&Grant::new("nova", GrantSpec::all(MariaDbRef::new("ledger"), "nova", "nova")));
}

/// The documents show it; the operator dropped it. This is why the slice does not have it.
#[test]
fn an_inline_maxscale_would_be_pruned() {
    if !compared_with_genuine("whether mariadb-operator has an inline MaxScale again") {
        return;
    }
    let genuine = Genuine::find("k8s.mariadb.com", "mariadbs").expect("a genuine MariaDB");
    let schema = Schema::compile(genuine.schema("v1alpha1").expect("our version")).expect("a genuine schema compiles");
    let seed =
        json!({"spec": {"replicas": 3, "galera": {"enabled": true}, "maxScale": {"enabled": true, "replicas": 2}}});
    let unknown = schema.unknown_fields(&seed);
    assert_eq!(unknown.iter().map(|p| p.path.as_str()).collect::<Vec<_>>(), ["spec.maxScale"]);
}
