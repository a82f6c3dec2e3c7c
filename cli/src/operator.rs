//! `c5c3 operator`: runs operators in one process, each with its own lease, metrics shared.

use std::process::ExitCode;

use c5c3_kit::http::{self, Readiness};
use c5c3_kit::leader::{Election, OwnPod};
use c5c3_kit::logging::{self, Format};
use c5c3_kit::metrics::Metrics;
use c5c3_kit::run::RunOptions;
use c5c3_kit::webhook::{self, Certificates, Webhooks};
use c5c3_kit::{Operator, Settings};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::args::{LogFormat, OperatorArgs};
use crate::{Done, rules, target};

/// What an operator may be told: whether it may reach into other namespaces.
type Make = fn(bool) -> Operator;

/// Every operator, by the name that the command line has for it.
const OPERATORS: &[(&str, Make)] = &[
    ("cinder", c5c3_operator_cinder::operator),
    ("controlplane", c5c3_operator_controlplane::operator),
    ("cortex", c5c3_operator_cortex::operator),
    ("glance", c5c3_operator_glance::operator),
    ("ha", c5c3_operator_ha::operator),
    ("hypervisor", c5c3_operator_hypervisor::operator),
    ("keystone", c5c3_operator_keystone::operator),
    ("labels-injector", c5c3_operator_labels_injector::operator),
    ("neutron", c5c3_operator_neutron::operator),
    ("nova", c5c3_operator_nova::operator),
    ("orc", c5c3_operator_orc::operator),
    ("ovn", c5c3_operator_ovn::operator),
    ("placement", c5c3_operator_placement::operator),
    ("tempest", c5c3_operator_tempest::operator),
];

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    OPERATORS.iter().map(|(name, _)| *name)
}

/// All of them with their names, each within the namespaces of its objects.
pub(crate) fn named() -> impl Iterator<Item = (&'static str, Operator)> {
    OPERATORS.iter().map(|(name, make)| (*name, make(false)))
}

/// All of them. With `cross_namespace` they may reach into other namespaces.
pub(crate) fn all(cross_namespace: bool) -> Vec<Operator> {
    OPERATORS.iter().map(|(_, make)| make(cross_namespace)).collect()
}

/// Webhooks for the kinds of these operators, with the rules of all.
pub(crate) fn webhooks<'a>(operators: impl IntoIterator<Item = &'a Operator>, cross_namespace: bool) -> Webhooks {
    let kinds = operators.into_iter().flat_map(Operator::kinds);
    let rules = all(cross_namespace);
    let known = kinds.filter_map(|(version, kind)| c5c3_api::find(version, kind));
    Webhooks::new(known).reviewed(move |kind, object, before| rules::all_problems(&rules, kind, object, before))
}

pub(crate) fn run(args: OperatorArgs) -> Done {
    let format = match args.log_format {
        LogFormat::Text => Format::Text,
        LogFormat::Json => Format::Json,
    };
    logging::start(format, &args.log)?;
    c5c3_kit::cluster_domain::set(&args.cluster_domain)?;
    c5c3_operator_labels_injector::set(c5c3_operator_labels_injector::Settings {
        labels: args.inject_labels.clone(),
        certificates: args.webhook_certificates.clone(),
    })?;
    args.hypervisor.settings().set();
    c5c3_operator_orc::set(args.orc.settings()?)?;
    for warning in args.orc.warnings() {
        tracing::warn!("{warning}");
    }
    let namespace = args.only_namespace()?;
    // kube and the webhook server both use rustls, and both would otherwise have to guess which cryptography it has.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Runtime::new().map_err(|error| format!("cannot start: {error}"))?;
    runtime.block_on(serve(args, namespace))
}

