//! Lifecycle hooks: what a container does after its start and before its end.

use std::time::Duration;

use c5c3_cri::Runtime;
use k8s_openapi::api::core::v1::{Container, LifecycleHandler};
use tokio::time::{sleep, timeout};

use crate::probes::{Failure, Target, http_get};

/// A request of a hook that says nothing about its time.
const HTTP_LIMIT: Duration = Duration::from_secs(30);

/// Runs a hook to its end, or until the limit. An error is the reason, for users.
pub(crate) async fn run(
    runtime: &Runtime,
    hook: &LifecycleHandler,
    container: &Container,
    id: &str,
    pod_ip: &str,
    limit: Option<Duration>,
) -> Result<(), String> {
    let done = handle(runtime, hook, container, id, pod_ip, limit);
    match limit {
        None => done.await,
        Some(limit) => match timeout(limit, done).await {
            Ok(done) => done,
            Err(_) => Err(format!("it did not finish within {}s", limit.as_secs())),
        },
    }
}

async fn handle(
    runtime: &Runtime,
    hook: &LifecycleHandler,
    container: &Container,
    id: &str,
    pod_ip: &str,
    limit: Option<Duration>,
) -> Result<(), String> {
    if let Some(exec) = &hook.exec {
        let command = exec.command.clone().unwrap_or_default();
        let done = runtime.exec_sync(id, command.clone(), limit).await.map_err(|error| error.reason)?;
        if done.exit_code == 0 {
            return Ok(());
        }
        let output = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).trim().to_owned();
        return Err(format!("command '{}' exited with {}: {output}", command.join(" "), done.exit_code));
    }
    if let Some(get) = &hook.http_get {
        let target = Target::new(runtime.clone(), container, id, pod_ip);
        let got = http_get(&target, get, limit.unwrap_or(HTTP_LIMIT)).await;
        return got.map_err(|(Failure::Failed(why) | Failure::Errored(why))| why);
    }
    if let Some(pause) = &hook.sleep {
        sleep(Duration::from_secs(u64::try_from(pause.seconds).unwrap_or(0))).await;
    }
    Ok(())
}
