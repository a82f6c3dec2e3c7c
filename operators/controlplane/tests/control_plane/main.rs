//! ControlPlanes on a whole API server, with the definitions of what they are made of. Nobody acts on their
//! children here but the test itself.

mod data;
mod identity;
#[path = "../../../orc/tests/orc/keystone.rs"]
#[allow(dead_code)] // It can do more than is asked for here.
mod keystone;
mod leaving;
mod stage;

use std::time::Duration;

use c5c3_harness::Fault;
use c5c3_kit::Ref;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use crate::stage::{Stage, small};

#[tokio::test]
async fn keystone_starts_when_what_it_needs_is_ready_and_waits_for_nothing_else() {
    let stage = Stage::set().await;
    let home = stage.cluster.namespace();
    let spec = json!({"infrastructure": {"rabbitmq": {}, "valkey": {}}, "services": {"keystone": {}}});
    stage.apply(home, &spec).await;
    for part in ["MariaDB/mariadb", "RabbitmqCluster/rabbitmq", "Valkey/valkey", "StatefulSet/memcached"] {
        stage.until_there(home, part).await;
    }
    stage.until_reason(home, "KeystoneReady", "Blocked").await;
    let blocked = stage.condition(home, "KeystoneReady").await;
    assert_eq!(blocked["message"], "keystone starts when mariadb and memcached are ready");
    stage.is_ready(home, "MariaDB/mariadb").await;
    stage.is_ready(home, "StatefulSet/memcached").await;
    stage.until_there(home, "Keystone/keystone").await;
    assert_eq!(
        stage.condition(home, "InfrastructureReady").await["status"],
        "False",
        "the others are still waited for"
    );
    for part in ["Keystone/keystone", "RabbitmqCluster/rabbitmq", "Valkey/valkey"] {
        stage.is_ready(home, part).await;
    }
    stage.until_reason(home, "Ready", "AllServicesReady").await;
    stage
        .until("the status says so too", async || {
            let status = stage.get(home, "ControlPlane/lab").await.unwrap().data["status"].clone();
            let keystone = status["services"]["keystone"]["ready"] == true;
            status["phase"] == "Ready" && status["updatePhase"] == "Idle" && keystone
        })
        .await;
}

#[tokio::test]
async fn a_client_that_reverts_writes_is_named_and_the_writes_are_limited() {
    let stage = Stage::set().await;
    let home = stage.cluster.namespace();
    stage.ready(home, &small()).await;
    let sets = stage.api(home, "StatefulSet");
    let meddle = async || {
        let undone = Patch::Merge(json!({"spec": {"replicas": 7}}));
        let params = PatchParams { field_manager: Some("meddler".into()), ..PatchParams::default() };
        sets.patch("memcached", &params, &undone).await.unwrap();
    };
    stage
        .until("it is said", async || {
            meddle().await;
            stage.condition(home, "Ready").await["reason"] == "WritesUndone"
        })
        .await;
    let message = stage.condition(home, "InfrastructureReady").await["message"].as_str().unwrap().to_owned();
    assert!(message.contains("statefulset/memcached was reverted"), "{message}");
    assert!(message.contains("its other field managers are meddler"), "{message}");
    meddle().await;

    // Another desired state is written at once.
    stage.apply(home, &json!({"services": {"keystone": {}}, "infrastructure": {"memcached": {"replicas": 2}}})).await;
    stage
        .until("it is written", async || {
            stage.get(home, "StatefulSet/memcached").await.unwrap().data["spec"]["replicas"] == 2
        })
        .await;
    stage.is_ready(home, "StatefulSet/memcached").await;
    stage.until_reason(home, "Ready", "AllServicesReady").await;
}

