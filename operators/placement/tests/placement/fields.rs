//! Every field of a Placement: whether a change of it takes effect, or is refused with a reason.

use c5c3_stage::Becomes::{Effect, Refused};
use c5c3_stage::{COMMON, Row, everything, outcome, secret};

use crate::plans::{World, world};

const POLICY: &str = r#"{"policyOverrides": {"rules": {"placement:usages": "role:admin"}}}"#;
const IMAGE: &str = r#"{"image": {"repository": "ghcr.io/c5c3/placement", "tag": "14.0.0"}}"#;

const FIELDS: &[Row] = &[
    ("image.repository", IMAGE, r#"{"image": {"repository": "mirror.example.net/placement"}}"#, Effect),
    ("image.tag", IMAGE, r#"{"image": {"tag": "14.0.1"}}"#, Effect),
    (
        "image.digest",
        IMAGE,
        r#"{"image": {"tag": null, "digest": "sha256:0000000000000000000000000000000000000000000000000000000000000000"}}"#,
        Effect,
    ),
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
    ("publicEndpoint", TLS, r#"{"publicEndpoint": "https://192.0.2.7:8778"}"#, Effect),
    ("deletionPolicy", "{}", r#"{"deletionPolicy": "Delete"}"#, Effect),
    (
        "policyOverrides.rules",
        POLICY,
        r#"{"policyOverrides": {"rules": {"placement:usages": "role:auditor"}}}"#,
        Effect,
    ),
    (
        "policyOverrides.configMapRef.name",
        "{}",
        r#"{"policyOverrides": {"configMapRef": {"name": "placement-policy"}}}"#,
        Effect,
    ),
    ("extraConfig", "{}", r#"{"extraConfig": {"placement": {"randomize_allocation_candidates": "true"}}}"#, Effect),
];

const TLS: &str = r#"{"tls": {"enabled": true, "issuerRef": {"name": "ca"}}}"#;

/// A world in which every field can have its effect.
fn all() -> World {
    let credential = [("application_credential_id", "c3d4"), ("application_credential_secret", "another")];
    everything(world())
        .with(secret("other", &credential))
        .with(secret("keystone-ca", &[("ca.crt", "CA"), ("bundle.pem", "CA")]))
}

#[test]
fn a_change_of_any_field_takes_effect_or_is_refused_with_a_reason_and_no_field_is_left_out() {
    let wrong = outcome(&all(), &[COMMON, FIELDS].concat());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
