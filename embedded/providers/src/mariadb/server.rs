//! Looks after a MariaDB: makes what it becomes, follows the primary, grows volumes, and says how it stands.

use std::collections::BTreeMap;
use std::time::Duration;

use c5c3_api::ext::mariadb::MariaDB;
use c5c3_kit::apply::Applied;
use c5c3_kit::condition::Said;
use c5c3_kit::ownership::MANAGED_BY;
use c5c3_kit::{Child, hash};
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::children::{self, Given, ROLE};
use super::members::{self, Member};
use super::standing::{self, Seen};
use super::wanted::{Volume, Wanted};
use super::{MANAGER, tls};
use crate::failure::Error;
use crate::queue::RESYNC;
use crate::{generated, objects};

/// How soon to look again at servers that are not ready: much of what happens to pods is told by nobody.
const SOON: Duration = Duration::from_secs(2);

/// One look at a MariaDB. What the API refuses is told on it; what just fails is tried again.
pub(super) async fn reconcile(mariadb: MariaDB, client: Client) -> Result<Action, Error> {
    let looked = look(&mariadb, &client).await;
    if let Err(error) = &looked
        && is_refusal(error)
    {
        refuse(&mariadb, &client, "Failed", error.to_string()).await?;
    }
    looked
}

async fn refuse(mariadb: &MariaDB, client: &Client, reason: &str, why: String) -> Result<(), Error> {
    let said = [Said::no("Ready", reason, why)];
    let status = standing::with_conditions(mariadb.status.as_ref(), &said, Timestamp::now());
    objects::report(client, mariadb, MANAGER, mariadb.status.as_ref(), &status).await
}

async fn look(mariadb: &MariaDB, client: &Client) -> Result<Action, Error> {
    let refuse = async |reason: &str, why: String| refuse(mariadb, client, reason, why).await;
    if mariadb.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    if mariadb.spec.suspend == Some(true) {
        refuse("Suspended", "Suspended".into()).await?;
        return Ok(Action::await_change());
    }
    let wanted = match Wanted::of(mariadb) {
        Ok(wanted) => wanted,
        Err(why) => {
            refuse("Failed", why).await?;
            return Ok(Action::await_change());
        }
    };
    let look = Look { client, wanted: &wanted };
    if let Some(missing) = look.missing().await? {
        refuse("Failed", missing).await?;
        return Ok(Action::requeue(SOON));
    }
    let complete = look.bring_up(mariadb).await?;
    Ok(Action::requeue(if complete { RESYNC } else { SOON }))
}

struct Look<'l> {
    client: &'l Client,
    wanted: &'l Wanted,
}