#[tokio::test]
async fn an_unchanged_control_plane_makes_no_write() {
    let stage = Stage::set().await;
    let home = stage.cluster.namespace();
    stage.ready(home, &small()).await;
    let versions = async || {
        let mut versions = Vec::new();
        for kind in ["ControlPlane", "MariaDB", "StatefulSet", "Keystone", "Secret", "Service"] {
            for object in stage.api(home, kind).list(&ListParams::default()).await.unwrap() {
                versions.push((kind, object.metadata.name, object.metadata.resource_version));
            }
        }
        versions
    };
    let reports = || stage.metrics.text().lines().find(|line| line.contains(REPORTS)).map(ToOwned::to_owned);
    // What is under way for the last change ends first.
    stage
        .until("it has come to rest", async || {
            let before = reports();
            tokio::time::sleep(Duration::from_millis(500)).await;
            before == reports()
        })
        .await;
    let (then, counted) = (versions().await, reports());
    // A child that another client changes starts a reconcile of its owner.
    let touch = Patch::Merge(json!({"metadata": {"annotations": {"someone.example.org/was-here": "yes"}}}));
    stage.api(home, "Service").patch("memcached", &PatchParams::default(), &touch).await.unwrap();
    stage.until("it was looked at again", async || reports() != counted).await;
    let changed: Vec<_> = versions().await.into_iter().filter(|version| !then.contains(version)).collect();
    assert_eq!(changed.len(), 1, "only what was touched: {changed:?}");
}

const REPORTS: &str = r#"count{controller="controlplane",step="report"}"#;

#[tokio::test]
async fn faults_and_a_killed_operator_delay_a_control_plane_and_change_no_password() {
    let mut stage = Stage::set().await;
    let home = stage.cluster.namespace().to_owned();
    stage.cluster.inject(Fault::lose_answer().to("create", "/secrets"));
    stage.cluster.inject(Fault::answer(500).to("patch", "/mariadbs").times(2));
    stage.cluster.inject(Fault::answer(409).to("patch", "/controlplanes/lab/status").times(2));
    stage.apply(&home, &small()).await;
    stage.until_there(&home, "MariaDB/mariadb").await;
    let password = stage.password(&home).await.unwrap();
    assert_eq!(password.len(), 32);
    stage.kill();
    stage.cluster.drop_watches();
    stage.cluster.inject(Fault::answer(500).to("patch", "/statefulsets").times(2));
    stage.is_ready(&home, "MariaDB/mariadb").await;
    stage.is_ready(&home, "StatefulSet/memcached").await;
    stage.until_there(&home, "Keystone/keystone").await;
    stage.kill();
    stage.is_ready(&home, "Keystone/keystone").await;
    stage.until_reason(&home, "Ready", "AllServicesReady").await;
    assert_eq!(stage.password(&home).await, Some(password));
}

#[tokio::test]
async fn a_foreign_object_of_the_same_name_is_left_alone_and_reported() {
    let stage = Stage::set().await;
    let home = stage.cluster.namespace();
    let foreign = json!({"apiVersion": "k8s.mariadb.com/v1alpha1", "kind": "MariaDB",
        "metadata": {"name": "mariadb", "labels": {"app.kubernetes.io/managed-by": "helm"}}, "spec": {"replicas": 1}});
    let params = PatchParams::apply("helm");
    stage.api(home, "MariaDB").patch("mariadb", &params, &Patch::Apply(foreign)).await.unwrap();
    stage.apply(home, &small()).await;
    stage.until_reason(home, "InfrastructureReady", "ForeignObject").await;
    let message = stage.condition(home, "InfrastructureReady").await["message"].as_str().unwrap().to_owned();
    assert!(message.contains("mariadb/mariadb already exists and is managed by helm"), "{message}");
    stage.until_there(home, "StatefulSet/memcached").await;
    stage.api(home, "ControlPlane").delete("lab", &DeleteParams::default()).await.unwrap();
    stage.until_gone(home, "ControlPlane/lab").await;
    let left = stage.get(home, "MariaDB/mariadb").await.unwrap();
    assert_eq!(left.data["spec"]["replicas"], 1);
}

#[tokio::test]
async fn a_keystone_that_was_made_for_the_control_plane_is_adopted_with_what_it_says_itself() {
    let stage = Stage::set().await;
    let home = stage.cluster.namespace();
    let before = json!({"apiVersion": "keystone.openstack.c5c3.io/v1alpha1", "kind": "Keystone",
        "metadata": {"name": "keystone", "annotations": {"c5c3.io/adopt": "true"}},
        "spec": {"resources": {"requests": {"cpu": "2"}}, "database": {"clusterRef": {"name": "mariadb"}}}});
    stage.api(home, "Keystone").patch("keystone", &PatchParams::apply("flux"), &Patch::Apply(before)).await.unwrap();
    stage.ready(home, &small()).await;
    let keystone = stage.get(home, "Keystone/keystone").await.unwrap();
    assert_eq!(keystone.data["spec"]["resources"]["requests"]["cpu"], "2");
    assert_eq!(keystone.data["spec"]["image"]["tag"], "28.0.0");
    stage.owned(home, "Keystone/keystone").await;
}

