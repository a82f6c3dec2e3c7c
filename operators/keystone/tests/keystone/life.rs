//! Keystones on a whole API server: schemas, field owners, garbage collection and all.

use std::collections::BTreeMap;
use std::time::Duration;

use c5c3_api::openstack::Keystone;
use c5c3_harness::Fault;
use c5c3_operator_keystone::keys::{Key, KeySet};
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};

use crate::world::{Stage, keystone, stage};
use c5c3_stage::{PATIENCE, ready_is};

/// The version of every object in the namespace.
pub async fn versions(stage: &Stage) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    let kinds = [
        ("v1", "Secret"),
        ("v1", "Service"),
        ("v1", "ServiceAccount"),
        ("apps/v1", "Deployment"),
        ("batch/v1", "Job"),
        ("batch/v1", "CronJob"),
        ("policy/v1", "PodDisruptionBudget"),
        ("networking.k8s.io/v1", "NetworkPolicy"),
        ("rbac.authorization.k8s.io/v1", "Role"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        ("k8s.mariadb.com/v1alpha1", "Database"),
        ("k8s.mariadb.com/v1alpha1", "User"),
        ("k8s.mariadb.com/v1alpha1", "Grant"),
        ("keystone.openstack.c5c3.io/v1alpha1", "Keystone"),
    ];
    for (api_version, kind) in kinds {
        let api = stage.api(&json!({"apiVersion": api_version, "kind": kind}));
        for object in api.list(&ListParams::default()).await.unwrap() {
            versions.insert(format!("{kind}/{}", object.name_any()), object.resource_version().unwrap_or_default());
        }
    }
    versions
}

