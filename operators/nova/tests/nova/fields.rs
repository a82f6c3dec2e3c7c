//! Every field of a Nova: whether a change of it takes effect, or is refused with a reason.

use c5c3_stage::Becomes::{Effect, Refused};
use c5c3_stage::{Row, SIGNS_IN, common_at, everything, outcome, secret};

use crate::plans::{World, world};

const IMAGE: &str = r#"{"image": {"repository": "ghcr.io/c5c3/nova", "tag": "32.0.0"}}"#;
const TLS: &str = r#"{"tls": {"enabled": true, "issuerRef": {"name": "ca"}}}"#;
const BUS_TLS: &str = r#"{"messaging": {"tls": {"caSecretRef": {"name": "mariadb-ca"}}}}"#;
const POLICY: &str = r#"{"policyOverrides": {"rules": {"os_compute_api:servers:create": "role:admin"}}}"#;
const CEPH: &str = r#"{"storage": {"rbd": {"cephSecretRef": {"name": "nova-ceph-credentials"}}}}"#;
const OLD_CEPH: &str = r#"{"storage": {"cephSecretRef": {"name": "nova-ceph-credentials"}}}"#;
const NO_KEY: &str =
    r#"{"storage": {"rbd": {"cephSecretRef": {"name": "nowhere"}, "cephClientRef": {"name": "keeper"}}}}"#;
const CORTEX: &str = r#"{"scheduler": {"externalScheduler": {"enabled": true}}}"#;
const CORTEX_TOKEN: &str =
    r#"{"scheduler": {"externalScheduler": {"enabled": true, "tokenSecretRef": {"name": "pass"}}}}"#;
const CORTEX_CA: &str = r#"{"scheduler": {"externalScheduler": {"enabled": true, "caSecretRef": {"name": "notary"}}}}"#;
const API: &str = r#"{"apiDatabase": {"secretRef": {"name": "nova-api-db-credentials"}}}"#;
const API_TLS: &str =
    r#"{"apiDatabase": {"tls": {"caSecretRef": {"name": "mariadb-ca"}, "clientSecretRef": {"name": "db-client"}}}}"#;
const EXTERNAL: &str = r#"{"apiDatabase": {"host": "db.example.net"}}"#;

const CONSOLE: &str = r#"{"console": {}}"#;
const ROUTED: &str = r#"{"console": {"gateway": {"parentRef": {"name": "g"}, "hostname": "console.example.net"}}}"#;

