//! The rights that the operator says it needs are enough for the whole life of a Keystone.

use c5c3_api::openstack::Keystone;
use c5c3_operator_keystone::operator;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::wait::{await_condition, conditions};
use serde_json::json;

use crate::world::{keystone, stage};
use c5c3_stage::{PATIENCE, ready_is};

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_with_the_rights_that_it_says_it_needs_is_refused_nothing() {
    let stage = stage().await;
    let access = operator(false).access().clone();
    let limited =
        stage.cluster.limited("few-rights", "cloud", access.in_namespaces(), access.in_cluster()).await.unwrap();
    let _running = stage.operate_as(limited.client.clone(), Some("cloud".into()));
    stage.create(&keystone(&json!({}))).await;
    stage.until_ready().await;

    // What is changed, created again and deleted.
    let keystones: Api<Keystone> = Api::namespaced(stage.client.clone(), "cloud");
    let policy = json!({"policyOverrides": {"configMapRef": {"name": "keystone-policy"}}, "replicas": 1});
    let patch = Patch::Merge(json!({ "spec": policy }));
    let changed = keystones.patch("gate", &PatchParams::default(), &patch).await.unwrap();
    stage
        .until(move |object: Option<&Keystone>| {
            let observed =
                object.and_then(|object| object.status.as_ref()).and_then(|status| status.service.observed_generation);
            observed == changed.metadata.generation
                && kube::runtime::wait::Condition::matches_object(&ready_is("True", "Ready"), object)
        })
        .await;
    let uid = keystones.get("gate").await.unwrap().metadata.uid.unwrap();
    keystones.delete("gate", &DeleteParams::background()).await.unwrap();
    let gone = await_condition(keystones, "gate", conditions::is_deleted(&uid));
    tokio::time::timeout(PATIENCE, gone).await.expect("gone in time").unwrap();
    assert_eq!(limited.refused(), Vec::<String>::new());
}
