//! What Cinder and Manila ask.

use c5c3_api::cortex::{Decision, Pipeline, SchedulingDomain};
use c5c3_cortex::Domain;
use c5c3_cortex_server::{NAME_ANNOTATION, Settings};
use c5c3_harness::TestCluster;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::{Running, TOKEN, body, cluster, until};

/// A request about one volume or share, for two pools of which the second one weighs more.
fn request(spec: &Value) -> Value {
    let hosts = json!([{"host": "pear@pool"}, {"host": "plum@pool"}]);
    json!({"spec": spec, "context": {}, "hosts": hosts, "weights": {"pear@pool": 1.0, "plum@pool": 2.0}})
}

async fn decision(cluster: &TestCluster, name: &str) -> Decision {
    let api: Api<Decision> = Api::default_namespaced(cluster.client());
    until(&format!("{name} is written"), async || {
        api.get_opt(name).await.unwrap().is_some_and(|one| one.status.is_some())
    })
    .await;
    api.get(name).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn cinder_and_manila_are_answered_and_their_decisions_say_why() {
    let Some(cluster) = cluster(&[]).await else { return };
    let scheduler = Running::start(&cluster, 100).await;
    let in_order = (200, r#"{"hosts":["plum@pool","pear@pool"]}"#.to_owned());
    let properties = json!({"size": 20, "project_id": "red", "display_name": "orchard data"});
    let volume = request(&json!({"volume_id": "v-1", "volume_properties": properties}));
    assert_eq!(scheduler.post("cinder", TOKEN, &volume).await, in_order);
    let share = request(&json!({"share_id": "m-1", "share_properties": {"size": 5, "project_id": "blue"}}));
    assert_eq!(scheduler.post("manila", TOKEN, &share).await, in_order);
    let strange = request(&json!({"volume_id": "v-2", "volume_properties": {"size": "much"}}));
    let refused = (400, "size is \"much\", which is no amount\n".to_owned());
    assert_eq!(scheduler.post("cinder", TOKEN, &strange).await, refused);

    let volume = decision(&cluster, "cinder-v-1").await;
    assert_eq!(volume.spec.scheduling_domain, SchedulingDomain::Cinder);
    assert_eq!(volume.spec.pipeline_ref.name.as_str(), "cinder-external-scheduler");
    assert_eq!(volume.spec.resources.unwrap().disk_gib, 20);
    assert_eq!(volume.annotations().get(NAME_ANNOTATION).map(String::as_str), Some("orchard data"));
    let explanation = volume.status.unwrap().explanation.unwrap();
    assert!(explanation.starts_with("plum@pool is the best of 2 hosts that can take 20 GiB of disk"), "{explanation}");
    assert!(explanation.contains("Cinder's own weights +1.000"), "{explanation}");
    let share = decision(&cluster, "manila-m-1").await;
    assert_eq!(share.spec.scheduling_domain, SchedulingDomain::Manila);
    assert_eq!(share.spec.project_id.as_deref(), Some("blue"));
    assert_eq!(share.status.unwrap().target_host.as_deref(), Some("plum@pool"));
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_of_cinder_is_for_volumes_alone() {
    let Some(cluster) = cluster(&[]).await else { return };
    let scheduler = Running::start(&cluster, 100).await;
    let exclude =
        json!([{"name": "filter_exclude_hosts", "params": [{"key": "hosts", "stringListValue": ["plum@pool"]}]}]);
    let object = json!({"apiVersion": "cortex.c5c3.io/v1alpha1", "kind": "Pipeline", "metadata": {"name": "cinder"},
        "spec": {"schedulingDomain": "cinder", "filters": exclude}});
    let api: Api<Pipeline> = Api::default_namespaced(cluster.client());
    api.patch("cinder", &PatchParams::apply("test").force(), &Patch::Apply(&object)).await.unwrap();
    let volume = request(&json!({"volume_id": "v-1", "volume_properties": {"size": 1}}));
    until("the filter counts", async || {
        scheduler.post("cinder", TOKEN, &volume).await == (200, r#"{"hosts":["pear@pool"]}"#.into())
    })
    .await;
    let share = request(&json!({"share_id": "m-1", "share_properties": {"size": 1}}));
    let in_order = (200, r#"{"hosts":["plum@pool","pear@pool"]}"#.to_owned());
    assert_eq!(scheduler.post("manila", TOKEN, &share).await, in_order);
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_not_enabled_is_not_answered() {
    let Some(cluster) = cluster(&[]).await else { return };
    let scheduler = Running::launch_with(&cluster, |settings| Settings { domains: vec![Domain::Manila], ..settings });
    let share = request(&json!({"share_id": "m-1", "share_properties": {"size": 1}}));
    until("it decides", async || scheduler.post("manila", TOKEN, &share).await.0 == 200).await;
    let volume = request(&json!({"volume_id": "v-1", "volume_properties": {"size": 1}}));
    assert_eq!(scheduler.post("cinder", TOKEN, &volume).await.0, 404);
    assert_eq!(scheduler.post("nova", TOKEN, &body("s-1", 1, &[], false)).await.0, 404);
    scheduler.stop().await;
}
