//! Every field of a Keystone: whether a change of it takes effect, or is refused with a reason.

use std::collections::BTreeSet;

use c5c3_api::openstack::Keystone;
use kube::Resource;
use serde_json::{Value, json};

use crate::world::{World, keystone, secret};

/// What becomes of a change.
enum Becomes {
    /// The plan is another.
    Effect,
    /// It is refused, with this in the reason.
    Refused(&'static str),
}
use Becomes::{Effect, Refused};

/// A field, the spec before (merged over an empty one), the change to it, and what becomes of that.
type Row = (&'static str, &'static str, &'static str, Becomes);

const DB: &str = r#"{"database": {"tls": {"caSecretRef": {"name": "mariadb-ca"}, "clientSecretRef": {"name": "keystone-db-client"}}}}"#;
const TLS: &str = r#"{"tls": {"enabled": true, "issuerRef": {"name": "ca"}}}"#;
const OWN_TLS: &str = r#"{"tls": {"enabled": true, "certSecretRef": {"name": "own"}}}"#;
const GATE: &str = r#"{"gateway": {"parentRef": {"name": "g"}, "hostname": "id.example.net"}}"#;
const SCALE: &str = r#"{"resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    "autoscaling": {"maxReplicas": 5, "targetCPUUtilization": 50, "targetMemoryUtilization": 50}}"#;
const STORE: &str = r#"{"secretStoreRef": {"name": "vault"}}"#;
const POLICY: &str = r#"{"policyOverrides": {"rules": {"identity:list_users": "role:admin"}}}"#;
const IMAGE: &str = r#"{"image": {"repository": "ghcr.io/c5c3/keystone", "tag": "28.0.0"}}"#;

const FIELDS: &[Row] = &[
    ("replicas", "{}", r#"{"replicas": 5}"#, Effect),
    ("image.repository", IMAGE, r#"{"image": {"repository": "mirror.example.net/keystone"}}"#, Effect),
    ("image.tag", IMAGE, r#"{"image": {"tag": "28.0.1"}}"#, Effect),
    (
        "image.digest",
        IMAGE,
        r#"{"image": {"tag": null, "digest": "sha256:0000000000000000000000000000000000000000000000000000000000000000"}}"#,
        Effect,
    ),
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
        r#"{"database": {"secretRef": {"name": "keystone-db-credentials"}}}"#,
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
    ("cache.backend", "{}", r#"{"cache": {"backend": "oslo_cache.memcache_pool"}}"#, Effect),
    ("fernet.rotationSchedule", "{}", r#"{"fernet": {"rotationSchedule": "0 0 * * *"}}"#, Effect),
    ("fernet.maxActiveKeys", "{}", r#"{"fernet": {"maxActiveKeys": 5}}"#, Effect),
    ("credentialKeys.rotationSchedule", "{}", r#"{"credentialKeys": {"rotationSchedule": "@monthly"}}"#, Effect),
    ("deletionPolicy", "{}", r#"{"deletionPolicy": "Delete"}"#, Effect),
    ("secretStoreRef.name", STORE, r#"{"secretStoreRef": {"name": "other"}}"#, Effect),
    ("secretStoreRef.kind", STORE, r#"{"secretStoreRef": {"kind": "SecretStore"}}"#, Effect),
    ("federation.enabled", "{}", r#"{"federation": {"enabled": true}}"#, Effect),
    (
        "federation.trustedDashboards",
        r#"{"federation": {"enabled": true}}"#,
        r#"{"federation": {"trustedDashboards": ["https://d.example.net/auth/websso/"]}}"#,
        Effect,
    ),
    (
        "bootstrap.adminUser",
        r#"{"bootstrap": {"adminUser": "admin"}}"#,
        r#"{"bootstrap": {"adminUser": "root"}}"#,
        Refused("create another administrator"),
    ),
    (
        "bootstrap.adminPasswordSecretRef.name",
        r#"{"bootstrap": {}}"#,
        r#"{"bootstrap": {"adminPasswordSecretRef": {"name": "other-admin", "key": "password"}}}"#,
        Effect,
    ),
    (
        "bootstrap.adminPasswordSecretRef.key",
        r#"{"bootstrap": {"adminPasswordSecretRef": {"name": "other-admin", "key": "password"}}}"#,
        r#"{"bootstrap": {"adminPasswordSecretRef": {"key": "second"}}}"#,
        Effect,
    ),
    (
        "bootstrap.region",
        r#"{"bootstrap": {"region": "RegionOne"}}"#,
        r#"{"bootstrap": {"region": "North"}}"#,
        Refused("every endpoint"),
    ),
    ("bootstrap.publicEndpoint", "{}", r#"{"bootstrap": {"publicEndpoint": "https://id.example.net"}}"#, Effect),
    ("tls.enabled", "{}", TLS, Effect),
    ("tls.issuerRef.name", TLS, r#"{"tls": {"issuerRef": {"name": "other"}}}"#, Effect),
    ("tls.issuerRef.kind", TLS, r#"{"tls": {"issuerRef": {"kind": "Issuer"}}}"#, Effect),
    ("tls.certSecretRef.name", OWN_TLS, r#"{"tls": {"certSecretRef": {"name": "other"}}}"#, Effect),
    ("tls.certSecretRef.key", OWN_TLS, r#"{"tls": {"certSecretRef": {"key": "x"}}}"#, Refused("tls.crt and tls.key")),
    ("gateway.parentRef.name", GATE, r#"{"gateway": {"parentRef": {"name": "h"}}}"#, Effect),
    ("gateway.parentRef.namespace", GATE, r#"{"gateway": {"parentRef": {"namespace": "edge"}}}"#, Effect),
    ("gateway.parentRef.sectionName", GATE, r#"{"gateway": {"parentRef": {"sectionName": "https"}}}"#, Effect),
    ("gateway.hostname", GATE, r#"{"gateway": {"hostname": "other.example.net"}}"#, Effect),
    ("gateway.path", GATE, r#"{"gateway": {"path": "/identity"}}"#, Effect),
    ("networkPolicy.enabled", "{}", r#"{"networkPolicy": {"enabled": false}}"#, Effect),
    (
        "networkPolicy.ingress",
        "{}",
        r#"{"networkPolicy": {"ingress": [{"podSelector": {"matchLabels": {"a": "b"}}}]}}"#,
        Effect,
    ),
    ("networkPolicy.additionalEgress", "{}", r#"{"networkPolicy": {"additionalEgress": [{"port": 636}]}}"#, Effect),
    ("autoscaling.minReplicas", SCALE, r#"{"autoscaling": {"minReplicas": 2}}"#, Effect),
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
    (
        "policyOverrides.rules",
        POLICY,
        r#"{"policyOverrides": {"rules": {"identity:list_users": "role:auditor"}}}"#,
        Effect,
    ),
    (
        "policyOverrides.configMapRef.name",
        "{}",
        r#"{"policyOverrides": {"configMapRef": {"name": "keystone-policy"}}}"#,
        Effect,
    ),
    (
        "middleware",
        "{}",
        r#"{"middleware": [{"name": "a", "filterFactory": "x:y", "position": {"before": "cors"}}]}"#,
        Effect,
    ),
    ("plugins", "{}", r#"{"plugins": [{"name": "p", "configSection": "keycloak", "config": {"realm": "r"}}]}"#, Effect),
    ("extraConfig", "{}", r#"{"extraConfig": {"token": {"expiration": "7200"}}}"#, Effect),
    ("dependsOn", "{}", r#"{"dependsOn": [{"kind": "Valkey", "name": "valkey"}]}"#, Effect),
];

/// The fields of a schema that are no objects of ours themselves.
fn leaves(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    let Some(fields) = schema["properties"].as_object().filter(|_| path != "scheduling.affinity") else {
        found.insert(path.to_owned());
        return;
    };
    for (name, field) in fields {
        leaves(field, &if path.is_empty() { name.clone() } else { format!("{path}.{name}") }, found);
    }
}

fn merge(target: &mut Value, change: &Value) {
    let Some(change) = change.as_object() else { return *target = change.clone() };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in change {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut target[name], value);
        }
    }
}

/// A world in which every field can have its effect.
fn world() -> World {
    let account = [("username", "gatekeeper"), ("password", "one"), ("second", "two")];
    let mut world = World::default()
        .with(secret("keystone-db-credentials", &account))
        .with(secret("other-account", &[("username", "gatekeeper"), ("password", "three")]))
        .with(secret("other-admin", &[("password", "four"), ("second", "five")]))
        .with(secret("mariadb-ca", &[("ca.crt", "CA"), ("bundle.pem", "CA")]))
        .with(secret("other-ca", &[("ca.crt", "CA")]))
        .with(secret("other-client", &[("tls.crt", "C"), ("tls.key", "K")]));
    for (kind, name) in [("MariaDB", "mariadb"), ("StatefulSet", "memcached")] {
        let mut other =
            world.objects.iter().find(|one| one["kind"] == kind && one["metadata"]["name"] == name).unwrap().clone();
        other["metadata"]["name"] = "other".into();
        world.objects.push(other);
    }
    world
}

/// What becomes of a change: nothing, or the reason of its refusal.
fn change(before: &Value, after: &Value) -> Result<bool, String> {
    let world = world();
    let kind = c5c3_api::find(&Keystone::api_version(&()), &Keystone::kind(&())).unwrap();
    let refused = kind.check(after, Some(before));
    if !refused.is_empty() {
        return Err(refused.to_string());
    }
    let plan = |object: &Value| world.plan(object).map(|plan| plan.golden());
    Ok(plan(before).expect("the spec before is good") != plan(after)?)
}

#[test]
fn a_change_of_any_field_takes_effect_or_is_refused_with_a_reason() {
    let mut wrong = Vec::new();
    for (field, before, after, becomes) in FIELDS {
        let mut spec: Value = serde_json::from_str(before).unwrap();
        let old = keystone(&spec);
        merge(&mut spec, &serde_json::from_str(after).unwrap());
        match (change(&old, &keystone(&spec)), becomes) {
            (Ok(true), Effect) => {}
            (Err(reason), Refused(word)) if reason.contains(word) => {}
            (outcome, _) => wrong.push(format!("{field}: {outcome:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_field_is_left_out() {
    let kind = c5c3_api::find(&Keystone::api_version(&()), &Keystone::kind(&())).unwrap();
    let mut known = BTreeSet::new();
    leaves(&kind.open_api()["properties"]["spec"], "", &mut known);
    let tried: BTreeSet<String> = FIELDS.iter().map(|(field, ..)| (*field).to_owned()).collect();
    assert_eq!(known.symmetric_difference(&tried).collect::<Vec<_>>(), Vec::<&String>::new());
}
