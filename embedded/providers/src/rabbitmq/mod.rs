//! What stands in for the RabbitMQ cluster operator and the messaging topology operator: brokers that form a cluster,
//! and the virtual hosts, users and permissions in them.
//!
//! | object | becomes |
//! |---|---|
//! | RabbitmqCluster | the objects of `plan.rs`, by the names that the genuine operator gives them |
//! | Vhost, User, Permission | the calls of `calls.rs` to the management interface of the broker that they name |
//!
//! Beside what the genuine operators do, quorum queues are the default, and members find each other by a list of their
//! lasting names rather than by asking the API. Over TLS, those in `ca.crt` of the brokers' certificate are trusted, where the
//! genuine topology operator has to be told whom to trust. Not provided: `override`, which is refused by name, Vault, and
//! waiting for queues to be in sync before a member stops.

mod broker;
mod calls;
mod cluster;
mod config;
mod definitions;
mod names;
mod plan;
mod topology;

use c5c3_api::ext::rabbitmq::{IMPORT_LABEL, Permission, RabbitmqCluster, RabbitmqClusterRef, User, Vhost};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::controller::Controller;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::queue;
use topology::Topology;

pub(crate) use definitions::definitions;

/// The field manager, and the label of everything that is made here.
const MANAGER: &str = "c5c3-rabbitmq";

/// Looks after every RabbitmqCluster, Vhost, User and Permission until `stop`.
pub(crate) async fn run(client: Client, stop: CancellationToken) {
    tokio::join!(
        clusters(client.clone(), stop.clone()),
        vhosts(client.clone(), stop.clone()),
        users(client.clone(), stop.clone()),
        permissions(client, stop),
    );
}

async fn clusters(client: Client, stop: CancellationToken) {
    let controller = queue::controller::<RabbitmqCluster>(&client)
        .owns_stream(queue::children::<StatefulSet>(&client, MANAGER))
        .owns_stream(queue::children::<Secret>(&client, MANAGER));
    queue::run(controller, client, stop, cluster::reconcile).await;
}

async fn vhosts(client: Client, stop: CancellationToken) {
    queue::run(in_brokers::<Vhost>(&client), client, stop, topology::reconcile::<Vhost>).await;
}

async fn users(client: Client, stop: CancellationToken) {
    let controller = in_brokers::<User>(&client);
    let known = controller.store();
    let (label, value) = IMPORT_LABEL;
    let secrets = queue::labelled::<Secret>(&client, &format!("{label}={value}"));
    let controller = controller.watches_stream(secrets, move |secret| {
        let imports = |user: &User| {
            let given = user.spec.import_credentials_secret.as_ref().map(|given| &given.name);
            user.namespace() == secret.namespace() && given == secret.metadata.name.as_ref()
        };
        queue::concerned(&known, imports)
    });
    queue::run(controller, client, stop, topology::reconcile::<User>).await;
}

async fn permissions(client: Client, stop: CancellationToken) {
    let controller = in_brokers::<Permission>(&client);
    let known = controller.store();
    let controller = controller.watches(Api::<User>::all(client.clone()), watcher::Config::default(), move |user| {
        let names = |permission: &Permission| {
            let named = permission.spec.user_reference.as_ref().map(|named| &named.name);
            permission.namespace() == user.namespace() && named == user.metadata.name.as_ref()
        };
        queue::concerned(&known, names)
    });
    queue::run(controller, client, stop, topology::reconcile::<Permission>).await;
}

/// A controller of something in brokers, which looks again when its broker changes.
fn in_brokers<T: Topology>(client: &Client) -> Controller<T> {
    let controller = queue::controller::<T>(client);
    let known = controller.store();
    controller.watches(Api::<RabbitmqCluster>::all(client.clone()), watcher::Config::default(), move |cluster| {
        queue::concerned(&known, |object| refers(object.broker(), object.namespace().as_deref(), &cluster))
    })
}

fn refers(reference: &RabbitmqClusterRef, namespace: Option<&str>, cluster: &RabbitmqCluster) -> bool {
    let home = reference.namespace.as_deref().or(namespace);
    reference.name == cluster.metadata.name && home == cluster.metadata.namespace.as_deref()
}
