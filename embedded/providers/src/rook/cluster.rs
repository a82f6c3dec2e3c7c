//! Looks after CephClusters.

use std::time::Duration;

use c5c3_api::ext::rook::{
    CephBlockPool, CephClient, CephCluster, CephClusterHealth, CephClusterStatus, CephClusterVersion, CephDeviceClass,
    CephStorageStatus, MON_SECRET,
};
use c5c3_kit::apply::Applied;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Service};
use kube::api::{Api, DeleteParams, ListParams};
use kube::runtime::controller::Action;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use uuid::Uuid;

use super::ceph::{Ceph, Command};
use super::health::{self, Phase, Status, in_phase};
use super::plan::{self, Identity, OsdIdentity, daemon, daemon_secret};
use super::wanted::Wanted;
use super::{MANAGER, keys, names};
use crate::failure::Error;
use crate::objects;

/// Keeps a cluster until nothing is left in it; the name that Rook gives it.
const FINALIZER: &str = "cephcluster.ceph.rook.io";

/// How often Ceph is asked while a cluster is not as it should be, and how often otherwise.
const SOON: Duration = Duration::from_secs(2);
const LATER: Duration = Duration::from_secs(15);

/// Brings a cluster to what its object says, as far as it can, and says how far it got.
pub(super) async fn reconcile(cluster: CephCluster, client: Client) -> Result<Action, Error> {
    if cluster.metadata.deletion_timestamp.is_some() {
        return farewell(&cluster, &client).await;
    }
    if !cluster.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
        objects::hold(&client, &cluster, FINALIZER, true).await?;
        // The change of the object brings us back.
        return Ok(Action::await_change());
    }
    let told = |phase, message: &str| {
        in_phase(cluster.status.as_ref(), phase, message, cluster.metadata.generation, Timestamp::now())
    };
    let others = second(&client, &cluster).await?;
    let (status, again, failed) = match Wanted::of(&cluster).and_then(|wanted| others.map_or(Ok(wanted), Err)) {
        Err(refused) => (told(Phase::Failure, &refused), None, None),
        Ok(wanted) => match carry_out(&client, &cluster, &wanted).await {
            Ok(Standing { status, again }) => (status, Some(again), None),
            Err(error) => (told(Phase::Failure, &error.to_string()), None, Some(error)),
        },
    };
    objects::report(&client, &cluster, MANAGER, cluster.status.as_ref(), &status).await?;
    match (failed, again) {
        (Some(error), _) => Err(error),
        (None, Some(again)) => Ok(Action::requeue(again)),
        (None, None) => Ok(Action::await_change()),
    }
}

/// Why a cluster cannot be: Rook has one in a namespace.
async fn second(client: &Client, cluster: &CephCluster) -> Result<Option<String>, Error> {
    let namespace = cluster.namespace().unwrap_or_default();
    let all = Api::<CephCluster>::namespaced(client.clone(), &namespace).list(&ListParams::default()).await;
    let all = all.map_err(Error::api("list CephClusters"))?;
    let age = |cluster: &CephCluster| (cluster.metadata.creation_timestamp.clone(), cluster.name_any());
    let first = all.items.iter().min_by_key(|cluster| age(cluster));
    Ok(first.filter(|first| first.name_any() != cluster.name_any()).map(|first| {
        format!(
            "cephcluster/{} is in this namespace already, and there can be one; delete one of them",
            first.name_any()
        )
    }))
}

/// How far a cluster is, and when to look again.
struct Standing {
    status: CephClusterStatus,
    again: Duration,
}

async fn carry_out(client: &Client, cluster: &CephCluster, wanted: &Wanted) -> Result<Standing, Error> {
    let before = cluster.status.as_ref();
    let apply =
        async |plan| objects::apply(client, cluster, MANAGER, &plan).await.and_then(|applied| unhindered(&applied));
    let now = Timestamp::now();
    let progress = |message: &str| Standing {
        status: in_phase(before, Phase::Progressing, message, cluster.metadata.generation, now),
        again: SOON,
    };
    apply(plan::services(wanted)).await?;
    let Some(addresses) = addresses(client, wanted).await? else {
        return Ok(progress("Configuring Ceph Mons: their Services have no address yet"));
    };
    let identity = identity(client, wanted).await?;
    apply(plan::plan(wanted, &identity, &addresses)).await?;
    let asked = match Ceph::of(client, &wanted.namespace).await? {
        None => Err(Error::Missing("no monitor is ready".into())),
        Some(ceph) => ceph.ask::<Status>(&Command::ceph(["status"])).await.map(|status| (ceph, status)),
    };
    // Ready is about the object as it is: what it asks for now has been complete once.
    let was_ready = before.is_some_and(|status| {
        status.phase.as_deref() == Some("Ready") && status.observed_generation == cluster.metadata.generation
    });
    let (ceph, said) = match asked {
        Ok(asked) => asked,
        Err(error) if was_ready => return Ok(silent(cluster, &error.to_string())),
        Err(error) => return Ok(progress(&format!("Configuring Ceph Mons: {error}"))),
    };
    for check in said.to_mute() {
        ceph.run_command(&Command::ceph(["health", "mute", check, "--sticky"])).await?;
    }
    let disks = disks(client, wanted).await?;
    apply(plan::osd_secrets(wanted, &disks)).await?;
    if said.osdmap.num_osds < wanted.osds.len() || !was_ready {
        introduce(&ceph, wanted, &disks).await?;
    }
    apply(plan::osds(wanted, &disks)).await?;
    retire(client, &ceph, wanted, &said).await?;
    let lacks = health::lacks(&said, &wanted.mons, wanted.osds.len());
    let health = health::health(before.and_then(|status| status.ceph.as_ref()), Ok(&said), now);
    let is_well = health.health.as_deref() == Some("HEALTH_OK") && said.to_mute().is_empty();
    match lacks {
        Some(lacks) if !was_ready => {
            let mut standing = progress(&lacks);
            standing.status.ceph = Some(health);
            Ok(standing)
        }
        lacks => {
            let status =
                in_phase(before, Phase::Ready, "Cluster created successfully", cluster.metadata.generation, now);
            let status = CephClusterStatus { ceph: Some(health), ..status };
            let status = with_facts(&ceph, wanted, status).await?;
            Ok(Standing { status, again: if is_well && lacks.is_none() { LATER } else { SOON } })
        }
    }
}

