//! What becomes of passwords, volumes and keys when something is lost, switched off or deleted.

use c5c3_api::ext::rook::NAMESPACE;
use c5c3_harness::Fault;
use kube::api::{DeleteParams, Patch, PatchParams, PropagationPolicy};
use serde_json::json;

use crate::stage::{Stage, foreign, small};

#[tokio::test]
async fn a_root_password_that_is_lost_is_asked_for_and_not_made_up_again() {
    let mut stage = Stage::set().await;
    let home = stage.cluster.namespace().to_owned();
    stage.ready(&home, &small()).await;
    let made = stage.get(&home, "Secret/mariadb-root-credentials").await.unwrap();
    let secrets = stage.api(&home, "Secret");
    secrets.delete("mariadb-root-credentials", &DeleteParams::default()).await.unwrap();
    stage.until_reason(&home, "InfrastructureReady", "RootPasswordLost").await;
    let message = stage.condition(&home, "InfrastructureReady").await["message"].as_str().unwrap().to_owned();
    assert!(message.contains("restore secret/mariadb-root-credentials from a backup"), "{message}");
    stage.kill();
    stage.apply(&home, &json!({"services": {"keystone": {}}, "infrastructure": {"memcached": {"replicas": 1}}})).await;
    stage
        .until("the rest goes on", async || {
            stage.get(&home, "StatefulSet/memcached").await.unwrap().data["spec"]["replicas"] == 1
        })
        .await;
    assert_eq!(stage.password(&home).await, None, "servers would not take another one");

    // As a user writes it who has the value and nothing else.
    let restored = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mariadb-root-credentials"},
        "data": made.data["data"]});
    let params = PatchParams::apply("someone");
    secrets.patch("mariadb-root-credentials", &params, &Patch::Apply(restored)).await.unwrap();
    stage.is_ready(&home, "StatefulSet/memcached").await;
    stage.until_reason(&home, "Ready", "AllServicesReady").await;
}

#[tokio::test]
async fn a_root_password_that_no_server_knows_yet_is_made_up_again() {
    let mut stage = Stage::set().await;
    let home = stage.cluster.namespace().to_owned();
    stage.cluster.inject(Fault::answer(500).to("patch", "/mariadbs").always());
    stage.apply(&home, &small()).await;
    stage.until_there(&home, "Secret/mariadb-root-credentials").await;
    let first = stage.password(&home).await;
    // The operator dies between the two, and the first is lost.
    stage.kill();
    stage.api(&home, "Secret").delete("mariadb-root-credentials", &DeleteParams::default()).await.unwrap();
    stage.until("there is another one", async || stage.password(&home).await.is_some()).await;
    assert_ne!(stage.password(&home).await, first);
    stage.cluster.heal();
    stage.ready(&home, &small()).await;
}

#[tokio::test]
async fn a_control_plane_goes_in_reverse_order_and_leaves_its_data() {
    let stage = Stage::set().await;
    let home = stage.cluster.namespace();
    stage.ready(home, &small()).await;
    let password = stage.password(home).await;
    let hold = Patch::Merge(json!({"metadata": {"finalizers": ["someone.example.org/hold"]}}));
    stage.api(home, "Keystone").patch("keystone", &PatchParams::default(), &hold).await.unwrap();
    stage.api(home, "ControlPlane").delete("lab", &DeleteParams::default()).await.unwrap();
    stage.until_reason(home, "Ready", "Deleting").await;
    assert!(stage.get(home, "MariaDB/mariadb").await.is_some(), "the database outlives who writes to it");
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    stage.api(home, "Keystone").patch("keystone", &PatchParams::default(), &release).await.unwrap();
    stage.until_gone(home, "MariaDB/mariadb").await;
    stage.until_gone(home, "ControlPlane/lab").await;
    let accounts = ["keystone-admin-credentials", "mariadb-root-credentials"];
    let kept = accounts.map(|name| format!("secret/{name}"));
    stage.until_left(home, &kept.each_ref().map(String::as_str)).await;
    assert_eq!(stage.password(home).await, password, "what opens the data stays with it");
    // Another one of the same name goes on with it.
    stage.ready(home, &small()).await;
    assert_eq!(stage.password(home).await, password);
}

