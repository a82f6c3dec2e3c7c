//! Looks after RabbitmqClusters.

use std::collections::BTreeMap;
use std::time::Duration;

use c5c3_api::blocks::Condition;
use c5c3_api::ext::NamedRef;
use c5c3_api::ext::rabbitmq::{
    DefaultUser, DefaultUserSecret, DefaultUserService, RabbitmqCluster, RabbitmqClusterStatus,
};
use c5c3_kit::apply::Applied;
use c5c3_kit::condition::{ConditionState, find};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, ListParams};
use kube::runtime::controller::Action;
use kube::{Client, ResourceExt};
use serde_json::Value;

use super::MANAGER;
use super::names::Names;
use super::plan::{Secrets, first_user_secret, plan};
use crate::failure::Error;
use crate::queue::RESYNC;
use crate::{generated, objects};

pub(super) const ALL_REPLICAS_READY: &str = "AllReplicasReady";
const CLUSTER_AVAILABLE: &str = "ClusterAvailable";
const NO_WARNINGS: &str = "NoWarnings";
const RECONCILE_SUCCESS: &str = "ReconcileSuccess";

/// Label of a cluster that no one shall touch for now.
const PAUSED: (&str, &str) = ("rabbitmq.com/pauseReconciliation", "true");

/// How often a cluster is looked at that is not available: of endpoints, no watch tells.
const SOON: Duration = Duration::from_secs(2);

/// What there is of a cluster.
#[derive(Clone, Debug, Default)]
struct Seen {
    brokers: Option<StatefulSet>,
    endpoints: usize,
}

impl Seen {
    async fn read(client: &Client, names: &Names) -> Result<Self, Error> {
        let brokers = objects::find::<StatefulSet>(client, &names.namespace, &names.server()).await?;
        let slices = Api::<EndpointSlice>::namespaced(client.clone(), &names.namespace);
        let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={}", names.cluster));
        let slices = slices.list(&of_service).await.map_err(Error::api("list endpoints"))?;
        let ready = slices
            .iter()
            .flat_map(|slice| &slice.endpoints)
            .filter(|endpoint| endpoint.conditions.as_ref().is_none_or(|conditions| conditions.ready != Some(false)));
        Ok(Self { brokers, endpoints: ready.count() })
    }

    /// Members that are ready, of a StatefulSet that its controller has seen as it is.
    fn ready(&self) -> i32 {
        let Some(brokers) = &self.brokers else { return 0 };
        let Some(status) = &brokers.status else { return 0 };
        if status.observed_generation < brokers.metadata.generation { 0 } else { status.ready_replicas.unwrap_or(0) }
    }
}

/// Brings a cluster to what its object says, as far as it can, and says how far it got.
pub(super) async fn reconcile(cluster: RabbitmqCluster, client: Client) -> Result<Action, Error> {
    if cluster.metadata.deletion_timestamp.is_some() {
        // What belongs to it is collected after it.
        return Ok(Action::await_change());
    }
    let names = Names::of(&cluster);
    let seen = Seen::read(&client, &names).await?;
    let outcome = match refused(&cluster, &seen) {
        Some(said) => Ok(said),
        None => carry_out(&client, &cluster).await,
    };
    let said = match &outcome {
        Ok(said) => said.clone(),
        Err(error) => ConditionState::unmet(RECONCILE_SUCCESS, "Error", error.to_string()),
    };
    let seen = Seen::read(&client, &names).await?;
    let status = status(&cluster, &seen, said, Timestamp::now());
    objects::report(&client, &cluster, MANAGER, cluster.status.as_ref(), &status).await?;
    outcome?;
    Ok(Action::requeue(if seen.endpoints == 0 || seen.ready() < names.members { SOON } else { RESYNC }))
}

async fn carry_out(client: &Client, cluster: &RabbitmqCluster) -> Result<ConditionState, Error> {
    let secrets = secrets(client, cluster).await?;
    let applied = objects::apply(client, cluster, MANAGER, &plan(cluster, &secrets)).await?;
    Ok(stuck(&applied).unwrap_or_else(|| ConditionState::met(RECONCILE_SUCCESS, "Success", "Finish reconciling")))
}

/// What keeps the plan from being carried out; that brokers need time to start is no such thing.
fn stuck(applied: &Applied) -> Option<ConditionState> {
    let wait = applied.outcomes.iter().flat_map(|outcome| &outcome.waits).find(|wait| wait.failed)?;
    Some(ConditionState::unmet(RECONCILE_SUCCESS, wait.reason(), wait.message(wait.object.namespace.as_deref())))
}