/// A cluster that was complete, and does not answer.
fn silent(cluster: &CephCluster, why: &str) -> Standing {
    let (before, now) = (cluster.status.as_ref(), Timestamp::now());
    let health: CephClusterHealth = health::health(before.and_then(|status| status.ceph.as_ref()), Err(why), now);
    let status = in_phase(before, Phase::Ready, "Ceph does not answer", cluster.metadata.generation, now);
    Standing { status: CephClusterStatus { ceph: Some(health), ..status }, again: SOON }
}

/// What keeps a plan from being carried out; that daemons need time to start is no such thing.
fn unhindered(applied: &Applied) -> Result<(), Error> {
    let failed = applied.outcomes.iter().flat_map(|outcome| &outcome.waits).find(|wait| wait.failed);
    failed.map_or(Ok(()), |wait| Err(Error::Missing(wait.message(wait.object.namespace.as_deref()))))
}

/// The addresses of the monitors' Services, once each has one.
async fn addresses(client: &Client, wanted: &Wanted) -> Result<Option<Vec<String>>, Error> {
    let mut addresses = Vec::new();
    for mon in &wanted.mons {
        let service = objects::find::<Service>(client, &wanted.namespace, &daemon("mon", mon)).await?;
        let address = service.and_then(|service| service.spec?.cluster_ip).filter(|address| !address.is_empty());
        let Some(address) = address else { return Ok(None) };
        addresses.push(address);
    }
    Ok(Some(addresses))
}

/// The identity of a cluster, from its Secrets or new. A cluster with data that lost its keys is not given others: its
/// daemons know none but the old ones.
async fn identity(client: &Client, wanted: &Wanted) -> Result<Identity, Error> {
    let namespace = &wanted.namespace;
    let new_key = || keys::new_key(Timestamp::now());
    let mut mgrs = Vec::new();
    for mgr in &wanted.mgrs {
        let known = objects::secret(client, namespace, &daemon_secret("mgr", mgr)).await?;
        let key = known.and_then(|values| Some(values.get("keyring")?.lines().find_map(key_of)?.to_owned()));
        mgrs.push(key.unwrap_or_else(new_key));
    }
    let Some(mut known) = objects::secret(client, namespace, MON_SECRET).await? else {
        if objects::find::<PersistentVolumeClaim>(client, namespace, &daemon("mon", "a")).await?.is_some() {
            return Err(Error::Missing(format!(
                "secret/{MON_SECRET} is lost, and the data of the monitors is of no use without it; restore the Secret, or \
                 delete the CephCluster and its claims"
            )));
        }
        return Ok(Identity { fsid: Uuid::new_v4().to_string(), admin: new_key(), mon: new_key(), mgrs });
    };
    let mut part = |key: &str| {
        known.remove(key).ok_or_else(|| Error::Missing(format!("secret/{MON_SECRET} has no key {key}; restore it")))
    };
    Ok(Identity { fsid: part("fsid")?, admin: part("ceph-secret")?, mon: part("mon-secret")?, mgrs })
}

/// The key in a line of a keyring.
fn key_of(line: &str) -> Option<&str> {
    line.trim().strip_prefix("key = ")
}

/// Identities and keys of the disks, from their Secrets or new.
async fn disks(client: &Client, wanted: &Wanted) -> Result<Vec<OsdIdentity>, Error> {
    let mut disks = Vec::new();
    for osd in &wanted.osds {
        let secret = daemon_secret("osd", &osd.id.to_string());
        let known = objects::secret(client, &wanted.namespace, &secret).await?;
        let known =
            known.and_then(|mut known| Some(OsdIdentity { uuid: known.remove("uuid")?, key: known.remove("key")? }));
        disks.push(
            known.unwrap_or_else(|| OsdIdentity {
                uuid: Uuid::new_v4().to_string(),
                key: keys::new_key(Timestamp::now()),
            }),
        );
    }
    Ok(disks)
}

