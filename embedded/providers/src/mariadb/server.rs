//! Looks after a MariaDB: makes what it becomes, follows the primary, and says how it stands.

use std::time::Duration;

use c5c3_api::ext::mariadb::MariaDB;
use c5c3_kit::Child;
use c5c3_kit::apply::Applied;
use c5c3_kit::condition::ConditionState;
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::children::{self, Given, ROLE};
use super::members::{self, Member};
use super::standing::{self, Seen};
use super::wanted::{Volume, Wanted};
use super::{MANAGER, root, sql, tls, volumes};
use crate::certificates::Signed;
use crate::failure::Error;
use crate::objects;
use crate::queue::RESYNC;

/// How soon to look again at servers that are not ready: no watch reports much of what happens to pods.
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
    let said = [ConditionState::unmet("Ready", reason, why)];
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
    let look = Look { client, mariadb, wanted: &wanted };
    let password = match (root::asked(client, &wanted).await?, look.missing().await?) {
        (Ok(password), None) => password,
        (Err(missing), _) | (_, Some(missing)) => {
            refuse("Failed", missing).await?;
            return Ok(Action::requeue(SOON));
        }
    };
    let complete = look.bring_up(&password).await?;
    Ok(Action::requeue(if complete { RESYNC } else { SOON }))
}

struct Look<'l> {
    client: &'l Client,
    mariadb: &'l MariaDB,
    wanted: &'l Wanted,
}

impl Look<'_> {
    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.wanted.namespace)
    }

    /// Says what has to be there first and is not.
    async fn missing(&self) -> Result<Option<String>, Error> {
        let Volume::Claim { class: Some(class), .. } = &self.wanted.volume else { return Ok(None) };
        let classes = Api::<StorageClass>::all(self.client.clone());
        let known = classes.list(&ListParams::default()).await.map_err(Error::api("list storage classes"))?;
        let names: Vec<String> = known.iter().map(ResourceExt::name_any).collect();
        Ok((!names.contains(class)).then(|| {
            let names = names.join(", ");
            format!("spec.storage.storageClassName: there is no storage class {class}; there are: {names}")
        }))
    }

    /// Makes everything, and says how it stands. True: all servers run as asked.
    async fn bring_up(&self, password: &str) -> Result<bool, Error> {
        let Self { client, mariadb, wanted } = *self;
        let set = objects::find::<StatefulSet>(client, &wanted.namespace, &wanted.name).await?;
        let pods = self.pods().await?;
        let before = mariadb.status.as_ref().and_then(|status| status.current_primary_pod_index);
        let primary = standing::primary(wanted, before, &pods);
        // What the volumes are cannot change any more: servers stay with what they began with.
        let begun = set.as_ref().map_or_else(|| wanted.volume.clone(), volumes::of);
        let planned = Wanted { volume: begun.clone(), ..wanted.clone() };
        if root::in_force(client, wanted).await?.is_none() {
            root::remember(client, mariadb, wanted, password).await?;
        }

        let signed = self.signed().await?;
        let mut plan = children::plan(&planned, &Given { primary, signed: signed.as_ref() });
        if let (Some(signed), Some(step)) = (&signed, plan.steps.first_mut()) {
            step.children.push(self.bundle(&signed.authorities));
        }
        let applied = objects::apply(client, mariadb, MANAGER, &plan).await?;
        self.part(&pods, signed.as_ref()).await?;
        let too_large = volumes::tend(client, mariadb, wanted).await?;
        self.give_roles(&pods, primary).await?;

        let members = if wanted.galera { ask_all(&pods).await } else { Vec::new() };
        let set = objects::find::<StatefulSet>(client, &wanted.namespace, &wanted.name).await?;
        let volumes = volumes::fixed(&begun, &wanted.volume).or(too_large);
        let in_the_way = foreign(&applied, &wanted.namespace).or(volumes);
        let mut seen = Seen { wanted, stateful_set: set.as_ref(), pods: &pods, members: &members, in_the_way };
        if standing::is_complete(&seen) && seen.in_the_way.is_none() {
            seen.in_the_way = sql::follow(client, mariadb, wanted, password).await?;
        }
        let status = standing::status(mariadb.status.as_ref(), &seen, primary, Timestamp::now());
        objects::report(client, mariadb, MANAGER, mariadb.status.as_ref(), &status).await?;
        Ok(standing::is_complete(&seen) && seen.in_the_way.is_none())
    }

    async fn pods(&self) -> Result<Vec<Pod>, Error> {
        let ours = ListParams::default().labels(&children::selector_text(self.wanted));
        let listed = self.api::<Pod>().list(&ours).await;
        Ok(listed.map_err(Error::api("list pods"))?.items)
    }

    /// The servers' certificate and who signed it, once it is there.
    async fn signed(&self) -> Result<Option<Signed>, Error> {
        if self.wanted.tls.is_none() {
            return Ok(None);
        }
        let name = tls::server_secret(&self.wanted.name);
        let found = objects::secret(self.client, &self.wanted.namespace, &name).await?;
        Ok(found.and_then(Signed::of))
    }

    /// Ends members that cannot talk to those to come, all at once: one by one, each would find no one to join.
    async fn part(&self, pods: &[Pod], signed: Option<&Signed>) -> Result<(), Error> {
        let waits_for_certificate = self.wanted.tls.is_some() && signed.is_none();
        if !self.wanted.galera || waits_for_certificate {
            return Ok(());
        }
        for pod in pods.iter().filter(|pod| tls::is_stranger(pod, signed)) {
            let name = pod.name_any();
            match self.api::<Pod>().delete(&name, &DeleteParams::default()).await {
                Ok(_) => {}
                Err(kube::Error::Api(answer)) if answer.code == 404 => {}
                Err(error) => return Err(Error::api(format!("delete pod/{name}"))(error)),
            }
        }
        Ok(())
    }

    fn bundle(&self, authorities: &str) -> Child {
        let metadata = json!({"name": tls::bundle_secret(&self.wanted.name), "namespace": self.wanted.namespace,
            "labels": children::selector(self.wanted)});
        objects::secret_child(&metadata, "Opaque", [("ca.crt", authorities.to_owned())])
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
        pods.iter().filter(|pod| !crate::pods::is_ready(pod)).filter_map(|pod| pod.status.as_ref()?.pod_ip.clone());
    let asked = join_all(addresses.map(|address| async move { members::ask(&address).await })).await;
    asked.into_iter().flatten().collect()
}

/// What someone else has under a name of ours.
pub(super) fn foreign(applied: &Applied, namespace: &str) -> Option<String> {
    let waits = applied.outcomes.iter().flat_map(|outcome| &outcome.waits);
    waits.into_iter().find(|wait| wait.failed).map(|wait| wait.message(Some(namespace)))
}

/// Whether the API will not take a child however often it is asked.
pub(super) fn is_refusal(error: &Error) -> bool {
    let Error::Kit(c5c3_kit::Error::ApplyFailed { source, .. }) = error else { return false };
    matches!(&**source, kube::Error::Api(answer) if matches!(answer.code, 400 | 403 | 422))
}
