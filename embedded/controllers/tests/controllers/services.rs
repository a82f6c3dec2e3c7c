//! Endpoints of Services, after upstream's conformance specs.

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::{Value, json};

use crate::fixtures::{PATIENCE, Stage, Tested, eventually};

/// Waits until the slices of a Service are so.
async fn slices_until(stage: &Stage, service: &str, holds: impl Fn(&[EndpointSlice]) -> bool) -> Vec<EndpointSlice> {
    let mut changes = watcher(stage.api::<EndpointSlice>(), watcher::Config::default()).default_backoff().boxed();
    let params = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
    let met = async {
        loop {
            let slices = stage.api::<EndpointSlice>().list(&params).await.expect("slices").items;
            if holds(&slices) {
                return slices;
            }
            changes.next().await;
        }
    };
    tokio::time::timeout(PATIENCE, met).await.unwrap_or_else(|_| panic!("the slices of {service} do not come to be so"))
}

fn ready(slices: &[EndpointSlice]) -> Vec<bool> {
    let endpoints = slices.iter().flat_map(|slice| &slice.endpoints);
    endpoints.map(|endpoint| endpoint.conditions.as_ref().and_then(|is| is.ready).unwrap_or_default()).collect()
}

fn pod(name: &str) -> Value {
    let ports = json!([{"name": "http", "containerPort": 8080}]);
    json!({"metadata": {"name": name, "labels": {"app": "web"}},
           "spec": {"containers": [{"name": "c", "image": "web:1", "ports": ports}]}})
}

#[tokio::test]
async fn endpoints_follow_the_pods_of_a_service_and_go_with_it() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let spec = json!({"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]});
    stage.create::<Service>(json!({"metadata": {"name": "web"}, "spec": spec})).await;
    slices_until(&stage, "web", |slices| slices.len() == 1 && slices[0].endpoints.is_empty()).await;
    stage.create::<Pod>(pod("a")).await;
    stage.create::<Pod>(pod("b")).await;
    let slices = slices_until(&stage, "web", |slices| ready(slices) == [true, true]).await;
    assert_eq!(slices[0].ports.as_ref().unwrap()[0].port, Some(8080));
    assert_eq!(slices[0].endpoints[0].node_name.as_deref(), Some("n1"));
    let addresses = |endpoints: Option<&Endpoints>| {
        let subsets = endpoints.and_then(|endpoints| endpoints.subsets.as_ref()).into_iter().flatten();
        subsets.filter_map(|subset| subset.addresses.as_ref()).map(Vec::len).sum::<usize>()
    };
    eventually(&stage.api::<Endpoints>(), "web", move |found: Option<&Endpoints>| addresses(found) == 2).await;

    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    stage.api::<Pod>().patch_status("a", &PatchParams::default(), &Patch::Strategic(unready)).await?;
    slices_until(&stage, "web", |slices| ready(slices).iter().filter(|ready| **ready).count() == 1).await;
    eventually(&stage.api::<Endpoints>(), "web", move |found: Option<&Endpoints>| addresses(found) == 1).await;
    stage.api::<Pod>().delete("b", &DeleteParams::default()).await?;
    slices_until(&stage, "web", |slices| ready(slices) == [false]).await;

    // Someone takes a slice away.
    let name = slices_until(&stage, "web", |slices| slices.len() == 1).await[0].name_any();
    stage.api::<EndpointSlice>().delete(&name, &DeleteParams::default()).await?;
    slices_until(&stage, "web", |slices| slices.len() == 1 && slices[0].name_any() != name).await;

    stage.api::<Service>().delete("web", &DeleteParams::default()).await?;
    slices_until(&stage, "web", <[EndpointSlice]>::is_empty).await;
    eventually(&stage.api::<Endpoints>(), "web", |found: Option<&Endpoints>| found.is_none()).await;
    Ok(())
}

#[tokio::test]
async fn endpoints_that_somebody_writes_are_mirrored_through_create_update_and_delete() -> Tested {
    let stage = Stage::set(&[]).await;
    stage.create::<Service>(json!({"metadata": {"name": "db"}, "spec": {"ports": [{"port": 5432}]}})).await;
    let subset = |ip: &str| json!([{"addresses": [{"ip": ip}], "ports": [{"port": 5432}]}]);
    stage.create::<Endpoints>(json!({"metadata": {"name": "db"}, "subsets": subset("10.9.9.1")})).await;
    let address = |slices: &[EndpointSlice]| {
        slices
            .iter()
            .flat_map(|slice| slice.endpoints.clone())
            .map(|found| found.addresses.join(" "))
            .collect::<Vec<_>>()
    };
    let slices = slices_until(&stage, "db", |slices| address(slices) == ["10.9.9.1"]).await;
    assert_eq!(
        slices[0].labels()["endpointslice.kubernetes.io/managed-by"],
        "endpointslicemirroring-controller.k8s.io"
    );
    assert_eq!((slices[0].owner_references()[0].kind.as_str(), ready(&slices)), ("Endpoints", vec![true]));
    stage.change::<Endpoints>("db", json!({"subsets": subset("10.9.9.2")})).await;
    slices_until(&stage, "db", |slices| address(slices) == ["10.9.9.2"]).await;
    stage.api::<Endpoints>().delete("db", &DeleteParams::default()).await?;
    slices_until(&stage, "db", <[EndpointSlice]>::is_empty).await;
    Ok(())
}
