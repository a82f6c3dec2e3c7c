//! `c5c3 logs`: what the pods of a service write.

use std::collections::BTreeSet;

use futures::{AsyncBufReadExt, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, Client};

use super::world::{Object, World};
use crate::args::LogsArgs;

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

/// Whether one of the pods has a container of that name.
pub(crate) fn has_container(pods: &[&Object], name: &str) -> bool {
    containers_of(pods).iter().any(|container| container == name)
}

/// The names of all containers of the pods.
pub(crate) fn containers_of(pods: &[&Object]) -> Vec<String> {
    let names: BTreeSet<String> = pods.iter().flat_map(|pod| containers(pod)).collect();
    names.into_iter().collect()
}

/// Prints what the pods wrote, and with `--follow` what they write from now on.
pub(crate) async fn print(client: &Client, pods: &[&Object], args: &LogsArgs) {
    let params = LogParams {
        follow: args.follow,
        tail_lines: Some(args.tail),
        since_seconds: args.since,
        previous: args.previous,
        ..LogParams::default()
    };
    let is_asked = |container: &String| args.container.as_ref().is_none_or(|asked| asked == container);
    let streams = pods.iter().flat_map(|pod| {
        let params = &params;
        let asked = containers(pod).into_iter().filter(is_asked);
        asked.map(move |container| copy(client, pod, container, params.clone()))
    });
    if args.follow {
        futures::future::join_all(streams).await;
    } else {
        // One after the other, so that what one container wrote stays together.
        futures::stream::iter(streams).for_each(|stream| stream).await;
    }
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
        // A container that has not started has no log. That is no line of its log.
        Err(error) => eprintln!("{source}: no log: {}", said(&error)),
    }
}

fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}
