//! What the status says in one word: an update is under way, or something failed by itself.

use serde_json::{Value, json};

use crate::paper::{lab, plan};

const READY: &str = "True";

/// What the status says, after this was said before, where MariaDB and Keystone are so.
fn status(release: &str, before: &str, mariadb: &Value, keystone: &Value) -> serde_json::Map<String, Value> {
    let mut cloud = lab(&json!({"openStackRelease": release, "services": {"keystone": {}}}));
    if !before.is_empty() {
        cloud["status"] = json!({"updatePhase": before, "observedGeneration": 1});
    }
    let object = |api: &str, kind: &str, status: &Value| {
        let name = if kind == "StatefulSet" { "memcached".to_owned() } else { kind.to_lowercase() };
        json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "generation": 2}, "spec": {"replicas": 3},
            "status": status})
    };
    let memcached = json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3, "readyReplicas": 3});
    let there = [
        object("k8s.mariadb.com/v1alpha1", "MariaDB", mariadb),
        object("apps/v1", "StatefulSet", &memcached),
        object("keystone.openstack.c5c3.io/v1alpha1", "Keystone", keystone),
    ];
    plan(&cloud, &there).unwrap().status
}

fn mariadb(ready: &str) -> Value {
    json!({"conditions": [{"type": "Ready", "status": ready}]})
}

fn keystone(ready: &str, seen: i64, installed: &str) -> Value {
    let conditions = json!([{"type": "Ready", "status": ready, "observedGeneration": seen}]);
    let mut status = json!({"conditions": conditions, "observedGeneration": seen});
    if !installed.is_empty() {
        status["installedRelease"] = installed.into();
    }
    status
}

/// `phase` and `updatePhase`.
fn phases(before: &str, mariadb: &Value, keystone: &Value) -> [String; 2] {
    let status = status("2025.2", before, mariadb, keystone);
    ["phase", "updatePhase"].map(|field| status[field].as_str().unwrap().to_owned())
}

#[test]
fn a_cloud_at_rest_is_idle() {
    let (mariadb, keystone) = (mariadb(READY), keystone(READY, 2, "28.0.0"));
    for before in ["", "Idle", "Complete", "UpdatingInfra"] {
        assert_eq!(phases(before, &mariadb, &keystone), ["Ready", "Idle"], "{before}");
    }
}

#[test]
fn a_part_that_fails_by_itself_is_no_update() {
    let failed = mariadb("False");
    assert_eq!(phases("Idle", &failed, &keystone(READY, 2, "28.0.0")), ["Infrastructure", "Idle"]);
    assert_eq!(phases("Idle", &mariadb(READY), &keystone("False", 2, "28.0.0")), ["Identity", "Idle"]);
}

#[test]
fn an_update_is_under_way_from_the_first_part_that_is_behind_until_all_are_ready() {
    let (up, down) = (mariadb(READY), mariadb("False"));
    assert_eq!(phases("Idle", &up, &keystone("False", 1, "28.0.0")), ["Identity", "UpdatingKeystone"]);
    assert_eq!(phases("UpdatingKeystone", &up, &keystone("False", 2, "28.0.0")), ["Identity", "UpdatingKeystone"]);
    assert_eq!(phases("UpdatingInfra", &down, &keystone(READY, 2, "28.0.0")), ["Infrastructure", "UpdatingInfra"]);
    assert_eq!(phases("", &down, &keystone("False", 2, "")), ["Infrastructure", "UpdatingInfra"], "it is installed");
    let updating = json!({"conditions": [{"type": "Ready", "status": READY}, {"type": "Updated", "status": "False"}]});
    assert_eq!(phases("Idle", &updating, &keystone(READY, 2, "28.0.0")), ["Ready", "UpdatingInfra"]);
}

#[test]
fn the_version_that_runs_is_told_apart_from_the_one_that_is_wanted() {
    let status = status("2026.1", "Idle", &mariadb(READY), &keystone(READY, 2, "28.0.0"));
    assert_eq!(status["updatePhase"], "UpdatingKeystone");
    assert_eq!(status["services"]["keystone"], json!({"ready": true, "version": "28.0.0", "wantedVersion": "29.0.0"}));
}