#[tokio::test]
async fn an_operator_with_the_rights_that_it_says_it_needs_is_refused_nothing() {
    let (stage, limited) = Stage::limited().await;
    let home = stage.cluster.namespace();
    let spec = json!({"infrastructure": {"rabbitmq": {}, "valkey": {}}, "services": {"keystone": {}}});
    stage.apply(home, &spec).await;
    for part in ["RabbitmqCluster/rabbitmq", "Valkey/valkey"] {
        stage.is_ready(home, part).await;
    }
    stage.ready(home, &spec).await;
    stage.apply(home, &small()).await;
    stage.until_gone(home, "Valkey/valkey").await;
    stage.api(home, "ControlPlane").delete("lab", &DeleteParams::default()).await.unwrap();
    stage.until_gone(home, "ControlPlane/lab").await;
    assert_eq!(limited.refused(), Vec::<String>::new());
}

#[tokio::test]
async fn a_part_that_the_api_refuses_holds_up_no_other_and_comes_when_it_is_taken() {
    let stage = Stage::set().await;
    let home = stage.cluster.namespace();
    stage.cluster.inject(Fault::answer(403).to("patch", "/rabbitmqclusters").always());
    let spec = json!({"infrastructure": {"rabbitmq": {}}, "services": {"keystone": {}}});
    stage.apply(home, &spec).await;
    stage.until_reason(home, "InfrastructureReady", "ApplyRefused").await;
    for part in ["MariaDB/mariadb", "StatefulSet/memcached", "Keystone/keystone"] {
        stage.is_ready(home, part).await;
    }
    stage.until("Keystone is ready", async || stage.condition(home, "KeystoneReady").await["status"] == "True").await;
    let status = stage.get(home, "ControlPlane/lab").await.unwrap().data["status"].clone();
    assert_eq!(status["waitingFor"][0]["object"], "rabbitmqcluster/rabbitmq", "{status}");
    stage.cluster.heal();
    stage.is_ready(home, "RabbitmqCluster/rabbitmq").await;
    stage.until_reason(home, "Ready", "AllServicesReady").await;
}

