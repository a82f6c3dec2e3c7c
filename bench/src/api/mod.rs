//! `bench api`: creates, updates, gets, lists, watches and server-side applies, on any API server.

mod embedded;
mod load;
mod measure;
mod table;
mod watch;

use std::path::PathBuf;

use clap::Args as ClapArgs;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};

use measure::Row;

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Args {
    /// The server to measure; without it, an embedded one is started
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// A second server, which the same load goes to afterwards; the table then has a column of ratios
    #[arg(long, value_name = "FILE", requires = "kubeconfig")]
    against: Option<PathBuf>,
    /// The processes of the server, whose memory is added up; may be repeated
    #[arg(long, value_name = "PID")]
    pid: Vec<u32>,
    /// The processes of the second server
    #[arg(long, value_name = "PID", requires = "against")]
    against_pid: Vec<u32>,
    /// How many objects are created, and then listed at once
    #[arg(long, default_value_t = 10_000)]
    objects: usize,
    /// How many requests are under way at a time
    #[arg(long, default_value_t = 64)]
    clients: usize,
    /// How many watchers each change goes to
    #[arg(long, default_value_t = 100)]
    watchers: usize,
    /// How many changes the watchers are told of
    #[arg(long, default_value_t = 200)]
    changes: usize,
}

pub(crate) async fn run(args: Args) -> Result<(), String> {
    let first = match &args.kubeconfig {
        Some(path) => measure(&args, path, &args.pid).await?,
        None => measure_embedded(&args).await?,
    };
    let second = match &args.against {
        Some(path) => Some(measure(&args, path, &args.against_pid).await?),
        None => None,
    };
    print!("{}", table::render(&first.rows, second.as_ref().map(|second| &second.rows[..])));
    let failures: Vec<_> = [Some(first), second].into_iter().flatten().filter_map(|one| one.failure).collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
}

/// What was measured of a server, up to where it failed.
struct Measured {
    rows: Vec<Row>,
    failure: Option<String>,
}

/// Measures an embedded server, which is there for that only.
async fn measure_embedded(args: &Args) -> Result<Measured, String> {
    let server = embedded::start().await?;
    let mut measured = measure(args, &server.kubeconfig(), &[server.pid()]).await?;
    measured.rows.insert(0, Row::time("ready to serve", server.ready_after));
    Ok(measured)
}

/// Runs the whole load against one server, and removes what it made.
async fn measure(args: &Args, kubeconfig: &PathBuf, pids: &[u32]) -> Result<Measured, String> {
    let connect = || connect(kubeconfig);
    let client = connect().await?;
    let version = client.apiserver_version().await.map_err(|error| format!("{}: {error}", kubeconfig.display()))?;
    eprintln!("{}: Kubernetes {}", kubeconfig.display(), version.git_version);
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let metadata = ObjectMeta { generate_name: Some("bench-".into()), ..ObjectMeta::default() };
    let made = namespaces.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await;
    let namespace = made.map_err(|error| format!("cannot make a namespace: {error}"))?.name_any();
    let mut rows = Vec::new();
    let ended = phases(args, &client, &namespace, pids, &mut rows).await;
    let _ = namespaces.delete(&namespace, &DeleteParams::default()).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client);
    let _ = definitions.delete(load::DEFINITION, &DeleteParams::default()).await;
    let failure = ended.err().map(|error| format!("{}: {error}", kubeconfig.display()));
    Ok(Measured { rows, failure })
}

async fn phases(
    args: &Args,
    client: &Client,
    namespace: &str,
    pids: &[u32],
    rows: &mut Vec<Row>,
) -> Result<(), kube::Error> {
    rows.extend(measure::memory(pids).map(|bytes| Row::memory("memory before", bytes)));
    let load = load::Load::new(client.clone(), namespace, args.objects, args.clients);
    rows.push(load.creates().await?);
    let full = measure::memory(pids);
    rows.extend(full.map(|bytes| Row::memory(&format!("memory with {} objects", args.objects), bytes)));
    rows.push(load.updates().await?);
    rows.push(load.gets().await?);
    rows.extend(load.lists().await?);
    rows.extend(watch::fan_out(client, namespace, args.watchers, args.changes).await?);
    rows.extend(load.applies().await?);
    rows.extend(measure::memory(pids).map(|bytes| Row::memory("memory at the end", bytes)));
    Ok(())
}

pub(crate) async fn connect(kubeconfig: &PathBuf) -> Result<Client, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", kubeconfig.display());
    let read = Kubeconfig::read_from(kubeconfig).map_err(|error| wrong(&error))?;
    let config =
        Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.map_err(|error| wrong(&error))?;
    Client::try_from(config).map_err(|error| wrong(&error))
}
