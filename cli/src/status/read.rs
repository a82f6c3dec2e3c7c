//! Reads a cluster, as far as it may be read: what cannot be listed is named, and the rest is told all the same.

use std::collections::BTreeMap;

use c5c3_api::c5c3::{ControlPlane, CredentialRotation, SecretAggregate};
use c5c3_api::cortex::Cortex;
use c5c3_api::ext::cert_manager::{Certificate, ClusterIssuer, Issuer};
use c5c3_api::ext::external_secrets::{ClusterSecretStore, ExternalSecret, PushSecret, SecretStore};
use c5c3_api::ext::mariadb::{self, Grant, MariaDB};
use c5c3_api::ext::rabbitmq::{self, Permission, RabbitmqCluster, Vhost};
use c5c3_api::ext::rook::{CephBlockPool, CephClient, CephCluster};
use c5c3_api::ext::valkey::Valkey;
use c5c3_api::openstack::{Cinder, Glance, Keystone, Neutron, Nova, Placement, Tempest};
use c5c3_api::orc;
use c5c3_api::ovn::{OVNChassis, OVNCluster};
use c5c3_kit::KindRef;
use c5c3_kit::object::api;
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Node, PersistentVolumeClaim, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{ListParams, LogParams};
use kube::{Api, Client};
use serde_json::Value;

use super::pods;
use super::world::{Object, World};
use crate::target;

/// How many lines of a container that ended are looked at.
const LINES: i64 = 20;

/// What the API server says when it is not ready: a full disk, for one, leaves a cluster that can be read and not written.
async fn unready(client: &Client) -> Option<String> {
    let request = http::Request::get("/readyz").body(Vec::new()).ok()?;
    match client.request_text(request).await {
        // Whoever may not ask is not told, and sees the rest.
        Err(kube::Error::Api(said)) if said.code >= 500 => Some(said.message.trim_end().to_owned()),
        _ => None,
    }
}

/// Everything that is looked at: no Secrets, and nothing but lists.
pub(crate) fn kinds() -> Vec<KindRef> {
    vec![
        KindRef::of::<ControlPlane>(),
        KindRef::of::<SecretAggregate>(),
        KindRef::of::<CredentialRotation>(),
        KindRef::of::<Keystone>(),
        KindRef::of::<Glance>(),
        KindRef::of::<Placement>(),
        KindRef::of::<Nova>(),
        KindRef::of::<Neutron>(),
        KindRef::of::<Cinder>(),
        KindRef::of::<Cortex>(),
        KindRef::of::<Tempest>(),
        KindRef::of::<OVNCluster>(),
        KindRef::of::<OVNChassis>(),
        KindRef::of::<MariaDB>(),
        KindRef::of::<mariadb::Database>(),
        KindRef::of::<mariadb::User>(),
        KindRef::of::<Grant>(),
        KindRef::of::<RabbitmqCluster>(),
        KindRef::of::<Vhost>(),
        KindRef::of::<rabbitmq::User>(),
        KindRef::of::<Permission>(),
        KindRef::of::<Valkey>(),
        KindRef::of::<CephCluster>(),
        KindRef::of::<CephBlockPool>(),
        KindRef::of::<CephClient>(),
        KindRef::of::<ExternalSecret>(),
        KindRef::of::<PushSecret>(),
        KindRef::of::<SecretStore>(),
        KindRef::of::<ClusterSecretStore>(),
        KindRef::of::<orc::ApplicationCredential>(),
        KindRef::of::<orc::Domain>(),
        KindRef::of::<orc::Endpoint>(),
        KindRef::of::<orc::Group>(),
        KindRef::of::<orc::Project>(),
        KindRef::of::<orc::Role>(),
        KindRef::of::<orc::RoleAssignment>(),
        KindRef::of::<orc::Service>(),
        KindRef::of::<orc::User>(),
        KindRef::of::<Certificate>(),
        KindRef::of::<Issuer>(),
        KindRef::of::<ClusterIssuer>(),
        KindRef::of::<Deployment>(),
        KindRef::of::<ReplicaSet>(),
        KindRef::of::<StatefulSet>(),
        KindRef::of::<DaemonSet>(),
        KindRef::of::<Job>(),
        KindRef::of::<Pod>(),
        KindRef::of::<PersistentVolumeClaim>(),
        KindRef::of::<StorageClass>(),
        KindRef::of::<NetworkPolicy>(),
        KindRef::of::<Node>(),
        KindRef::of::<Event>(),
    ]
}

/// Reads everything, of one namespace if one is named.
pub(crate) async fn world(client: &Client, namespace: Option<&str>) -> Result<World, String> {
    let unready = unready(client).await;
    let mut world =
        World { unready, objects: Vec::new(), logs: BTreeMap::new(), unread: Vec::new(), now: Timestamp::now() };
    for (kind, listed) in join_all(kinds().into_iter().map(|kind| list(client, kind, namespace))).await {
        match listed {
            Ok(values) => {
                world.objects.extend(values.into_iter().filter_map(|value| Object::new(&kind.resource, value)));
            }
            // A cluster without that kind has none of them.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403) => {
                world.unread.push(format!("{} (not allowed)", kind.resource.plural));
            }
            Err(error) => return Err(target::root(&error)),
        }
    }
    world.objects.sort_by_key(|object| object.reference.to_string());
    world.logs = logs(client, &world).await;
    Ok(world)
}

async fn list(client: &Client, kind: KindRef, namespace: Option<&str>) -> (KindRef, Result<Vec<Value>, kube::Error>) {
    let namespace = namespace.filter(|_| kind.namespaced);
    let listed = api(client.clone(), &kind.resource, namespace).list(&ListParams::default()).await;
    let values = listed.map(|list| list.items.iter().filter_map(|item| serde_json::to_value(item).ok()).collect());
    (kind, values)
}

/// The last lines of containers that ended badly or that do not get ready. They are a help and no need: what cannot be read is
/// left out.
async fn logs(client: &Client, world: &World) -> BTreeMap<String, String> {
    let wanted = world.of_kind("Pod").filter(|pod| !pods::is_ready(pod)).flat_map(|pod| {
        let halted = pods::halted(pod).into_iter().filter(|halted| halted.ended.is_some());
        let halted = halted.map(|halted| (halted.name, halted.reason == "CrashLoopBackOff"));
        let starting = pods::starting(pod).map(|(name, _)| (name, false));
        halted.chain(starting).map(move |(name, previous)| (pod, name, previous))
    });
    let read = wanted.map(|(pod, name, previous)| async move {
        let params =
            LogParams { container: Some(name.to_owned()), tail_lines: Some(LINES), previous, ..LogParams::default() };
        let api: Api<Pod> = Api::namespaced(client.clone(), pod.namespace().unwrap_or_default());
        let text = api.logs(&pod.reference.name, &params).await.ok()?;
        Some((pods::log_name(pod, name), text))
    });
    join_all(read).await.into_iter().flatten().collect()
}
