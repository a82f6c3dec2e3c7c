//! `c5c3 status`, `why` and `logs`: how a cluster is, whichever it is, told from what may be read of it.

mod cause;
pub(crate) mod delivery;
mod endpoints;
mod fields;
mod logs;
mod names;
mod overview;
mod placement;
pub(crate) mod pods;
mod reach;
mod read;
#[cfg(test)]
pub(crate) mod tests;
mod tree;
mod world;

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use c5c3_api::c5c3::ControlPlane;
use c5c3_kit::KindRef;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::args::{ClusterArgs, LogsArgs, Output, StatusArgs, WhyArgs};
use crate::cluster::block_on;
use crate::{Done, print, print_value, target};

pub(crate) use fields::place_of;
pub(crate) use overview::trees as overview;
pub(crate) use read::{kinds, world};
pub(crate) use tree::{State, Tree};
pub(crate) use world::{Object, World};

/// How often a cluster is looked at that is waited for.
const INTERVAL: Duration = Duration::from_secs(1);

/// What to say of a cluster without a cloud.
const NONE: &str = "there is no ControlPlane; create one: `c5c3 up`, or kubectl apply -f FILE\n";

pub(crate) fn status(args: &StatusArgs) -> Done {
    block_on(async {
        let begun = Instant::now();
        let asked = Asked::new(&args.cluster).await?;
        if args.watch {
            return watch(&asked, args.output).await;
        }
        loop {
            let world = asked.look().await?;
            let mut trees = overview(&world);
            let is_ready = !trees.is_empty() && world.unready.is_none() && trees.iter().all(Tree::is_ready);
            let is_late = begun.elapsed().as_secs() >= args.timeout;
            if args.wait && !is_ready && !is_late {
                tokio::time::sleep(INTERVAL).await;
                continue;
            }
            if trees.is_empty() && world.unready.is_none() {
                asked.why_empty(&world).await?;
                shown(&trees, &world, args.output, is_ready, NONE)?;
                return Ok(ExitCode::FAILURE);
            }
            trees.extend(endpoints::silent(&world).await);
            shown(&trees, &world, args.output, is_ready, "")?;
            return Ok(if is_ready { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
    })?
}

/// Prints the status, and prints it again when more of it has changed than the age of something. An API server that stops to
/// answer, as it does while its cluster restarts, is asked again.
async fn watch(asked: &Asked<'_>, output: Output) -> Done {
    let (begun, mut last) = (Timestamp::now(), None);
    loop {
        match asked.look().await {
            Ok(mut world) => {
                let trees = overview(&world);
                let now = std::mem::replace(&mut world.now, begun);
                let seen = text(&overview(&world), &world);
                world.now = now;
                if last.as_ref() != Some(&seen) {
                    let is_ready = !trees.is_empty() && world.unready.is_none() && trees.iter().all(Tree::is_ready);
                    if last.is_some() && output == Output::Text {
                        print("\n")?;
                    }
                    shown(&trees, &world, output, is_ready, NONE)?;
                    last = Some(seen);
                }
            }
            Err(why) if last.as_ref() == Some(&why) => {}
            Err(why) if last.is_some() => {
                eprintln!("{why}");
                last = Some(why);
            }
            Err(why) => return Err(why),
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

pub(crate) fn why(args: &WhyArgs) -> Done {
    block_on(async {
        let cluster = Asked::new(&args.cluster).await?;
        if let Some((domain, id)) = args.object.as_deref().and_then(placement::workload) {
            return placement::why(cluster.client, cluster.namespace, domain, id, args.output).await;
        }
        let world = cluster.look().await?;
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
        if asked.is_empty() && world.unready.is_none() {
            cluster.why_empty(&world).await?;
        }
        let mut trees = cause::trees(&world, &asked);
        let is_ready = trees.is_empty() && world.unready.is_none();
        if trees.is_empty() {
            trees = overview::idle(&asked);
        }
        if args.object.is_none() {
            trees.extend(endpoints::silent(&world).await);
        }
        let none = if asked.is_empty() { "there is nothing to ask about\n" } else { "all is ready\n" };
        shown(&trees, &world, args.output, is_ready, none)?;
        Ok(if is_ready { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })?
}

pub(crate) fn logs(args: &LogsArgs) -> Done {
    block_on(async {
        let asked = Asked::new(&args.cluster).await?;
        let world = asked.look().await?;
        let pods = logs::pods_of(&world, &args.service);
        if pods.is_empty() {
            asked.why_empty(&world).await?;
            return Err(format!("no pod works for {}; kubectl get pods -A lists them all", args.service));
        }
        if let Some(container) = args.container.as_deref().filter(|name| !logs::has_container(&pods, name)) {
            let names = logs::containers_of(&pods).join(", ");
            return Err(format!("no pod of {} has a container {container}; there are {names}", args.service));
        }
        logs::print(&asked.client, &pods, args).await;
        Ok(ExitCode::SUCCESS)
    })?
}

/// What keeps the cluster from being ready, as `c5c3 why` says it; nothing when it is.
pub(crate) fn causes(world: &World) -> Vec<Tree> {
    cause::trees(world, &cause::unasked(world))
}

/// Prints trees, or `none` when there are none.
fn shown(trees: &[Tree], world: &World, output: Output, is_ready: bool, none: &str) -> Done {
    match output {
        Output::Json | Output::Yaml => {
            let items: Vec<Value> = trees.iter().map(Tree::json).collect();
            let value = json!({"ready": is_ready, "items": items, "notListed": world.unread, "unready": world.unready});
            print_value(&value, output)
        }
        Output::Text if trees.is_empty() && world.unready.is_none() => print(none),
        Output::Text => print(&text(trees, world)),
    }
}

/// Trees as text, above them why the API server is not ready, and below them what could not be looked at.
fn text(trees: &[Tree], world: &World) -> String {
    let mut text = String::new();
    if let Some(why) = &world.unready {
        let _ = writeln!(text, "the API server is not ready:\n{why}\n");
    }
    text += &trees.iter().map(Tree::render).collect::<Vec<_>>().join("\n");
    if !world.unread.is_empty() {
        let _ = writeln!(text, "\nnot listed: {}", world.unread.join(", "));
    }
    text
}

/// The cluster that is asked, and what of it.
pub(crate) struct Asked<'a> {
    pub(crate) client: Client,
    url: String,
    pub(crate) namespace: Option<&'a str>,
}

impl<'a> Asked<'a> {
    pub(crate) async fn new(args: &'a ClusterArgs) -> Result<Self, String> {
        let config = target::config(&args.target, args.data.as_deref()).await?;
        let url = config.cluster_url.to_string();
        let client = Client::try_from(config).map_err(|error| format!("no cluster: {}", target::root(&error)))?;
        Ok(Self { client, url, namespace: args.namespace.as_deref() })
    }

    pub(crate) async fn look(&self) -> Result<World, String> {
        let world = world(&self.client, self.namespace).await;
        world.map_err(|error| {
            format!(
                "the API at {} does not answer: {error}; start the cluster, or name another with --kubeconfig",
                self.url
            )
        })
    }

    /// An error if nothing was seen because the account may not look, or because there is no such namespace.
    async fn why_empty(&self, world: &World) -> Result<(), String> {
        let wanted = format!("{} (not allowed)", KindRef::of::<ControlPlane>().resource.plural);
        if world.unread.contains(&wanted) {
            return Err(match self.namespace {
                Some(namespace) => format!(
                    "you may not list controlplanes in the namespace {namespace}; ask for the ClusterRole view there"
                ),
                None => "you may not list controlplanes in all namespaces; name one that you may look at with -n, or \
                    ask for the ClusterRole view"
                    .into(),
            });
        }
        let Some(namespace) = self.namespace else { return Ok(()) };
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        match namespaces.get_metadata(namespace).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Err(format!("there is no namespace {namespace}")),
            _ => Ok(()),
        }
    }
}