#[tokio::test]
async fn pools_of_ceph_stay_with_what_is_in_them_when_their_users_go() {
    let stage = Stage::set().await;
    let (home, rook) = (stage.cluster.namespace(), stage.cluster.namespace_named(NAMESPACE).await.unwrap());
    if rook != NAMESPACE {
        eprintln!("skipped: on another cluster the namespace of Rook is not the test's own");
        return;
    }
    for plural in ["cephclusters", "cephblockpools", "cephclients"] {
        stage.cluster.install(&foreign("ceph.rook.io", plural)).await.unwrap();
    }
    let object = |kind: &str, spec| json!({"apiVersion": "ceph.rook.io/v1", "kind": kind, "spec": spec});
    let pools = ["images", "volumes"].map(|name| ("CephBlockPool", name, json!({"replicated": {"size": 1}})));
    for (kind, name, spec) in [("CephCluster", "rook-ceph", json!({"mon": {"count": 1}}))].into_iter().chain(pools) {
        let (api, params) = (stage.api(&rook, kind), PatchParams::apply("someone"));
        api.patch(name, &params, &Patch::Apply(object(kind, spec))).await.unwrap();
        let ready = Patch::Merge(json!({"status": {"phase": "Ready", "observedGeneration": 1}}));
        api.patch_status(name, &PatchParams::default(), &ready).await.unwrap();
    }
    for policy in ["Retain", "Delete"] {
        let services = json!({"keystone": {}, "glance": {"backend": {"type": "rbd"}}, "cinder": {}});
        stage.apply(home, &json!({"deletionPolicy": policy, "services": services})).await;
        for user in ["CephClient/glance", "CephClient/cinder"] {
            stage.until_there(&rook, user).await;
        }
        stage.api(home, "ControlPlane").delete("lab", &DeleteParams::default()).await.unwrap();
        stage.until_gone(home, "ControlPlane/lab").await;
        for user in ["CephClient/glance", "CephClient/cinder"] {
            stage.until_gone(&rook, user).await;
        }
        for kept in ["CephCluster/rook-ceph", "CephBlockPool/images", "CephBlockPool/volumes"] {
            let found = stage.get(&rook, kept).await.unwrap_or_else(|| panic!("{kept} is gone with {policy}"));
            assert_eq!(found.metadata.deletion_timestamp, None, "{kept} with {policy}");
        }
    }
}

#[tokio::test]
async fn a_control_plane_that_is_deleted_alone_leaves_all_that_it_made() {
    let stage = Stage::set().await;
    let home = stage.cluster.namespace();
    stage.ready(home, &small()).await;
    let made = stage.made(home).await;
    let alone = DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    stage.api(home, "ControlPlane").delete("lab", &alone).await.unwrap();
    stage.until_gone(home, "ControlPlane/lab").await;
    for part in ["Keystone/keystone", "MariaDB/mariadb", "StatefulSet/memcached"] {
        let left = stage.get(home, part).await.unwrap_or_else(|| panic!("{part} is gone")).metadata;
        assert_eq!(left.deletion_timestamp, None, "{part} goes");
        assert!(left.owner_references.is_none_or(|owners| owners.is_empty()), "{part} has an owner");
    }
    assert_eq!(stage.made(home).await, made);
}