impl Look<'_> {
    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.wanted.namespace)
    }

    /// Says what has to be there first and is not. The password is made if that is asked for.
    async fn missing(&self) -> Result<Option<String>, Error> {
        let root = &self.wanted.root;
        let found = objects::secret(self.client, &self.wanted.namespace, &root.secret).await?;
        match found {
            Some(values) if values.contains_key(&root.key) => {}
            Some(_) => {
                return Ok(Some(format!(
                    "spec.rootPasswordSecretKeyRef.key: secret/{} has no key {}",
                    root.secret, root.key
                )));
            }
            None if root.generate => self.make_password().await?,
            None => {
                return Ok(Some(format!(
                    "spec.rootPasswordSecretKeyRef.name: secret/{} is not there, and generate is not true",
                    root.secret
                )));
            }
        }
        let Volume::Claim { class: Some(class), .. } = &self.wanted.volume else { return Ok(None) };
        let classes = Api::<StorageClass>::all(self.client.clone());
        let known = classes.list(&ListParams::default()).await.map_err(Error::api("list storage classes"))?;
        let names: Vec<String> = known.iter().map(ResourceExt::name_any).collect();
        Ok((!names.contains(class)).then(|| {
            let names = names.join(", ");
            format!("spec.storage.storageClassName: there is no storage class {class}; there are: {names}")
        }))
    }

    /// A password of root's, which stays as long as the volumes do that it is in: it is nobody's child.
    async fn make_password(&self) -> Result<(), Error> {
        let root = &self.wanted.root;
        let secret = Secret {
            metadata: kube::api::ObjectMeta {
                name: Some(root.secret.clone()),
                labels: Some([(MANAGED_BY.to_owned(), MANAGER.to_owned())].into()),
                ..Default::default()
            },
            data: Some([(root.key.clone(), ByteString(generated::password().into_bytes()))].into()),
            ..Secret::default()
        };
        match self.api::<Secret>().create(&PostParams::default(), &secret).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(answer)) if answer.code == 409 => Ok(()),
            Err(error) => Err(Error::api(format!("create secret/{}", root.secret))(error)),
        }
    }

    /// Makes everything, and says how it stands. True: all servers run as asked.
    async fn bring_up(&self, mariadb: &MariaDB) -> Result<bool, Error> {
        let wanted = self.wanted;
        let set = objects::find::<StatefulSet>(self.client, &wanted.namespace, &wanted.name).await?;
        let pods = self.pods().await?;
        let before = mariadb.status.as_ref().and_then(|status| status.current_primary_pod_index);
        let primary = standing::primary(wanted, before, &pods);
        // What the volumes are cannot change any more: servers stay with what they began with.
        let begun = set.as_ref().map_or_else(|| wanted.volume.clone(), volume_of);
        let planned = Wanted { volume: begun.clone(), ..wanted.clone() };
        let signed = self.signed().await?;

        let certificate = signed.get("tls.crt").map(|certificate| hash::short(certificate.as_bytes()));
        let mut plan = children::plan(&planned, &Given { primary, certificate: certificate.as_deref() });
        if let (Some(authorities), Some(step)) = (signed.get("ca.crt"), plan.steps.first_mut()) {
            step.children.push(self.bundle(authorities));
        }
        let applied = objects::apply(self.client, mariadb, MANAGER, &plan).await?;
        let too_large = self.grow().await?;
        self.give_roles(&pods, primary).await?;

        let members = if wanted.galera { ask_all(&pods).await } else { Vec::new() };
        let set = objects::find::<StatefulSet>(self.client, &wanted.namespace, &wanted.name).await?;
        let volumes = fixed(&begun, &wanted.volume).or(too_large);
        let in_the_way = foreign(&applied, &wanted.namespace).or(volumes);
        let seen = Seen { wanted, stateful_set: set.as_ref(), pods: &pods, members: &members, in_the_way };
        let status = standing::status(mariadb.status.as_ref(), &seen, primary, Timestamp::now());
        objects::report(self.client, mariadb, MANAGER, mariadb.status.as_ref(), &status).await?;
        let trusted = wanted.tls.is_none() || signed.contains_key("ca.crt");
        Ok(standing::is_complete(&seen) && seen.in_the_way.is_none() && trusted)
    }

    async fn pods(&self) -> Result<Vec<Pod>, Error> {
        let labels: Vec<String> =
            children::selector(self.wanted).iter().map(|(label, value)| format!("{label}={value}")).collect();
        let listed = self.api::<Pod>().list(&ListParams::default().labels(&labels.join(","))).await;
        Ok(listed.map_err(Error::api("list pods"))?.items)
    }

    /// The servers' certificate and who signed it, once it is there.
    async fn signed(&self) -> Result<BTreeMap<String, String>, Error> {
        if self.wanted.tls.is_none() {
            return Ok(BTreeMap::new());
        }
        let name = tls::server_secret(&self.wanted.name);
        Ok(objects::secret(self.client, &self.wanted.namespace, &name).await?.unwrap_or_default())
    }

    fn bundle(&self, authorities: &str) -> Child {
        let metadata = json!({"name": tls::bundle_secret(&self.wanted.name), "namespace": self.wanted.namespace,
            "labels": children::selector(self.wanted)});
        objects::secret_child(&metadata, "Opaque", [("ca.crt", authorities.to_owned())])
    }

    /// Asks for larger volumes, and says of one that is larger already that it stays so. A StatefulSet keeps the size that
    /// it began with; its claims can grow.
    async fn grow(&self) -> Result<Option<String>, Error> {
        let Volume::Claim { size, .. } = &self.wanted.volume else { return Ok(None) };
        let api = self.api::<PersistentVolumeClaim>();
        for index in 0..self.wanted.replicas {
            let name = self.wanted.claim(index);
            let found = api.get_opt(&name).await.map_err(Error::api(format!("read claim {name}")))?;
            // One that is not bound yet cannot change; it is looked at again.
            let bound =
                found.filter(|claim| claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound"));
            let has = bound.and_then(|claim| claim.spec?.resources?.requests?.remove("storage"));
            match has.map(|has| (bytes(&has.0), has.0)) {
                Some((has, _)) if has < bytes(size) => {
                    let patch = Patch::Merge(json!({"spec": {"resources": {"requests": {"storage": size}}}}));
                    let patched = api.patch(&name, &PatchParams::default(), &patch).await;
                    patched.map_err(Error::api(format!("grow claim {name}")))?;
                }
                Some((has, text)) if has > bytes(size) => {
                    return Ok(Some(format!("spec.storage.size: a volume of {text} cannot shrink to {size}")));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// Labels pods by what they are to the cluster, for the Service of those that are not the primary.
    async fn give_roles(&self, pods: &[Pod], primary: i32) -> Result<(), Error> {
        if !self.wanted.galera {
            return Ok(());
        }
        for pod in pods {
            let name = pod.name_any();
            let role = if name == self.wanted.pod(primary) { "primary" } else { "replica" };
            if pod.labels().get(ROLE).is_some_and(|has| has == role) {
                continue;
            }
            let patch = Patch::Merge(json!({"metadata": {"labels": {ROLE: role}}}));
            match self.api::<Pod>().patch(&name, &PatchParams::default(), &patch).await {
                Ok(_) => {}
                Err(kube::Error::Api(answer)) if answer.code == 404 => {}
                Err(error) => return Err(Error::api(format!("label pod/{name}"))(error)),
            }
        }
        Ok(())
    }
}

/// What every member that can be reached and does not serve yet says of itself.
async fn ask_all(pods: &[Pod]) -> Vec<Member> {
    let addresses =
        pods.iter().filter(|pod| !standing::is_ready(pod)).filter_map(|pod| pod.status.as_ref()?.pod_ip.clone());
    let asked = join_all(addresses.map(|address| async move { members::ask(&address).await })).await;
    asked.into_iter().flatten().collect()
}

/// The volumes that the servers of a StatefulSet have.
fn volume_of(set: &StatefulSet) -> Volume {
    let claim = || {
        let claim = set.spec.as_ref()?.volume_claim_templates.as_ref()?.first()?.spec.clone()?;
        let size = claim.resources?.requests?.remove("storage")?;
        Some(Volume::Claim { size: size.0, class: claim.storage_class_name })
    };
    claim().unwrap_or(Volume::Ephemeral)
}

/// What was asked for of volumes that cannot be any more.
fn fixed(begun: &Volume, asked: &Volume) -> Option<String> {
    match (begun, asked) {
        (Volume::Claim { class, .. }, Volume::Claim { class: Some(asked), .. }) if class.as_ref() != Some(asked) => {
            let class = class.as_deref().unwrap_or("the cluster's own");
            Some(format!("spec.storage.storageClassName: cannot change from {class} to {asked}"))
        }
        (Volume::Claim { .. }, Volume::Claim { .. }) | (Volume::Ephemeral, Volume::Ephemeral) => None,
        _ => Some("spec.storage.ephemeral: cannot change; the data stays where it is".into()),
    }
}

/// What somebody else has under a name of ours.
fn foreign(applied: &Applied, namespace: &str) -> Option<String> {
    let waits = applied.outcomes.iter().flat_map(|outcome| &outcome.waits);
    waits.into_iter().find(|wait| wait.failed).map(|wait| wait.message(Some(namespace)))
}

/// Whether the API will not take a child however often it is asked.
fn is_refusal(error: &Error) -> bool {
    let Error::Kit(c5c3_kit::Error::ApplyFailed { source, .. }) = error else { return false };
    matches!(&**source, kube::Error::Api(answer) if matches!(answer.code, 400 | 403 | 422))
}

/// The bytes of a quantity; 0 of what is none.
fn bytes(quantity: &str) -> u128 {
    const UNITS: &[(&str, u128)] = &[
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("Pi", 1 << 50),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
        ("", 1),
    ];
    let unit = UNITS.iter().find_map(|(unit, factor)| Some((quantity.strip_suffix(unit)?, factor)));
    unit.and_then(|(number, factor)| Some(number.parse::<u128>().ok()?.saturating_mul(*factor))).unwrap_or(0)
}
