//! How many pods there are while autoscaling comes and goes.

use c5c3_api::openstack::Keystone;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};

use crate::world::{Stage, keystone, stage};
use c5c3_stage::PATIENCE;

/// Changes the Keystone, and says how many pods its Deployment asks for once the change is there, by the CPU in it.
async fn replicas(stage: &Stage, cpu: &'static str, mut change: Value) -> Option<i32> {
    change["resources"] = json!({"requests": {"cpu": cpu}});
    let keystones: Api<Keystone> = Api::namespaced(stage.client.clone(), "cloud");
    keystones.patch("gate", &PatchParams::default(), &Patch::Merge(json!({"spec": change}))).await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(stage.client.clone(), "cloud");
    let changed = |found: Option<&Deployment>| {
        let pod = found.and_then(|found| found.spec.as_ref()?.template.spec.as_ref());
        let requests = pod.and_then(|pod| pod.containers[0].resources.as_ref()?.requests.as_ref());
        requests.is_some_and(|requests| requests["cpu"].0 == cpu)
    };
    let found = tokio::time::timeout(PATIENCE, await_condition(deployments, "gate-api", changed)).await;
    found.expect("changed in time").unwrap().unwrap().spec.unwrap().replicas
}

#[tokio::test(flavor = "multi_thread")]
async fn no_pod_goes_when_autoscaling_is_switched_on_and_the_autoscaler_has_the_say_from_its_first_word() {
    let stage = stage().await;
    let _running = stage.operate();
    stage.create(&keystone(&json!({}))).await;
    stage.until_ready().await;
    let on = json!({"autoscaling": {"minReplicas": 2, "maxReplicas": 5, "targetCPUUtilization": 50}});
    assert_eq!(replicas(&stage, "1", on).await, Some(3));

    let deployments: Api<Deployment> = Api::namespaced(stage.client.clone(), "cloud");
    let autoscaler = PatchParams { field_manager: Some("kube-controller-manager".into()), ..PatchParams::default() };
    let scale = Patch::Merge(json!({"spec": {"replicas": 4}}));
    // An operator that has read the number before the autoscaler's first word writes it once more; an autoscaler looks again.
    let mut found = None;
    for cpu in ["2", "3", "4"] {
        deployments.patch_scale("gate-api", &autoscaler, &scale).await.unwrap();
        found = replicas(&stage, cpu, json!({})).await;
        if found == Some(4) {
            break;
        }
    }
    assert_eq!(found, Some(4));
    assert_eq!(replicas(&stage, "5", json!({"autoscaling": null})).await, Some(3));
}
