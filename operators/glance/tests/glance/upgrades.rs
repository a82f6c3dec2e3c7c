//! From one release to the next.

use c5c3_operator_glance::operator;
use c5c3_stage::Stage;
use serde_json::json;

use crate::plans::{several, world};

const FROM: &str = "31.0.0";
const TO: &str = "32.0.0";

#[test]
fn an_upgrade_expands_and_migrates_then_replaces_pods_then_contracts() {
    let expand = "db-expand (glance-manage db_expand; glance-manage db_migrate)";
    let definitions = "glance-manage db_load_metadefs /opt/glance/etc/glance/metadefs";
    let contract = format!("db-contract (glance-manage db_contract; {definitions})");
    let expected = [
        format!("Expanding: {expand}"),
        format!("Contracting: {expand}"),
        format!("Contracting: {expand}, {contract}"),
        format!("done: db-sync (glance-manage db_sync; {definitions})"),
    ];
    assert_eq!(world().upgrade(&json!({}), FROM, TO), expected);
}

#[test]
fn both_releases_have_every_option_that_is_written() {
    for tag in [FROM, TO] {
        assert_eq!(world().unknown_options(&several(), tag), Vec::<String>::new(), "{tag}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_by_operators_that_are_killed_after_each_change_runs_every_schema_step_once() {
    let stage = Stage::set(operator, &world()).await;
    let ran = stage.upgrade(&json!({}), FROM, TO).await;
    assert_eq!(ran, ["db-sync", "db-expand", "db-contract", "db-sync"]);
}
