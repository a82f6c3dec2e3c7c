//! DaemonSets, and the revisions that they keep.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::fixtures::{Stage, Tested, UNREADY, eventually, image, is_ready};

const HASH: &str = "controller-revision-hash";

fn set(image: &str, change: Value) -> Value {
    let mut spec = json!({"selector": {"matchLabels": {"app": "agent"}},
        "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "c", "image": image}]}}});
    if let (Some(spec), Value::Object(change)) = (spec.as_object_mut(), change) {
        spec.extend(change);
    }
    json!({"metadata": {"name": "agent", "labels": {"test": "daemon"}}, "spec": spec})
}

fn template(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}

fn status(set: &DaemonSet) -> Value {
    serde_json::to_value(&set.status).unwrap_or_default()
}

/// Whether a set runs on that many nodes, up to date and available.
fn is_on(nodes: i32) -> impl Fn(Option<&DaemonSet>) -> bool {
    move |set| {
        set.and_then(|set| set.status.as_ref().map(|status| (set, status))).is_some_and(|(set, status)| {
            status.desired_number_scheduled == nodes
                && status.number_ready == nodes
                && status.updated_number_scheduled.unwrap_or(0) == nodes
                && status.number_available.unwrap_or(0) == nodes
                && status.observed_generation == set.metadata.generation
        })
    }
}

/// The pods by node.
async fn placed(stage: &Stage) -> BTreeMap<String, String> {
    let pods = stage.pods("app=agent").await.into_values();
    pods.map(|pod| (pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default(), pod.name_any()))
        .collect()
}

async fn label_node(stage: &Stage, name: &str, labels: Value) {
    let change = Patch::Merge(json!({"metadata": {"labels": labels}}));
    let nodes = Api::<Node>::all(stage.client.clone());
    nodes.patch(name, &PatchParams::default(), &change).await.expect("a node is labelled");
}

/// Conformance: "Daemon set should run and stop simple daemon".
#[tokio::test]
async fn every_node_has_its_pod_and_gets_it_back() -> Tested {
    let stage = Stage::set(&["n1", "n2"]).await;
    let api = stage.api::<DaemonSet>();
    stage.create::<DaemonSet>(set("agent:1", json!({}))).await;
    eventually(&api, "agent", is_on(2)).await;
    let before = placed(&stage).await;
    assert_eq!(before.keys().collect::<Vec<_>>(), ["n1", "n2"]);
    stage.api::<Pod>().delete(&before["n1"], &DeleteParams::default()).await?;
    stage
        .pods_until("app=agent", |pods| {
            pods.len() == 2 && pods.iter().all(|pod| is_ready(pod) && pod.name_any() != before["n1"])
        })
        .await;
    assert_eq!(placed(&stage).await["n2"], before["n2"]);
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "n3"}}))?;
    Api::all(stage.client.clone()).create(&PostParams::default(), &node).await?;
    eventually(&api, "agent", is_on(3)).await;
    api.delete("agent", &DeleteParams::background()).await?;
    stage.pods_until("app=agent", <[Pod]>::is_empty).await;
    Ok(())
}

/// Conformance: "Daemon set should run and stop complex daemon".
#[tokio::test]
async fn a_selector_follows_the_labels_of_nodes() -> Tested {
    let stage = Stage::set(&["n1", "n2"]).await;
    let api = stage.api::<DaemonSet>();
    let mut object = set("agent:1", json!({}));
    object["spec"]["template"]["spec"]["nodeSelector"] = json!({"color": "blue"});
    stage.create::<DaemonSet>(object).await;
    eventually(&api, "agent", is_on(0)).await;
    label_node(&stage, "n1", json!({"color": "blue"})).await;
    eventually(&api, "agent", is_on(1)).await;
    assert_eq!(placed(&stage).await.into_keys().collect::<Vec<_>>(), ["n1"]);
    label_node(&stage, "n1", json!({"color": "green"})).await;
    stage.pods_until("app=agent", <[Pod]>::is_empty).await;
    let green = json!({"spec": {"updateStrategy": {"type": "RollingUpdate"}, "template": {"spec": {"nodeSelector": {"color": "green"}}}}});
    stage.change::<DaemonSet>("agent", green).await;
    eventually(&api, "agent", is_on(1)).await;
    Ok(())
}

