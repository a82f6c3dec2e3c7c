//! What runs in the cluster's process beside the API server. A part that ends or panics is started again; the others go
//! on.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use c5c3_apiserver::Server;
use c5c3_controllers::keep_running;
use c5c3_network::balancers::{self, Pool};
use c5c3_network::{Namespace, dns, services};
use c5c3_providers::store;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::client::client;
use crate::folder::{Folder, Saved};
use crate::logs::Rotation;
use crate::up::{CERTIFICATE_LIFE, UpError, now};
use crate::{addresses, issuer};

/// The port of the store of secrets on the nodes' network.
pub(crate) const STORE_PORT: u16 = 8200;

/// The domain of the cluster's names.
const DOMAIN: &str = "cluster.local";

/// Starts all of them.
pub(crate) async fn start(
    server: &Arc<Server>,
    folder: &Folder,
    saved: &Saved,
    without_providers: Vec<String>,
    parts: &TaskTracker,
    stop: &CancellationToken,
) -> Result<(), UpError> {
    let addresses = addresses::of(saved.block);
    let options = c5c3_controllers::Options::new(folder.volumes());
    // These two keep each of their own parts running.
    parts.spawn(c5c3_controllers::run(client(server, "controllers"), options, stop.clone()));
    parts.spawn(c5c3_providers::run(client(server, "providers"), without_providers, stop.clone()));
    let (of_scheduler, stopped) = (client(server, "scheduler"), stop.clone());
    parts.spawn(keep_running("scheduler", stop.clone(), move || {
        c5c3_scheduler::run(of_scheduler.clone(), stopped.clone())
    }));
    let host = addresses.bridge().addr();
    start_store(server, folder, host, parts, stop).await?;
    let (of_issuer, stopped) = (client(server, "up"), stop.clone());
    parts.spawn(keep_running("issuer", stop.clone(), move || issuer::provide(of_issuer.clone(), stopped.clone())));
    let logs: Vec<PathBuf> =
        saved.nodes.iter().map(|node| folder.agent_log(&node.name)).chain([folder.log()]).collect();
    let (rotation, stopped) = (Rotation::new(logs), stop.clone());
    parts.spawn(keep_running("logs", stop.clone(), move || rotation.clone().run(stopped.clone())));
    let pool = saved.exposed.map_or(Pool::Range(addresses.balancers()), Pool::Exposed);
    let (of_balancers, stopped) = (client(server, "balancers"), stop.clone());
    parts.spawn(keep_running("balancers", stop.clone(), move || {
        balancers::run(of_balancers.clone(), pool, stopped.clone())
    }));
    let place = services::Place {
        table: services_table(folder),
        node: None,
        node_addresses: [host].into_iter().chain(saved.exposed).collect(),
        pods: None,
        balancers: Some(pool),
        services: addresses.services,
    };
    let (of_services, stopped) = (client(server, "services"), stop.clone());
    parts.spawn(keep_running("services", stop.clone(), move || {
        services::run(of_services.clone(), Namespace::Current, place.clone(), stopped.clone())
    }));
    start_names(server, host, parts, stop).await
}

/// Something that was made to see whether it can be, for the first that asks.
struct First<T>(Mutex<Option<T>>);

impl<T> First<T> {
    fn new(made: T) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(made))))
    }

    fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

async fn start_names(
    server: &Arc<Server>,
    host: Ipv4Addr,
    parts: &TaskTracker,
    stop: &CancellationToken,
) -> Result<(), UpError> {
    let listener = dns::Listener::bind((host, 53).into()).await.map_err(|error| UpError::Names(host, error))?;
    let upstream = dns::Upstream::of_this_machine(&listener);
    let (client, first, stopped) = (client(server, "dns"), First::new(listener), stop.clone());
    parts.spawn(keep_running("dns", stop.clone(), move || {
        let (client, first, upstream, stop) = (client.clone(), first.clone(), upstream.clone(), stopped.clone());
        async move {
            let listener = match first.take() {
                Some(listener) => Ok(listener),
                None => dns::Listener::bind((host, 53).into()).await,
            };
            match listener {
                Ok(listener) => {
                    if let Err(error) = dns::run(client, listener, DOMAIN, upstream, stop).await {
                        tracing::error!(%error, "names are not served");
                    }
                }
                Err(error) => tracing::error!(%error, "names are not served: port 53 cannot be had again"),
            }
        }
    }));
    Ok(())
}

/// Starts the store of secrets where pods and the machine reach it.
async fn start_store(
    server: &Arc<Server>,
    folder: &Folder,
    host: Ipv4Addr,
    parts: &TaskTracker,
    stop: &CancellationToken,
) -> Result<(), UpError> {
    let listener = tokio::net::TcpListener::bind((host, STORE_PORT)).await;
    let listener = listener.map_err(|error| UpError::Store(host, error))?;
    let names: Vec<String> = store::names().into_iter().chain([host.to_string()]).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let identity = server.pki().issue_server(&names, CERTIFICATE_LIFE, now())?;
    let authority = server.pki().ca_pem().to_owned();
    let proof = store::Proof { certificate: identity.certificate, key: identity.key, authority };
    let (place, client, first, stopped) = (folder.store(), client(server, "store"), First::new(listener), stop.clone());
    parts.spawn(keep_running("store", stop.clone(), move || {
        let (place, client, proof) = (place.clone(), client.clone(), proof.clone());
        let (first, stop) = (first.clone(), stopped.clone());
        async move {
            let listener = match first.take() {
                Some(listener) => Ok(listener),
                None => tokio::net::TcpListener::bind((host, STORE_PORT)).await,
            };
            let served = match listener {
                Ok(listener) => store::run(&place, listener, proof, client, stop).await,
                Err(error) => Err(error),
            };
            if let Err(error) = served {
                tracing::error!(%error, "secrets are not stored");
            }
        }
    }));
    Ok(())
}

/// The rules by which the machine itself reaches Services.
pub(crate) fn services_table(folder: &Folder) -> String {
    format!("c5c3-services-{}", folder.instance())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use c5c3_apiserver::{Config, Storage};

    use super::*;

    async fn until_there_is(file: PathBuf) {
        let waiting = async {
            while !file.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(30), waiting).await;
        waited.unwrap_or_else(|_| panic!("there is no {}", file.display()));
    }

    #[tokio::test]
    async fn a_store_of_secrets_that_could_not_be_read_is_served_once_it_can_be() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::new(home.path()).unwrap();
        let sealed = folder.store().join("store.sealed");
        std::fs::create_dir(folder.store()).unwrap();
        std::fs::write(&sealed, "damaged").unwrap();
        let server = Server::start(Config::new(Storage::Memory)).await.unwrap();
        let (parts, stop) = (TaskTracker::new(), CancellationToken::new());
        // An address that no cluster on this machine has.
        start_store(&server, &folder, Ipv4Addr::new(127, 0, 0, 61), &parts, &stop).await.unwrap();
        // The first attempt makes the key, and fails at the damaged file in the same step.
        until_there_is(folder.store().join("store.key")).await;
        assert!(!folder.store().join(store::ADDRESS).exists());
        std::fs::remove_file(sealed).unwrap();
        until_there_is(folder.store().join(store::ADDRESS)).await;
        stop.cancel();
        parts.close();
        parts.wait().await;
        server.stop().await;
    }
}
