//! Migrations that bear no pods, on a whole API server: the pods stop, the migrations run, new pods start. The service is made
//! up; its kind is Placement's.

use std::time::Duration;

use c5c3_api::openstack::Placement;
use c5c3_kit::Operator;
use c5c3_kit::ini::{Ini, IniError};
use c5c3_service::component::Component;
use c5c3_service::database::Server;
use c5c3_service::job::Command;
use c5c3_service::migrations::Migrations;
use c5c3_service::wsgi::Wsgi;
use c5c3_service::{BackingServices, Description, Instance, Service, ServiceController};
use c5c3_stage::{Stage, World, ready_is};
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

/// A lock between two levels of a canal: boats wait while it is rebuilt.
#[derive(Clone, Copy, Debug)]
struct Lock;

impl Service for Lock {
    type Kind = Placement;
    const NAME: &'static str = "lock";
    const MANAGER: &'static str = "lock-operator";
    const CONDITIONS: &'static [&'static str] =
        &["DependenciesReady", "SecretsReady", "DatabaseReady", "ConfigReady", "DeploymentReady", "APIReady"];
    const FINALIZER: &'static str = "c5c3.io/lock-cleanup";
    const CONF: &'static str = "lock.conf";
    const FOLDER: &'static str = "/etc/lock";

    fn describe(_: &Placement, instance: &Instance) -> Description {
        let manage = |what: &str| Command::new(&["/opt/lock/bin/lock-manage", "db", what]);
        Description {
            databases: vec![Server::new(instance, None)],
            components: vec![Component::api(Wsgi::new("lock", "lock.wsgi:application", 8444)).replicas(2)],
            migrations: Migrations::sync(manage("expand")).offline(manage("contract")).sections(&["database"]),
            ..Description::default()
        }
    }

    fn configure(_: &Placement, backing: &BackingServices, conf: &mut Ini) -> Result<(), IniError> {
        backing.database_section(conf, "database", "lock")
    }
}

fn operator(_cross_namespace: bool) -> Operator {
    Operator::new(Lock::MANAGER).controller(ServiceController::<Lock>::default)
}

/// The names of all objects of a kind.
async fn names(stage: &Stage<Lock>, api_version: &str, kind: &str) -> Vec<String> {
    let api = stage.api(&json!({"apiVersion": api_version, "kind": kind}));
    api.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect()
}

async fn deployments(stage: &Stage<Lock>) -> Vec<String> {
    names(stage, "apps/v1", "Deployment").await
}

async fn has_offline_job(stage: &Stage<Lock>) -> bool {
    names(stage, "batch/v1", "Job").await.iter().any(|name| name.starts_with("gate-db-offline"))
}

async fn set_tag(stage: &Stage<Lock>, tag: &str) {
    let patch = Patch::Merge(json!({"spec": {"image": {"tag": tag}}}));
    stage.objects().patch("gate", &PatchParams::default(), &patch).await.unwrap();
}

async fn until_phase(stage: &Stage<Lock>, phase: Option<&'static str>, installed: &'static str) {
    let is_it = move |object: Option<&Placement>| {
        let status = object.and_then(|object| object.status.as_ref()).map(|status| &status.service);
        status.is_some_and(|status| {
            status.upgrade_phase.as_deref() == phase && status.installed_release.as_deref() == Some(installed)
        })
    };
    stage.until(is_it).await;
}

async fn running() -> (Stage<Lock>, c5c3_stage::Running) {
    let stage = Stage::set(operator, &World::with_all(Vec::new())).await;
    let running = stage.operate();
    let image = json!({"repository": "example.net/lock", "tag": "14.0.0"});
    stage.create(&World::<Lock>::object(&json!({"image": image}))).await;
    until_phase(&stage, None, "14.0.0").await;
    (stage, running)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_pod_runs_beside_an_offline_migration_and_there_is_no_way_back_from_it() {
    let (stage, _running) = running().await;
    stage.jobs.never_finish(Some("gate-db-offline"));
    set_tag(&stage, "15.0.0").await;
    until_phase(&stage, Some("Migrating"), "14.0.0").await;
    let job = async {
        while !has_offline_job(&stage).await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(c5c3_stage::PATIENCE, job).await.unwrap();
    assert_eq!(deployments(&stage).await, Vec::<String>::new());
    let budgets = names(&stage, "policy/v1", "PodDisruptionBudget").await;
    assert_eq!(budgets, ["gate-api"], "what no pod belongs to stays");
    set_tag(&stage, "14.0.0").await;
    let refused = stage.until(ready_is("False", "InvalidSpec")).await;
    let message = format!("{:?}", refused.status.unwrap().service.conditions);
    assert!(message.contains("the offline migrations of 15.0.0"), "{message}");
    set_tag(&stage, "15.0.0").await;
    stage.jobs.never_finish(None);
    until_phase(&stage, None, "15.0.0").await;
    stage.until_ready().await;
    assert_eq!(deployments(&stage).await, ["gate-api"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_is_taken_back_while_the_schema_is_only_extended() {
    let (stage, _running) = running().await;
    stage.jobs.never_finish(Some("gate-db-expand"));
    set_tag(&stage, "15.0.0").await;
    until_phase(&stage, Some("Expanding"), "14.0.0").await;
    assert_eq!(deployments(&stage).await, ["gate-api"], "the service answers meanwhile");
    set_tag(&stage, "14.0.0").await;
    stage.jobs.never_finish(None);
    until_phase(&stage, None, "14.0.0").await;
    stage.until_ready().await;
    assert!(!has_offline_job(&stage).await);
}
