//! `c5c3 agent`: runs an agent of a hypervisor, and asks what it stands beside.

use std::process::ExitCode;
use std::time::Duration;

use c5c3_agent_node::NodeMetrics;
use c5c3_agent_ovs::OvsMetrics;
use c5c3_kit::http::{self, Readiness};
use c5c3_kit::logging::{self, Format};
use c5c3_kit::metrics::Metrics;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::args::{AgentArgs, AgentKind, AgentOptions, CaptureArgs, LogFormat, NodeOptions, OvsOptions, TraceOptions};
use crate::{Done, operator, print, target};

pub(crate) fn run(args: AgentArgs) -> Done {
    match args.kind {
        AgentKind::Node(options) => start(&options.common)?.block_on(node(options)),
        AgentKind::Ovs(options) => start(&options.common)?.block_on(ovs(options)),
        AgentKind::Trace(options) => trace(&options),
        AgentKind::Capture(options) => capture(options),
    }
}

/// What an agent runs on.
fn start(common: &AgentOptions) -> Result<Runtime, String> {
    let format = match common.log_format {
        LogFormat::Text => Format::Text,
        LogFormat::Json => Format::Json,
    };
    logging::start(format, &common.log)?;
    // kube uses rustls, and would otherwise have to guess which cryptography it has.
    let _ = rustls::crypto::ring::default_provider().install_default();
    runtime()
}

/// An agent waits most of the time, on each hypervisor: one thread is enough, and has the smallest memory.
fn runtime() -> Result<Runtime, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| format!("cannot start: {error}"))
}

async fn node(options: NodeOptions) -> Done {
    let (metrics, stop) = (Metrics::default(), CancellationToken::new());
    let client = client(&options.common).await?;
    let own = NodeMetrics::default();
    metrics.register(|registry| own.register(registry));
    let settings = c5c3_agent_node::Options {
        node: options.common.node.clone(),
        namespace: options.namespace,
        socket: options.libvirt_socket,
        uri: options.libvirt_uri,
        virt_type: options.virt_type_file,
        os_release: options.os_release,
    };
    let agent = Box::pin(c5c3_agent_node::run(client, settings, own, stop.clone()));
    beside(&options.common, metrics, &stop, agent).await
}

async fn ovs(options: OvsOptions) -> Done {
    let (metrics, stop) = (Metrics::default(), CancellationToken::new());
    let client = client(&options.common).await?;
    let own = OvsMetrics::default();
    metrics.register(|registry| own.register(registry));
    let settings = c5c3_agent_ovs::Options {
        node: options.common.node.clone(),
        namespace: options.namespace,
        run: options.ovs_run,
        controller: options.controller_socket,
    };
    beside(&options.common, metrics, &stop, c5c3_agent_ovs::run(client, settings, own, stop.clone())).await
}

/// Says where a packet would go.
fn trace(options: &TraceOptions) -> Done {
    let said = runtime()?.block_on(c5c3_agent_ovs::trace(&options.ovs_run, &options.bridge, &options.flow));
    print(&format!("{}\n", said.map_err(|error| error.to_string())?))
}

/// Writes packets to standard output.
fn capture(options: CaptureArgs) -> Done {
    let runtime = runtime()?;
    let bounds = c5c3_agent_ovs::CaptureOptions {
        run: options.ovs_run,
        target: options.target,
        packets: options.packets,
        bytes: options.bytes,
        time: Duration::from_secs(options.seconds),
        snap_length: options.snap_length,
    };
    let captured = runtime
        .block_on(async { c5c3_agent_ovs::capture(&bounds, &mut tokio::io::stdout(), operator::stop_asked()).await });
    // A reader that takes nothing would hold up the end of the thread that writes.
    runtime.shutdown_background();
    eprintln!("{}", captured.map_err(|error| error.to_string())?);
    Ok(ExitCode::SUCCESS)
}

async fn client(common: &AgentOptions) -> Result<kube::Client, String> {
    let config = target::config(&common.target, None).await?;
    c5c3_kit::client::client(config).map_err(|error| format!("no cluster: {}", target::root(&error)))
}

/// Runs an agent beside the server of its metrics, until a signal comes.
async fn beside(
    common: &AgentOptions,
    metrics: Metrics,
    stop: &CancellationToken,
    agent: impl Future<Output = ()>,
) -> Done {
    let routes = http::routes(metrics, Readiness::default());
    let server = http::serve(common.metrics_address, routes, stop.clone());
    tokio::select! {
        () = agent => Ok(ExitCode::SUCCESS),
        () = operator::stop_asked() => Ok(ExitCode::SUCCESS),
        ended = server => match ended {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(error) => Err(format!(
                "cannot serve metrics on {}: {error}; choose a free address", common.metrics_address
            )),
        },
    }
}