#[tokio::test]
async fn a_control_plane_that_is_asked_to_takes_its_data_along() {
    let stage = Stage::set().await;
    let home = stage.cluster.namespace();
    stage.ready(home, &small()).await;
    stage.apply(home, &json!({"deletionPolicy": "Delete", "services": {"keystone": {}}})).await;
    stage
        .until("the volumes are to go", async || {
            let mariadb = stage.get(home, "MariaDB/mariadb").await.unwrap();
            mariadb.data["spec"]["storage"]["pvcRetentionPolicy"]["whenDeleted"] == "Delete"
        })
        .await;
    stage.owned(home, "Secret/mariadb-root-credentials").await;
    stage.api(home, "ControlPlane").delete("lab", &DeleteParams::default()).await.unwrap();
    stage.until_gone(home, "ControlPlane/lab").await;
    stage.until_left(home, &[]).await;
}

#[tokio::test]
async fn data_that_is_to_stay_after_all_stays_though_the_operator_heard_of_it_last() {
    let mut stage = Stage::set().await;
    let home = stage.cluster.namespace().to_owned();
    stage.ready(&home, &json!({"deletionPolicy": "Delete", "services": {"keystone": {}}})).await;
    stage.owned(&home, "Secret/mariadb-root-credentials").await;
    stage.plays_keystone(&home).await;
    stage.stop().await;
    // The release is unknown: the deletion policy applies all the same.
    stage.apply(&home, &json!({"openStackRelease": "2031.1", "services": {"keystone": {}}})).await;
    stage.api(&home, "ControlPlane").delete("lab", &DeleteParams::default()).await.unwrap();
    stage.kill();
    stage
        .until("Keystone is told", async || {
            let keystone = stage.get(&home, "Keystone/keystone").await.unwrap();
            keystone.data["spec"]["deletionPolicy"] == "Retain"
        })
        .await;
    stage.until_reason(&home, "Ready", "Deleting").await;
    let message = stage.condition(&home, "Ready").await["message"].as_str().unwrap().to_owned();
    assert!(message.contains("secret/keystone-fernet-keys is retained when keystone/keystone is deleted"), "{message}");
    let mariadb = stage.get(&home, "MariaDB/mariadb").await.unwrap();
    assert_eq!(mariadb.data["spec"]["storage"].pointer("/pvcRetentionPolicy/whenDeleted"), None);
    for part in ["Keystone/keystone", "MariaDB/mariadb"] {
        let meta = stage.get(&home, part).await.unwrap().metadata;
        assert_eq!(meta.deletion_timestamp, None, "{part} waits until Keystone's operator has followed");
    }
    let release = Patch::Merge(json!({"metadata": {"ownerReferences": null}}));
    stage.api(&home, "Secret").patch("keystone-fernet-keys", &PatchParams::default(), &release).await.unwrap();
    stage.until_gone(&home, "ControlPlane/lab").await;
    let accounts = ["keystone-admin-credentials", "mariadb-root-credentials"];
    let kept = accounts.map(|name| format!("secret/{name}"));
    stage.until_left(&home, &kept.each_ref().map(String::as_str)).await;
    assert!(stage.get(&home, "Secret/keystone-fernet-keys").await.is_some());
}

#[tokio::test]
async fn volumes_that_would_go_against_the_policy_hold_their_server_and_say_how_to_keep_them() {
    let mut stage = Stage::set().await;
    let home = stage.cluster.namespace().to_owned();
    stage.ready(&home, &json!({"deletionPolicy": "Delete", "services": {"keystone": {}}})).await;
    let volumes = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "mariadb"}, "spec": {
        "selector": {"matchLabels": {"part": "x"}}, "serviceName": "x", "replicas": 0,
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
        "template": {"metadata": {"labels": {"part": "x"}}, "spec": {"containers": [{"name": "x", "image": "x"}]}}}});
    let sets = stage.api(&home, "StatefulSet");
    sets.patch("mariadb", &PatchParams::apply("mariadb-operator"), &Patch::Apply(volumes)).await.unwrap();
    stage.stop().await;
    stage.apply(&home, &small()).await;
    stage.api(&home, "ControlPlane").delete("lab", &DeleteParams::default()).await.unwrap();
    stage.kill();
    stage.until_reason(&home, "Ready", "Deleting").await;
    let message = stage.condition(&home, "Ready").await["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("statefulset/mariadb keeps its volumes") && message.contains("kubectl patch"),
        "{message}"
    );
    assert_eq!(stage.get(&home, "MariaDB/mariadb").await.unwrap().metadata.deletion_timestamp, None);
    let skip = Patch::Merge(json!({"metadata": {"annotations": {"c5c3.io/skip-cleanup": "true"}}}));
    stage.api(&home, "ControlPlane").patch("lab", &PatchParams::default(), &skip).await.unwrap();
    stage.until_gone(&home, "ControlPlane/lab").await;
}

