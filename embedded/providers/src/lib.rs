//! What stands in for other projects' operators on the embedded cluster: the same kinds, with the same status, Secrets
//! and Services, satisfied by running the real servers.
//!
//! ```text
//! definitions ─► the kinds are installed ─► one provider for each project, each on a `kube::Client`
//! ```
//!
//! A provider knows nothing of the machine: it makes StatefulSets, Services and Secrets, as the genuine operator does on
//! any cluster. Only [`flux`] reads something of the machine: git repositories. A provider implements what our own operators
//! write; what it does not implement it refuses by name, on the object.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod cert_manager;
mod certificates;
pub mod definitions;
pub mod external_secrets;
mod failure;
pub mod flux;
mod generated;
mod http;
pub mod mariadb;
mod objects;
mod pods;
mod queue;
pub mod rabbitmq;
pub mod rook;
pub mod store;
#[cfg(test)]
mod testing;
pub mod valkey;

use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use tokio_util::sync::CancellationToken;

/// How long to wait before something that failed is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// What stands in for one project's operator.
struct Provider {
    /// The name of the operator that it stands in for.
    name: &'static str,
    /// The kinds that it looks after.
    definitions: fn() -> Vec<CustomResourceDefinition>,
    /// Looks after them until it is told to stop.
    run: fn(Client, CancellationToken) -> BoxFuture<'static, ()>,
}

/// Every provider.
const PROVIDERS: &[Provider] = &[
    Provider {
        name: "cert-manager",
        definitions: cert_manager::definitions,
        run: |client, stop| Box::pin(cert_manager::run(client, stop)),
    },
    Provider {
        name: "external-secrets",
        definitions: external_secrets::definitions,
        run: |client, stop| Box::pin(external_secrets::run(client, stop)),
    },
    Provider { name: "flux", definitions: flux::definitions, run: |client, stop| Box::pin(flux::run(client, stop)) },
    Provider {
        name: "mariadb-operator",
        definitions: mariadb::definitions,
        run: |client, stop| Box::pin(mariadb::run(client, stop)),
    },
    Provider {
        name: "rabbitmq-operators",
        definitions: rabbitmq::definitions,
        run: |client, stop| Box::pin(rabbitmq::run(client, stop)),
    },
    Provider { name: "rook", definitions: rook::definitions, run: |client, stop| Box::pin(rook::run(client, stop)) },
    Provider {
        name: "valkey-operator",
        definitions: valkey::definitions,
        run: |client, stop| Box::pin(valkey::run(client, stop)),
    },
];

/// The names of the providers.
pub fn names() -> Vec<&'static str> {
    PROVIDERS.iter().map(|provider| provider.name).collect()
}

/// The name of the provider of a kind.
pub fn provider_of(group: &str, kind: &str) -> Option<&'static str> {
    let is_it = |one: &CustomResourceDefinition| one.spec.group == group && one.spec.names.kind == kind;
    PROVIDERS.iter().find(|provider| (provider.definitions)().iter().any(is_it)).map(|provider| provider.name)
}

/// The definitions of every kind that is provided here.
pub fn all_definitions() -> Vec<CustomResourceDefinition> {
    definitions_without(&[])
}

/// The same without the kinds of the providers that are named: the genuine operators bring theirs along.
pub fn definitions_without(switched_off: &[String]) -> Vec<CustomResourceDefinition> {
    running(switched_off).flat_map(|provider| (provider.definitions)()).collect()
}

/// The providers but those that are named.
fn running(switched_off: &[String]) -> impl Iterator<Item = &'static Provider> {
    PROVIDERS.iter().filter(|provider| !switched_off.iter().any(|name| name == provider.name))
}

/// Installs the kinds, then looks after their objects until `stop`, but for those of the providers that are switched off. A
/// provider that ends is started again; the others go on.
pub async fn run(client: Client, switched_off: Vec<String>, stop: CancellationToken) {
    while let Err(error) = definitions::install(&client, &definitions_without(&switched_off)).await {
        tracing::warn!(%error, "cannot install the kinds of providers; it is tried again");
        if !pause(&stop).await {
            return;
        }
    }
    join_all(running(&switched_off).map(|provider| keep_running(provider, client.clone(), stop.clone()))).await;
}

async fn keep_running(provider: &'static Provider, client: Client, stop: CancellationToken) {
    loop {
        let ended = tokio::spawn((provider.run)(client.clone(), stop.clone())).await;
        if stop.is_cancelled() {
            return;
        }
        let why = ended.err().map(|error| error.to_string());
        tracing::error!(provider = provider.name, why, "has ended, and is started again");
        if !pause(&stop).await {
            return;
        }
    }
}

/// Waits before another try; false when there shall be none.
async fn pause(stop: &CancellationToken) -> bool {
    tokio::select! {
        () = tokio::time::sleep(AGAIN) => true,
        () = stop.cancelled() => false,
    }
}
