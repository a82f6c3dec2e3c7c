//! `c5c3 apiserver`: the embedded Kubernetes API by itself.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use c5c3_apiserver::{Config, Server, Storage, listen};
use c5c3_auth::{Credential, kubeconfig, write_kubeconfig};
use c5c3_kit::logging::{self, Format};

use crate::Done;
use crate::args::ApiserverArgs;
use crate::operator::stop_asked;

/// How long the administrator's certificate is good for; a new one is written with each start.
const ADMIN_LIFE: Duration = Duration::from_hours(24 * 3650);

pub(crate) fn run(args: ApiserverArgs) -> Done {
    logging::start(Format::Text, &args.log)?;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Runtime::new().map_err(|error| format!("cannot start: {error}"))?;
    runtime.block_on(serve(args))
}

async fn serve(args: ApiserverArgs) -> Done {
    let storage = match args.data {
        Some(folder) if !args.in_memory => Storage::Folder(folder),
        _ => Storage::Memory,
    };
    let extra_names = if args.listen.ip().is_unspecified() { Vec::new() } else { vec![args.listen.ip().to_string()] };
    let config =
        Config { extra_names, advertise: args.advertise, service_range: args.service_range, ..Config::new(storage) };
    let server = Server::start(config).await.map_err(|error| error.to_string())?;
    let listening = listen(&server, args.listen).await.map_err(|error| error.to_string())?;
    let url = url(listening.address);
    let now = jiff::Timestamp::try_from(SystemTime::now()).map_err(|error| error.to_string())?;
    let admin = server
        .pki()
        .issue_client("kubernetes-admin", &["system:masters"], ADMIN_LIFE, now)
        .map_err(|error| format!("cannot make the administrator's certificate: {error}"))?;
    let content = kubeconfig(&url, server.pki().ca_pem(), &Credential::Certificate(admin));
    write_kubeconfig(&args.kubeconfig, &content).map_err(|error| error.to_string())?;
    tracing::info!(%url, kubeconfig = %args.kubeconfig.display(), "serving the Kubernetes API");
    stop_asked().await;
    server.stop().await;
    listening.finished().await;
    Ok(ExitCode::SUCCESS)
}

fn url(address: SocketAddr) -> String {
    let host = if address.ip().is_unspecified() { "127.0.0.1".to_owned() } else { address.ip().to_string() };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    format!("https://{host}:{}", address.port())
}
