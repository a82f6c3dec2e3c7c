//! The agents of hypervisors, in this process, as the operators are: what libvirt and Open vSwitch of each node say, in objects.
//! They may do what they may in pods of a node, by the same roles and the same admission policies.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use c5c3_agent_node::NodeMetrics;
use c5c3_agent_ovs::OvsMetrics;
use c5c3_cluster::{Cluster, UpError};
use c5c3_controllers::keep_running;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::operators::apply;
use crate::manifests::{self, Agent, HYPERVISOR};

/// The part of a ControlPlane that each agent is about.
const ABOUT: [(&str, &str); 2] = [("node", "nova"), ("ovs", "ovn")];

/// What an agent does until it is told to stop, or fails.
type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Starts an agent.
type Start = Arc<dyn Fn(CancellationToken) -> Work + Send + Sync>;

/// Installs the agents that a cloud has something for, and runs them on each node as long as it is a hypervisor.
pub(super) async fn start(
    cluster: &Cluster,
    (namespace, parts): (&str, &[&str]),
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> Result<(), String> {
    let client = cluster.client("up");
    let is_wanted = |agent: &Agent| ABOUT.iter().any(|(name, part)| *name == agent.name && parts.contains(part));
    for agent in manifests::agents(namespace).into_iter().filter(is_wanted) {
        install(&client, namespace, &agent).await?;
        for node in cluster.nodes() {
            let account = cluster.account_on(node, agent.home(), &agent.own());
            let start = work(Arc::new(cluster.places(node)), &agent, node, account);
            tasks.spawn(follow(Api::all(client.clone()), (agent.name, node.to_owned()), start, stop.clone()));
        }
    }
    Ok(())
}

/// Applies what the agent needs, but for the DaemonSet.
async fn install(client: &Client, namespace: &str, agent: &Agent) -> Result<(), String> {
    let home = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let objects = agent.manifests().into_iter().filter(|object| object["kind"] != "DaemonSet");
    for object in [home].into_iter().chain(objects) {
        let applied = apply(client, &object).await;
        applied.map_err(|error| format!("cannot apply what the agent {} needs: {error}", agent.name))?;
    }
    Ok(())
}

/// Finds the paths of a node.
type Places = Arc<dyn Fn(&str) -> Result<PathBuf, UpError> + Send + Sync>;

/// What an agent does on a node, until it is told to stop or fails: it finds the sockets where pods of that node have them.
fn work(places: Places, agent: &Agent, node: &str, client: Client) -> Start {
    let (name, node, namespace) = (agent.name, node.to_owned(), agent.objects().to_owned());
    Arc::new(move |stop| {
        let (places, node, namespace, client) = (places.clone(), node.clone(), namespace.clone(), client.clone());
        Box::pin(async move {
            let on = node.clone();
            let done = async {
                if name == "ovs" {
                    let (run, controller) = (places("/run/openvswitch")?, places("/run/ovn/controller.ctl")?);
                    let options = c5c3_agent_ovs::Options { node, namespace, run, controller };
                    c5c3_agent_ovs::run(client, options, OvsMetrics::default(), stop).await;
                } else {
                    let options = c5c3_agent_node::Options {
                        node,
                        namespace,
                        socket: places("/run/libvirt/libvirt-sock")?,
                        uri: "qemu:///system".into(),
                        virt_type: places("/run/libvirt/c5c3/virt-type")?,
                        os_release: places("/etc/os-release")?,
                    };
                    c5c3_agent_node::run(client, options, NodeMetrics::default(), stop).await;
                }
                Ok::<(), UpError>(())
            };
            if let Err(error) = done.await {
                tracing::warn!(agent = name, node = on, %error, "the agent cannot start; trying again");
            }
        })
    })
}

/// Runs an agent as long as its node has the label of hypervisors. One that ends or panics is started again.
async fn follow(nodes: Api<Node>, (agent, name): (&'static str, String), start: Start, stop: CancellationToken) {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut seen = watcher(nodes, config).default_backoff().applied_objects().boxed();
    let mut running: Option<CancellationToken> = None;
    while let Some(Some(node)) = stop.run_until_cancelled(seen.next()).await {
        let Ok(node) = node else { continue };
        match (node.labels().contains_key(HYPERVISOR), &running) {
            (true, None) => {
                let (own, start) = (stop.child_token(), start.clone());
                running = Some(own.clone());
                tokio::spawn(async move { keep_running(agent, own.clone(), || start(own.clone())).await });
            }
            (false, Some(own)) => {
                own.cancel();
                running = None;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use c5c3_harness::TestCluster;
    use kube::api::{Patch, PatchParams, PostParams};
    use tokio::sync::watch;

    use super::*;

    #[tokio::test]
    async fn an_agent_that_panics_or_ends_is_started_again_until_its_node_is_no_hypervisor() {
        let cluster = TestCluster::in_process().await.unwrap();
        let nodes: Api<Node> = Api::all(cluster.client());
        let node = json!({"metadata": {"name": "pear", "labels": {HYPERVISOR: ""}}});
        nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
        let (starts, running) = (Arc::new(AtomicUsize::new(0)), watch::Sender::new(false));
        let (counted, told) = (starts.clone(), running.clone());
        let start: Start = Arc::new(move |stop| {
            let (count, told) = (counted.fetch_add(1, Ordering::SeqCst), told.clone());
            Box::pin(async move {
                match count {
                    0 => panic!("the first time"),
                    1 => {}
                    _ => {
                        told.send_replace(true);
                        stop.cancelled().await;
                        told.send_replace(false);
                    }
                }
            })
        });
        let stop = CancellationToken::new();
        tokio::spawn(follow(nodes.clone(), ("press", "pear".into()), start, stop.clone()));
        let mut seen = running.subscribe();
        let patience = Duration::from_mins(1);
        tokio::time::timeout(patience, seen.wait_for(|runs| *runs)).await.unwrap().unwrap();
        assert_eq!(starts.load(Ordering::SeqCst), 3);
        let patch = Patch::Merge(json!({"metadata": {"labels": {HYPERVISOR: null}}}));
        nodes.patch("pear", &PatchParams::default(), &patch).await.unwrap();
        tokio::time::timeout(patience, seen.wait_for(|runs| !*runs)).await.unwrap().unwrap();
        assert_eq!(starts.load(Ordering::SeqCst), 3, "it is not started again");
        stop.cancel();
    }

    #[tokio::test]
    async fn an_agent_whose_paths_cannot_be_found_ends_alone_and_looks_for_them_at_each_start() {
        let cluster = TestCluster::in_process().await.unwrap();
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = looks.clone();
        let places: Places = Arc::new(move |path| {
            counted.fetch_add(1, Ordering::SeqCst);
            Err(UpError::HostPath { path: path.into(), source: std::io::ErrorKind::NotFound.into() })
        });
        for agent in manifests::agents("orchard") {
            let start = work(places.clone(), &agent, "pear", cluster.client());
            start(CancellationToken::new()).await;
            start(CancellationToken::new()).await;
        }
        assert_eq!(looks.load(Ordering::SeqCst), 4);
    }
}
