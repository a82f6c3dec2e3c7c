//! Every field of a Placement: whether a change of it takes effect, or is refused with a reason.

use c5c3_stage::Becomes::Effect;
use c5c3_stage::{COMMON, Row, SIGNS_IN, everything, outcome};

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
    ("publicEndpoint", TLS, r#"{"publicEndpoint": "https://192.0.2.7:8778"}"#, Effect),
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
    everything(world())
}

#[test]
fn a_change_of_any_field_takes_effect_or_is_refused_with_a_reason_and_no_field_is_left_out() {
    let wrong = outcome(&all(), &[COMMON, SIGNS_IN, FIELDS].concat());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
