//! MariaDB, and what is in it as far as no server is needed for it.

use c5c3_api::ext::cert_manager::Issuer;
use c5c3_api::ext::mariadb::{Backup, Database, MariaDB, MaxScale, Restore, User};
use c5c3_harness::Fault;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::stage::{Stage, of};

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "k8s.mariadb.com/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn galera() -> Value {
    object("MariaDB", "ledger", &json!({"replicas": 3, "galera": {"enabled": true}, "storage": {"size": "1Gi"}}))
}

#[tokio::test]
async fn a_galera_cluster_has_the_names_and_the_status_that_clients_expect() {
    let stage = Stage::set().await;
    stage.cluster.inject(Fault::lose_answer().to("patch", "/secrets"));
    stage.cluster.inject(Fault::answer(500).to("patch", "/statefulsets").times(2));
    stage.create::<MariaDB>(galera()).await;
    let mariadb = stage.ready::<MariaDB>("ledger").await.status.unwrap();
    assert_eq!(mariadb.current_primary.as_deref(), Some("ledger-0"));
    assert_eq!((mariadb.current_primary_pod_index, mariadb.replicas), (Some(0), Some(3)));
    let said: Vec<_> = mariadb.conditions.iter().map(|c| (c.r#type.as_str(), c.reason.as_deref().unwrap())).collect();
    assert_eq!(said, [("Ready", "StatefulSetReady"), ("GaleraReady", "GaleraReady")]);

    let services = stage.api::<Service>().list(&ListParams::default()).await.unwrap();
    let ours: Vec<_> = services.iter().map(ResourceExt::name_any).filter(|name| name.starts_with("ledger")).collect();
    assert_eq!(ours, ["ledger", "ledger-internal", "ledger-primary", "ledger-secondary"]);
    let primary = stage.api::<Service>().get("ledger-primary").await.unwrap().spec.unwrap().selector.unwrap();
    assert_eq!(primary["statefulset.kubernetes.io/pod-name"], "ledger-0");
    assert_eq!(stage.secret("ledger-root").await["password"].len(), 32);
    let role = |name: &str, role: &'static str| {
        let name = name.to_owned();
        let stage = &stage;
        async move {
            let has = move |pod: Option<&Pod>| {
                pod.is_some_and(|pod| pod.labels().get("k8s.mariadb.com/role").is_some_and(|has| has == role))
            };
            stage.eventually::<Pod>(&name, has).await;
        }
    };
    role("ledger-0", "primary").await;
    role("ledger-2", "replica").await;
}

#[tokio::test]
async fn certificates_come_from_the_issuer_and_clients_are_told_whom_to_trust() {
    let stage = Stage::set().await;
    let issuer = json!({"apiVersion": "cert-manager.io/v1", "kind": "Issuer", "metadata": {"name": "stamp"},
        "spec": {"selfSigned": {}}});
    stage.create::<Issuer>(issuer).await;
    let mut mariadb = galera();
    mariadb["spec"]["tls"] = json!({"enabled": true, "required": true, "serverCertIssuerRef": {"name": "stamp"}});
    stage.create::<MariaDB>(mariadb).await;
    stage.ready::<MariaDB>("ledger").await;
    stage.eventually::<Secret>("ledger-ca-bundle", |secret: Option<&Secret>| secret.is_some()).await;
    let bundle = stage.secret("ledger-ca-bundle").await;
    assert_eq!(bundle["ca.crt"], stage.secret("ledger-server-cert").await["ca.crt"]);
    stage.eventually::<Secret>("ledger-client-cert", |secret: Option<&Secret>| secret.is_some()).await;
}

#[tokio::test]
async fn what_cannot_be_had_is_refused_by_its_field_and_what_runs_goes_on() {
    let stage = Stage::set().await;
    let even = of::<MariaDB>(object("MariaDB", "even", &json!({"replicas": 2, "galera": {"enabled": true}})));
    let refused = stage.api::<MariaDB>().create(&PostParams::default(), &even).await.unwrap_err().to_string();
    assert!(refused.contains("odd number"), "{refused}");

    let spec = json!({"storage": {"size": "1Gi"}, "rootPasswordSecretKeyRef": {"name": "keys", "key": "root"}});
    stage.create::<MariaDB>(object("MariaDB", "ledger", &spec)).await;
    let why = stage.not_ready::<MariaDB>("ledger", "Failed").await;
    assert_eq!(why, "spec.rootPasswordSecretKeyRef.name: secret/keys is not there, and generate is not true");
    stage.create::<Secret>(json!({"metadata": {"name": "keys"}, "stringData": {"root": "opensesame"}})).await;
    stage.ready::<MariaDB>("ledger").await;

    stage.change::<MariaDB>("ledger", json!({"spec": {"storage": {"storageClassName": "gold"}}})).await;
    let why = stage.not_ready::<MariaDB>("ledger", "Failed").await;
    assert!(why.starts_with("spec.storage.storageClassName: there is no storage class gold"), "{why}");
    assert_eq!(stage.api::<StatefulSet>().get("ledger").await.unwrap().spec.unwrap().replicas, Some(1));
    stage.create::<MaxScale>(object("MaxScale", "usher", &json!({}))).await;
    stage.not_ready::<MaxScale>("usher", "MaxScaleNotReady").await;
}

#[tokio::test]
async fn what_is_in_a_server_waits_for_it_and_can_always_go() {
    let stage = Stage::set().await;
    let database = json!({"mariaDbRef": {"name": "ledger"}, "name": "accounts"});
    stage.create::<Database>(object("Database", "accounts", &database)).await;
    let why = stage.not_ready::<Database>("accounts", "Failed").await;
    assert_eq!(why, "spec.mariaDbRef: mariadb/ledger is not there");
    let user = json!({"mariaDbRef": {"name": "ledger"}, "passwordSecretKeyRef": {"name": "clerk", "key": "password"}});
    stage.create::<User>(object("User", "clerk", &user)).await;
    stage.create::<MariaDB>(object("MariaDB", "ledger", &json!({"replicas": 3, "storage": {"size": "1Gi"}}))).await;
    let refused = |user: Option<&User>| {
        let conditions = user.and_then(|user| user.status.as_ref()).map(|status| status.conditions.as_slice());
        let message = conditions.and_then(|conditions| conditions.first()?.message.as_deref());
        message.is_some_and(|message| message.starts_with("MariaDB not ready: spec.replicas:"))
    };
    stage.eventually::<User>("clerk", refused).await;
    stage.delete::<MariaDB>("ledger").await;
    stage.delete::<User>("clerk").await;
    stage.delete::<Database>("accounts").await;
}

/// A Backup of the server to a claim.
fn backup(name: &str) -> Value {
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let spec = json!({"mariaDbRef": {"name": "ledger"}, "storage": {"persistentVolumeClaim": claim},
        "restartPolicy": "Never", "backoffLimit": 0});
    object("Backup", name, &spec)
}

/// Lets the pod of a Job end.
async fn end(stage: &Stage, job: &str, phase: &str) {
    let of_job = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={job}"));
    let runs = |pod: &Pod| pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Running"));
    stage
        .eventually::<Job>(job, |job: Option<&Job>| {
            job.is_some_and(|job| job.status.as_ref().is_some_and(|status| status.active == Some(1)))
        })
        .await;
    let pod = stage.api::<Pod>().list(&of_job).await.unwrap().items.remove(0).name_any();
    stage.eventually::<Pod>(&pod, move |pod: Option<&Pod>| pod.is_some_and(runs)).await;
    let patch = Patch::Merge(json!({"status": {"phase": phase}}));
    stage.api::<Pod>().patch_status(&pod, &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test]
async fn a_backup_is_a_job_that_a_restore_waits_for() {
    let stage = Stage::set().await;
    let restore = json!({"mariaDbRef": {"name": "ledger"}, "backupRef": {"name": "once"}, "restartPolicy": "Never",
        "backoffLimit": 0});
    stage.create::<Restore>(object("Restore", "back", &restore)).await;
    let why = stage.not_ready::<Restore>("back", "Failed").await;
    assert_eq!(why, "spec.backupRef: backup/once is not there");
    stage.create::<Backup>(backup("once")).await;
    let why = stage.not_ready::<Backup>("once", "Failed").await;
    assert_eq!(why, "spec.mariaDbRef: mariadb/ledger is not there");
    stage.create::<MariaDB>(object("MariaDB", "ledger", &json!({"storage": {"size": "1Gi"}}))).await;
    assert_eq!(stage.not_ready::<Backup>("once", "JobRunning").await, "Running");
    let waits = |restore: Option<&Restore>| {
        let conditions = restore.and_then(|restore| restore.status.as_ref()).map(|status| status.conditions.as_slice());
        let message = conditions.and_then(|conditions| conditions.first()?.message.as_deref());
        message.is_some_and(|message| message.starts_with("Backup not complete: backup/once: "))
    };
    stage.eventually::<Restore>("back", waits).await;
    assert!(stage.api::<Job>().get_opt("back").await.unwrap().is_none());

    end(&stage, "once", "Succeeded").await;
    stage.ready::<Backup>("once").await;
    end(&stage, "back", "Failed").await;
    let why = stage.not_ready::<Restore>("back", "JobFailed").await;
    assert!(why.starts_with("Failed: ") && why.ends_with("see `kubectl logs job/back`"), "{why}");

    // What was backed up stays when the Backup goes, and its Job does not.
    stage.delete::<Backup>("once").await;
    stage.eventually::<Job>("once", |job: Option<&Job>| job.is_none()).await;
    let claim = stage.api::<PersistentVolumeClaim>().get("once").await.unwrap();
    assert!(claim.owner_references().is_empty());
}

#[tokio::test]
async fn a_backup_with_a_schedule_is_a_cron_job_for_as_long_as_it_has_one() {
    let stage = Stage::set().await;
    stage.create::<MariaDB>(object("MariaDB", "ledger", &json!({"storage": {"size": "1Gi"}}))).await;
    let mut nightly = backup("nightly");
    nightly["spec"]["schedule"] = json!({"cron": "0 3 1 1 *"});
    stage.create::<Backup>(nightly).await;
    assert_eq!(stage.not_ready::<Backup>("nightly", "CronJobScheduled").await, "Scheduled");
    let spec = stage.api::<CronJob>().get("nightly").await.unwrap().spec.unwrap();
    assert_eq!((spec.schedule.as_str(), spec.concurrency_policy.as_deref()), ("0 3 1 1 *", Some("Forbid")));
    stage.change::<Backup>("nightly", json!({"spec": {"schedule": null}})).await;
    stage.eventually::<CronJob>("nightly", |jobs: Option<&CronJob>| jobs.is_none()).await;
    assert_eq!(stage.not_ready::<Backup>("nightly", "JobRunning").await, "Running");
}

#[tokio::test]
async fn a_backup_that_cannot_be_had_is_refused_by_its_field_until_it_can() {
    let stage = Stage::set().await;
    stage.create::<MariaDB>(object("MariaDB", "ledger", &json!({"storage": {"size": "1Gi"}}))).await;
    let mut bucket = backup("once");
    bucket["spec"]["storage"] = json!({"s3": {"bucket": "dumps", "endpoint": "attic.example"}});
    stage.create::<Backup>(bucket).await;
    let why = stage.not_ready::<Backup>("once", "Failed").await;
    assert!(why.starts_with("spec.storage.s3: the embedded cluster writes backups to volumes only"), "{why}");
    // A Job of someone else is left alone.
    let job = json!({"metadata": {"name": "once"}, "spec": {"suspend": true, "template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "other", "image": "other.example/other"}]}}}});
    stage.create::<Job>(job).await;
    let storage = json!({"s3": null, "persistentVolumeClaim": backup("x")["spec"]["storage"]["persistentVolumeClaim"]});
    stage.change::<Backup>("once", json!({"spec": {"storage": storage}})).await;
    let other = |backup: Option<&Backup>| {
        let conditions = backup.and_then(|backup| backup.status.as_ref()).map(|status| status.conditions.as_slice());
        let message = conditions.and_then(|conditions| conditions.first()?.message.as_deref());
        message.is_some_and(|message| message.starts_with("job/once already exists and belongs to something else"))
    };
    stage.eventually::<Backup>("once", other).await;
    // The provider makes its own at once, so that no one may ever see that there is none.
    stage.api::<Job>().delete("once", &DeleteParams::background()).await.unwrap();
    stage.not_ready::<Backup>("once", "JobRunning").await;
}