pub async fn fernet_keys(stage: &Stage) -> Secret {
    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), "cloud");
    secrets.get("gate-fernet-keys").await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_keystone_on_the_same_schema_is_refused_and_told_which_field_to_set() {
    let stage = stage().await;
    let _running = stage.operate();
    stage.create(&keystone(&json!({}))).await;
    stage.until_ready().await;
    let mut second = keystone(&json!({}));
    second["metadata"]["name"] = json!("second");
    stage.create(&second).await;
    let told = |object: &DynamicObject| {
        let conditions = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is_refused = |one: &Value| one["type"] == "DatabaseReady" && one["reason"] == "ForeignObject";
        conditions.into_iter().find(is_refused).map(|one| one["message"].as_str().unwrap_or_default().to_owned())
    };
    let refused = |object: Option<&DynamicObject>| object.is_some_and(|object| told(object).is_some());
    let waited = await_condition(stage.api(&second), "second", refused);
    let object = tokio::time::timeout(PATIENCE, waited).await.unwrap().unwrap().unwrap();
    let message = told(&object).unwrap();
    assert!(message.contains("Keystone/cloud/gate") && message.contains("set spec.database.database"), "{message}");
    let databases = stage.api(&json!({"apiVersion": "k8s.mariadb.com/v1alpha1", "kind": "Database"}));
    assert_eq!(databases.list(&ListParams::default()).await.unwrap().items.len(), 1, "the second has none");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keystone_becomes_ready_and_one_that_is_unchanged_is_not_written() {
    let stage = stage().await;
    let running = stage.operate();
    stage.create(&keystone(&json!({}))).await;
    let ready = stage.until_ready().await;
    let status = ready.status.unwrap().service;
    assert_eq!(status.endpoint.as_deref(), Some("http://gate.cloud.svc.cluster.local:5000"));
    let untrue = |c: &&c5c3_api::blocks::Condition| format!("{:?}", c.status) != "True";
    let untrue: Vec<&str> = status.conditions.iter().filter(untrue).map(|c| c.r#type.as_str()).collect();
    assert_eq!(untrue, ["Progressing", "Degraded"]);
    stage
        .until(|object: Option<&Keystone>| {
            object.is_some_and(|object| {
                object.status.as_ref().is_some_and(|status| status.service.installed_release.is_some())
            })
        })
        .await;
    drop(running);

    let before = versions(&stage).await;
    let again = stage.operate();
    let reported = || {
        again
            .metrics
            .text()
            .lines()
            .any(|line| line.starts_with("c5c3_reconcile_duration_seconds_count") && line.contains("report"))
    };
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !reported() {
        assert!(tokio::time::Instant::now() < deadline, "no reconcile: {}", again.metrics.text());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(versions(&stage).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keystone_gets_there_through_conflicts_failures_and_lost_answers() {
    let stage = stage().await;
    stage.cluster.inject(Fault::answer(409).to("patch", "/secrets").times(3));
    stage.cluster.inject(Fault::answer(500).to("patch", "/jobs").times(2));
    stage.cluster.inject(Fault::lose_answer().to("patch", "/secrets/gate-fernet-keys").times(2));
    stage.cluster.inject(Fault::answer(500).to("get", "/secrets").after(4).times(3));
    stage.cluster.inject(Fault::disconnect().to("patch", "/keystones").times(2));
    let _running = stage.operate();
    stage.create(&keystone(&json!({}))).await;
    stage.until_ready().await;
    let left = stage.cluster.faults_left();
    assert!(left.is_empty(), "these did not happen: {left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_is_killed_again_and_again_loses_no_key() {
    let stage = stage().await;
    stage.create(&keystone(&json!({}))).await;
    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), "cloud");
    let (mut keys, mut kills) = (None, 0);
    // Each lives longer than the one before: until one has made keys, and then a few more, which find keys that they could lose.
    for milliseconds in (5..).step_by(10) {
        let running = stage.operate();
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        drop(running);
        let now = secrets.get_opt("gate-fernet-keys").await.unwrap().and_then(|secret| secret.data);
        assert!(keys.is_none() || keys == now, "the keys changed");
        kills += u8::from(keys.is_some());
        keys = now;
        if kills == 5 {
            break;
        }
    }
    let _running = stage.operate();
    stage.until_ready().await;
    assert!(keys.is_some());
    assert_eq!(keys, fernet_keys(&stage).await.data);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_object_is_left_alone_and_reported() {
    let stage = stage().await;
    let mine = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "gate", "namespace": "cloud"},
                      "spec": {"ports": [{"port": 80}]}});
    stage.create(&mine).await;
    let services: Api<Service> = Api::namespaced(stage.client.clone(), "cloud");
    let before = services.get("gate").await.unwrap();
    let _running = stage.operate();
    stage.create(&keystone(&json!({}))).await;
    let stuck = stage.until(ready_is("False", "ForeignObject")).await;
    let message =
        stuck.status.unwrap().service.conditions.into_iter().find(|c| c.r#type == "DeploymentReady").unwrap().message;
    assert!(message.unwrap().contains("service/gate already exists and is"));
    assert_eq!(services.get("gate").await.unwrap().resource_version(), before.resource_version());

    services.delete("gate", &DeleteParams::default()).await.unwrap();
    stage.until_ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proposed_rotation_is_looked_at_and_taken_and_a_wrong_one_is_not() {
    let stage = stage().await;
    let _running = stage.operate();
    stage.create(&keystone(&json!({}))).await;
    stage.until_ready().await;
    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), "cloud");
    let patch = |name: &'static str, patch: Value| {
        let secrets = secrets.clone();
        async move { secrets.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap() }
    };
    // The keys have been there for a while.
    let since =
        json!({"metadata": {"annotations": {"keystone.openstack.c5c3.io/primary-since": "1=2026-01-01T00:00:00Z"}}});
    patch("gate-fernet-keys", since).await;

    let present = KeySet::read(&fernet_keys(&stage).await.data.unwrap()).unwrap();
    let wrong = KeySet::new(Key::new([1; 32]), Key::new([2; 32]));
    patch("gate-fernet-keys-rotation", json!({"data": wrong.data()})).await;
    stage
        .until(|object: Option<&Keystone>| {
            let conditions = object.and_then(|object| object.status.as_ref()).map(|status| &status.service.conditions);
            let refused =
                |c: &c5c3_api::blocks::Condition| c.message.as_ref().is_some_and(|text| text.contains("was refused"));
            conditions.is_some_and(|all| all.iter().any(|c| c.r#type == "FernetKeysReady" && refused(c)))
        })
        .await;
    assert_eq!(KeySet::read(&fernet_keys(&stage).await.data.unwrap()).unwrap(), present);

    let next = present.rotated(Key::new([3; 32]));
    let whole: Vec<Value> = vec![json!({"op": "add", "path": "/data", "value": next.data()})];
    let whole: Patch<DynamicObject> = Patch::Json(serde_json::from_value(whole.into()).unwrap());
    let api = stage.api(&json!({"apiVersion": "v1", "kind": "Secret"}));
    api.patch("gate-fernet-keys-rotation", &PatchParams::default(), &whole).await.unwrap();
    let taken = |secret: Option<&Secret>| {
        secret
            .and_then(|secret| secret.data.as_ref())
            .is_some_and(|data| KeySet::read(data).is_ok_and(|keys| keys.primary() == 2))
    };
    tokio::time::timeout(PATIENCE, await_condition(secrets, "gate-fernet-keys", taken)).await.unwrap().unwrap();
    assert_eq!(KeySet::read(&fernet_keys(&stage).await.data.unwrap()).unwrap(), next);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_password_runs_the_bootstrap_again_and_a_wrong_spec_changes_nothing() {
    let stage = stage().await;
    let _running = stage.operate();
    stage.create(&keystone(&json!({}))).await;
    stage.until_ready().await;
    let jobs = stage.api(&json!({"apiVersion": "batch/v1", "kind": "Job"}));
    let bootstrap = || async {
        let all = jobs.list(&ListParams::default()).await.unwrap();
        all.items
            .into_iter()
            .map(|job| job.name_any())
            .filter(|name| name.starts_with("gate-bootstrap-"))
            .collect::<Vec<_>>()
    };
    let before = bootstrap().await;
    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), "cloud");
    let password = Patch::Merge(json!({"stringData": {"password": "another"}}));
    secrets.patch("keystone-admin-credentials", &PatchParams::default(), &password).await.unwrap();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while bootstrap().await == before || bootstrap().await.len() != 1 {
        assert!(tokio::time::Instant::now() < deadline, "no new bootstrap: {:?}", bootstrap().await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    let api: Api<Keystone> = Api::namespaced(stage.client.clone(), "cloud");
    stage.until_ready().await;
    let before = versions(&stage).await;
    let wrong = Patch::Merge(json!({"spec": {"extraConfig": {"token": {"expirations": "1"}}}}));
    api.patch("gate", &PatchParams::default(), &wrong).await.unwrap();
    let refused = stage.until(ready_is("False", "InvalidSpec")).await;
    let message = refused.status.unwrap().service.conditions.remove(0).message.unwrap();
    assert!(message.contains("did you mean expiration?"), "{message}");
    let mut after = versions(&stage).await;
    let own = format!("{}/gate", Keystone::kind(&()));
    after.insert(own.clone(), before[&own].clone());
    assert_eq!(after, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_rotated_although_the_spec_is_wrong() {
    let stage = stage().await;
    let _running = stage.operate();
    stage.create(&keystone(&json!({}))).await;
    stage.until_ready().await;
    let wrong = Patch::Merge(json!({"spec": {"extraConfig": {"token": {"expirations": "1"}}}}));
    stage.objects().patch("gate", &PatchParams::default(), &wrong).await.unwrap();
    stage.until(ready_is("False", "InvalidSpec")).await;

    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), "cloud");
    let since =
        json!({"metadata": {"annotations": {"keystone.openstack.c5c3.io/primary-since": "1=2026-01-01T00:00:00Z"}}});
    secrets.patch("gate-fernet-keys", &PatchParams::default(), &Patch::Merge(since)).await.unwrap();
    let present = KeySet::read(&fernet_keys(&stage).await.data.unwrap()).unwrap();
    let proposed = json!({"data": present.rotated(Key::new([3; 32])).data()});
    secrets.patch("gate-fernet-keys-rotation", &PatchParams::default(), &Patch::Merge(proposed)).await.unwrap();
    let taken = |secret: Option<&Secret>| {
        let keys = secret.and_then(|secret| secret.data.as_ref()).and_then(|data| KeySet::read(data).ok());
        keys.is_some_and(|keys| keys.primary() == 2)
    };
    tokio::time::timeout(PATIENCE, await_condition(secrets, "gate-fernet-keys", taken)).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_a_user_provides_are_used_and_taken_over() {
    let stage = stage().await;
    let brought = KeySet::new(Key::new([7; 32]), Key::new([8; 32]));
    for name in ["gate-fernet-keys", "gate-credential-keys"] {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "cloud"},
                            "data": brought.data()});
        stage.create(&secret).await;
    }
    let _running = stage.operate();
    stage.create(&keystone(&json!({}))).await;
    stage.until_ready().await;
    let keys = fernet_keys(&stage).await;
    assert_eq!(KeySet::read(&keys.data.unwrap()).unwrap(), brought);
    assert!(keys.metadata.labels.unwrap().contains_key("c5c3.io/owner-uid"));
}
