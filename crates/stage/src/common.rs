//! The fields that every service has: what becomes of a change of each.

use serde_json::{Value, json};

use crate::Becomes::{Effect, Refused};
use crate::{Row, World, secret};
use c5c3_service::Service;

const DB: &str =
    r#"{"database": {"tls": {"caSecretRef": {"name": "mariadb-ca"}, "clientSecretRef": {"name": "db-client"}}}}"#;
const TLS: &str = r#"{"tls": {"enabled": true, "issuerRef": {"name": "ca"}}}"#;
const OWN_TLS: &str = r#"{"tls": {"enabled": true, "certSecretRef": {"name": "own"}}}"#;
const GATE: &str = r#"{"gateway": {"parentRef": {"name": "g"}, "hostname": "api.example.net"}}"#;
const SCALE: &str = r#"{"resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    "autoscaling": {"maxReplicas": 5, "targetCPUUtilization": 50, "targetMemoryUtilization": 50}}"#;
const TLS_IMAGE: &str = r#"{"tls": {"enabled": true, "issuerRef": {"name": "ca"}, "image": {"repository": "ghcr.io/c5c3/c5c3", "tag": "1"}}}"#;

/// Fields that every service has.
pub const COMMON: &[Row] = &[
    ("replicas", "{}", r#"{"replicas": 5}"#, Effect),
    ("database.clusterRef.name", "{}", r#"{"database": {"clusterRef": {"name": "other"}}}"#, Effect),
    (
        "database.clusterRef.namespace",
        r#"{"database": {"clusterRef": {"name": "mariadb"}}}"#,
        r#"{"database": {"clusterRef": {"namespace": "data"}}}"#,
        Effect,
    ),
    ("database.host", "{}", r#"{"database": {"host": "db.example.net"}}"#, Effect),
    ("database.port", r#"{"database": {"host": "db.example.net"}}"#, r#"{"database": {"port": 3307}}"#, Effect),
    ("database.database", "{}", r#"{"database": {"database": "other"}}"#, Refused("changes the database's name")),
    ("database.name", "{}", r#"{"database": {"name": "other"}}"#, Refused("changes the database's name")),
    ("database.secretRef.name", "{}", r#"{"database": {"secretRef": {"name": "other-account"}}}"#, Effect),
    (
        "database.secretRef.key",
        r#"{"database": {"secretRef": {"name": "other-account"}}}"#,
        r#"{"database": {"secretRef": {"key": "second"}}}"#,
        Effect,
    ),
    ("database.tls.caSecretRef.name", DB, r#"{"database": {"tls": {"caSecretRef": {"name": "other-ca"}}}}"#, Effect),
    ("database.tls.caSecretRef.key", DB, r#"{"database": {"tls": {"caSecretRef": {"key": "bundle.pem"}}}}"#, Effect),
    (
        "database.tls.clientSecretRef.name",
        DB,
        r#"{"database": {"tls": {"clientSecretRef": {"name": "other-client"}}}}"#,
        Effect,
    ),
    (
        "database.tls.clientSecretRef.key",
        DB,
        r#"{"database": {"tls": {"clientSecretRef": {"key": "x"}}}}"#,
        Refused("tls.crt and tls.key"),
    ),
    ("cache.clusterRef.name", "{}", r#"{"cache": {"clusterRef": {"name": "other"}}}"#, Effect),
    (
        "cache.clusterRef.namespace",
        r#"{"cache": {"clusterRef": {"name": "memcached"}}}"#,
        r#"{"cache": {"clusterRef": {"namespace": "data"}}}"#,
        Effect,
    ),
    ("cache.servers", "{}", r#"{"cache": {"servers": ["cache.example.net:11211"]}}"#, Effect),
    ("tls.enabled", "{}", TLS, Effect),
    ("tls.issuerRef.name", TLS, r#"{"tls": {"issuerRef": {"name": "other"}}}"#, Effect),
    ("tls.issuerRef.kind", TLS, r#"{"tls": {"issuerRef": {"kind": "Issuer"}}}"#, Effect),
    ("tls.certSecretRef.name", OWN_TLS, r#"{"tls": {"certSecretRef": {"name": "other"}}}"#, Effect),
    ("tls.certSecretRef.key", OWN_TLS, r#"{"tls": {"certSecretRef": {"key": "x"}}}"#, Refused("tls.crt and tls.key")),
    ("gateway.parentRef.name", GATE, r#"{"gateway": {"parentRef": {"name": "h"}}}"#, Effect),
    ("gateway.parentRef.namespace", GATE, r#"{"gateway": {"parentRef": {"namespace": "edge"}}}"#, Effect),
    ("gateway.parentRef.sectionName", GATE, r#"{"gateway": {"parentRef": {"sectionName": "https"}}}"#, Effect),
    ("gateway.hostname", GATE, r#"{"gateway": {"hostname": "other.example.net"}}"#, Effect),
    ("gateway.path", GATE, r#"{"gateway": {"path": "/api"}}"#, Effect),
    ("networkPolicy.enabled", "{}", r#"{"networkPolicy": {"enabled": false}}"#, Effect),
    (
        "networkPolicy.ingress",
        "{}",
        r#"{"networkPolicy": {"ingress": [{"podSelector": {"matchLabels": {"a": "b"}}}]}}"#,
        Effect,
    ),
    ("networkPolicy.additionalEgress", "{}", r#"{"networkPolicy": {"additionalEgress": [{"port": 636}]}}"#, Effect),
    ("autoscaling.minReplicas", SCALE, r#"{"autoscaling": {"minReplicas": 4}}"#, Effect),
    ("autoscaling.maxReplicas", SCALE, r#"{"autoscaling": {"maxReplicas": 6}}"#, Effect),
    ("autoscaling.targetCPUUtilization", SCALE, r#"{"autoscaling": {"targetCPUUtilization": 60}}"#, Effect),
    ("autoscaling.targetMemoryUtilization", SCALE, r#"{"autoscaling": {"targetMemoryUtilization": 60}}"#, Effect),
    ("resources.requests", "{}", r#"{"resources": {"requests": {"cpu": "1"}}}"#, Effect),
    ("resources.limits", "{}", r#"{"resources": {"limits": {"memory": "1Gi"}}}"#, Effect),
    ("scheduling.nodeSelector", "{}", r#"{"scheduling": {"nodeSelector": {"a": "b"}}}"#, Effect),
    ("scheduling.tolerations", "{}", r#"{"scheduling": {"tolerations": [{"operator": "Exists"}]}}"#, Effect),
    (
        "scheduling.affinity",
        "{}",
        r#"{"scheduling": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}}}"#,
        Effect,
    ),
    (
        "scheduling.topologySpreadConstraints",
        "{}",
        r#"{"scheduling": {"topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]}}"#,
        Effect,
    ),
    ("scheduling.priorityClassName", "{}", r#"{"scheduling": {"priorityClassName": "high"}}"#, Effect),
    ("dependsOn", "{}", r#"{"dependsOn": [{"kind": "Valkey", "name": "valkey"}]}"#, Effect),
    ("tls.image.repository", TLS_IMAGE, r#"{"tls": {"image": {"repository": "mirror.example.net/c5c3"}}}"#, Effect),
    ("tls.image.tag", TLS_IMAGE, r#"{"tls": {"image": {"tag": "2"}}}"#, Effect),
    (
        "tls.image.digest",
        TLS_IMAGE,
        r#"{"tls": {"image": {"tag": null, "digest": "sha256:0000000000000000000000000000000000000000000000000000000000000000"}}}"#,
        Effect,
    ),
    ("imagePullSecrets", "{}", r#"{"imagePullSecrets": [{"name": "registry"}]}"#, Effect),
    ("logging.level", "{}", r#"{"logging": {"level": "WARNING"}}"#, Effect),
    ("logging.format", "{}", r#"{"logging": {"format": "json"}}"#, Effect),
    ("logging.accessLog", "{}", r#"{"logging": {"accessLog": true}}"#, Effect),
    (
        "extraFiles",
        "{}",
        r#"{"extraFiles": [{"name": "maps", "mountPath": "/etc/maps", "configMapRef": {"name": "maps"}}]}"#,
        Effect,
    ),
    ("extraConfigFrom", "{}", r#"{"extraConfigFrom": [{"name": "more-config"}]}"#, Effect),
    ("caBundleRef.secretRef.name", "{}", r#"{"caBundleRef": {"secretRef": {"name": "company"}}}"#, Effect),
    (
        "caBundleRef.secretRef.key",
        r#"{"caBundleRef": {"secretRef": {"name": "company"}}}"#,
        r#"{"caBundleRef": {"secretRef": {"key": "root.pem"}}}"#,
        Effect,
    ),
    ("caBundleRef.configMapRef.name", "{}", r#"{"caBundleRef": {"configMapRef": {"name": "company"}}}"#, Effect),
    (
        "caBundleRef.configMapRef.key",
        r#"{"caBundleRef": {"configMapRef": {"name": "company"}}}"#,
        r#"{"caBundleRef": {"configMapRef": {"key": "root.pem"}}}"#,
        Effect,
    ),
    ("jobResources.requests", "{}", r#"{"jobResources": {"requests": {"cpu": "1"}}}"#, Effect),
    ("jobResources.limits", "{}", r#"{"jobResources": {"limits": {"memory": "1Gi"}}}"#, Effect),
    ("uwsgi.processes", "{}", r#"{"uwsgi": {"processes": 8}}"#, Effect),
    ("uwsgi.threads", "{}", r#"{"uwsgi": {"threads": 1}}"#, Effect),
    ("uwsgi.harakiri", "{}", r#"{"uwsgi": {"harakiri": 600}}"#, Effect),
];

/// Fields of every service that signs in to Keystone.
pub const SIGNS_IN: &[Row] = &[
    ("keystone.authUrl", "{}", r#"{"keystone": {"authUrl": "https://id.example.net/identity"}}"#, Effect),
    (
        "keystone.appCredentialRef.secretName",
        "{}",
        r#"{"keystone": {"appCredentialRef": {"secretName": "other"}}}"#,
        Effect,
    ),
    ("keystone.appCredentialRef.name", "{}", r#"{"keystone": {"appCredentialRef": {"name": "other"}}}"#, Effect),
    ("keystone.region", "{}", r#"{"keystone": {"region": "North"}}"#, Effect),
    ("keystone.caSecretRef.name", "{}", r#"{"keystone": {"caSecretRef": {"name": "keystone-ca"}}}"#, Effect),
    (
        "keystone.caSecretRef.key",
        r#"{"keystone": {"caSecretRef": {"name": "keystone-ca"}}}"#,
        r#"{"keystone": {"caSecretRef": {"key": "bundle.pem"}}}"#,
        Effect,
    ),
    (
        "keystone.applicationCredentialRef.name",
        "{}",
        r#"{"keystone": {"applicationCredentialRef": {"name": "other"}}}"#,
        Effect,
    ),
    ("keystoneAuth.authUrl", "{}", r#"{"keystoneAuth": {"authUrl": "https://id.example.net/identity"}}"#, Effect),
    (
        "keystoneAuth.appCredentialRef.secretName",
        "{}",
        r#"{"keystoneAuth": {"appCredentialRef": {"secretName": "other"}}}"#,
        Effect,
    ),
    (
        "keystoneAuth.appCredentialRef.name",
        "{}",
        r#"{"keystoneAuth": {"appCredentialRef": {"name": "other"}}}"#,
        Effect,
    ),
    (
        "keystoneAuth.applicationCredentialRef.name",
        "{}",
        r#"{"keystoneAuth": {"applicationCredentialRef": {"name": "other"}}}"#,
        Effect,
    ),
    ("keystoneAuth.region", "{}", r#"{"keystoneAuth": {"region": "North"}}"#, Effect),
    ("keystoneAuth.caSecretRef.name", "{}", r#"{"keystoneAuth": {"caSecretRef": {"name": "keystone-ca"}}}"#, Effect),
    (
        "keystoneAuth.caSecretRef.key",
        r#"{"keystoneAuth": {"caSecretRef": {"name": "keystone-ca"}}}"#,
        r#"{"keystoneAuth": {"caSecretRef": {"key": "bundle.pem"}}}"#,
        Effect,
    ),
    ("cache.backend", "{}", r#"{"cache": {"backend": "oslo_cache.memcache_pool"}}"#, Refused("has no backends")),
    ("deletionPolicy", "{}", r#"{"deletionPolicy": "Delete"}"#, Effect),
];

/// The same for a kind whose `replicas`, `resources` and `scheduling` are at a field such as `api`.
///
/// # Panics
/// If a row is not JSON.
pub fn common_at(field: &str) -> Vec<Row> {
    const MOVED: [&str; 3] = ["replicas", "resources", "scheduling"];
    // Rows are constants elsewhere, and a test makes these once.
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let moved = |text: &str| {
        let mut spec: Value = serde_json::from_str(text).expect("a row is JSON");
        for name in MOVED {
            if let Some(value) = spec.as_object_mut().and_then(|spec| spec.remove(name)) {
                spec[field][name] = value;
            }
        }
        leak(spec.to_string())
    };
    let row = |(path, before, after, becomes): &Row| {
        let is_moved = MOVED.contains(&path.split('.').next().unwrap_or_default());
        let path = if is_moved { leak(format!("{field}.{path}")) } else { path };
        (path, moved(before), moved(after), *becomes)
    };
    COMMON.iter().map(row).collect()
}

/// A world in which each of these fields can have its effect.
///
/// # Panics
/// If the world lacks a MariaDB or a Memcached.
pub fn everything<S: Service>(world: World<S>) -> World<S>
where
    <S::Kind as kube::Resource>::Scope: 'static,
{
    let account = [("username", "gatekeeper"), ("password", "three"), ("second", "two")];
    let mut world = world
        .with(secret("other-account", &account))
        .with(secret("mariadb-ca", &[("ca.crt", "CA"), ("bundle.pem", "CA")]))
        .with(secret("other-ca", &[("ca.crt", "CA")]))
        .with(secret("db-client", &[("tls.crt", "C"), ("tls.key", "K")]))
        .with(secret("other-client", &[("tls.crt", "C"), ("tls.key", "K")]))
        .with(secret("other", &[("application_credential_id", "c3d4"), ("application_credential_secret", "another")]))
        .with(secret("keystone-ca", &[("ca.crt", "CA"), ("bundle.pem", "CA")]))
        .with(secret("more-config", &[("config", "[DEFAULT]\ndebug = true\n")]));
    for (kind, name) in [("MariaDB", "mariadb"), ("StatefulSet", "memcached")] {
        let is_it = |one: &&Value| one["kind"] == kind && one["metadata"]["name"] == name;
        let mut other = world.objects.iter().find(is_it).expect("it is there by convention").clone();
        other["metadata"]["name"] = json!("other");
        world.objects.push(other);
    }
    world
}
