//! Keys of a Keystone that goes and comes back, and keys that are found in a backup.

use c5c3_api::ext::external_secrets::{ExternalSecret, PushDeletionPolicy, PushSecret};
use c5c3_api::openstack::Keystone;
use c5c3_operator_keystone::keys::{Key, KeySet};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};

use crate::life::fernet_keys;
use crate::world::{Stage, keystone, stage};
use c5c3_stage::{PATIENCE, ready_is};

fn secrets(stage: &Stage) -> Api<Secret> {
    Api::namespaced(stage.client.clone(), "cloud")
}

/// Deletes the Keystone, and waits until it and what goes with it are gone.
async fn delete(stage: &Stage) {
    let keystones: Api<Keystone> = Api::namespaced(stage.client.clone(), "cloud");
    keystones.delete("gate", &DeleteParams::default()).await.unwrap();
    gone(stage, "gate-fernet-keys-rotation").await;
}

async fn gone(stage: &Stage, secret: &str) {
    let is_gone = |found: Option<&Secret>| found.is_none();
    tokio::time::timeout(PATIENCE, await_condition(secrets(stage), secret, is_gone)).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_stay_when_a_keystone_goes_and_the_next_of_its_name_has_them() {
    let stage = stage().await;
    let _running = stage.operate();
    stage.create(&keystone(&json!({}))).await;
    stage.until_ready().await;
    let before = fernet_keys(&stage).await;
    delete(&stage).await;
    assert_eq!(fernet_keys(&stage).await.data, before.data);

    stage.create(&keystone(&json!({}))).await;
    stage.until_ready().await;
    let after = fernet_keys(&stage).await;
    assert_eq!(after.data, before.data);
    assert_eq!(after.metadata.annotations.unwrap()[SINCE], before.metadata.annotations.unwrap()[SINCE]);
}

const SINCE: &str = "keystone.openstack.c5c3.io/primary-since";

#[tokio::test(flavor = "multi_thread")]
async fn keys_go_with_a_keystone_that_is_told_to_leave_nothing_even_if_told_late() {
    let stage = stage().await;
    let _running = stage.operate();
    stage.create(&keystone(&json!({}))).await;
    stage.until_ready().await;
    let keystones: Api<Keystone> = Api::namespaced(stage.client.clone(), "cloud");
    let policy = Patch::Merge(json!({"spec": {"deletionPolicy": "Delete"}}));
    keystones.patch("gate", &PatchParams::default(), &policy).await.unwrap();
    for name in ["gate-fernet-keys", "gate-credential-keys"] {
        let is_owned =
            |secret: Option<&Secret>| secret.is_some_and(|secret| secret.metadata.owner_references.is_some());
        tokio::time::timeout(PATIENCE, await_condition(secrets(&stage), name, is_owned)).await.unwrap().unwrap();
    }
    delete(&stage).await;
    gone(&stage, "gate-fernet-keys").await;
    gone(&stage, "gate-credential-keys").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_backups_that_are_to_stay_after_all_stay_though_the_operator_heard_of_it_last() {
    let stage = stage().await.with_store().await;
    let running = stage.operate();
    stage.create(&keystone(&json!({"deletionPolicy": "Delete"}))).await;
    for secret in ["gate-fernet-keys", "gate-credential-keys"] {
        answer(&stage, secret, "SecretDeleted").await;
    }
    stage.until_ready().await;
    let pushes: Api<PushSecret> = Api::namespaced(stage.client.clone(), "cloud");
    // As External Secrets holds what it may have to take back from the store.
    let hold = Patch::Merge(json!({"metadata": {"finalizers": ["someone.example.org/hold"]}}));
    pushes.patch("gate-fernet-keys-backup", &PatchParams::default(), &hold).await.unwrap();
    drop(running);

    let keystones: Api<Keystone> = Api::namespaced(stage.client.clone(), "cloud");
    // The rest of it is wrong: what is said of data holds all the same.
    let wrong = json!({"spec": {"deletionPolicy": "Retain", "extraConfig": {"nonsense": {"x": "y"}}}});
    keystones.patch("gate", &PatchParams::default(), &Patch::Merge(wrong)).await.unwrap();
    keystones.delete("gate", &DeleteParams::background()).await.unwrap();
    let before = fernet_keys(&stage).await;
    assert!(
        before.metadata.owner_references.is_some_and(|owners| !owners.is_empty()),
        "the operator has not acted on it yet"
    );
    let _running = stage.operate();
    gone(&stage, "gate-fernet-keys-rotation").await;
    for name in ["gate-fernet-keys", "gate-credential-keys"] {
        let kept = secrets(&stage).get(name).await.unwrap().metadata;
        assert!(kept.owner_references.is_none_or(|owners| owners.is_empty()), "{name} has an owner");
        assert_eq!(kept.deletion_timestamp, None, "{name} goes");
    }
    assert_eq!(fernet_keys(&stage).await.data, before.data);
    let push = pushes.get("gate-fernet-keys-backup").await.unwrap();
    assert_eq!(push.spec.deletion_policy, Some(PushDeletionPolicy::None), "the backup stays as well");
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    pushes.patch("gate-fernet-keys-backup", &PatchParams::default(), &release).await.unwrap();
}

/// Says of what asks the store how that went.
async fn answer(stage: &Stage, secret: &str, reason: &str) {
    let asking: Api<ExternalSecret> = Api::namespaced(stage.client.clone(), "cloud");
    let name = format!("{secret}-restore");
    let there = |found: Option<&ExternalSecret>| found.is_some();
    tokio::time::timeout(PATIENCE, await_condition(asking.clone(), &name, there)).await.unwrap().unwrap();
    let ready = json!({"type": "Ready", "status": "True", "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = json!({"status": {"conditions": [ready], "refreshTime": "2026-01-01T00:00:00Z"}});
    asking.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_are_gone_come_back_from_the_store_and_only_without_a_backup_there_are_new_ones() {
    let stage = stage().await.with_store().await;
    let _running = stage.operate();
    stage.create(&keystone(&json!({}))).await;
    stage.until(ready_is("False", "LookingForBackup")).await;
    assert!(secrets(&stage).get_opt("gate-fernet-keys").await.unwrap().is_none());

    let backup = KeySet::new(Key::new([1; 32]), Key::new([2; 32])).rotated(Key::new([3; 32]));
    let restored: Value = json!({"metadata": {"name": "gate-fernet-keys-restore"}, "data": backup.data()});
    secrets(&stage).create(&PostParams::default(), &serde_json::from_value(restored).unwrap()).await.unwrap();
    answer(&stage, "gate-fernet-keys", "SecretSynced").await;
    // One answer is there, and the other takes its time.
    stage
        .until(|object: Option<&Keystone>| {
            let waits = object.and_then(|object| object.status.as_ref()).map(|status| &status.service.waiting_for);
            waits.is_some_and(|waits| !waits.iter().any(|wait| wait.object.contains("fernet")))
        })
        .await;
    answer(&stage, "gate-credential-keys", "SecretDeleted").await;
    stage.until_ready().await;
    assert_eq!(KeySet::read(&fernet_keys(&stage).await.data.unwrap()).unwrap(), backup);
    assert!(secrets(&stage).get_opt("gate-credential-keys").await.unwrap().is_some());
    let asking: Api<ExternalSecret> = Api::namespaced(stage.client.clone(), "cloud");
    for name in ["gate-fernet-keys-restore", "gate-credential-keys-restore"] {
        let gone = await_condition(asking.clone(), name, |found: Option<&ExternalSecret>| found.is_none());
        tokio::time::timeout(PATIENCE, gone).await.unwrap().unwrap();
    }
}
