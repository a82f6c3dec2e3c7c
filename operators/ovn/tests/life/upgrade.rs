//! In which order versions change.

use std::time::Duration;

use c5c3_api::ovn::OVNCluster;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::runtime::wait::await_condition;
use serde_json::json;

use crate::world::{NAMESPACE, World};
use crate::{PATIENCE, clusters, create, operate, touch, until_ready};

/// The workloads in the order in which they get a new version, and the condition that waits for each.
const ORDER: [(&str, &str); 5] = [
    ("ovn-nb", "NorthboundReady"),
    ("ovn-sb", "SouthboundReady"),
    ("ovn-northd", "NorthdReady"),
    ("ovn-controller", "ControllersReady"),
    ("ovn-ovs", "ControllersReady"),
];

fn workloads(world: &World, name: &str) -> Api<DynamicObject> {
    let kind = match name {
        "ovn-nb" | "ovn-sb" => ApiResource::erase::<StatefulSet>(&()),
        "ovn-northd" => ApiResource::erase::<Deployment>(&()),
        _ => ApiResource::erase::<DaemonSet>(&()),
    };
    Api::namespaced_with(world.client.clone(), NAMESPACE, &kind)
}

/// Whether a container of the workload has an image of the tag `new`.
fn is_new(object: Option<&DynamicObject>) -> bool {
    let containers = object.and_then(|object| object.data["spec"]["template"]["spec"]["containers"].as_array());
    let mut images = containers.into_iter().flatten().filter_map(|container| container["image"].as_str());
    images.any(|image| image.ends_with(":new"))
}

/// Waits until the operator has seen that a workload of this condition is not replaced yet.
async fn until_it_waits(world: &World, condition: &'static str) {
    let is_false = move |cluster: Option<&OVNCluster>| {
        let conditions = cluster.and_then(|cluster| cluster.status.as_ref()).map(|status| &status.conditions);
        conditions
            .is_some_and(|all| all.iter().any(|it| it.r#type == condition && format!("{:?}", it.status) == "False"))
    };
    let waits = Box::pin(await_condition(clusters(world), "ovn", is_false));
    tokio::time::timeout(PATIENCE, waits).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_new_version_reaches_each_daemon_when_all_before_it_run_and_open_vswitch_last() {
    let world = World::new().await;
    world.add_node("hv-1", "10.0.1.1").await;
    world.facts().chassis.push("hv-1".into());
    let _running = operate(world.client.clone());
    create(&world, 3).await;
    until_ready(&world, 3).await;

    world.facts().held = ORDER.map(|(name, _)| name.to_owned()).into();
    let image = |name: &str| json!({"repository": format!("ghcr.io/c5c3/{name}"), "tag": "new"});
    let patch = json!({"spec": {"ovnImage": image("ovn"), "ovsImage": image("ovs")}});
    clusters(&world).patch("ovn", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    for (index, (name, condition)) in ORDER.into_iter().enumerate() {
        let replaced = Box::pin(await_condition(workloads(&world, name), name, is_new));
        tokio::time::timeout(PATIENCE, replaced).await.unwrap_or_else(|_| panic!("{name} stays as it is")).unwrap();
        until_it_waits(&world, condition).await;
        // Whatever another reconcile would do.
        touch(&world).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        for (later, _) in &ORDER[index + 1..] {
            let live = workloads(&world, later).get(later).await.unwrap();
            assert!(!is_new(Some(&live)), "{later} is replaced before all of {name} are");
        }
        world.facts().held.retain(|held| held != name);
    }
    until_ready(&world, 3).await;
}
