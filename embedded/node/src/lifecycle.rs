//! How the node hears that something ended: from containerd's events, and by a look at everything now and then in case
//! one was missed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use c5c3_cri::{CallError, v1};
use futures::StreamExt;
use tokio::time::{interval, sleep};

use crate::node::Node;

/// Between two looks at everything: two calls.
const LOOK: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_secs(1);
/// containerd tells of an end a little before its CRI shows it.
const LONGEST_LAG: Duration = Duration::from_secs(2);

/// Wakes workers, for ever.
pub(crate) async fn run(node: Arc<Node>) {
    tokio::join!(hear(&node), look(&node));
}

async fn hear(node: &Arc<Node>) {
    loop {
        match node.runtime.exits().await {
            Ok(mut exits) => {
                // What ended while no one listened.
                node.directory.wake_everybody();
                while let Some(Ok(id)) = exits.next().await {
                    tracing::debug!(id, "ended");
                    tokio::spawn(pass_on(Arc::clone(node), id));
                }
            }
            Err(error) => tracing::warn!(%error, "cannot hear of containers that end"),
        }
        sleep(RETRY).await;
    }
}

/// Wakes the worker once the CRI shows what happened.
async fn pass_on(node: Arc<Node>, id: String) {
    let mut waited = Duration::from_millis(2);
    while waited < LONGEST_LAG {
        let is_running = match node.runtime.container_status(&id).await {
            Ok(status) => status.state == v1::ContainerState::ContainerRunning as i32,
            Err(_) => match node.runtime.pod_sandbox_status(&id).await {
                Ok(status) => status.state == v1::PodSandboxState::SandboxReady as i32,
                Err(_) => false,
            },
        };
        if !is_running {
            break;
        }
        sleep(waited).await;
        waited *= 2;
    }
    node.directory.wake(&id);
}

async fn look(node: &Node) {
    let mut looks = interval(LOOK);
    let mut before = HashMap::new();
    loop {
        looks.tick().await;
        match states(node).await {
            Ok(now) => {
                let changed = now.iter().filter(|(id, state)| before.get(*id) != Some(*state));
                let lost = before.keys().filter(|id| !now.contains_key(*id));
                changed.map(|(id, _)| id).chain(lost).for_each(|id| node.directory.wake(id));
                before = now;
            }
            Err(error) => tracing::warn!(%error, "cannot look at the containers"),
        }
    }
}

async fn states(node: &Node) -> Result<HashMap<String, i32>, CallError> {
    let containers = node.runtime.list_containers(None).await?;
    let sandboxes = node.runtime.list_pod_sandbox(None).await?;
    let containers = containers.into_iter().map(|container| (container.id, container.state));
    Ok(containers.chain(sandboxes.into_iter().map(|sandbox| (sandbox.id, sandbox.state))).collect())
}
