//! `c5c3 scheduler`: Cortex's scheduler, which Nova, Cinder and Manila ask where things go.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use c5c3_cortex::Domain;
use c5c3_cortex_server::{DeschedulingSettings, Settings};
use c5c3_kit::http::{self, Readiness};
use c5c3_kit::leader::Election;
use c5c3_kit::logging::{self, Format};
use c5c3_kit::metrics::Metrics;
use clap::Args as ClapArgs;
use tokio_util::sync::CancellationToken;

use crate::args::{LogFormat, TargetArgs, seconds};
use crate::{Done, operator, target};

pub(crate) const HELP: &str = "Try it on your own machine:\n  \
    echo secret >token\n  c5c3 scheduler --namespace openstack --token-file token --no-leader-election\n  \
    curl -H 'Authorization: Bearer secret' -d @request.json http://127.0.0.1:8080/scheduler/nova/external\n\n\
    Steps and pipelines are in docs/cortex.md. Copies of it elect one that decides; the others are not ready.";

#[derive(Debug, ClapArgs)]
pub(crate) struct SchedulerArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Namespace of the Pipelines, Decisions and Deschedulings
    #[arg(long, env = "C5C3_NAMESPACE", default_value = "openstack")]
    namespace: String,
    /// Where requests are answered; without --certificates on loopback only
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Folder with tls.crt and tls.key, as a mounted Secret has them
    #[arg(long, value_name = "DIR")]
    certificates: Option<PathBuf>,
    /// Answer on addresses other than loopback without --certificates: tokens pass the network in the clear
    #[arg(long, conflicts_with = "certificates")]
    plaintext: bool,
    /// The services whose requests are answered, with commas between them; others get 404
    #[arg(long, value_name = "NAMES", default_value = "nova,cinder,manila", value_parser = Domains::parse)]
    domains: Domains,
    /// File with the bearer tokens that are let in, one a line; a change counts at once
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// Where /healthz, /readyz and /metrics are served
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8081")]
    metrics_address: SocketAddr,
    /// Decide without asking for the lease: only where no other copy runs
    #[arg(long)]
    no_leader_election: bool,
    /// For how long room is kept for a server that its host does not report
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = seconds)]
    promise: i64,
    /// How many Decisions are kept
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    decisions: u32,
    /// For how long Decisions are kept
    #[arg(long, value_name = "DURATION", default_value = "168h", value_parser = seconds)]
    decision_age: i64,
    /// Secret with the clouds.yaml of a user with the role admin in Nova, which Deschedulings are carried out with
    #[arg(long, value_name = "NAME", default_value_t = DeschedulingSettings::default().clouds_secret)]
    clouds_secret: String,
    /// How often detectors judge hosts, and migrations are followed
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = seconds)]
    descheduling_interval: i64,
    /// How many Deschedulings are kept
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    deschedulings: u32,
    /// For how long Deschedulings are kept after they ended, or longer where a cooldown is
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = seconds)]
    descheduling_age: i64,
    /// How log lines look
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// What is logged, such as info or info,c5c3_cortex_server=debug
    #[arg(long, env = "C5C3_LOG", default_value = "info")]
    log: String,
}

/// Services that ask; none for an empty text.
#[derive(Clone, Debug)]
struct Domains(Vec<Domain>);

impl Domains {
    fn parse(text: &str) -> Result<Self, String> {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        let read = |name: &str| Domain::parse(name).ok_or_else(|| format!("{name} is none of nova, cinder and manila"));
        let mut domains: Vec<Domain> = names.map(read).collect::<Result<_, _>>()?;
        domains.sort_unstable();
        domains.dedup();
        Ok(Self(domains))
    }
}

pub(crate) fn run(args: &SchedulerArgs) -> Done {
    let format = match args.log_format {
        LogFormat::Text => Format::Text,
        LogFormat::Json => Format::Json,
    };
    logging::start(format, &args.log)?;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Runtime::new().map_err(|error| format!("cannot start: {error}"))?;
    runtime.block_on(serve(args))
}

async fn serve(args: &SchedulerArgs) -> Done {
    let config = target::config(&args.target, None).await?;
    let client = c5c3_kit::client::client(config).map_err(|error| format!("no cluster: {}", target::root(&error)))?;
    let (metrics, readiness, stop) = (Metrics::default(), Readiness::default(), CancellationToken::new());
    let duration = |seconds: i64| Duration::from_secs(seconds.unsigned_abs());
    let settings = Settings {
        namespace: args.namespace.clone(),
        certificates: args.certificates.clone(),
        plaintext: args.plaintext,
        domains: args.domains.0.clone(),
        tokens: args.token_file.clone(),
        election: (!args.no_leader_election).then(|| {
            let identity = format!("{}_{:016x}", operator::hostname(), rand::random::<u64>());
            Election::new(&args.namespace, "cortex-scheduler", identity).in_pod(operator::own_pod())
        }),
        promise: duration(args.promise),
        decisions: args.decisions as usize,
        decision_age: duration(args.decision_age),
        descheduling: DeschedulingSettings {
            // No interval is shorter than a second.
            interval: duration(args.descheduling_interval.max(1)),
            most: args.deschedulings as usize,
            age: duration(args.descheduling_age),
            clouds_secret: args.clouds_secret.clone(),
        },
    };
    let listener = TcpListener::bind(args.listen)
        .map_err(|error| format!("cannot listen on {}: {error}; choose a free address with --listen", args.listen))?;
    let looking = http::routes(metrics.clone(), readiness.clone());
    let server = tokio::spawn(http::serve(args.metrics_address, looking, stop.clone()));
    let signals = stop.clone();
    tokio::spawn(async move {
        operator::stop_asked().await;
        tracing::info!("stopping: what was decided is written down first");
        signals.cancel();
    });
    let scheduling = c5c3_cortex_server::run(client, listener, settings, metrics, readiness, stop);
    tokio::select! {
        done = scheduling => done.map_err(|error| error.to_string())?,
        failed = operator::broken(server, "metrics", args.metrics_address) => return Err(failed),
    }
    Ok(ExitCode::SUCCESS)
}