#[tokio::test]
async fn the_deletion_policy_is_applied_while_the_database_is_down() {
    let stage = Stage::set().await;
    let home = stage.cluster.namespace();
    stage.ready(home, &json!({"deletionPolicy": "Delete", "services": {"keystone": {}}})).await;
    let down = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Down", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    stage.api(home, "MariaDB").patch_status("mariadb", &PatchParams::default(), &Patch::Merge(down)).await.unwrap();
    stage.until_reason(home, "InfrastructureReady", "WaitingForMariaDB").await;
    stage.apply(home, &json!({"services": {"keystone": {"replicas": 5}}})).await;
    stage
        .until("Keystone is told", async || {
            let keystone = stage.get(home, "Keystone/keystone").await.unwrap();
            keystone.data["spec"]["deletionPolicy"] == "Retain"
        })
        .await;
    stage
        .until("other changes come, too", async || {
            stage.get(home, "Keystone/keystone").await.unwrap().data["spec"]["replicas"] == 5
        })
        .await;
}

#[tokio::test]
async fn a_part_that_is_switched_off_loses_no_data_while_the_control_plane_stays() {
    let stage = Stage::set().await;
    let home = stage.cluster.namespace();
    stage.ready(home, &json!({"deletionPolicy": "Delete", "services": {"keystone": {}}})).await;
    stage.plays_keystone(home).await;
    let password = stage.password(home).await;
    stage.apply(home, &json!({"deletionPolicy": "Delete", "services": {"keystone": {"enabled": false}}})).await;
    stage.until_reason(home, "Ready", "InvalidSpec").await;
    let message = stage.condition(home, "Ready").await["message"].as_str().unwrap().to_owned();
    assert!(message.contains("set spec.deletionPolicy to Retain first"), "{message}");
    for part in ["Keystone/keystone", "MariaDB/mariadb"] {
        assert_eq!(stage.get(home, part).await.unwrap().metadata.deletion_timestamp, None, "{part}");
    }

    // Both at once: Keystone is told first, and goes when its operator has followed.
    stage.apply(home, &json!({"services": {"keystone": {"enabled": false}}})).await;
    stage
        .until("the keys are waited for", async || {
            let status = stage.get(home, "ControlPlane/lab").await.unwrap().data["status"].clone();
            let waits = status["waitingFor"].as_array().cloned().unwrap_or_default();
            waits.iter().any(|wait| wait["object"] == "secret/keystone-fernet-keys")
        })
        .await;
    assert_eq!(stage.get(home, "Keystone/keystone").await.unwrap().data["spec"]["deletionPolicy"], "Retain");
    let release = Patch::Merge(json!({"metadata": {"ownerReferences": null}}));
    stage.api(home, "Secret").patch("keystone-fernet-keys", &PatchParams::default(), &release).await.unwrap();
    let touch = Patch::Merge(json!({"metadata": {"annotations": {"someone.example.org/was-here": "yes"}}}));
    stage.api(home, "ControlPlane").patch("lab", &PatchParams::default(), &touch).await.unwrap();
    stage.until_gone(home, "Keystone/keystone").await;
    stage.until_gone(home, "MariaDB/mariadb").await;
    stage.ready(home, &small()).await;
    assert_eq!(stage.password(home).await, password, "it goes on where it was");
    assert!(stage.get(home, "Secret/keystone-fernet-keys").await.is_some());
}