const FIELDS: &[Row] = &[
    ("image.repository", IMAGE, r#"{"image": {"repository": "mirror.example.net/nova"}}"#, Effect),
    ("image.tag", IMAGE, r#"{"image": {"tag": "32.1.0"}}"#, Effect),
    (
        "image.digest",
        IMAGE,
        r#"{"image": {"tag": null, "digest": "sha256:0000000000000000000000000000000000000000000000000000000000000000"}}"#,
        Effect,
    ),
    ("publicEndpoint", TLS, r#"{"publicEndpoint": "https://192.0.2.7:8774"}"#, Effect),
    (
        "policyOverrides.rules",
        POLICY,
        r#"{"policyOverrides": {"rules": {"os_compute_api:servers:create": "role:auditor"}}}"#,
        Effect,
    ),
    (
        "policyOverrides.configMapRef.name",
        "{}",
        r#"{"policyOverrides": {"configMapRef": {"name": "nova-policy"}}}"#,
        Effect,
    ),
    ("extraConfig", "{}", r#"{"extraConfig": {"DEFAULT": {"cpu_allocation_ratio": "4.0"}}}"#, Effect),
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
        "messaging.secretRef.key",
        r#"{"messaging": {"secretRef": {"name": "other-account"}}}"#,
        r#"{"messaging": {"secretRef": {"key": "second"}}}"#,
        Refused("keys username and password"),
    ),
    ("database.apiDatabase", "{}", r#"{"database": {"apiDatabase": "flavors"}}"#, Refused("API database's name")),
    (
        "database.cellDatabase",
        r#"{"database": {"cellDatabase": "limbo"}}"#,
        r#"{"database": {"cellDatabase": "nowhere"}}"#,
        Refused("changes cellDatabase"),
    ),
    ("apiDatabase.secretRef.name", API, r#"{"apiDatabase": {"secretRef": {"name": "other-account"}}}"#, Effect),
    ("apiDatabase.secretRef.key", API, r#"{"apiDatabase": {"secretRef": {"key": "second"}}}"#, Effect),
    ("apiDatabase.clusterRef.name", API, r#"{"apiDatabase": {"clusterRef": {"name": "other"}}}"#, Effect),
    (
        "apiDatabase.clusterRef.namespace",
        r#"{"apiDatabase": {"clusterRef": {"name": "mariadb"}}}"#,
        r#"{"apiDatabase": {"clusterRef": {"namespace": "data"}}}"#,
        Effect,
    ),
    ("apiDatabase.host", API, r#"{"apiDatabase": {"host": "db.example.net"}}"#, Effect),
    ("apiDatabase.port", EXTERNAL, r#"{"apiDatabase": {"port": 3307}}"#, Effect),
    ("apiDatabase.database", API, r#"{"apiDatabase": {"database": "flavors"}}"#, Refused("API database's name")),
    ("apiDatabase.name", API, r#"{"apiDatabase": {"name": "flavors"}}"#, Refused("API database's name")),
    (
        "apiDatabase.tls.caSecretRef.name",
        API_TLS,
        r#"{"apiDatabase": {"tls": {"caSecretRef": {"name": "other-ca"}}}}"#,
        Effect,
    ),
    (
        "apiDatabase.tls.caSecretRef.key",
        API_TLS,
        r#"{"apiDatabase": {"tls": {"caSecretRef": {"key": "bundle.pem"}}}}"#,
        Effect,
    ),
    (
        "apiDatabase.tls.clientSecretRef.name",
        API_TLS,
        r#"{"apiDatabase": {"tls": {"clientSecretRef": {"name": "other-client"}}}}"#,
        Effect,
    ),
    (
        "apiDatabase.tls.clientSecretRef.key",
        API_TLS,
        r#"{"apiDatabase": {"tls": {"clientSecretRef": {"key": "tls.crt"}}}}"#,
        Refused("spec.apiDatabase.tls.clientSecretRef.key"),
    ),
    ("console.publicEndpoint", CONSOLE, r#"{"console": {"publicEndpoint": "http://192.0.2.7:6080"}}"#, Effect),
    ("console.gateway.parentRef.name", ROUTED, r#"{"console": {"gateway": {"parentRef": {"name": "h"}}}}"#, Effect),
    (
        "console.gateway.parentRef.namespace",
        ROUTED,
        r#"{"console": {"gateway": {"parentRef": {"namespace": "edge"}}}}"#,
        Effect,
    ),
    (
        "console.gateway.parentRef.sectionName",
        ROUTED,
        r#"{"console": {"gateway": {"parentRef": {"sectionName": "https"}}}}"#,
        Effect,
    ),
    ("console.gateway.hostname", ROUTED, r#"{"console": {"gateway": {"hostname": "other.example.net"}}}"#, Effect),
    ("console.gateway.path", ROUTED, r#"{"console": {"gateway": {"path": "/screens"}}}"#, Effect),
    ("cells", "{}", r#"{"cells": [{"name": "cell1"}, {"name": "cell2"}]}"#, Effect),
    ("storage.backend", CEPH, r#"{"storage": {"backend": "local", "rbd": null}}"#, Effect),
    ("storage.rbd.pool", CEPH, r#"{"storage": {"rbd": {"pool": "disks"}}}"#, Effect),
    ("storage.rbd.user", CEPH, r#"{"storage": {"rbd": {"user": "keeper"}}}"#, Effect),
    (
        "storage.rbd.cephSecretRef.name",
        CEPH,
        r#"{"storage": {"rbd": {"cephSecretRef": {"name": "other-ceph"}}}}"#,
        Effect,
    ),
    ("storage.rbd.cephSecretRef.key", CEPH, r#"{"storage": {"rbd": {"cephSecretRef": {"key": "second"}}}}"#, Effect),
    ("storage.rbdPool", OLD_CEPH, r#"{"storage": {"rbdPool": "disks"}}"#, Effect),
    ("storage.rbdUser", OLD_CEPH, r#"{"storage": {"rbdUser": "keeper"}}"#, Effect),
    ("storage.cephSecretRef.name", OLD_CEPH, r#"{"storage": {"cephSecretRef": {"name": "other-ceph"}}}"#, Effect),
    ("storage.cephSecretRef.key", OLD_CEPH, r#"{"storage": {"cephSecretRef": {"key": "second"}}}"#, Effect),
    ("storage.rbd.cephClientRef.name", CEPH, r#"{"storage": {"rbd": {"cephClientRef": {"name": "keeper"}}}}"#, Effect),
    (
        "storage.rbd.cephClientRef.namespace",
        NO_KEY,
        r#"{"storage": {"rbd": {"cephClientRef": {"namespace": "rook-ceph"}}}}"#,
        Effect,
    ),
    ("replicas.api", "{}", r#"{"replicas": {"api": 5}}"#, Effect),
    ("replicas.scheduler", "{}", r#"{"replicas": {"scheduler": 5}}"#, Effect),
    ("replicas.conductor", "{}", r#"{"replicas": {"conductor": 5}}"#, Effect),
    (
        "serviceAuth.placementServiceUserRef.name",
        "{}",
        r#"{"serviceAuth": {"placementServiceUserRef": {"name": "surveyor"}}}"#,
        Effect,
    ),
    (
        "serviceAuth.neutronServiceUserRef.name",
        "{}",
        r#"{"serviceAuth": {"neutronServiceUserRef": {"name": "surveyor"}}}"#,
        Effect,
    ),
    (
        "serviceAuth.glanceServiceUserRef.name",
        "{}",
        r#"{"serviceAuth": {"glanceServiceUserRef": {"name": "surveyor"}}}"#,
        Effect,
    ),
    (
        "serviceAuth.cinderServiceUserRef.name",
        "{}",
        r#"{"serviceAuth": {"cinderServiceUserRef": {"name": "surveyor"}}}"#,
        Effect,
    ),
    (
        "scheduler.externalScheduler.endpoint",
        CORTEX,
        r#"{"scheduler": {"externalScheduler": {"endpoint": "http://cortex.example.net:8080"}}}"#,
        Effect,
    ),
    (
        "scheduler.externalScheduler.tokenSecretRef.name",
        CORTEX,
        r#"{"scheduler": {"externalScheduler": {"tokenSecretRef": {"name": "pass"}}}}"#,
        Effect,
    ),
    (
        "scheduler.externalScheduler.tokenSecretRef.key",
        CORTEX_TOKEN,
        r#"{"scheduler": {"externalScheduler": {"tokenSecretRef": {"key": "word"}}}}"#,
        Effect,
    ),
    (
        "scheduler.externalScheduler.caSecretRef.name",
        CORTEX,
        r#"{"scheduler": {"externalScheduler": {"caSecretRef": {"name": "notary"}}}}"#,
        Effect,
    ),
    (
        "scheduler.externalScheduler.caSecretRef.key",
        CORTEX_CA,
        r#"{"scheduler": {"externalScheduler": {"caSecretRef": {"key": "bundle.pem"}}}}"#,
        Effect,
    ),
    (
        "scheduler.externalScheduler.onFailure",
        CORTEX,
        r#"{"scheduler": {"externalScheduler": {"onFailure": "Closed"}}}"#,
        Effect,
    ),
    (
        "scheduler.externalScheduler.timeout",
        CORTEX,
        r#"{"scheduler": {"externalScheduler": {"timeout": "9s"}}}"#,
        Effect,
    ),
    ("scheduler.externalScheduler.enabled", "{}", r#"{"scheduler": {"externalScheduler": {"enabled": true}}}"#, Effect),
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
fn workload(component: &str) -> Vec<Row> {
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let row = |field: &str, change: String| (leak(format!("{component}.{field}")), "{}", leak(change), Effect);
    let scheduling = SCHEDULING.iter().map(|(name, value)| {
        let change = format!(r#"{{"{component}": {{"scheduling": {{"{name}": {value}}}}}}}"#);
        row(&format!("scheduling.{name}"), change)
    });
    let size = ["requests", "limits"].map(|what| {
        let change = format!(r#"{{"{component}": {{"resources": {{"{what}": {{"cpu": "1"}}}}}}}}"#);
        row(&format!("resources.{what}"), change)
    });
    let replicas = row("replicas", format!(r#"{{"{component}": {{"replicas": 0}}}}"#));
    scheduling.chain(size).chain([replicas]).collect()
}

/// A world in which every field can have its effect.
fn all() -> World {
    let ceph = [("key", "AQB"), ("second", "AQC"), ("monitors", "192.0.2.9:3300")];
    let credential = [("application_credential_id", "e5f6"), ("application_credential_secret", "third")];
    let account = [("username", "clerk"), ("password", "one"), ("second", "two")];
    let mut world = everything(world())
        .with(secret("other-ceph", &[("key", "AQD"), ("monitors", "192.0.2.8:3300")]))
        .with(secret("nova-ceph-credentials", &ceph))
        .with(secret("nova-api-db-credentials", &account))
        .with(secret("surveyor-keystone-credentials", &credential));
    let is_it = |one: &&serde_json::Value| one["kind"] == "RabbitmqCluster";
    let mut other = world.objects.iter().find(is_it).unwrap().clone();
    other["metadata"]["name"] = "other".into();
    world.objects.push(other);
    world
}

#[test]
fn a_change_of_any_field_takes_effect_or_is_refused_with_a_reason_and_no_field_is_left_out() {
    let mut rows =
        [common_at("api"), SIGNS_IN.to_vec(), FIELDS.to_vec(), crate::compute_fields::ROWS.to_vec()].concat();
    rows.extend(["scheduler", "conductor", "console"].iter().flat_map(|name| workload(name)));
    let wrong = outcome(&all(), &rows);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
