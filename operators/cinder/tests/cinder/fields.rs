//! Every field of a Cinder: whether a change of it takes effect, or is refused with a reason.

use c5c3_stage::Becomes::{Effect, Refused};
use c5c3_stage::{Row, SIGNS_IN, common_at, everything, outcome, secret};

use crate::plans::{World, world};

const IMAGE: &str = r#"{"image": {"repository": "ghcr.io/c5c3/cinder", "tag": "27.0.0"}}"#;
const TLS: &str = r#"{"tls": {"enabled": true, "issuerRef": {"name": "ca"}}}"#;
const BUS_TLS: &str = r#"{"messaging": {"tls": {"caSecretRef": {"name": "mariadb-ca"}}}}"#;
const BACKUP: &str = r#"{"backup": {"cephSecretRef": {"name": "cinder-ceph-credentials"}}}"#;
const POLICY: &str = r#"{"policyOverrides": {"rules": {"volume:create": "role:admin"}}}"#;
const CEPH: &str = r#"{"backends": [{"name": "fast", "rbd": {"cephSecretRef": {"name": "cinder-ceph-credentials"}}}]}"#;
const TWO: &str = r#"{"backends": [{"name": "fast", "rbd": {"cephSecretRef": {"name": "cinder-ceph-credentials"}}},
    {"name": "vendor", "driver": "cinder.volume.drivers.vendor.Driver"}]}"#;
const BINDING: &str = r#"{"coordination": {"secretRef": {"name": "valkey-valkey-binding"}}}"#;