#[tokio::test]
async fn a_taint_keeps_new_pods_away_and_drives_old_ones_out() -> Tested {
    let stage = Stage::set(&["n1", "n2"]).await;
    let api = stage.api::<DaemonSet>();
    let nodes = Api::<Node>::all(stage.client.clone());
    let taint = |effect: &str| Patch::Merge(json!({"spec": {"taints": [{"key": "k", "effect": effect}]}}));
    nodes.patch("n1", &PatchParams::default(), &taint("NoSchedule")).await?;
    stage.create::<DaemonSet>(set("agent:1", json!({}))).await;
    eventually(&api, "agent", is_on(1)).await;
    nodes.patch("n2", &PatchParams::default(), &taint("NoSchedule")).await?;
    let kept = |set: Option<&DaemonSet>| set.is_some_and(|set| status(set)["numberMisscheduled"] == 1);
    eventually(&api, "agent", kept).await;
    assert_eq!(placed(&stage).await.into_keys().collect::<Vec<_>>(), ["n2"], "one that runs may stay");
    nodes.patch("n2", &PatchParams::default(), &taint("NoExecute")).await?;
    stage.pods_until("app=agent", <[Pod]>::is_empty).await;
    let cordoned = json!({"spec": {"unschedulable": true, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}});
    nodes.patch("n2", &PatchParams::default(), &Patch::Merge(cordoned)).await?;
    eventually(&api, "agent", is_on(1)).await;
    Ok(())
}

/// Conformance: "Daemon set should retry creating failed daemon pods".
#[tokio::test]
async fn a_pod_that_failed_is_replaced() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let api = stage.api::<DaemonSet>();
    stage.create::<DaemonSet>(set("agent:1", json!({}))).await;
    eventually(&api, "agent", is_on(1)).await;
    let failed = placed(&stage).await["n1"].clone();
    let change = Patch::Merge(json!({"status": {"phase": "Failed"}}));
    stage.api::<Pod>().patch_status(&failed, &PatchParams::default(), &change).await?;
    stage
        .pods_until("app=agent", |pods| {
            pods.len() == 1 && pods.iter().all(|pod| is_ready(pod) && pod.name_any() != failed)
        })
        .await;
    assert!(
        stage
            .told("agent")
            .await
            .iter()
            .any(|line| line.starts_with("Warning FailedDaemonPod Found failed daemon pod default/agent-"))
    );
    Ok(())
}

/// Conformance: "Daemon set should update pod when spec was updated and update strategy is RollingUpdate".
#[tokio::test]
async fn an_update_goes_node_by_node() -> Tested {
    let stage = Stage::set(&["n1", "n2", "n3"]).await;
    let api = stage.api::<DaemonSet>();
    stage.create::<DaemonSet>(set("agent:1", json!({}))).await;
    eventually(&api, "agent", is_on(3)).await;
    stage.change::<DaemonSet>("agent", template("agent:2")).await;
    stage
        .pods_until("app=agent", |pods| {
            let sound = pods.iter().filter(|pod| is_ready(pod) && pod.metadata.deletion_timestamp.is_none()).count();
            assert!(sound >= 2, "one is missing at most");
            pods.len() == 3 && sound == 3 && pods.iter().all(|pod| image(pod) == "agent:2")
        })
        .await;
    eventually(&api, "agent", is_on(3)).await;
    let hashes: BTreeSet<String> =
        stage.pods("app=agent").await.values().map(|pod| pod.labels()[HASH].clone()).collect();
    let revisions = stage.api::<ControllerRevision>().list(&ListParams::default()).await?;
    let newest = revisions.iter().max_by_key(|revision| revision.revision).expect("a revision");
    assert_eq!((newest.revision, hashes), (2, [newest.labels()[HASH].clone()].into()));
    Ok(())
}

#[tokio::test]
async fn a_surge_leaves_no_node_without() -> Tested {
    let stage = Stage::set(&["n1", "n2"]).await;
    let api = stage.api::<DaemonSet>();
    let surge = json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}});
    stage.create::<DaemonSet>(set("agent:1", surge)).await;
    eventually(&api, "agent", is_on(2)).await;
    stage.change::<DaemonSet>("agent", template("agent:2")).await;
    stage
        .pods_until("app=agent", |pods| {
            let alive: Vec<&Pod> = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect();
            assert!(alive.iter().filter(|pod| is_ready(pod)).count() >= 2, "none is ever missing");
            alive.len() == 2 && alive.iter().all(|pod| image(pod) == "agent:2")
        })
        .await;
    Ok(())
}

