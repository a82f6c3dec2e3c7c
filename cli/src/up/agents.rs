//! The agents of hypervisors, in this process, as the operators are: what libvirt and Open vSwitch of each node say, in objects.
//! They may do what they may in pods of a node, by the same roles and the same admission policies.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use c5c3_agent_node::NodeMetrics;
use c5c3_agent_ovs::OvsMetrics;
use c5c3_cluster::Cluster;
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

/// What an agent does until it is told to stop.
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
            let start = work(cluster, &agent, node, account)?;
            tasks.spawn(follow(Api::all(client.clone()), node.to_owned(), start, stop.clone()));
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

/// What an agent does on a node: it finds the sockets where pods of that node have them.
fn work(cluster: &Cluster, agent: &Agent, node: &str, client: Client) -> Result<Start, String> {
    let at = |path: &str| {
        let place = cluster.place(node, Path::new(path));
        place.map_err(|error| format!("cannot find {path} of {node}: {error}"))
    };
    let (node, namespace) = (node.to_owned(), agent.objects().to_owned());
    if agent.name == "ovs" {
        let (run, controller) = (at("/run/openvswitch")?, at("/run/ovn/controller.ctl")?);
        let options = c5c3_agent_ovs::Options { node, namespace, run, controller };
        return Ok(Arc::new(move |stop| {
            Box::pin(c5c3_agent_ovs::run(client.clone(), options.clone(), OvsMetrics::default(), stop))
        }));
    }
    let options = c5c3_agent_node::Options {
        node,
        namespace,
        socket: at("/run/libvirt/libvirt-sock")?,
        uri: "qemu:///system".into(),
        virt_type: at("/run/libvirt/c5c3/virt-type")?,
        os_release: at("/etc/os-release")?,
    };
    Ok(Arc::new(move |stop| {
        Box::pin(c5c3_agent_node::run(client.clone(), options.clone(), NodeMetrics::default(), stop))
    }))
}

/// Runs an agent as long as its node has the label of hypervisors.
async fn follow(nodes: Api<Node>, name: String, start: Start, stop: CancellationToken) {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut seen = watcher(nodes, config).default_backoff().applied_objects().boxed();
    let mut running: Option<CancellationToken> = None;
    while let Some(Some(node)) = stop.run_until_cancelled(seen.next()).await {
        let Ok(node) = node else { continue };
        match (node.labels().contains_key(HYPERVISOR), &running) {
            (true, None) => {
                let own = stop.child_token();
                tokio::spawn(start(own.clone()));
                running = Some(own);
            }
            (false, Some(own)) => {
                own.cancel();
                running = None;
            }
            _ => {}
        }
    }
}
