//! A node that only pretends: for tests of what makes pods, where no one cares what runs in them.

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Binding, Node, ObjectReference, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::json;

/// What an image's name holds if its pods are to run without ever being ready.
pub const UNREADY: &str = "unready";

/// The image of a pod's first container.
fn image(pod: &Pod) -> &str {
    let containers = pod.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default();
    containers.first().and_then(|container| container.image.as_deref()).unwrap_or_default()
}

/// Runs every pod on paper, for as long as it is polled: gives it a node, says that it is ready, takes it away when it
/// is to end.
pub async fn node(client: Client) {
    let mut changes = watcher(Api::<Pod>::all(client.clone()), watcher::Config::default()).default_backoff().boxed();
    while let Some(event) = changes.next().await {
        if let Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) = event {
            // A pod that has changed since comes again.
            let _ = play(&client, &pod).await;
        }
    }
}

async fn play(client: &Client, pod: &Pod) -> Result<(), kube::Error> {
    let api = Api::<Pod>::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let name = pod.name_any();
    if pod.metadata.deletion_timestamp.is_some() {
        return api.delete(&name, &DeleteParams::default().grace_period(0)).await.map(drop);
    }
    let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) else {
        let Some(node) = place(client, pod).await? else { return Ok(()) };
        let target = ObjectReference { kind: Some("Node".into()), name: Some(node), ..ObjectReference::default() };
        let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        let binding = Binding { metadata, target };
        let bound: Result<kube::core::Status, _> =
            api.create_subresource("binding", &name, &PostParams::default(), &binding).await;
        return bound.map(drop);
    };
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    if phase.is_some_and(|phase| phase != "Pending") {
        return Ok(());
    }
    let ready = if image(pod).contains(UNREADY) { "False" } else { "True" };
    let now = Timestamp::now().to_string();
    let status = json!({"status": {
        "phase": "Running", "startTime": now, "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "hostIP": node,
        "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": now}],
    }});
    api.patch_status(&name, &PatchParams::default(), &Patch::Strategic(status)).await.map(drop)
}

/// The node for a pod: the one that it asks for by name, or the first.
async fn place(client: &Client, pod: &Pod) -> Result<Option<String>, kube::Error> {
    let text = serde_json::to_value(&pod.spec).unwrap_or_default();
    let terms = &text["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let wanted = terms["nodeSelectorTerms"][0]["matchFields"][0]["values"][0].as_str().map(str::to_owned);
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?;
    let mut names = nodes.into_iter().map(|node| node.name_any());
    Ok(names.find(|name| wanted.as_ref().is_none_or(|wanted| wanted == name)))
}
