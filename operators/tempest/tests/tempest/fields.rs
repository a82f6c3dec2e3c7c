//! Every field of a Tempest: whether a change of it takes effect, or is refused with a reason.

use std::collections::BTreeSet;

use c5c3_stage::Becomes::{Effect, Refused};
use c5c3_stage::{Row, SIGNS_IN, leaves, merge};
use serde_json::{Value, json};

use crate::world::{World, tempest};

const IMAGE: &str = r#"{"image": {"repository": "ghcr.io/c5c3/tempest", "tag": "45.0.0"}}"#;

const FIELDS: &[Row] = &[
    ("schedule", "{}", r#"{"schedule": "0 3 * * *"}"#, Effect),
    ("schedule", "{}", r#"{"schedule": "nightly"}"#, Refused("is not a cron expression")),
    ("suspend", "{}", r#"{"suspend": true}"#, Effect),
    ("image.repository", IMAGE, r#"{"image": {"repository": "mirror.example.net/tempest"}}"#, Effect),
    ("image.tag", IMAGE, r#"{"image": {"tag": "46.2.0"}}"#, Effect),
    (
        "image.digest",
        IMAGE,
        r#"{"image": {"tag": null, "digest": "sha256:0000000000000000000000000000000000000000000000000000000000000000"}}"#,
        Effect,
    ),
    ("imagePullSecrets", "{}", r#"{"imagePullSecrets": [{"name": "registry"}]}"#, Effect),
    ("tests.services", "{}", r#"{"tests": {"services": ["identity"]}}"#, Effect),
    ("tests.services", "{}", r#"{"tests": {"services": ["telepathy"]}}"#, Refused("spec.tests.services[0]")),
    ("tests.concurrency", "{}", r#"{"tests": {"concurrency": 2}}"#, Effect),
    ("tests.includeRegex", "{}", r#"{"tests": {"includeRegex": "smoke"}}"#, Effect),
    ("tests.includeRegex", "{}", r#"{"tests": {"includeRegex": "(smoke"}}"#, Refused("does not close a group")),
    ("tests.excludeRegex", "{}", r#"{"tests": {"excludeRegex": "slow"}}"#, Effect),
    ("tests.timeout", "{}", r#"{"tests": {"timeout": "1h"}}"#, Effect),
    ("tests.timeout", "{}", r#"{"tests": {"timeout": "5s"}}"#, Refused("is too short")),
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
    ("extraConfig", "{}", r#"{"extraConfig": {"compute": {"min_compute_nodes": "2"}}}"#, Effect),
    (
        "extraConfig",
        "{}",
        r#"{"extraConfig": {"auth": {"admin_username": "root"}}}"#,
        Refused("an administrator of its own"),
    ),
    ("dependsOn", "{}", r#"{"dependsOn": [{"kind": "Nova", "name": "nova"}]}"#, Effect),
];

#[test]
fn a_change_of_any_field_takes_effect_or_is_refused_with_a_reason_and_no_field_is_left_out() {
    let kind = c5c3_api::find("tempest.openstack.c5c3.io/v1alpha1", "Tempest").unwrap();
    let world = World::new();
    let plan = |object: &Value| world.plan(object).map(|plan| plan.golden());
    let change = |before: &Value, after: &Value| -> Result<bool, String> {
        let refused = kind.check(after, Some(before));
        if !refused.is_empty() {
            return Err(refused.to_string());
        }
        Ok(plan(before)? != plan(after)?)
    };
    let mut wrong = Vec::new();
    // A Tempest has no cache and keeps no data.
    let signs_in = SIGNS_IN.iter().filter(|(field, ..)| field.starts_with("keystone"));
    let rows: Vec<&Row> = FIELDS.iter().chain(signs_in).collect();
    for (field, before, after, becomes) in &rows {
        let mut spec: Value = serde_json::from_str(before).unwrap();
        let old = tempest(&spec);
        merge(&mut spec, &serde_json::from_str(after).unwrap());
        match (change(&old, &tempest(&spec)), becomes) {
            (Ok(true), Effect) => {}
            (Err(reason), Refused(word)) if reason.contains(word) => {}
            (outcome, _) => wrong.push(format!("{field}: {outcome:?}")),
        }
    }
    let mut known = BTreeSet::new();
    leaves(&kind.open_api()["properties"]["spec"], "", &mut known);
    let tried: BTreeSet<String> = rows.iter().map(|(field, ..)| (*field).to_owned()).collect();
    wrong.extend(known.symmetric_difference(&tried).map(|field| format!("{field}: in the schema or in a row alone")));
    assert!(wrong.is_empty(), "{}", json!(wrong));
}
