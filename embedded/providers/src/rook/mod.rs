//! What stands in for Rook: a Ceph cluster of real daemons, pools and users in it.
//!
//! | object | becomes |
//! |---|---|
//! | CephCluster | the objects of `plan.rs`, by the names that Rook gives them; OSDs are introduced to Ceph first |
//! | CephBlockPool, CephClient | the commands of `pool.rs` and `user.rs`, run in the pod of a monitor |
//!
//! Every monitor has a Service, whose address is its own for good. A monitor that dies comes back with its data, and one
//! that lost its data copies it from the others. Rotating the key of a CephClient ends the old key at once, as with Rook.
//!
//! What differs from Rook: a disk is a sparse file on a claim, since a node here has no disks to give, and monitors keep
//! their data on claims of their own rather than below `dataDirHostPath`. The kernel has no RBD, so that there is no CSI
//! driver. Refused by name: disks of nodes, encryption, other networks, external clusters, several sites, erasure coding and
//! mirroring. Not provided: file systems and the dashboard.

mod ceph;
mod cluster;
mod config;
mod definitions;
mod health;
mod keys;
mod plan;
mod pool;
mod user;
mod wanted;

use c5c3_api::ext::rook::{CephBlockPool, CephClient, CephCluster};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::api::ListParams;
use kube::runtime::controller::Controller;
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::failure::Error;
use crate::queue::{self, Kind};
use ceph::Ceph;

pub(crate) use definitions::definitions;

/// The field manager, and the label of everything that is made here.
const MANAGER: &str = "c5c3-rook";

/// Looks after every CephCluster, CephBlockPool and CephClient until `stop`.
pub(crate) async fn run(client: Client, stop: CancellationToken) {
    let clusters = queue::controller::<CephCluster>(&client)
        .owns_stream(queue::children::<Deployment>(&client, MANAGER))
        .owns_stream(queue::children::<Service>(&client, MANAGER))
        .owns_stream(queue::children::<ConfigMap>(&client, MANAGER))
        .owns_stream(queue::children::<Secret>(&client, MANAGER));
    let pools = in_clusters::<CephBlockPool>(&client, |pool| phase(pool.status.as_ref().map(|status| &status.phase)));
    let users = in_clusters::<CephClient>(&client, |user| phase(user.status.as_ref().map(|status| &status.phase)))
        .owns_stream(queue::children::<Secret>(&client, MANAGER));
    tokio::join!(
        queue::run(clusters, client.clone(), stop.clone(), cluster::reconcile),
        queue::run(pools, client.clone(), stop.clone(), pool::reconcile),
        queue::run(users, client, stop, user::reconcile),
    );
}

fn phase(phase: Option<&Option<String>>) -> bool {
    phase.and_then(Option::as_deref) == Some("Ready")
}

/// A controller of something in a cluster. What waits for its cluster is looked at again when that changes.
fn in_clusters<K: Kind>(client: &Client, is_ready: fn(&K) -> bool) -> Controller<K> {
    let controller = queue::controller::<K>(client);
    let known = controller.store();
    controller.watches(Api::<CephCluster>::all(client.clone()), watcher::Config::default(), move |cluster| {
        queue::concerned(&known, |object| object.namespace() == cluster.namespace() && !is_ready(object))
    })
}

/// Where something in a cluster can be made.
enum Home {
    /// In this cluster.
    Ready(Ceph),
    /// Nowhere yet.
    Waits(String),
    /// There is no cluster, or it is being deleted with everything in it.
    Gone,
}

/// The cluster of a namespace, once it can be used.
async fn home(client: &Client, namespace: &str) -> Result<Home, Error> {
    let clusters = Api::<CephCluster>::namespaced(client.clone(), namespace);
    let clusters = clusters.list(&ListParams::default()).await.map_err(Error::api("list CephClusters"))?;
    let Some(cluster) = clusters.items.into_iter().next() else { return Ok(Home::Gone) };
    if cluster.metadata.deletion_timestamp.is_some() {
        return Ok(Home::Gone);
    }
    let name = cluster.name_any();
    if !phase(cluster.status.as_ref().map(|status| &status.phase)) {
        return Ok(Home::Waits(format!("waits for cephcluster/{name} to be Ready")));
    }
    let ceph = Ceph::of(client, namespace).await?;
    Ok(ceph.map_or_else(|| Home::Waits(format!("no monitor of cephcluster/{name} is ready")), Home::Ready))
}

/// The objects of a kind in a namespace, by name.
async fn names<K>(client: &Client, namespace: &str) -> Result<Vec<String>, Error>
where
    K: Kind + Resource<Scope = NamespaceResourceScope>,
{
    let found = Api::<K>::namespaced(client.clone(), namespace).list(&ListParams::default()).await;
    let found = found.map_err(Error::api(format!("list objects of the kind {}", K::kind(&()))))?;
    Ok(found.iter().map(|object| format!("{}/{}", K::kind(&()).to_lowercase(), object.name_any())).collect())
}