#[tokio::test]
async fn a_set_that_updates_on_delete_does_so_only_then() -> Tested {
    let stage = Stage::set(&["n1", "n2"]).await;
    let api = stage.api::<DaemonSet>();
    stage.create::<DaemonSet>(set("agent:1", json!({"updateStrategy": {"type": "OnDelete"}}))).await;
    eventually(&api, "agent", is_on(2)).await;
    stage.change::<DaemonSet>("agent", template("agent:2")).await;
    let outdated = |set: Option<&DaemonSet>| {
        set.is_some_and(|set| {
            status(set)["observedGeneration"] == 2 && status(set)["updatedNumberScheduled"] == Value::Null
        })
    };
    eventually(&api, "agent", outdated).await;
    let old = placed(&stage).await;
    stage.api::<Pod>().delete(&old["n1"], &DeleteParams::default()).await?;
    let half = |set: Option<&DaemonSet>| {
        set.is_some_and(|set| status(set)["updatedNumberScheduled"] == 1 && status(set)["numberReady"] == 2)
    };
    eventually(&api, "agent", half).await;
    assert_eq!(placed(&stage).await["n2"], old["n2"]);
    Ok(())
}

/// Conformance: "Daemon set should rollback without unnecessary restarts".
#[tokio::test]
async fn a_rollback_restarts_only_what_had_been_changed() -> Tested {
    let stage = Stage::set(&["n1", "n2"]).await;
    let api = stage.api::<DaemonSet>();
    stage.create::<DaemonSet>(set("agent:1", json!({}))).await;
    eventually(&api, "agent", is_on(2)).await;
    let before = placed(&stage).await;
    stage.change::<DaemonSet>("agent", template(UNREADY)).await;
    stage.pods_until("app=agent", |pods| pods.iter().any(|pod| image(pod) == UNREADY)).await;
    let revisions = stage.api::<ControllerRevision>().list(&ListParams::default()).await?;
    let first = revisions.iter().find(|revision| revision.revision == 1).expect("the first revision");
    let back = first.data.clone().expect("a template").0;
    // As `kubectl rollout undo` does it.
    api.patch("agent", &PatchParams::default(), &Patch::Strategic(back)).await?;
    eventually(&api, "agent", is_on(2)).await;
    let after = placed(&stage).await;
    assert_eq!(
        before.iter().filter(|(node, pod)| after.get(*node) == Some(pod)).count(),
        1,
        "the other one was never touched"
    );
    Ok(())
}

/// Conformance: "Daemon set should verify changes to a daemon set status" and "should list and delete a collection of
/// DaemonSets".
#[tokio::test]
async fn a_set_lives_with_what_others_write_into_its_status() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let api = stage.api::<DaemonSet>();
    stage.create::<DaemonSet>(set("agent:1", json!({}))).await;
    let mut found = eventually(&api, "agent", is_on(1)).await.expect("a set");
    let condition = json!({"type": "StatusUpdate", "status": "True", "reason": "E2E"});
    found.status.get_or_insert_default().conditions = Some(vec![serde_json::from_value(condition)?]);
    api.replace_status("agent", &PostParams::default(), &found).await?;
    let patch = json!({"status": {"conditions": [{"type": "StatusPatched", "status": "True"}], "numberReady": 7}});
    api.patch_status("agent", &PatchParams::default(), &Patch::Merge(patch)).await?;
    let found = eventually(&api, "agent", is_on(1)).await.expect("a set");
    assert_eq!(status(&found)["conditions"][0]["type"], "StatusPatched");
    api.delete_collection(&DeleteParams::default(), &ListParams::default().labels("test=daemon")).await?;
    stage.pods_until("app=agent", <[Pod]>::is_empty).await;
    Ok(())
}

/// The names of the revisions of the set.
async fn revisions_of(stage: &Stage) -> Result<BTreeSet<String>, kube::Error> {
    let listed = stage.api::<ControllerRevision>().list(&ListParams::default().labels("app=agent")).await?;
    Ok(listed.iter().map(ResourceExt::name_any).collect())
}

