//! What stands in for mariadb-operator: MariaDB and Galera servers, and the databases, users and grants in them.

mod definitions;

use kube::Client;
use tokio_util::sync::CancellationToken;

pub(crate) use definitions::definitions;

/// Looks after every MariaDB, Database, User and Grant until `stop`.
pub(crate) async fn run(_client: Client, stop: CancellationToken) {
    stop.cancelled().await;
}
