//! Detectors, and what comes of the hosts that they find: with a Nova in memory.

use std::collections::BTreeMap;
use std::time::Duration;

use c5c3_api::blocks::Condition;
use c5c3_api::cortex::{Descheduling, Pipeline};
use c5c3_harness::TestCluster;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::events::v1::Event;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::nova::{Mood, Nova};
use crate::{Running, busy_hypervisor, cluster, until};

/// A cluster with that Nova, where `s-1` and `s-2` are on hv-1, of whose 1000 MiB 900 are taken; 300 are of hv-2's.
async fn site() -> Option<(TestCluster, Nova)> {
    let (cluster, nova) = (cluster(&[]).await?, Nova::start().await);
    nova.add("s-1", "hv-1", 200);
    nova.add("s-2", "hv-1", 600);
    busy_hypervisor(&cluster, "hv-1", 1000, 900, &["s-1", "s-2"]).await;
    busy_hypervisor(&cluster, "hv-2", 1000, 300, &[]).await;
    credential(&cluster, &nova).await;
    Some((cluster, nova))
}

/// Lets the scheduler into that Nova.
pub(crate) async fn credential(cluster: &TestCluster, nova: &Nova) {
    let data = [("clouds.yaml".to_owned(), ByteString(nova.clouds().into_bytes()))].into();
    let mut secret = Secret { data: Some(data), ..Secret::default() };
    secret.metadata.name = Some("cortex-clouds-yaml".into());
    Api::<Secret>::default_namespaced(cluster.client()).create(&PostParams::default(), &secret).await.unwrap();
}

fn objects(cluster: &TestCluster) -> Api<Descheduling> {
    Api::default_namespaced(cluster.client())
}

async fn detect(cluster: &TestCluster, descheduling: Option<Value>) {
    let threshold = json!([{"key": "threshold", "intValue": 80}]);
    let mut spec = json!({"type": "detector", "schedulingDomain": "nova",
        "detectors": [{"name": "avoid_high_memory_pct", "params": threshold}]});
    if let Some(descheduling) = descheduling {
        spec["descheduling"] = descheduling;
    }
    let object = json!({"apiVersion": "cortex.c5c3.io/v1alpha1", "kind": "Pipeline", "metadata": {"name": "relieve"}, "spec": spec});
    let api: Api<Pipeline> = Api::default_namespaced(cluster.client());
    api.patch("relieve", &PatchParams::apply("test").force(), &Patch::Apply(&object)).await.unwrap();
}