/// Tells Ceph of disks that it does not know.
async fn introduce(ceph: &Ceph, wanted: &Wanted, disks: &[OsdIdentity]) -> Result<(), Error> {
    let map: Value = ceph.ask(&Command::ceph(["osd", "dump"])).await?;
    let knows = |uuid: &str| map["osds"].as_array().into_iter().flatten().any(|osd| osd["uuid"] == uuid);
    for (osd, disk) in wanted.osds.iter().zip(disks).filter(|(_, disk)| !knows(&disk.uuid)) {
        let id = osd.id.to_string();
        let secrets = json!({"cephx_secret": disk.key}).to_string();
        let command = Command::ceph(["osd", "new", &disk.uuid, &id, "-i", "-"]).with_input(secrets);
        ceph.run_command(&command).await?;
    }
    Ok(())
}

/// Takes monitors away that are no longer asked for, once those that are asked for form a quorum. Disks stay, as with
/// Rook: their data would have to be moved first.
async fn retire(client: &Client, ceph: &Ceph, wanted: &Wanted, said: &Status) -> Result<(), Error> {
    if !wanted.mons.iter().all(|mon| said.quorum_names.contains(mon)) {
        return Ok(());
    }
    for mon in said.quorum_names.iter().filter(|mon| !wanted.mons.contains(mon)) {
        ceph.run_command(&Command::ceph(["mon", "remove", mon])).await?;
    }
    let deployments = Api::<Deployment>::namespaced(client.clone(), &wanted.namespace);
    let mons = ListParams::default().labels("app=rook-ceph-mon");
    let mons = deployments.list(&mons).await.map_err(Error::api("list the Deployments of monitors"))?;
    for mon in mons.iter().filter_map(|mon| mon.labels().get(plan::DAEMON)).filter(|mon| !wanted.mons.contains(mon)) {
        let name = daemon("mon", mon);
        delete::<Deployment>(client, &wanted.namespace, &name).await?;
        delete::<Service>(client, &wanted.namespace, &name).await?;
        delete::<PersistentVolumeClaim>(client, &wanted.namespace, &name).await?;
    }
    Ok(())
}

async fn delete<K>(client: &Client, namespace: &str, name: &str) -> Result<(), Error>
where
    K: crate::queue::Kind + kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
{
    let api = Api::<K>::namespaced(client.clone(), namespace);
    match api.delete(name, &DeleteParams::background()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(drop).map_err(Error::api(format!("delete {} {namespace}/{name}", K::kind(&())))),
    }
}

/// Adds what is asked once: the release that runs, and the classes of disks.
async fn with_facts(ceph: &Ceph, wanted: &Wanted, mut status: CephClusterStatus) -> Result<CephClusterStatus, Error> {
    if status.version.as_ref().and_then(|version| version.image.as_ref()) != Some(&wanted.image) {
        let said: Value = ceph.ask(&Command::ceph(["version"])).await?;
        // Such as `ceph version 18.2.7 (...) reef (stable)`.
        let release = said["version"].as_str().and_then(|text| text.split(' ').nth(2)).unwrap_or_default();
        let release = if release.contains('-') { release.to_owned() } else { format!("{release}-0") };
        status.version = Some(CephClusterVersion { image: Some(wanted.image.clone()), version: Some(release) });
    }
    if status.storage.is_none() && !wanted.osds.is_empty() {
        let classes: Vec<String> = ceph.ask(&Command::ceph(["osd", "crush", "class", "ls"])).await?;
        let classes = classes.into_iter().map(|name| CephDeviceClass { name: Some(name) });
        status.storage = Some(CephStorageStatus { device_classes: classes.collect() });
    }
    Ok(status)
}

/// Ends a cluster, unless something is still in it. What belongs to it is collected after it, with the data.
async fn farewell(cluster: &CephCluster, client: &Client) -> Result<Action, Error> {
    let namespace = cluster.namespace().unwrap_or_default();
    let mut inside = names::<CephBlockPool>(client, &namespace).await?;
    inside.extend(names::<CephClient>(client, &namespace).await?);
    let forced = cluster.spec.cleanup_policy.as_ref().and_then(|policy| policy.confirmation.as_deref())
        == Some("yes-really-destroy-data");
    if inside.is_empty() || forced {
        objects::hold(client, cluster, FINALIZER, false).await?;
        return Ok(Action::await_change());
    }
    let message = format!("Deletion is blocked: delete {} first", inside.join(", "));
    let generation = cluster.metadata.generation;
    let status = in_phase(cluster.status.as_ref(), Phase::Deleting, &message, generation, Timestamp::now());
    objects::report(client, cluster, MANAGER, cluster.status.as_ref(), &status).await?;
    Ok(Action::requeue(SOON))
}
