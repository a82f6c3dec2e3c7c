//! Each condition of a Nova that runs: what makes it False, and that this makes no other one False.

use std::time::Duration;

use c5c3_api::blocks::ConditionStatus;
use c5c3_api::openstack::Nova;
use c5c3_kit::condition::find;
use c5c3_operator_nova::{Compute, operator};
use c5c3_service::Service;
use c5c3_stage::{Stage, waits};
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::plans::{nova, world};

/// What breaks.
#[derive(Clone, Copy, Debug)]
enum Cause {
    /// The object of this API version, kind and name is deleted.
    Gone(&'static str, &'static str, &'static str),
    /// Its status changes to this.
    Says(&'static str, &'static str, &'static str, &'static str),
    /// Nova's credential is another, and the Job with this name does not end.
    Endless(&'static str),
    /// The cell with hosts leaves the spec.
    Leaves,
}

use Cause::{Endless, Gone, Leaves, Says};

const BROKEN: &str = r#"{"conditions": [{"type": "Ready", "status": "False", "reason": "Broken", "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z"}]}"#;
const NO_POD: &str = r#"{"availableReplicas": 0, "readyReplicas": 0}"#;

const TABLE: &[(&str, Cause)] = &[
    ("SecretsReady", Gone("v1", "Secret", "nova-db-credentials")),
    ("DatabaseReady", Says("k8s.mariadb.com/v1alpha1", "Database", "gate", BROKEN)),
    ("MessagingReady", Says("rabbitmq.com/v1beta1", "Permission", "gate", BROKEN)),
    ("ConfigReady", Gone("v1", "ConfigMap", "nova-policy")),
    ("ConductorReady", Says("apps/v1", "StatefulSet", "gate-conductor-cell1", NO_POD)),
    ("SchedulerReady", Says("apps/v1", "StatefulSet", "gate-scheduler", NO_POD)),
    ("DeploymentReady", Says("apps/v1", "Deployment", "gate-metadata", NO_POD)),
    ("ComputeReady", Says("apps/v1", "DaemonSet", "gate-libvirt", r#"{"numberAvailable": 0}"#)),
    ("KeystoneAuthReady", Endless("gate-auth")),
    ("CellsReady", Leaves),
    ("APIReady", Gone("discovery.k8s.io/v1", "EndpointSlice", "gate-1")),
];

/// Those that nothing on a stage makes False for a Nova that runs: they have tests of their own below.
const ELSEWHERE: [&str; 2] = ["DependenciesReady", "CephConnected"];

const REPORT: &str = r#"{"cells": {"cell1": {"hosts": [], "servers": 0}, "cell2": {"hosts": ["hawk"], "servers": 1}},
    "services": {"nova-conductor gate-conductor-cell1-0": true, "nova-conductor gate-conductor-cell2-0": true}}"#;

fn object() -> Value {
    nova(&json!({
        "cells": [{"name": "cell1", "nodeSelector": {"cell": "1"}}, {"name": "cell2"}], "compute": {},
        "policyOverrides": {"configMapRef": {"name": "nova-policy"}},
    }))
}

/// The conditions of the service that are False for a cause of their own. One that is blocked waits for those.
fn broken(nova: &Nova) -> Vec<&'static str> {
    let told = nova.status.iter().flat_map(|status| &status.service.conditions);
    let told: Vec<_> = told.cloned().collect();
    let is_broken = |name: &&&str| {
        find(&told, name).is_some_and(|condition| {
            condition.status == ConditionStatus::False && condition.reason.as_deref() != Some("Blocked")
        })
    };
    Compute::CONDITIONS.iter().filter(is_broken).copied().collect()
}

/// Breaks something, and returns what undoes that.
async fn apply(stage: &Stage<Compute>, cause: Cause) -> Option<DynamicObject> {
    let params = PatchParams::default();
    match cause {
        Gone(version, kind, name) => {
            let api = stage.api(&json!({"apiVersion": version, "kind": kind}));
            let live = api.get(name).await.unwrap();
            api.delete(name, &DeleteParams::default()).await.unwrap();
            Some(live)
        }
        Says(version, kind, name, status) => {
            let api = stage.api(&json!({"apiVersion": version, "kind": kind}));
            let live = api.get(name).await.unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
            let status: Value = serde_json::from_str(status).unwrap();
            api.patch_status(name, &params, &Patch::Merge(json!({ "status": status }))).await.unwrap();
            Some(live)
        }
        Endless(job) => {
            stage.jobs.never_finish(Some(job));
            let api = stage.api(&json!({"apiVersion": "v1", "kind": "Secret"}));
            let other = json!({"stringData": {"application_credential_secret": "another"}});
            api.patch("nova-keystone-credentials", &params, &Patch::Merge(other)).await.unwrap();
            None
        }
        Leaves => {
            let cells = json!({"spec": {"cells": [object()["spec"]["cells"][0]]}});
            stage.objects().patch("gate", &params, &Patch::Merge(cells)).await.unwrap();
            None
        }
    }
}

async fn undo(stage: &Stage<Compute>, cause: Cause, live: Option<DynamicObject>) {
    let params = PatchParams::default();
    match (cause, live) {
        (Gone(version, kind, _), Some(mut live)) => {
            live.metadata.resource_version = None;
            live.metadata.uid = None;
            let api = stage.api(&json!({"apiVersion": version, "kind": kind}));
            api.create(&PostParams::default(), &live).await.unwrap();
        }
        (Says(version, kind, ..), Some(live)) => {
            let api = stage.api(&json!({"apiVersion": version, "kind": kind}));
            let status = json!({"status": live.data["status"]});
            api.patch_status(&live.name_any(), &params, &Patch::Merge(status)).await.unwrap();
        }
        (Leaves, _) => {
            let cells = json!({"spec": {"cells": object()["spec"]["cells"]}});
            stage.objects().patch("gate", &params, &Patch::Merge(cells)).await.unwrap();
        }
        _ => stage.jobs.never_finish(None),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_condition_is_false_for_its_own_cause_and_no_other_condition_is() {
    let all: Vec<&str> = TABLE.iter().map(|(condition, _)| *condition).chain(ELSEWHERE).collect();
    assert!(Compute::CONDITIONS.iter().all(|condition| all.contains(condition)), "a condition has no cause");
    let stage: Stage<Compute> = Stage::set(operator, &world()).await;
    stage.report.is(REPORT);
    stage.create(&object()).await;
    for (condition, cause) in TABLE {
        // A new process asks the API at once; one that runs does so each minute.
        let running = stage.operate();
        let nova = stage.until_ready().await;
        assert_eq!(broken(&nova), Vec::<&str>::new(), "before {condition}");
        drop(running);
        let live = apply(&stage, *cause).await;
        let running = stage.operate();
        stage.until(|nova: Option<&Nova>| nova.is_some_and(|nova| broken(nova) == [*condition])).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(broken(&stage.objects().get("gate").await.unwrap()), [*condition], "{cause:?}");
        undo(&stage, *cause, live).await;
        drop(running);
    }
    let _running = stage.operate();
    stage.until_ready().await;
}

#[test]
fn what_a_new_nova_depends_on_and_is_not_there_holds_up_nothing_else() {
    let said = |spec: &Value| waits(&world().plan(&nova(spec)).unwrap());
    let depends = json!({"dependsOn": [{"kind": "Valkey", "name": "cache"}]});
    let usual = said(&json!({}));
    let more: Vec<String> = said(&depends).lines().filter(|line| !usual.contains(line)).map(Into::into).collect();
    assert!(more.len() == 1 && more[0].starts_with("DependenciesReady: valkey/cache "), "{more:?}");
}

#[test]
fn a_pool_that_is_gone_is_told_by_its_own_condition() {
    let rbd = json!({"storage": {"backend": "rbd", "rbd": {"cephSecretRef": {"name": "nova-ceph-credentials"}}}});
    let serving = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {}, "status": {"availableReplicas": 1},
        "metadata": {"name": "gate-api", "namespace": "cloud"}});
    let plan = world().with(serving).answering(Err("PoolNotFound: pool vms as client.nova".into())).plan(&nova(&rbd));
    let said = waits(&plan.unwrap());
    assert!(said.lines().any(|line| line.starts_with("CephConnected: ") && line.contains("pool vms")), "{said}");
    assert!(!waits(&world().plan(&nova(&json!({}))).unwrap()).contains("CephConnected"));
}
