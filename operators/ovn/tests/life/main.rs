//! The life of an OVNCluster on a whole API server, with members that pretend.

mod upgrade;
mod world;

use std::sync::Arc;
use std::time::Duration;

use c5c3_api::ovn::{OVNChassis, OVNCluster};
use c5c3_kit::Settings;
use c5c3_kit::http::Readiness;
use c5c3_kit::metrics::Metrics;
use c5c3_kit::run::RunOptions;
use c5c3_operator_ovn::operator;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use world::{NAMESPACE, World};

const PATIENCE: Duration = Duration::from_mins(2);

/// An operator that ends when it is dropped, wherever it is.
struct Running(JoinHandle<()>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn operate(client: Client) -> Running {
    let (debounce, first_retry) = (Duration::ZERO, Duration::from_millis(5));
    let options = RunOptions { namespace: Some(NAMESPACE.into()), debounce, first_retry, ..RunOptions::default() };
    Running(tokio::spawn(async move {
        let settings = Settings { options, election: None };
        operator(false).run(client, settings, Metrics::default(), Readiness::default(), CancellationToken::new()).await;
    }))
}

fn clusters(world: &World) -> Api<OVNCluster> {
    Api::namespaced(world.client.clone(), NAMESPACE)
}

async fn create(world: &World, replicas: i32) {
    let object = json!({"apiVersion": "ovn.c5c3.io/v1alpha1", "kind": "OVNCluster", "metadata": {"name": "ovn"},
        "spec": {"northbound": {"replicas": replicas}, "southbound": {"replicas": replicas}}});
    clusters(world).create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

async fn scale(world: &World, replicas: i32) {
    let patch = json!({"spec": {"northbound": {"replicas": replicas}, "southbound": {"replicas": replicas}}});
    clusters(world).patch("ovn", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// Starts a reconcile now; otherwise members are asked again within a minute.
async fn touch(world: &World) {
    let patch = json!({"metadata": {"annotations": {"touched": jiff::Timestamp::now().to_string()}}});
    clusters(world).patch("ovn", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

fn is_ready(cluster: &OVNCluster, members: i32) -> bool {
    let Some(status) = &cluster.status else { return false };
    let of =
        |raft: &Option<c5c3_api::ovn::RaftStatus>| raft.as_ref().and_then(|raft| raft.members.zip(raft.ready_members));
    let ready = status.conditions.iter().find(|condition| condition.r#type == "Ready");
    ready.is_some_and(|ready| {
        format!("{:?}", ready.status) == "True" && ready.observed_generation == cluster.metadata.generation
    }) && of(&status.northbound) == Some((members, members))
        && of(&status.southbound) == Some((members, members))
}

async fn until_ready(world: &World, members: i32) -> OVNCluster {
    let ready = move |cluster: Option<&OVNCluster>| cluster.is_some_and(|cluster| is_ready(cluster, members));
    let api = clusters(world);
    let found = tokio::time::timeout(PATIENCE, Box::pin(await_condition(api.clone(), "ovn", ready))).await;
    let Ok(found) = found else {
        panic!("not ready in time: {:#?}\n{:#?}", api.get("ovn").await.unwrap().status, world.facts());
    };
    found.unwrap().unwrap()
}

#[tokio::test]
async fn three_members_of_each_database_come_up_with_the_rights_that_are_declared_and_a_lost_disk_is_replaced() {
    let world = World::new().await;
    world.add_node("hv-1", "10.0.1.1").await;
    world.facts().chassis.push("hv-1".into());
    let access = operator(false).access().clone();
    let limited =
        world.cluster.limited("few-rights", NAMESPACE, access.in_namespaces(), access.in_cluster()).await.unwrap();
    let _running = operate(limited.client.clone());
    create(&world, 3).await;
    let cluster = until_ready(&world, 3).await;
    assert_eq!(limited.refused(), Vec::<String>::new());

    let status = cluster.status.unwrap();
    let id = status.northbound.clone().unwrap().cluster_id;
    assert!(id.is_some());
    let endpoints = status.endpoints.unwrap();
    let members = [0, 1, 2].map(|ordinal| format!("tcp:ovn-sb-{ordinal}.ovn-sb-raft.net.svc.cluster.local:6642"));
    assert_eq!(endpoints.southbound, Some(members.join(",")), "Neutron finds the leader among them");
    let founded = ["nb", "sb"].map(|database| world.facts().founded(database));
    assert_eq!(founded, [1, 1]);

    // The disk of member 0, which founded the cluster and leads it, is lost.
    world.facts().disks.remove("ovn-nb-0");
    world.pods().delete("ovn-nb-0", &DeleteParams::default().grace_period(0)).await.unwrap();
    tokio::time::timeout(PATIENCE, async {
        while world.facts().count("ovn-nb-0 /join") == 0 {
            touch(&world).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    })
    .await
    .unwrap();
    let after = until_ready(&world, 3).await;
    assert_eq!(after.status.unwrap().northbound.unwrap().cluster_id, id);
    let facts = world.facts();
    assert_eq!((facts.founded("nb"), facts.clusters.len()), (1, 2), "{:?}", facts.orders);
}

#[tokio::test]
async fn a_node_has_a_chassis_that_is_deleted_with_it() {
    let world = World::new().await;
    world.add_node("hv-1", "10.0.1.1").await;
    world.add_node("hv-2", "10.0.1.2").await;
    world.facts().chassis.extend(["hv-1".into(), "hv-2".into(), "elsewhere".into()]);
    let _running = operate(world.client.clone());
    create(&world, 1).await;
    until_ready(&world, 1).await;
    let all: Api<OVNChassis> = Api::namespaced(world.client.clone(), NAMESPACE);
    let connected = |chassis: Option<&OVNChassis>| {
        let conditions = chassis.and_then(|chassis| chassis.status.as_ref()).map(|status| &status.conditions);
        conditions.is_some_and(|all| all.iter().any(|it| it.r#type == "Ready" && format!("{:?}", it.status) == "True"))
    };
    let found = tokio::time::timeout(PATIENCE, Box::pin(await_condition(all.clone(), "hv-2", connected))).await;
    let chassis = found.unwrap().unwrap().unwrap();
    assert_eq!(
        (chassis.spec.system_id.as_str(), chassis.spec.encapsulation.ip.to_string().as_str()),
        ("hv-2", "10.0.1.2")
    );
    let owners: Vec<_> = chassis.metadata.owner_references.unwrap().into_iter().map(|owner| owner.kind).collect();
    assert_eq!(owners, ["OVNCluster", "Node"]);
    let status = chassis.status.unwrap();
    assert!(status.registered_at.is_some() && status.last_heartbeat.is_some());

    Api::<Node>::all(world.client.clone()).delete("hv-2", &DeleteParams::default()).await.unwrap();
    touch(&world).await;
    let gone = Box::pin(await_condition(all.clone(), "hv-2", |chassis: Option<&OVNChassis>| chassis.is_none()));
    tokio::time::timeout(PATIENCE, gone).await.unwrap().unwrap();
    assert_eq!(world.facts().chassis, ["hv-1", "elsewhere"]);
    assert!(all.get("hv-1").await.is_ok());
}

/// A client of an operator that dies with its first change: an object that is newer than `newest`, a deletion, or an order to a
/// member. Then nothing of it reaches the API any more, and `died` says so.
fn mortal(client: Client, newest: u64, died: Arc<Notify>) -> Client {
    let dead = Arc::new(Mutex::new(false));
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (client, dead, died) = (client.clone(), dead.clone(), died.clone());
        async move {
            if request.method() == http::Method::GET || request.uri().path().contains("/events") {
                return client.send(request).await;
            }
            // One at a time, so that no other write is under way when it dies.
            let mut dead = dead.lock().await;
            if *dead {
                std::future::pending::<()>().await;
            }
            let has_no_version = request.method() == http::Method::DELETE || request.uri().path().contains("/proxy");
            let (parts, body) = client.send(request).await?.into_parts();
            let body = body.collect_bytes().await?;
            let object: Value = serde_json::from_slice(&body).unwrap_or_default();
            let version = object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
            if parts.status.is_success() && (has_no_version || version > Some(newest)) {
                *dead = true;
                died.notify_one();
            }
            Ok::<_, kube::Error>(http::Response::from_parts(parts, Body::from(body)))
        }
    });
    Client::new(service, NAMESPACE)
}

/// Runs operators that die of their first change, until there is nothing to change.
async fn by_mortals(world: &World, members: i32, deaths: &mut usize) {
    for _ in 0..400 {
        let died = Arc::new(Notify::new());
        let newest = clusters(world).list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
        let _running = operate(mortal(world.client.clone(), newest.parse().unwrap(), died.clone()));
        let ready = move |cluster: Option<&OVNCluster>| cluster.is_some_and(|cluster| is_ready(cluster, members));
        tokio::select! {
            ready = Box::pin(await_condition(clusters(world), "ovn", ready)) => return drop(ready.unwrap()),
            () = died.notified() => *deaths += 1,
            () = tokio::time::sleep(PATIENCE) => break,
        }
    }
    panic!("never ready: {:#?} {:#?}", clusters(world).get("ovn").await.unwrap().status, world.facts());
}

#[tokio::test]
async fn operators_that_die_at_any_point_of_growing_and_shrinking_make_one_cluster() {
    let world = World::new().await;
    create(&world, 1).await;
    let mut deaths = 0;
    by_mortals(&world, 1, &mut deaths).await;
    for members in [3, 5, 3] {
        scale(&world, members).await;
        by_mortals(&world, members, &mut deaths).await;
        let facts = world.facts();
        assert_eq!((facts.founded("nb"), facts.founded("sb")), (1, 1), "{:?}", facts.orders);
        let sizes: Vec<usize> = facts.clusters.values().map(Vec::len).collect();
        assert_eq!(sizes, [usize::try_from(members).unwrap(); 2], "{:?}", facts.clusters);
    }
    assert!(deaths >= 40, "{deaths} is not many");
    let sets: Api<StatefulSet> = Api::namespaced(world.client.clone(), NAMESPACE);
    let replicas = sets.get("ovn-nb").await.unwrap().spec.unwrap().replicas;
    assert_eq!(replicas, Some(3));
    // Members 3 and 4 left before their pods went.
    let facts = world.facts();
    assert!(["ovn-nb-3", "ovn-nb-4"].iter().all(|pod| facts.disks[*pod].left), "{:?}", facts.disks);
}

#[tokio::test]
async fn a_wrong_spec_is_told_and_a_data_loss_is_not_repaired_by_a_new_cluster() {
    let world = World::new().await;
    let _running = operate(world.client.clone());
    create(&world, 1).await;
    until_ready(&world, 1).await;
    world.facts().disks.remove("ovn-sb-0");
    touch(&world).await;
    let reason = |wanted: &'static str| {
        move |cluster: Option<&OVNCluster>| {
            let status = cluster.and_then(|cluster| cluster.status.as_ref()).map(|status| json!(status.conditions));
            status.is_some_and(|all: Value| {
                all.as_array().is_some_and(|all| all.iter().any(|it| it["type"] == "Ready" && it["reason"] == wanted))
            })
        }
    };
    let lost = Box::pin(await_condition(clusters(&world), "ovn", reason("DataLost")));
    tokio::time::timeout(PATIENCE, lost).await.unwrap().unwrap();
    assert_eq!(world.facts().founded("sb"), 1);

    let patch = json!({"spec": {"neutronIntegration": {"sbConnection": {"service": {"name": "ovn-nb"}}}}});
    clusters(&world).patch("ovn", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let wrong = Box::pin(await_condition(clusters(&world), "ovn", reason("InvalidSpec")));
    tokio::time::timeout(PATIENCE, wrong).await.unwrap().unwrap();
    let status = clusters(&world).get("ovn").await.unwrap().status.unwrap();
    assert!(status.southbound.unwrap().cluster_id.is_some(), "what is known stays");
}