/// A revision that someone made by hand after another one: of this template, under this hash.
async fn by_hand(stage: &Stage, after: &ControllerRevision, data: Value, hash: &str) -> ControllerRevision {
    let mut made = after.clone();
    made.metadata = kube::core::ObjectMeta {
        name: Some("agent-byhand".into()),
        labels: after.metadata.labels.clone(),
        owner_references: after.metadata.owner_references.clone(),
        ..kube::core::ObjectMeta::default()
    };
    made.labels_mut().insert(HASH.into(), hash.into());
    made.revision += 1;
    made.data = Some(RawExtension(data));
    stage.api::<ControllerRevision>().create(&PostParams::default(), &made).await.expect("a revision is created")
}

/// Conformance: "ControllerRevision should manage the lifecycle of a ControllerRevision", but that the one made by hand
/// is of a template that the set never had: of two that are of the same one, the next look at the set leaves one.
#[tokio::test]
async fn revisions_are_read_patched_created_updated_and_deleted() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let api = stage.api::<DaemonSet>();
    let revisions = stage.api::<ControllerRevision>();
    stage.create::<DaemonSet>(set("agent:1", json!({}))).await;
    eventually(&api, "agent", is_on(1)).await;
    let first = revisions.list(&ListParams::default().labels("app=agent")).await?.items.remove(0);
    let patch = Patch::Merge(json!({"metadata": {"labels": {first.name_any(): "patched"}}}));
    let patched = revisions.patch(&first.name_any(), &PatchParams::default(), &patch).await?;
    assert_eq!(patched.labels()[&first.name_any()], "patched");
    let second = by_hand(&stage, &patched, template("agent:0"), "byhand").await.name_any();
    assert_eq!(revisions_of(&stage).await?, BTreeSet::from([first.name_any(), second.clone()]));
    // The set may look at it before its template changes, and make it again.
    revisions.delete(&first.name_any(), &DeleteParams::default()).await?;
    let relabel = Patch::Merge(json!({"metadata": {"labels": {"agent-byhand": "updated"}}}));
    revisions.patch(&second, &PatchParams::default(), &relabel).await?;
    let change = json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}});
    stage.change::<DaemonSet>("agent", change).await;
    eventually(&api, "agent", is_on(1)).await;
    let mut kept = revisions_of(&stage).await?;
    assert!(kept.contains(&second) && kept.iter().any(|name| *name != first.name_any() && *name != second), "{kept:?}");
    revisions
        .delete_collection(&DeleteParams::default(), &ListParams::default().labels("agent-byhand=updated"))
        .await?;
    kept.remove(&second);
    assert_eq!(revisions_of(&stage).await?, kept);
    Ok(())
}

#[tokio::test]
async fn of_two_revisions_of_one_template_the_newer_is_kept_and_no_pod_is_restarted_for_it() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let api = stage.api::<DaemonSet>();
    stage.create::<DaemonSet>(set("agent:1", json!({}))).await;
    eventually(&api, "agent", is_on(1)).await;
    let before = placed(&stage).await;
    let first = stage.api::<ControllerRevision>().list(&ListParams::default()).await?.items.remove(0);
    let same = first.data.clone().expect("a template").0;
    let second = by_hand(&stage, &first, same, "byhand").await.name_any();
    stage.change::<DaemonSet>("agent", json!({"metadata": {"annotations": {"look": "again"}}})).await;
    let is_gone = |revision: Option<&ControllerRevision>| revision.is_none();
    eventually(&stage.api::<ControllerRevision>(), &first.name_any(), is_gone).await;
    assert_eq!(revisions_of(&stage).await?, BTreeSet::from([second]));
    let is_relabelled = |pods: &[Pod]| pods.iter().all(|pod| pod.labels()[HASH] == "byhand" && is_ready(pod));
    stage.pods_until("app=agent", is_relabelled).await;
    // The set does one thing after the other: once it has seen this, a restart would have begun.
    stage.change::<DaemonSet>("agent", json!({"spec": {"revisionHistoryLimit": 3}})).await;
    eventually(&api, "agent", is_on(1)).await;
    assert_eq!(placed(&stage).await, before);
    Ok(())
}
