//! `c5c3 status`, `why` and `logs`: how a cluster is, whichever it is, told from what may be read of it.

mod cause;
mod fields;
mod logs;
mod overview;
mod pods;
mod read;
#[cfg(test)]
mod tests;
mod tree;
mod world;

use std::fmt::Write as _;
use std::process::ExitCode;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::args::{LogsArgs, StatusArgs, WhyArgs};
use crate::cluster::block_on;
use crate::{Done, print};

pub(crate) use overview::trees as overview;
pub(crate) use read::world;
pub(crate) use tree::{State, Tree};
pub(crate) use world::World;

pub(crate) fn status(args: &StatusArgs) -> Done {
    block_on(async {
        let world = look(args).await?;
        let trees = overview(&world);
        if trees.is_empty() && world.unready.is_none() {
            return Err("there is no ControlPlane; make one: kubectl apply -f examples/controlplane/".into());
        }
        print(&text(&trees, &world))
    })?
}

pub(crate) fn why(args: &WhyArgs) -> Done {
    block_on(async {
        let world = look(&args.cluster).await?;
        let asked =
            match &args.object {
                Some(path) => {
                    let path = if path.contains('/') { path.clone() } else { format!("{path}/{path}") };
                    let found = world.find(&path, args.cluster.namespace.as_deref());
                    vec![found.ok_or_else(|| {
                        format!("there is no {path}; name it as kubectl does, such as keystone/keystone")
                    })?]
                }
                None => cause::unasked(&world),
            };
        let trees = cause::trees(&world, &asked);
        if trees.is_empty() && world.unready.is_none() {
            return print(if asked.is_empty() { "there is nothing to ask about\n" } else { "all is ready\n" });
        }
        print(&text(&trees, &world))?;
        Ok(ExitCode::FAILURE)
    })?
}

pub(crate) fn logs(args: &LogsArgs) -> Done {
    block_on(async {
        let client = client(&args.cluster).await?;
        let world = world(&client, args.cluster.namespace.as_deref()).await?;
        let pods = logs::pods_of(&world, &args.service);
        if pods.is_empty() {
            return Err(format!("no pod works for {}; kubectl get pods -A lists them all", args.service));
        }
        logs::print(&client, &pods, args.follow, args.lines).await?;
        Ok(ExitCode::SUCCESS)
    })?
}

/// Trees as text, above them why the API server is not ready, and below them what could not be looked at.
fn text(trees: &[Tree], world: &World) -> String {
    let mut text = String::new();
    if let Some(why) = &world.unready {
        let _ = writeln!(text, "the API server is not ready:\n{why}\n");
    }
    text += &trees.iter().map(Tree::render).collect::<Vec<_>>().join("\n");
    if !world.unread.is_empty() {
        let _ = writeln!(text, "\nnot looked at: {}", world.unread.join(", "));
    }
    text
}

async fn look(args: &StatusArgs) -> Result<World, String> {
    world(&client(args).await?, args.namespace.as_deref()).await
}

/// The cluster of the kubeconfig, or of the pod; without either, the one on this machine.
async fn client(args: &StatusArgs) -> Result<Client, String> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let unusable =
        |error: &dyn std::fmt::Display| format!("no cluster: {error}; set KUBECONFIG, or start one: c5c3 up");
    let own = crate::up::folder(&args.data)?.kubeconfig();
    let config = match Config::infer().await {
        Ok(config) => config,
        Err(_) if own.exists() => {
            let read = Kubeconfig::read_from(&own).map_err(|error| unusable(&error))?;
            let options = KubeConfigOptions::default();
            Config::from_custom_kubeconfig(read, &options).await.map_err(|error| unusable(&error))?
        }
        Err(error) => return Err(unusable(&error)),
    };
    Client::try_from(config).map_err(|error| unusable(&error))
}
