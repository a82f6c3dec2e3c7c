//! What stands in for mariadb-operator: MariaDB and Galera servers, and the databases, users and grants in them.
//!
//! | object | becomes |
//! |---|---|
//! | MariaDB | the objects of `children`, by the names that the genuine operator gives them |
//! | Database, User, Grant | `sql`, as root, on the server that they name |
//! | Backup, Restore | Jobs and CronJobs: see `backup` |
//! | MaxScale | a refusal |
//!
//! How the members of a Galera cluster find each other again after a crash is among themselves, and needs no one: see
//! `scripts/entry.sh`. One way serves all crashes: a member that starts finds out how far its data has come, and waits
//! until it sees a primary component to join, or all the others waiting like itself; then the one that has come farthest
//! starts the cluster again. A server that Galera has shut out, because it lacks something or differs from the others, is
//! restarted. Data of different clusters is reported, and left to a person.
//!
//! With TLS, members talk to each other by it as well. Who talks in the clear, or trusts other authorities, is understood
//! by none of the others: when that changes, all members restart at once.
//!
//! Not provided: replication without Galera, certificates by any other way than issuers, backups to buckets, and exporters,
//! which the condition `MetricsReady` says.

mod backup;
mod children;
mod config;
mod definitions;
mod maxscale;
mod members;
mod root;
mod server;
pub(crate) mod sql;
mod standing;
mod tls;
mod volumes;
mod wanted;

use c5c3_api::ext::cert_manager::Certificate;
use c5c3_api::ext::mariadb::{Database, Grant, MariaDB, MaxScale, User};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::{Client, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::queue;

pub(crate) use definitions::definitions;

/// The field manager, and the label of everything that is made here.
const MANAGER: &str = "c5c3-mariadb";

/// Looks after every MariaDB, Database, User, Grant, Backup and Restore until `stop`.
pub(crate) async fn run(client: Client, stop: CancellationToken) {
    let servers = queue::naming_secrets(&client, |mariadb: &MariaDB, secret| {
        mariadb.namespace() == secret.namespace()
            && Some(&wanted::root_secret(mariadb)) == secret.metadata.name.as_ref()
    });
    let servers = servers
        .owns_stream(queue::children::<StatefulSet>(&client, MANAGER))
        .owns_stream(queue::children::<Service>(&client, MANAGER))
        .owns_stream(queue::children::<ConfigMap>(&client, MANAGER))
        .owns_stream(queue::children::<Certificate>(&client, MANAGER));
    let proxies = queue::controller::<MaxScale>(&client);
    tokio::join!(
        queue::run(servers, client.clone(), stop.clone(), server::reconcile),
        queue::run(proxies, client.clone(), stop.clone(), maxscale::reconcile),
        sql::run::<Database>(client.clone(), stop.clone()),
        sql::run::<User>(client.clone(), stop.clone()),
        sql::run::<Grant>(client.clone(), stop.clone()),
        backup::run(client, stop),
    );
}
