//! `c5c3 logs`: what the pods of a service write.

use futures::{AsyncBufReadExt, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, Client};

use super::world::{Object, World};

/// The pods that work for what is called so: below an object of that name, or named after it.
pub(crate) fn pods_of<'a>(world: &'a World, service: &str) -> Vec<&'a Object> {
    let named = |object: &&Object| object.reference.name == service && object.kind() != "Pod";
    let mut pods: Vec<&Object> =
        world.objects.iter().filter(named).flat_map(|object| world.below(object, "Pod")).collect();
    let prefix = format!("{service}-");
    pods.extend(world.of_kind("Pod").filter(|pod| pod.reference.name.starts_with(&prefix)));
    pods.sort_by_key(|pod| pod.reference.to_string());
    pods.dedup_by_key(|pod| pod.reference.to_string());
    pods
}

/// The names of a pod's containers.
fn containers(pod: &Object) -> Vec<String> {
    let lists = ["/spec/initContainers", "/spec/containers"];
    let all = lists.iter().flat_map(|list| pod.list(list));
    all.filter_map(|container| container["name"].as_str()).map(ToOwned::to_owned).collect()
}

/// Prints what the pods wrote, and with `follow` what they write from now on.
pub(crate) async fn print(client: &Client, pods: &[&Object], follow: bool, lines: i64) -> Result<(), String> {
    let params = LogParams { follow, tail_lines: Some(lines), ..LogParams::default() };
    let streams = pods.iter().flat_map(|pod| {
        let params = &params;
        containers(pod).into_iter().map(move |container| copy(client, pod, container, params.clone()))
    });
    if follow {
        futures::future::join_all(streams).await;
    } else {
        // One after the other, so that what one container wrote stays together.
        futures::stream::iter(streams).for_each(|stream| stream).await;
    }
    Ok(())
}

async fn copy(client: &Client, pod: &Object, container: String, params: LogParams) {
    let api: Api<Pod> = Api::namespaced(client.clone(), pod.namespace().unwrap_or_default());
    let source = format!("{}/{container}", pod.reference.name);
    let params = LogParams { container: Some(container), ..params };
    match api.log_stream(&pod.reference.name, &params).await {
        Ok(stream) => {
            let mut lines = stream.lines();
            while let Ok(Some(line)) = lines.try_next().await {
                let _ = crate::print(&format!("{source} | {line}\n"));
            }
        }
        // A container that has not started has no log.
        Err(error) => drop(crate::print(&format!("{source} | -- no log: {}\n", said(&error)))),
    }
}

fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}