/// Why nothing is done with the cluster as it is.
fn refused(cluster: &RabbitmqCluster, seen: &Seen) -> Option<ConditionState> {
    let no = |reason: &str, message: String| Some(ConditionState::unmet(RECONCILE_SUCCESS, reason, message));
    if is_paused(cluster) {
        return Some(ConditionState {
            status: c5c3_api::blocks::ConditionStatus::Unknown,
            ..ConditionState::unmet(
                RECONCILE_SUCCESS,
                "ReconciliationPaused",
                "the label rabbitmq.com/pauseReconciliation is true",
            )
        });
    }
    if let Some(tls) = &cluster.spec.tls
        && tls.disable_non_tls_listeners == Some(true)
        && tls.secret_name.is_none()
    {
        // As the genuine operator: no one could connect at all.
        return no("TLSError", "spec.tls.disableNonTLSListeners: needs secretName".into());
    }
    if let Some(field) = patched(cluster) {
        let why =
            "the embedded cluster makes its objects as they are; set the field of the spec that has the same effect";
        return no("NotProvided", format!("spec.override{field}: {why}"));
    }
    let members = Names::of(cluster).members;
    let had = seen.brokers.as_ref().and_then(|brokers| brokers.spec.as_ref()?.replicas).unwrap_or(0);
    if members > 0 && members < had {
        // As the genuine operator: queues have members there, which no one would move.
        return no("UnsupportedOperation", format!("spec.replicas: a cluster of {had} cannot shrink to {members}"));
    }
    None
}

/// Which object the cluster wants to be another one; none of them is if the patches are empty.
fn patched(cluster: &RabbitmqCluster) -> Option<String> {
    match cluster.spec.overrides.as_ref()? {
        Value::Null => None,
        Value::Object(patches) => patches.keys().next().map(|object| format!(".{object}")),
        _ => Some(String::new()),
    }
}

fn is_paused(cluster: &RabbitmqCluster) -> bool {
    cluster.labels().get(PAUSED.0).is_some_and(|value| value == PAUSED.1)
}

/// The secrets that the cluster has, or new ones.
async fn secrets(client: &Client, cluster: &RabbitmqCluster) -> Result<Secrets, Error> {
    let names = Names::of(cluster);
    let mut cookie = objects::secret(client, &names.namespace, &names.cookie()).await?.unwrap_or_default();
    let cookie = cookie.remove(".erlang.cookie").unwrap_or_else(generated::password);
    let secret = first_user_secret(cluster);
    let mut had = objects::secret(client, &names.namespace, &secret).await?;
    if cluster.spec.secret_backend.as_ref().is_some_and(|backend| backend.external_secret.is_some()) {
        let whole = had
            .is_some_and(|had| ["username", "password", "default_user.conf"].iter().all(|key| had.contains_key(*key)));
        return if whole {
            Ok(Secrets { cookie, first_user: None })
        } else {
            Err(Error::Missing(format!(
                "spec.secretBackend.externalSecret: the Secret {secret} with username, password and default_user.conf is not there"
            )))
        };
    }
    let first_user = first_user(&cookie, &mut had.take().unwrap_or_default());
    Ok(Secrets { cookie, first_user: Some(first_user) })
}

/// Name and password of the first user. Brokers know those that they began with, so a Secret that is lost must get the same
/// again: they are derived from the cookie of the cluster, which may do everything with its brokers anyway.
fn first_user(cookie: &str, had: &mut BTreeMap<String, String>) -> (String, String) {
    let user = had.remove("username");
    let user = user.unwrap_or_else(|| format!("default_user_{}", &generated::derived(cookie, "username")[..12]));
    let password = had.remove("password").unwrap_or_else(|| generated::derived(cookie, "password"));
    (user, password)
}

/// What there is to say of a cluster.
fn status(cluster: &RabbitmqCluster, seen: &Seen, reconciled: ConditionState, now: Timestamp) -> RabbitmqClusterStatus {
    let names = Names::of(cluster);
    let before = cluster.status.clone().unwrap_or_default();
    let members = names.members;
    let replicas = match (&seen.brokers, seen.ready()) {
        (None, _) => ConditionState::unmet(ALL_REPLICAS_READY, "MissingStatefulSet", "Could not find StatefulSet"),
        (Some(_), _) if members == 0 => {
            ConditionState::unmet(ALL_REPLICAS_READY, "ScaledToZero", "the cluster has no members")
        }
        (Some(_), ready) if ready < members => {
            ConditionState::unmet(ALL_REPLICAS_READY, "NotAllPodsReady", format!("{ready}/{members} Pods ready"))
        }
        _ => ConditionState::met(ALL_REPLICAS_READY, "AllPodsAreReady", ""),
    };
    let available = if seen.endpoints > 0 {
        ConditionState::met(CLUSTER_AVAILABLE, "AtLeastOneEndpointAvailable", "")
    } else {
        ConditionState::unmet(CLUSTER_AVAILABLE, "NoEndpointsAvailable", "The service has no endpoints available")
    };
    let warnings = if is_paused(cluster) {
        ConditionState::unmet(NO_WARNINGS, "reconciliation paused", "")
    } else {
        ConditionState::met(NO_WARNINGS, "NoWarnings", "")
    };
    let conditions = [replicas, available, warnings, reconciled].map(|said| -> Condition {
        // This kind's conditions do not say which generation they are about; the status does.
        said.to_condition(find(&before.conditions, &said.condition), None, now)
    });
    let secret = first_user_secret(cluster);
    let keys = ["username", "password"].map(|key| (key.to_owned(), key.to_owned())).into();
    RabbitmqClusterStatus {
        conditions: conditions.into(),
        observed_generation: cluster.metadata.generation,
        default_user: Some(DefaultUser {
            secret_reference: Some(DefaultUserSecret {
                name: secret.clone(),
                namespace: names.namespace.clone(),
                keys,
            }),
            service_reference: Some(DefaultUserService {
                name: names.cluster.clone(),
                namespace: names.namespace.clone(),
            }),
        }),
        binding: Some(NamedRef::new(secret)),
        quorum_status: Some(quorum(seen.ready(), members)),
    }
}