async fn serve(args: OperatorArgs, namespace: Option<String>) -> Done {
    let config = target::config(&args.target, None).await?;
    let client = c5c3_kit::client::client(config).map_err(|error| format!("no cluster: {}", target::root(&error)))?;
    let (metrics, readiness, stop) = (Metrics::default(), Readiness::default(), CancellationToken::new());
    let operators: Vec<Operator> = OPERATORS
        .iter()
        .filter(|(name, _)| args.names.iter().any(|asked| asked == name))
        .map(|(_, make)| make(args.allow_cross_namespace))
        .collect();

    let servers = args.serving().into_iter().map(|address| {
        let server = http::serve(address, http::routes(metrics.clone(), readiness.clone()), stop.clone());
        Box::pin(broken(tokio::spawn(server), "metrics", address))
    });
    let servers: Vec<_> = servers.collect();
    let webhooks = args.webhook_certificates.clone().map(|certificates| {
        let stop = stop.clone();
        let webhooks = operators.iter().fold(webhooks(&operators, args.allow_cross_namespace), |webhooks, operator| {
            webhooks.with_routes(operator.webhook_routes(&client))
        });
        tokio::spawn(async move {
            let listener = std::net::TcpListener::bind(args.webhook_address)?;
            webhook::serve(listener, webhooks, Certificates::in_folder(certificates), stop).await
        })
    });
    let signals = stop.clone();
    tokio::spawn(async move {
        stop_asked().await;
        tracing::info!("stopping: what is under way is finished first; a second signal stops at once");
        signals.cancel();
        stop_asked().await;
        std::process::exit(130);
    });

    // In a container every process has the same id, and on a host network every pod the same host name.
    let identity = format!("{}_{:016x}", hostname(), rand::random::<u64>());
    let work = operators.iter().map(|operator| {
        let upstreams = args.orc.election(&identity).filter(|_| operator.name() == c5c3_operator_orc::NAME);
        let own = || Election::new(&args.lease_namespace, format!("c5c3-{}", operator.name()), &identity);
        let election = args.is_elected().then(|| upstreams.unwrap_or_else(own).in_pod(own_pod()));
        let options =
            RunOptions { namespace: namespace.clone(), concurrency: args.concurrency, ..RunOptions::default() };
        let settings = Settings { options, election };
        operator.run(client.clone(), settings, metrics.clone(), readiness.clone(), stop.clone())
    });
    tokio::select! {
        _ = futures::future::join_all(work) => {}
        (failed, ..) = futures::future::select_all(servers) => return Err(failed),
        failed = broken_webhooks(webhooks, args.webhook_address) => return Err(failed),
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) type Server = tokio::task::JoinHandle<std::io::Result<()>>;

/// Returns what is wrong if a server ends before it should.
pub(crate) async fn broken(server: Server, what: &str, address: std::net::SocketAddr) -> String {
    match server.await {
        Ok(Err(error)) => {
            format!("cannot serve {what} on {address}: {error}; choose a free address, and check the files it needs")
        }
        // It was stopped cleanly, and so will be the rest.
        _ => std::future::pending().await,
    }
}

async fn broken_webhooks(server: Option<Server>, address: std::net::SocketAddr) -> String {
    match server {
        Some(server) => broken(server, "webhooks", address).await,
        None => std::future::pending().await,
    }
}

pub(crate) async fn stop_asked() {
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// The pod that we run in, if this is the program of its container: `init` is then the parent, or there is none. A second one, started
/// by `kubectl exec`, must not take the Lease of the first.
pub(crate) fn own_pod() -> Option<OwnPod> {
    let is_program = std::process::id() == 1 || std::os::unix::process::parent_id() == 1;
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (namespace, name, uid) = (variable("POD_NAMESPACE")?, variable("POD_NAME")?, variable("POD_UID")?);
    is_program.then_some(OwnPod { namespace, name, uid })
}

pub(crate) fn hostname() -> String {
    std::env::var("POD_NAME")
        .or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname"))
        .map_or_else(|_| "c5c3".into(), |name| name.trim().to_owned())
}