#[tokio::test]
async fn an_upgrade_that_failed_is_taken_back_until_the_database_cannot_follow() {
    let stage = Stage::set().await;
    let home = stage.cluster.namespace();
    let of = |release: &str| json!({"openStackRelease": release, "services": {"keystone": {}}});
    let tag = async |tag: &str| {
        stage
            .until(&format!("Keystone is told of {tag}"), async || {
                stage.get(home, "Keystone/keystone").await.unwrap().data["spec"]["image"]["tag"] == tag
            })
            .await;
    };
    let upgrading = async |phase: &str| {
        let status = json!({"installedRelease": "28.0.0", "targetRelease": "29.0.0", "upgradePhase": phase});
        let (params, patch) = (PatchParams::default(), Patch::Merge(json!({ "status": status })));
        stage.api(home, "Keystone").patch_status("keystone", &params, &patch).await.unwrap();
    };
    stage.ready(home, &of("2025.2")).await;
    stage.apply(home, &of("2026.1")).await;
    tag("29.0.0").await;
    upgrading("Expanding").await;
    stage.apply(home, &of("2025.2")).await;
    tag("28.0.0").await;
    stage.apply(home, &of("2026.1")).await;
    tag("29.0.0").await;
    upgrading("Contracting").await;
    stage.apply(home, &of("2025.2")).await;
    stage.until_reason(home, "Ready", "InvalidSpec").await;
    let message = stage.condition(home, "Ready").await["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("spec.openStackRelease: ") && message.contains("set it to 2026.1"), "{message}");
    tag("29.0.0").await;
}

#[tokio::test]
async fn a_cloud_does_not_move_to_another_server_and_begin_with_nothing() {
    let stage = Stage::set().await;
    let home = stage.cluster.namespace();
    let on = |server: &str| json!({"infrastructure": {"mariadb": {"clusterRef": {"name": server}}}, "services": {"keystone": {}}});
    for server in ["ledger", "journal"] {
        let object = json!({"apiVersion": "k8s.mariadb.com/v1alpha1", "kind": "MariaDB", "metadata": {"name": server},
            "spec": {"storage": {"size": "1Gi"}}});
        stage.api(home, "MariaDB").patch(server, &PatchParams::apply("someone"), &Patch::Apply(object)).await.unwrap();
        stage.is_ready(home, &format!("MariaDB/{server}")).await;
    }
    stage.apply(home, &on("ledger")).await;
    stage.is_ready(home, "StatefulSet/memcached").await;
    stage.is_ready(home, "Keystone/keystone").await;
    stage.until_reason(home, "Ready", "AllServicesReady").await;
    stage.apply(home, &on("journal")).await;
    stage.until_reason(home, "Ready", "InvalidSpec").await;
    let message = stage.condition(home, "Ready").await["message"].as_str().unwrap().to_owned();
    assert!(message.contains("all data would stay on the old one"), "{message}");
    let keystone = stage.get(home, "Keystone/keystone").await.unwrap();
    assert_eq!(keystone.data["spec"]["database"]["clusterRef"]["name"], "ledger");
}

#[tokio::test]
async fn two_control_planes_in_two_namespaces_are_side_by_side() {
    let stage = Stage::set().await;
    let (first, second) =
        (stage.cluster.namespace_named("first").await.unwrap(), stage.cluster.namespace_named("second").await.unwrap());
    stage.ready(&first, &small()).await;
    stage.ready(&second, &json!({"services": {"keystone": {"replicas": 1}}})).await;
    assert_ne!(stage.password(&first).await, stage.password(&second).await);
    stage.api(&first, "ControlPlane").delete("lab", &DeleteParams::default()).await.unwrap();
    stage.until_gone(&first, "ControlPlane/lab").await;
    let other = stage.get(&second, "Keystone/keystone").await.unwrap();
    assert_eq!(other.data["spec"]["replicas"], 1);
    assert_eq!(stage.condition(&second, "Ready").await["status"], "True");
}

#[tokio::test]
async fn a_second_control_plane_in_a_namespace_is_refused_until_the_first_is_gone() {
    let stage = Stage::set().await;
    let home = stage.cluster.namespace();
    let first = json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane", "metadata": {"name": "c5c3"},
        "spec": {"infrastructure": {"mariadb": {"replicas": 1}}}});
    let planes = stage.api(home, "ControlPlane");
    planes.patch("c5c3", &PatchParams::apply("someone"), &Patch::Apply(first)).await.unwrap();
    stage.until_there(home, "MariaDB/mariadb").await;
    stage.apply(home, &small()).await;
    stage.until_reason(home, "Ready", "InvalidSpec").await;
    let message = stage.condition(home, "Ready").await["message"].as_str().unwrap().to_owned();
    assert!(message.contains("already has controlplane/c5c3"), "{message}");
    assert!(message.contains("delete controlplane/lab, or create it in another namespace"), "{message}");
    assert!(stage.get(home, "StatefulSet/memcached").await.is_none(), "nothing of the second is made");
    planes.delete("c5c3", &DeleteParams::default()).await.unwrap();
    stage.until_there(home, "StatefulSet/memcached").await;
}

#[tokio::test]
async fn a_storage_class_that_is_not_there_is_waited_for_and_the_rest_goes_on() {
    let stage = Stage::set().await;
    let home = stage.cluster.namespace();
    let class = stage.cluster.name("gold");
    let spec = json!({"infrastructure": {"mariadb": {"storageClass": class}}, "services": {"keystone": {}}});
    stage.apply(home, &spec).await;
    stage.until_reason(home, "InfrastructureReady", "StorageClassMissing").await;
    stage.until_there(home, "StatefulSet/memcached").await;
    assert!(stage.get(home, "MariaDB/mariadb").await.is_none());
    let storage = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": class},
        "provisioner": "example.org/none"});
    let reference = Ref::cluster::<k8s_openapi::api::storage::v1::StorageClass>(&class);
    let params = PatchParams::apply("someone");
    reference.api(stage.client.clone()).patch(&class, &params, &Patch::Apply(storage)).await.unwrap();
    stage.until_there(home, "MariaDB/mariadb").await;
}
