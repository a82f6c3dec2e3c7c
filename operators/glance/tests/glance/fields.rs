//! Every field of a Glance: whether a change of it takes effect, or is refused with a reason.

use c5c3_stage::Becomes::{Effect, Refused};
use c5c3_stage::{COMMON, Row, SIGNS_IN, everything, outcome, secret};

use crate::plans::{World, world};

const POLICY: &str = r#"{"policyOverrides": {"rules": {"publicize_image": "role:admin"}}}"#;
const RBD: &str = r#"{"storage": {"rbd": {"cephSecretRef": {"name": "glance-ceph-credentials"}}}}"#;
const FILE: &str = r#"{"replicas": 1, "storage": {"backend": "file", "file": {}}}"#;
const S3: &str = r#"{"storage": {"backend": "s3", "s3": {"endpoint": "https://s3.example.net", "bucket": "images", "secretRef": {"name": "glance-s3"}}}}"#;
const IMAGE: &str = r#"{"image": {"repository": "ghcr.io/c5c3/glance", "tag": "31.0.0"}}"#;

const FIELDS: &[Row] = &[
    ("image.repository", IMAGE, r#"{"image": {"repository": "mirror.example.net/glance"}}"#, Effect),
    ("image.tag", IMAGE, r#"{"image": {"tag": "31.0.1"}}"#, Effect),
    (
        "image.digest",
        IMAGE,
        r#"{"image": {"tag": null, "digest": "sha256:0000000000000000000000000000000000000000000000000000000000000000"}}"#,
        Effect,
    ),
    ("publicEndpoint", TLS, r#"{"publicEndpoint": "https://192.0.2.7:9292"}"#, Effect),
    ("policyOverrides.rules", POLICY, r#"{"policyOverrides": {"rules": {"publicize_image": "role:auditor"}}}"#, Effect),
    (
        "policyOverrides.configMapRef.name",
        "{}",
        r#"{"policyOverrides": {"configMapRef": {"name": "glance-policy"}}}"#,
        Effect,
    ),
    ("extraConfig", "{}", r#"{"extraConfig": {"DEFAULT": {"image_size_cap": "1000"}}}"#, Effect),
    (
        "plugins",
        "{}",
        r#"{"plugins": [{"name": "convert", "configSection": "image_conversion", "config": {"output_format": "raw"}}]}"#,
        Effect,
    ),
    (
        "middleware",
        "{}",
        r#"{"middleware": [{"name": "audit", "filterFactory": "a:b", "position": {"after": "authtoken"}}]}"#,
        Effect,
    ),
    ("storage.backend", "{}", r#"{"replicas": 1, "storage": {"backend": "file"}}"#, Effect),
    ("storage.rbd.pool", RBD, r#"{"storage": {"rbd": {"pool": "pictures"}}}"#, Effect),
    ("storage.rbd.user", RBD, r#"{"storage": {"rbd": {"user": "painter"}}}"#, Effect),
    (
        "storage.rbd.cephSecretRef.name",
        RBD,
        r#"{"storage": {"rbd": {"cephSecretRef": {"name": "other-ceph"}}}}"#,
        Effect,
    ),
    ("storage.rbd.cephSecretRef.key", RBD, r#"{"storage": {"rbd": {"cephSecretRef": {"key": "userKey"}}}}"#, Effect),
    ("storage.rbd.cephClientRef.name", RBD, r#"{"storage": {"rbd": {"cephClientRef": {"name": "painter"}}}}"#, Effect),
    (
        "storage.rbd.cephClientRef.namespace",
        r#"{"storage": {"rbd": {"cephSecretRef": {"name": "not-there"}, "cephClientRef": {"name": "glance"}}}}"#,
        r#"{"storage": {"rbd": {"cephClientRef": {"namespace": "rook-ceph"}}}}"#,
        Effect,
    ),
    ("storage.file.size", FILE, r#"{"storage": {"file": {"size": "30Gi"}}}"#, Effect),
    (
        "storage.file.storageClass",
        FILE,
        r#"{"storage": {"file": {"storageClass": "fast"}}}"#,
        Refused("changes the storage class"),
    ),
    (
        "storage.file.accessMode",
        FILE,
        r#"{"storage": {"file": {"accessMode": "ReadWriteMany"}}}"#,
        Refused("cannot be changed"),
    ),
    ("storage.s3.endpoint", S3, r#"{"storage": {"s3": {"endpoint": "http://other.example.net"}}}"#, Effect),
    ("storage.s3.bucket", S3, r#"{"storage": {"s3": {"bucket": "pictures"}}}"#, Effect),
    ("storage.s3.secretRef.name", S3, r#"{"storage": {"s3": {"secretRef": {"name": "other-s3"}}}}"#, Effect),
    ("storage.s3.region", S3, r#"{"storage": {"s3": {"region": "north"}}}"#, Effect),
    ("storage.stores", FILE, r#"{"storage": {"stores": [{"name": "fast", "file": {}}]}}"#, Effect),
    ("storage.cache.size", RBD, r#"{"storage": {"cache": {"size": "10Gi"}}}"#, Effect),
    ("storage.stagingSize", RBD, r#"{"storage": {"stagingSize": "50Gi"}}"#, Effect),
];

const TLS: &str = r#"{"tls": {"enabled": true, "issuerRef": {"name": "ca"}}}"#;

/// A world in which every field can have its effect.
fn all() -> World {
    let ceph = [("key", "AQOther=="), ("userKey", "AQThird=="), ("monitors", "192.0.2.2")];
    everything(world())
        .with(secret("other-ceph", &ceph))
        .with(secret(
            "glance-ceph-credentials",
            &[("key", "AQ=="), ("userKey", "AQThird=="), ("monitors", "192.0.2.1")],
        ))
        .with(secret("other-s3", &[("AccessKey", "a"), ("SecretKey", "b")]))
}

#[test]
fn a_change_of_any_field_takes_effect_or_is_refused_with_a_reason_and_no_field_is_left_out() {
    let wrong = outcome(&all(), &[COMMON, SIGNS_IN, FIELDS].concat());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
