//! From one release to the next.

use c5c3_operator_cinder::operator;
use c5c3_stage::Stage;
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::Api;
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};

use crate::life::FAST;
use crate::plans::{on_ceph, world};

const FROM: &str = "27.0.0";
const TO: &str = "28.0.0";

/// A backend and a backup service.
fn spec() -> Value {
    let keys = json!({"name": "cinder-ceph-credentials"});
    on_ceph(&json!({"backup": {"cephSecretRef": keys}}))["spec"].clone()
}

#[test]
fn an_upgrade_extends_the_schema_then_replaces_pods_then_migrates_data() {
    let sync = "cinder-manage db sync";
    let after = "cinder-manage db online_data_migrations; cinder-status upgrade check";
    let expected = [
        format!("Expanding: db-expand ({sync})"),
        format!("Contracting: db-expand ({sync})"),
        format!("Contracting: db-expand ({sync}), db-contract ({after})"),
        format!("done: db-sync ({sync}; {after})"),
    ];
    assert_eq!(world().upgrade(&spec(), FROM, TO), expected);
}

#[test]
fn both_releases_have_every_option_that_is_written() {
    let coordinated = json!({"coordination": {"secretRef": {"name": "valkey-valkey-binding"}}});
    let mut spec = spec();
    c5c3_stage::merge(&mut spec, &coordinated);
    for tag in [FROM, TO] {
        assert_eq!(world().unknown_options(&spec, tag), Vec::<String>::new(), "{tag}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_by_operators_that_are_killed_after_each_change_runs_every_schema_step_once() {
    let stage = Stage::set(operator, &world()).await;
    stage.report.is(FAST);
    let ran = stage.upgrade(&spec(), FROM, TO).await;
    assert_eq!(ran, ["db-sync", "db-expand", "db-contract", "db-sync"]);

    // Services that were replaced first still speak to the others as the old release does: at the end they start once more.
    let _running = stage.operate();
    let sets: Api<StatefulSet> = Api::namespaced(stage.client.clone(), "cloud");
    let starts_anew = |set: Option<&StatefulSet>| !json!(set).to_string().contains("UPGRADING_TO");
    for name in ["gate-scheduler", "gate-volume-fast", "gate-backup"] {
        tokio::time::timeout(c5c3_stage::PATIENCE, await_condition(sets.clone(), name, starts_anew))
            .await
            .unwrap_or_else(|_| panic!("{name} keeps to the old release"))
            .unwrap();
    }
    stage.until_ready().await;
}

#[test]
fn pods_of_an_upgrade_are_told_apart_from_those_after_it() {
    let env = |status: Value| {
        let mut object = on_ceph(&json!({}));
        object["status"] = status;
        object["status"]["conditions"] = json!([]);
        world().plan(&object).unwrap().golden().matches("UPGRADING_TO").count()
    };
    assert_eq!(env(json!({"installedRelease": FROM})), 0);
    let under_way = json!({"installedRelease": "26.0.0", "targetRelease": FROM, "upgradePhase": "Expanding"});
    assert_eq!(env(under_way), 3, "the scheduler, the volume service and the API");
}