/// Has a person ask for a move of `s-1`.
async fn ask(cluster: &TestCluster, name: &str, dry_run: bool) {
    let object = json!({"apiVersion": "cortex.c5c3.io/v1alpha1", "kind": "Descheduling", "metadata": {"name": name},
        "spec": {"resourceID": "s-1", "prevHost": "hv-1", "reason": "noisy neighbours", "dryRun": dry_run}});
    objects(cluster).create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

fn condition(conditions: &[Condition], kind: &str) -> (String, String) {
    let found = conditions.iter().find(|one| one.r#type == kind);
    found.map(|one| (one.reason.clone().unwrap(), one.message.clone().unwrap())).unwrap_or_default()
}

/// The reason and the message of the condition Ready.
async fn ready(cluster: &TestCluster, name: &str) -> (String, String) {
    let object = objects(cluster).get_opt(name).await.unwrap();
    object.and_then(|object| object.status).map(|status| condition(&status.conditions, "Ready")).unwrap_or_default()
}

async fn becomes(cluster: &TestCluster, name: &str, reason: &str) -> Descheduling {
    let mut said = Default::default();
    let is_so = async || {
        said = ready(cluster, name).await;
        said.0 == reason
    };
    let soon = tokio::time::timeout(Duration::from_secs(50), until(&format!("{name} is {reason}"), is_so)).await;
    assert!(soon.is_ok(), "{name} is not {reason} but {said:?}");
    objects(cluster).get(name).await.unwrap()
}

async fn detecting_says(cluster: &TestCluster, what: &str) {
    let api: Api<Pipeline> = Api::default_namespaced(cluster.client());
    until(what, async || {
        let status = api.get("relieve").await.unwrap().status.unwrap_or_default();
        condition(&status.conditions, "Detecting").1.contains(what)
    })
    .await;
}

fn moved(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(server, host)| ((*server).to_owned(), (*host).to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_carries_too_much_is_relieved_once_and_its_server_is_then_left_alone() {
    let Some((cluster, nova)) = site().await else { return };
    let scheduler = Running::start(&cluster, 100).await;
    detect(&cluster, Some(json!({"dryRun": false}))).await;
    let object = becomes(&cluster, "relieve-s-1", "Migrated").await;
    assert_eq!(nova.asked(), moved(&[("s-1", "hv-2")]), "the smallest server that is enough");
    assert_eq!(object.spec.reason, "hv-1 has 90.0 % of its memory taken, above the 80.0 % of avoid_high_memory_pct");
    let status = object.status.unwrap();
    assert!(status.started_at.is_some() && status.finished_at.is_some());
    assert_eq!(status.new_host.as_deref(), Some("hv-2"));
    let explanation = status.explanation.unwrap();
    assert!(
        explanation.starts_with(
            "The server web-s-1 (1 vCPU, 200 MiB of memory) goes from hv-1 to hv-2, since hv-1 has 90.0 %"
        ),
        "{explanation}"
    );
    assert!(explanation.contains("hv-2 then has 50.0 % of its memory taken, 30.0 % now"), "{explanation}");
    detecting_says(&cluster, "s-1 has left it, which it does not report yet").await;

    busy_hypervisor(&cluster, "hv-1", 1000, 100, &["s-2"]).await;
    busy_hypervisor(&cluster, "hv-2", 1000, 850, &["s-1"]).await;
    detecting_says(&cluster, "none of its 1 servers may be moved now").await;
    busy_hypervisor(&cluster, "hv-2", 1000, 500, &["s-1"]).await;
    detecting_says(&cluster, "no host carries too much").await;
    assert_eq!(nova.asked().len(), 1);

    let events: Api<Event> = Api::default_namespaced(cluster.client());
    let events = events.list(&ListParams::default()).await.unwrap();
    let reasons: Vec<String> = events.items.into_iter().filter_map(|event| event.reason).collect();
    assert!(["Starting", "Migrating", "Migrated"].iter().all(|one| reasons.iter().any(|r| r == one)), "{reasons:?}");
    let metrics = scheduler.metrics.text();
    assert!(metrics.contains(r#"cortex_deschedulings_total{reason="Migrated"} 1"#), "{metrics}");
    let free = format!(r#"cortex_kvm_host_capacity_free{{availability_zone="",resource="memory"}} {}"#, 1400_u64 << 20);
    until("free room is counted", async || scheduler.metrics.text().contains(&free)).await;
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn migrations_are_only_proposed_unless_the_pipeline_says_otherwise() {
    let Some((cluster, nova)) = site().await else { return };
    let scheduler = Running::start(&cluster, 100).await;
    detect(&cluster, None).await;
    let object = becomes(&cluster, "relieve-s-1", "DryRun").await;
    assert_eq!(object.status.unwrap().new_host.as_deref(), Some("hv-2"));
    detecting_says(&cluster, "migrations are only proposed (dryRun)").await;
    detecting_says(&cluster, "s-1 is to leave it, by descheduling/relieve-s-1").await;
    let all = objects(&cluster).list(&ListParams::default()).await.unwrap();
    assert_eq!(all.items.len(), 1, "one at a time");

    // A person has it done after all.
    let patch = json!({"spec": {"dryRun": false}});
    objects(&cluster).patch("relieve-s-1", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    becomes(&cluster, "relieve-s-1", "Migrated").await;
    assert_eq!(nova.asked(), moved(&[("s-1", "hv-2")]));
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_that_dies_before_or_after_its_call_moves_nothing_twice() {
    let Some((cluster, nova)) = site().await else { return };
    let scheduler = Running::start(&cluster, 100).await;
    nova.world().mood = Mood::Hangs;
    ask(&cluster, "move-s-1", false).await;
    until("Nova has the call", async || nova.asked().len() == 1).await;
    scheduler.stop().await;
    nova.world().mood = Mood::Takes;
    assert_eq!(ready(&cluster, "move-s-1").await.0, "InProgress", "written before the call");

    let scheduler = Running::start(&cluster, 100).await;
    let migrating = async || {
        let status = objects(&cluster).get("move-s-1").await.unwrap().status.unwrap();
        condition(&status.conditions, "InProgress").0 == "Migrating"
    };
    until("the next one has found the call in Nova", migrating).await;
    nova.world().work();
    becomes(&cluster, "move-s-1", "Migrated").await;
    assert_eq!(nova.asked().len(), 1);
    scheduler.stop().await;

    // This one died before its call, of which Nova so knows nothing.
    ask(&cluster, "move-back", false).await;
    let mut object = objects(&cluster).get("move-back").await.unwrap();
    nova.world().servers.get_mut("s-1").unwrap()["OS-EXT-SRV-ATTR:host"] = "hv-1".into();
    nova.world().migrations.clear();
    nova.world().mood = Mood::Moves;
    let now = jiff::Timestamp::now();
    let written = json!({"newHost": "hv-2", "startedAt": now, "observedGeneration": 1, "conditions": [
        {"type": "Ready", "status": "False", "reason": "InProgress", "message": "", "lastTransitionTime": now},
        {"type": "InProgress", "status": "True", "reason": "Starting", "message": "", "lastTransitionTime": now}]});
    object.status = Some(serde_json::from_value(written).unwrap());
    objects(&cluster).replace_status("move-back", &PostParams::default(), &object).await.unwrap();
    let scheduler = Running::start(&cluster, 100).await;
    becomes(&cluster, "move-back", "Migrated").await;
    assert_eq!(nova.asked().len(), 2, "once for each of them");
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_moved_says_why() {
    let Some((cluster, nova)) = site().await else { return };
    let scheduler = Running::start(&cluster, 100).await;
    nova.world().mood = Mood::Refuses;
    ask(&cluster, "refused", false).await;
    let refused = becomes(&cluster, "refused", "Failed").await.status.unwrap();
    assert!(condition(&refused.conditions, "Ready").1.contains("No valid host was found"), "{refused:?}");
    nova.world().mood = Mood::Fails;
    ask(&cluster, "failed", false).await;
    let failed = becomes(&cluster, "failed", "Failed").await.status.unwrap();
    assert!(
        condition(&failed.conditions, "Ready").1.contains("ended with error, and it is on hv-1 still"),
        "{failed:?}"
    );
    nova.world().mood = Mood::Moves;
    nova.world().servers.get_mut("s-1").unwrap()["status"] = "SHUTOFF".into();
    ask(&cluster, "stopped", false).await;
    becomes(&cluster, "stopped", "NotMovable").await;
    nova.world().servers.get_mut("s-1").unwrap()["status"] = "ACTIVE".into();

    // hv-2 would carry 950 of its 1000 MiB, and hv-1 carries 900.
    busy_hypervisor(&cluster, "hv-2", 1000, 750, &[]).await;
    until("it would get hotter", async || {
        let name = format!("hotter-{}", objects(&cluster).list(&ListParams::default()).await.unwrap().items.len());
        ask(&cluster, &name, true).await;
        let ended = async || !ready(&cluster, &name).await.0.is_empty();
        until("it is judged", ended).await;
        ready(&cluster, &name)
            .await
            .1
            .contains("hv-2 would have 95.0 % of its memory taken, not less than the 90.0 % of hv-1")
    })
    .await;
    nova.world().servers.remove("s-1");
    ask(&cluster, "gone", false).await;
    becomes(&cluster, "gone", "AlreadyGone").await;
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_just_moved_waits_and_a_host_without_a_credential_does_too() {
    let Some((cluster, nova)) = site().await else { return };
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S").to_string();
    nova.world()
        .migrations
        .push(json!({"id": 1, "instance_uuid": "s-1", "status": "completed", "source_compute": "hv-2",
        "dest_compute": "hv-1", "created_at": now, "updated_at": now}));
    let scheduler = Running::start(&cluster, 100).await;
    ask(&cluster, "again", false).await;
    let waits = becomes(&cluster, "again", "Waiting").await.status.unwrap();
    assert!(condition(&waits.conditions, "Ready").1.contains("and is left where it is until"), "{waits:?}");
    // A dry run would not send it back to where it came from.
    ask(&cluster, "back", true).await;
    let back = becomes(&cluster, "back", "NoHostFound").await.status.unwrap();
    assert!(condition(&back.conditions, "Ready").1.contains("hv-2 is where it came from"), "{back:?}");
    scheduler.stop().await;

    let secrets: Api<Secret> = Api::default_namespaced(cluster.client());
    secrets.delete("cortex-clouds-yaml", &kube::api::DeleteParams::default()).await.unwrap();
    let scheduler = Running::start(&cluster, 100).await;
    detect(&cluster, Some(json!({"dryRun": false}))).await;
    detecting_says(&cluster, "secret/cortex-clouds-yaml does not exist").await;
    until("the object says so", async || ready(&cluster, "again").await.1.contains("does not exist")).await;
    assert_eq!(nova.asked(), moved(&[]));
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ended_long_ago_is_removed_and_what_holds_a_server_back_stays() {
    let Some((cluster, _nova)) = site().await else { return };
    let mut kept = BTreeMap::new();
    for (name, hours, stays) in [("old", 48, false), ("lately", 2, true)] {
        ask(&cluster, name, true).await;
        let mut object = objects(&cluster).get(name).await.unwrap();
        let ended = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(hours);
        let written = json!({"finishedAt": ended, "observedGeneration": 1, "conditions": [
            {"type": "Ready", "status": "False", "reason": "DryRun", "message": "", "lastTransitionTime": ended}]});
        object.status = Some(serde_json::from_value(written).unwrap());
        objects(&cluster).replace_status(name, &PostParams::default(), &object).await.unwrap();
        kept.insert(name, stays);
    }
    let scheduler = Running::start(&cluster, 100).await;
    until("only the young one is left", async || {
        let list = objects(&cluster).list(&ListParams::default()).await.unwrap();
        let names: Vec<String> = list.items.iter().map(ResourceExt::name_any).collect();
        names.iter().all(|name| kept[name.as_str()]) && names.len() == 1
    })
    .await;
    scheduler.stop().await;
}
