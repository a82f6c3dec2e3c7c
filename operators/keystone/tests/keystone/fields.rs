//! Every field of a Keystone: whether a change of it takes effect, or is refused with a reason.

use c5c3_stage::Becomes::{Effect, Refused};
use c5c3_stage::{COMMON, Row, everything, outcome};

use crate::world::{self, World, secret};

const STORE: &str = r#"{"secretStoreRef": {"name": "vault"}}"#;
const POLICY: &str = r#"{"policyOverrides": {"rules": {"identity:list_users": "role:admin"}}}"#;
const IMAGE: &str = r#"{"image": {"repository": "ghcr.io/c5c3/keystone", "tag": "28.0.0"}}"#;

const FIELDS: &[Row] = &[
    ("cache.backend", "{}", r#"{"cache": {"backend": "oslo_cache.memcache_pool"}}"#, Effect),
    ("image.repository", IMAGE, r#"{"image": {"repository": "mirror.example.net/keystone"}}"#, Effect),
    ("image.tag", IMAGE, r#"{"image": {"tag": "28.0.1"}}"#, Effect),
    (
        "image.digest",
        IMAGE,
        r#"{"image": {"tag": null, "digest": "sha256:0000000000000000000000000000000000000000000000000000000000000000"}}"#,
        Effect,
    ),
    ("fernet.rotationSchedule", "{}", r#"{"fernet": {"rotationSchedule": "0 0 * * *"}}"#, Effect),
    ("fernet.maxActiveKeys", "{}", r#"{"fernet": {"maxActiveKeys": 5}}"#, Effect),
    ("credentialKeys.rotationSchedule", "{}", r#"{"credentialKeys": {"rotationSchedule": "@monthly"}}"#, Effect),
    ("deletionPolicy", "{}", r#"{"deletionPolicy": "Delete"}"#, Effect),
    ("secretStoreRef.name", STORE, r#"{"secretStoreRef": {"name": "other"}}"#, Effect),
    ("secretStoreRef.kind", STORE, r#"{"secretStoreRef": {"kind": "SecretStore"}}"#, Effect),
    ("federation.enabled", "{}", r#"{"federation": {"enabled": true}}"#, Refused("is not supported")),
    (
        "federation.trustedDashboards",
        "{}",
        r#"{"federation": {"trustedDashboards": ["https://d.example.net/auth/websso/"]}}"#,
        Refused("while federation is off"),
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
];

/// A world in which every field can have its effect.
fn world() -> World {
    everything(world::world()).with(secret("other-admin", &[("password", "four"), ("second", "five")]))
}

#[test]
fn a_change_of_any_field_takes_effect_or_is_refused_with_a_reason_and_no_field_is_left_out() {
    let wrong = outcome(&world(), &[COMMON, FIELDS].concat());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