const FIELDS: &[Row] = &[
    ("image.repository", IMAGE, r#"{"image": {"repository": "mirror.example.net/cinder"}}"#, Effect),
    ("image.tag", IMAGE, r#"{"image": {"tag": "27.0.1"}}"#, Effect),
    (
        "image.digest",
        IMAGE,
        r#"{"image": {"tag": null, "digest": "sha256:0000000000000000000000000000000000000000000000000000000000000000"}}"#,
        Effect,
    ),
    ("publicEndpoint", TLS, r#"{"publicEndpoint": "https://192.0.2.7:8776"}"#, Effect),
    ("policyOverrides.rules", POLICY, r#"{"policyOverrides": {"rules": {"volume:create": "role:auditor"}}}"#, Effect),
    (
        "policyOverrides.configMapRef.name",
        "{}",
        r#"{"policyOverrides": {"configMapRef": {"name": "cinder-policy"}}}"#,
        Effect,
    ),
    ("extraConfig", "{}", r#"{"extraConfig": {"DEFAULT": {"max_over_subscription_ratio": "2.0"}}}"#, Effect),
    (
        "middleware",
        "{}",
        r#"{"middleware": [{"name": "audit", "filterFactory": "a:b", "position": {"after": "authtoken"}}]}"#,
        Effect,
    ),
    (
        "plugins",
        "{}",
        r#"{"plugins": [{"name": "vendor", "configSection": "vendor_box", "config": {"speed": "high"}}]}"#,
        Effect,
    ),
    ("messaging.clusterRef.name", "{}", r#"{"messaging": {"clusterRef": {"name": "other"}}}"#, Effect),
    (
        "messaging.clusterRef.namespace",
        r#"{"messaging": {"clusterRef": {"name": "rabbitmq"}}}"#,
        r#"{"messaging": {"clusterRef": {"namespace": "data"}}}"#,
        Effect,
    ),
    ("messaging.hosts", "{}", r#"{"messaging": {"hosts": ["mq.example.net:5672"]}}"#, Effect),
    ("messaging.secretRef.name", "{}", r#"{"messaging": {"secretRef": {"name": "other-account"}}}"#, Effect),
    (
        "messaging.tls.caSecretRef.name",
        BUS_TLS,
        r#"{"messaging": {"tls": {"caSecretRef": {"name": "other-ca"}}}}"#,
        Effect,
    ),
    (
        "messaging.tls.caSecretRef.key",
        BUS_TLS,
        r#"{"messaging": {"tls": {"caSecretRef": {"key": "bundle.pem"}}}}"#,
        Effect,
    ),
    (
        "backends",
        CEPH,
        r#"{"backends": [{"name": "slow", "rbd": {"pool": "hdd", "cephSecretRef": {"name": "cinder-ceph-credentials"}}}]}"#,
        Effect,
    ),
    ("defaultVolumeType", TWO, r#"{"defaultVolumeType": "vendor"}"#, Effect),
    ("replicas.api", "{}", r#"{"replicas": {"api": 5}}"#, Effect),
    ("replicas.scheduler", "{}", r#"{"replicas": {"scheduler": 5}}"#, Effect),
    ("replicas.volume", CEPH, r#"{"replicas": {"volume": 0}}"#, Effect),
    (
        "messaging.secretRef.key",
        r#"{"messaging": {"secretRef": {"name": "other-account"}}}"#,
        r#"{"messaging": {"secretRef": {"key": "second"}}}"#,
        Refused("keys username and password"),
    ),
    ("scratchSize", CEPH, r#"{"scratchSize": "200Gi"}"#, Effect),
    ("coordination.secretRef.name", BINDING, r#"{"coordination": {"secretRef": {"name": "other-binding"}}}"#, Effect),
    ("backup.replicas", BACKUP, r#"{"backup": {"replicas": 3}}"#, Effect),
    ("backup.resources.requests", BACKUP, r#"{"backup": {"resources": {"requests": {"cpu": "1"}}}}"#, Effect),
    ("backup.resources.limits", BACKUP, r#"{"backup": {"resources": {"limits": {"memory": "1Gi"}}}}"#, Effect),
    ("backup.pool", BACKUP, r#"{"backup": {"pool": "copies"}}"#, Effect),
    ("backup.user", BACKUP, r#"{"backup": {"user": "copier"}}"#, Effect),
    ("backup.cephSecretRef.name", BACKUP, r#"{"backup": {"cephSecretRef": {"name": "other-ceph"}}}"#, Effect),
    ("backup.cephSecretRef.key", BACKUP, r#"{"backup": {"cephSecretRef": {"key": "second"}}}"#, Effect),
];

/// The fields of a workload that are about where its pods are.
const SCHEDULING: &[(&str, &str)] = &[
    ("nodeSelector", r#"{"a": "b"}"#),
    ("tolerations", r#"[{"operator": "Exists"}]"#),
    (
        "affinity",
        r#"{"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}"#,
    ),
    ("topologySpreadConstraints", r#"[{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]"#),
    ("priorityClassName", r#""high""#),
];

/// The fields of a component's pods.
fn workload(component: &str, before: &'static str) -> Vec<Row> {
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let row = |field: &str, change: String| (leak(format!("{component}.{field}")), before, leak(change), Effect);
    let mut rows: Vec<Row> = SCHEDULING
        .iter()
        .map(|(name, value)| {
            let change = format!(r#"{{"{component}": {{"scheduling": {{"{name}": {value}}}}}}}"#);
            row(&format!("scheduling.{name}"), change)
        })
        .collect();
    if component != "backup" {
        rows.push(row(
            "resources.requests",
            format!(r#"{{"{component}": {{"resources": {{"requests": {{"cpu": "1"}}}}}}}}"#),
        ));
        rows.push(row(
            "resources.limits",
            format!(r#"{{"{component}": {{"resources": {{"limits": {{"cpu": "1"}}}}}}}}"#),
        ));
        rows.push(row("replicas", format!(r#"{{"{component}": {{"replicas": 0}}}}"#)));
    }
    rows
}

/// A world in which every field can have its effect.
fn all() -> World {
    let ceph = [("key", "AQB"), ("second", "AQC"), ("monitors", "192.0.2.9:3300")];
    let binding = [("password", "other"), ("primaryHost", "valkey-primary"), ("primaryPort", "6379")];
    let mut world = everything(world())
        .with(secret("other-ceph", &[("key", "AQD"), ("monitors", "192.0.2.8:3300")]))
        .with(secret("cinder-ceph-credentials", &ceph))
        .with(secret("other-binding", &binding));

    let is_it = |one: &&serde_json::Value| one["kind"] == "RabbitmqCluster";
    let mut other = world.objects.iter().find(is_it).unwrap().clone();
    other["metadata"]["name"] = "other".into();
    world.objects.push(other);
    world
}

#[test]
fn a_change_of_any_field_takes_effect_or_is_refused_with_a_reason_and_no_field_is_left_out() {
    let mut rows = [common_at("api"), SIGNS_IN.to_vec(), FIELDS.to_vec()].concat();
    rows.extend(
        [("scheduler", "{}"), ("volume", CEPH), ("backup", BACKUP)]
            .iter()
            .flat_map(|(name, before)| workload(name, before)),
    );
    let wrong = outcome(&all(), &rows);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
