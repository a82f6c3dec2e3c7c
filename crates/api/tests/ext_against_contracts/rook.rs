use c5c3_api::ext::rook::*;
use serde_json::json;

use crate::*;

fn claim() -> ClaimTemplate {
    let spec = json!({"storageClassName": "swift", "resources": {"requests": {"storage": "5Gi"}}});
    ClaimTemplate { spec: Some(serde_json::from_value(spec).unwrap()) }
}

#[test]
fn a_ceph_cluster() {
    let text = |text: &str| Some(text.to_string());
    let mut cluster = CephCluster::new(
        "pottery",
        CephClusterSpec {
            ceph_version: Some(CephVersionImage { image: text("press.example/ceph:1"), allow_unsupported: Some(true) }),
            data_dir_host_path: text("/var/lib/rook"),
            mon: Some(CephMons {
                count: Some(3),
                allow_multiple_per_node: Some(true),
                volume_claim_template: Some(claim()),
                external_mon_ids: Some(vec!["ext-a".to_string()]),
                stretch_cluster: Some(json!({"zones": [{"name": "a"}, {"name": "b"}, {"name": "c", "arbiter": true}]})),
            }),
            mgr: Some(CephMgrs { count: Some(1), allow_multiple_per_node: Some(true) }),
            storage: Some(CephStorage {
                use_all_nodes: Some(false),
                use_all_devices: Some(false),
                device_filter: text("^sd."),
                nodes: Some(vec![json!({"name": "oak"})]),
                storage_class_device_sets: vec![CephDeviceSet {
                    name: "kiln".to_string(),
                    count: 1,
                    portable: Some(true),
                    encrypted: Some(false),
                    resources: Some(resources()),
                    volume_claim_templates: vec![claim()],
                }],
            }),
            ceph_config: [("osd".to_string(), map("osd_op_num_shards", "2"))].into(),
            resources: [("mon".to_string(), resources())].into(),
            cleanup_policy: Some(CleanupPolicy { confirmation: text("yes-really-destroy-data") }),
            external: Some(External { enable: Some(false) }),
            network: Some(json!({"provider": "host"})),
        },
    );
    cluster.status = Some(CephClusterStatus {
        phase: text("Ready"),
        state: text("Created"),
        message: text("Cluster created successfully"),
        observed_generation: Some(1),
        conditions: vec![condition("Ready", None)],
        ceph: Some(CephClusterHealth {
            health: text("HEALTH_WARN"),
            previous_health: text("HEALTH_OK"),
            details: [(
                "OSD_DOWN".to_string(),
                CephHealthMessage { message: "1 osds down".to_string(), severity: "HEALTH_WARN".to_string() },
            )]
            .into(),
            last_checked: text("2026-01-01T00:00:00Z"),
            last_changed: text("2026-01-01T00:00:00Z"),
            fsid: text("0b5c"),
            capacity: Some(CephCapacity {
                bytes_total: Some(10),
                bytes_used: Some(1),
                bytes_available: Some(9),
                last_updated: text("2026-01-01T00:00:00Z"),
            }),
        }),
        version: Some(CephClusterVersion { image: text("press.example/ceph:1"), version: text("18.2.7-0") }),
        storage: Some(CephStorageStatus { device_classes: vec![CephDeviceClass { name: text("ssd") }] }),
    });
    accepts_namespaced(&cluster);
}

#[test]
fn a_ceph_block_pool() {
    let text = |text: &str| Some(text.to_string());
    let mut pool = CephBlockPool::new(
        "bricks",
        CephBlockPoolSpec {
            // The name is one of a few that cannot be those of objects.
            name: text(".mgr"),
            failure_domain: text("host"),
            device_class: text("ssd"),
            application: text("rbd"),
            replicated: Some(Replicated { size: 3, require_safe_replica_size: Some(true) }),
            erasure_coded: Some(json!({"dataChunks": 0, "codingChunks": 0})),
            parameters: map("pg_num", "8"),
            quotas: Some(PoolQuotas { max_size: text("10Gi"), max_bytes: Some(5), max_objects: Some(7) }),
            mirroring: Some(PoolMirroring { enabled: Some(false) }),
        },
    );
    pool.status = Some(CephBlockPoolStatus {
        phase: text("Ready"),
        observed_generation: Some(1),
        pool_id: Some(2),
        info: map("type", "Replicated"),
        conditions: vec![condition("Ready", None)],
    });
    accepts_namespaced(&pool);
}

#[test]
fn a_ceph_client() {
    let mut client = CephClient::new(
        "potter",
        CephClientSpec {
            caps: map("osd", "profile rbd pool=volumes, profile rbd pool=images"),
            name: Some("potter".to_string()),
            secret_name: Some("potter-key".to_string()),
            remove_secret: Some(false),
            security: Some(CephClientSecurity {
                cephx: Some(Cephx {
                    key_rotation_policy: Some(KeyRotationPolicy::KeyGeneration),
                    key_generation: Some(2),
                    key_type: Some(CephxKeyType::Aes256k),
                }),
            }),
        },
    );
    client.status = Some(CephClientStatus {
        phase: Some("Ready".to_string()),
        observed_generation: Some(1),
        info: map("secretName", "potter-key"),
        cephx: Some(CephxStatus {
            key_generation: Some(2),
            key_type: Some("aes256k".to_string()),
            key_ceph_version: Some("20.2.0-0".to_string()),
        }),
    });
    accepts_namespaced(&client);
}