/// How many members can be lost, in the words of the genuine operator.
fn quorum(ready: i32, members: i32) -> String {
    match members - ready {
        0 if members > 0 => "ok".to_owned(),
        missing if ready > members / 2 + 1 => format!("ok ({missing} unavailable)"),
        missing if ready > members / 2 => format!("quorum-critical: {missing} of {members} unavailable"),
        _ => "unavailable".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::cluster;
    use c5c3_api::ext::Readiness;
    use serde_json::json;

    fn seen(ready: i32, replicas: i32, endpoints: usize) -> Seen {
        let brokers = json!({
            "metadata": {"generation": 2}, "spec": {"replicas": replicas, "selector": {}, "template": {}},
            "status": {"observedGeneration": 2, "replicas": replicas, "readyReplicas": ready},
        });
        Seen { brokers: Some(serde_json::from_value(brokers).unwrap()), endpoints }
    }

    #[test]
    fn a_first_user_whose_secret_is_lost_is_the_one_that_the_brokers_know() {
        let made = first_user("cookie", &mut BTreeMap::new());
        assert_eq!(first_user("cookie", &mut BTreeMap::new()), made);
        let mut had = BTreeMap::from([("password".to_owned(), "chosen".to_owned())]);
        assert_eq!(first_user("cookie", &mut had), (made.0, "chosen".to_owned()));
    }

    fn success() -> ConditionState {
        ConditionState::met(RECONCILE_SUCCESS, "Success", "")
    }

    #[test]
    fn a_cluster_is_ready_in_the_words_of_the_genuine_operator() {
        let mut cluster = cluster(json!({"replicas": 3}));
        for (ready, quorum, is_ready) in [
            (0, "unavailable", false),
            (1, "unavailable", false),
            (2, "quorum-critical: 1 of 3 unavailable", false),
            (3, "ok", true),
        ] {
            let endpoints = usize::try_from(ready).unwrap();
            let status = status(&cluster, &seen(ready, 3, endpoints), success(), Timestamp::UNIX_EPOCH);
            assert_eq!(status.quorum_status.as_deref(), Some(quorum));
            cluster.status = Some(status);
            assert_eq!(cluster.readiness().is_yes(), is_ready, "{ready} ready");
        }
    }

    #[test]
    fn the_status_names_the_secret_and_the_service_of_the_first_user() {
        let status = status(&cluster(json!({})), &seen(1, 1, 1), success(), Timestamp::UNIX_EPOCH);
        insta::assert_snapshot!(serde_json::to_string_pretty(&status).unwrap());
    }

    #[test]
    fn nobody_shrinks_a_cluster_and_scaling_to_zero_is_no_shrinking() {
        let said = refused(&cluster(json!({"replicas": 1})), &seen(3, 3, 3)).unwrap();
        assert_eq!(said.reason, "UnsupportedOperation");
        assert_eq!(refused(&cluster(json!({"replicas": 0})), &seen(3, 3, 3)), None);
        assert_eq!(refused(&cluster(json!({"replicas": 3})), &seen(1, 1, 1)), None);
    }

    #[test]
    fn what_the_embedded_cluster_does_not_provide_is_refused_by_name() {
        let tls = |tls: Value| refused(&cluster(json!({ "tls": tls })), &Seen::default());
        let said = tls(json!({"disableNonTLSListeners": true})).unwrap();
        assert!(said.message.starts_with("spec.tls.disableNonTLSListeners"));
        assert_eq!(tls(json!({"disableNonTLSListeners": true, "secretName": "burrow-tls"})), None);
        let patched = |patches: Value| refused(&cluster(json!({"override": patches})), &Seen::default());
        let said = patched(json!({"statefulSet": {"spec": {"replicas": 5}}})).unwrap();
        assert!(said.message.starts_with("spec.override.statefulSet:"));
        assert_eq!(patched(json!({})), None);
    }
}
