//! Pools of a Ceph cluster that a service stores its data in: with which key, and whether they can be used.
//!
//! Whether they can be used is asked of the API's pods, where the client of Ceph is the service's own (`pools.py`, which
//! `health.py` runs at `/pools`): one answer says it of each pool. A condition says that a pool is gone; no pod is taken out of
//! service for it.

use c5c3_api::blocks::{CephRbd, ConditionStatus};
use c5c3_api::openstack::ServiceObject;
use c5c3_kit::condition::ConditionState;
use c5c3_kit::probe::Answer;
use c5c3_kit::{Inputs, Ref, Step, Wait};
use k8s_openapi::api::core::v1::Secret;
use kube::Resource;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::instance::Instance;
use crate::network::Egress;
use crate::rotated_account::{RotatedAccount, RotatedAccounts};
use crate::service::Service;
use crate::service_plan::ServicePlan;

/// The condition that says whether the pools can be used.
pub const CONDITION: &str = "CephConnected";

/// The path of `health.py` that says whether the pools can be used.
pub const PATH: &str = "/pools";

/// The program that asks: `pools.py SETTINGS`.
pub(crate) const ASK: &str = include_str!("pools.py");

/// Why a pool cannot be used, as `pools.py` says it.
pub(crate) const REASONS: [&str; 3] = ["PoolNotFound", "AccessDenied", "Unreachable"];

/// The reasons of a pool that can be used, and of pools that nothing is known of.
const ACCESSIBLE: &str = "PoolAccessible";
const NOT_ANSWERING: &str = "NotAnswering";
const NOT_ASKED: &str = "NotAskedYet";

/// How long a client looks for a monitor before it gives up, in seconds. What is under way when daemons restart is waited for.
const CONNECT_SECONDS: i32 = 30;

/// The ports of monitors, and those of all other daemons.
const MONITORS: [i32; 2] = [3300, 6789];
const DAEMONS: (i32, i32) = (6800, 7568);

/// A pool, and who a service is there.
#[derive(Clone, Debug)]
pub struct Pool {
    /// What the service calls it: the name of a store or a backend.
    pub name: String,
    /// The pool.
    pub pool: String,
    /// How messages call what is stored there.
    purpose: String,
    service: &'static str,
    user: Option<String>,
    /// The CephClient whose key is in the Secret.
    client: Option<(String, Option<String>)>,
    secret: Ref,
    key: String,
}

/// A pool whose key and monitors are known.
#[derive(Clone, Debug)]
pub struct PoolConnection {
    /// What the service calls it.
    pub name: String,
    /// The pool.
    pub pool: String,
    /// The user, without `client.`.
    pub user: String,
    cluster: String,
    monitors: String,
    key: SecretString,
    /// The users that are known of the Secret.
    pub(crate) rotated: RotatedAccounts,
    secret: String,
}

impl Pool {
    /// The pool of a spec, or the conventional one with the keys of the Secret `<service>-ceph-credentials`.
    pub fn new(instance: &Instance, name: impl Into<String>, spec: Option<&CephRbd>, pool: &str) -> Self {
        let given = spec.map(|spec| &spec.ceph_secret_ref);
        let secret =
            given.map_or_else(|| format!("{}-ceph-credentials", instance.service), |secret| secret.name.to_string());
        let client = spec.and_then(|spec| spec.ceph_client_ref.as_ref());
        let client = client.map(|client| (client.name.to_string(), client.namespace.as_ref().map(ToString::to_string)));
        let name = name.into();
        Self {
            purpose: name.clone(),
            name,
            pool: spec.and_then(|spec| spec.pool.clone()).unwrap_or_else(|| pool.to_owned()),
            service: instance.service,
            user: spec.and_then(|spec| spec.user.clone()),
            client,
            secret: Ref::namespaced::<Secret>(&instance.namespace, secret),
            key: given.and_then(|secret| secret.key.as_ref()).map_or_else(|| "key".into(), ToString::to_string),
        }
    }

    /// How messages call what is stored there, such as "the backend fast", in the place of its name.
    pub fn purpose(self, purpose: impl Into<String>) -> Self {
        Self { purpose: purpose.into(), ..self }
    }

    /// What has to be read.
    pub(crate) fn needs<K: Resource>(&self, inputs: &Inputs<K>) -> Vec<Ref> {
        [self.secret.clone()].into_iter().chain(RotatedAccounts::needs(inputs, &self.secret)).collect()
    }

    /// The key and the monitors, or the waits for them.
    pub(crate) fn connect<K: Resource>(&self, inputs: &Inputs<K>) -> Result<PoolConnection, Vec<Wait>> {
        let because = |wait: Wait| {
            let wait = wait.because(format!("data is stored in the Ceph pool {} with it", self.pool));
            let wait = wait.with_reason("WaitingForCephCredentials");
            let Some((client, namespace)) = &self.client else { return wait };
            let namespace = namespace.as_ref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
            wait.look_at(format!("kubectl describe cephclient {client}{namespace}"))
        };
        let value = |key: &str| inputs.secret(&self.secret, key).map_err(because);
        let optional = |key: &str| inputs.secret(&self.secret, key).ok().map(|value| value.expose_secret().to_owned());
        let conventional = || self.client.as_ref().map_or_else(|| self.service.to_owned(), |(name, _)| name.clone());
        let rotated = RotatedAccounts::find(inputs, &self.secret).map_err(|wait| vec![because(wait)])?;
        match (value(&self.key), value("monitors")) {
            (Ok(key), Ok(monitors)) if one_line(&key) && one_line(&monitors) => {
                let monitors = monitors.expose_secret().trim().to_owned();
                Ok(PoolConnection {
                    name: self.name.clone(),
                    pool: self.pool.clone(),
                    user: self.user.clone().or_else(|| optional("userID")).unwrap_or_else(conventional),
                    cluster: optional("fsid").unwrap_or_else(|| monitors.clone()),
                    monitors,
                    key,
                    rotated,
                    secret: self.secret.name.clone(),
                })
            }
            (Ok(_), Ok(_)) => {
                let wait = Wait::on(&self.secret).condition("can be written to a file");
                Err(vec![because(wait.now("has a value of several lines")).failed("Malformed")])
            }
            (key, monitors) => {
                let mut waits: Vec<Wait> = [key.err(), monitors.err()].into_iter().flatten().collect();
                waits.dedup();
                Err(waits)
            }
        }
    }
}

impl PoolConnection {
    /// The file that a client of the pool is configured with.
    pub fn conf(&self, folder: &str) -> String {
        format!("{folder}/ceph-{}.conf", self.name)
    }

    /// The UUID of the secret that libvirt has the key under: the same wherever the same user of the same cluster is meant.
    pub fn secret_uuid(&self) -> Uuid {
        Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{}/client.{}", self.cluster, self.user).as_bytes())
    }

    /// The files that libvirt reads the key from, as their names in its folder of secrets and their contents.
    pub fn libvirt_secret(&self) -> [(String, SecretString); 2] {
        let uuid = self.secret_uuid();
        let usage = format!("<usage type='ceph'><name>{uuid}</name></usage>");
        let secret = format!("<secret ephemeral='no' private='yes'><uuid>{uuid}</uuid>{usage}</secret>\n");
        let key = self.key.expose_secret().trim().to_owned();
        [(format!("{uuid}.xml"), secret.into()), (format!("{uuid}.base64"), key.into())]
    }

    /// The files of the client: its configuration and its key.
    pub fn files(&self, folder: &str) -> [(String, SecretString); 2] {
        let Self { name, user, monitors, key, .. } = self;
        let keyring = format!("ceph-{name}.keyring");
        let conf = format!(
            "[global]\nmon_host = {monitors}\nkeyring = {folder}/{keyring}\nclient_mount_timeout = {CONNECT_SECONDS}\n"
        );
        let key = format!("[client.{user}]\nkey = {}\n", key.expose_secret().trim());
        [(format!("ceph-{name}.conf"), conf.into()), (keyring, key.into())]
    }

    /// The Secret that its key is in.
    pub(crate) fn secret(&self) -> &str {
        &self.secret
    }

    /// How `accounts.py` tries a user.
    pub(crate) fn connection_of(&self, account: &RotatedAccount) -> Value {
        json!({"mon_host": self.monitors, "user": account.username, "key": account.password.expose_secret().trim()})
    }

    /// What `pools.py` has to know.
    pub(crate) fn settings(&self, folder: &str) -> Value {
        json!({"name": self.name, "pool": self.pool, "user": self.user, "conf": self.conf(folder)})
    }

    /// What pods have to reach. Where the daemons are is Ceph's own business.
    pub(crate) fn egress() -> Vec<Egress> {
        let (first, last) = DAEMONS;
        let daemons = Egress { end_port: Some(last), ..Egress::new(None, first) };
        MONITORS.map(|port| Egress::new(None, port)).into_iter().chain([daemons]).collect()
    }
}

/// What is known of the pools of a service.
#[derive(Debug, PartialEq, Eq)]
enum Known<'a> {
    /// Those that cannot be used, by the name that the service calls them, and what is wrong; the others can.
    Faults(Vec<(&'a str, &'a str)>),
    /// No pod answered for any of them.
    Nothing(&'a str),
    /// No pod was asked.
    NotAsked,
}

impl<'a> Known<'a> {
    /// Reads what `pools.py` printed. Pods of an earlier version name no pool.
    fn of(pools: &'a [Pool], answer: Option<&'a Answer>) -> Self {
        let said = match answer {
            None => return Self::NotAsked,
            Some(Ok(_)) => return Self::Faults(Vec::new()),
            Some(Err(said)) => said.trim(),
        };
        let fault = |pool: &'a Pool| {
            let mut of_pool = said.lines().filter_map(|line| line.strip_prefix(&pool.name)?.strip_prefix(": "));
            Some((pool.name.as_str(), of_pool.next()?.trim()))
        };
        let faults: Vec<_> = pools.iter().filter_map(fault).collect();
        if faults.is_empty() { Self::Nothing(said) } else { Self::Faults(faults) }
    }
}

/// The reason of a condition in what was said.
fn reason(said: &str) -> &'static str {
    REASONS.into_iter().find(|reason| said.contains(reason)).unwrap_or(NOT_ANSWERING)
}

impl<S: Service> ServicePlan<'_, S> {
    fn known_of_pools(&self) -> Known<'_> {
        let answer = self.parts.pools_probe().and_then(|probe| self.inputs.answer(&probe));
        Known::of(&self.parts.description.pools, answer)
    }

    /// Whether a pool can be used, by the name that the service calls it.
    pub fn pool_state(&self, name: &str) -> ConditionState {
        let unknown = |reason: &str, said: &str| ConditionState {
            status: ConditionStatus::Unknown,
            ..ConditionState::unmet(CONDITION, reason, said)
        };
        match self.known_of_pools() {
            Known::NotAsked => unknown(NOT_ASKED, "no pod of the API has been asked yet"),
            Known::Nothing(said) => unknown(reason(said), said),
            Known::Faults(faults) => match faults.into_iter().find(|(pool, _)| *pool == name) {
                Some((_, said)) => ConditionState::unmet(CONDITION, reason(said), said),
                None => ConditionState::met(CONDITION, ACCESSIBLE, "the Ceph pool can be used"),
            },
        }
    }

    /// Whether the pools can be used; no step for a service that knows no Ceph. Pods do not wait for it: a pool that comes back
    /// finds them there.
    pub(crate) fn pools(&self) -> Option<Step> {
        if !S::CONDITIONS.contains(&CONDITION) {
            return None;
        }
        let step = Step::new(CONDITION).reasons(ACCESSIBLE, "PoolNotChecked");
        let (Some(_), Some(component)) = (self.parts.pools_probe(), self.parts.api_component()) else {
            return Some(step.node("pools", []).childless().done("nothing is stored in Ceph"));
        };
        let needs = if self.parts.serves(self.inputs) { Vec::new() } else { vec![component.step.clone()] };
        let step = step.node("pools", needs).childless().done("every Ceph pool can be used");
        if component.replicas == 0 && self.parts.object.exposure().autoscaling.is_none() {
            return Some(step.done("switched off"));
        }
        let wait = Wait::on(&self.parts.workload(component)).condition("can use its Ceph pools");
        let wait = wait.because("data is stored there");
        let purpose = |name: &str| {
            let pool = self.parts.description.pools.iter().find(|pool| pool.name == name);
            pool.map_or(name, |pool| pool.purpose.as_str()).to_owned()
        };
        Some(match self.known_of_pools() {
            Known::NotAsked => step.wait(wait.now("has not been asked yet").with_reason(NOT_ASKED)),
            Known::Nothing(said) => step.wait(wait.now(format!("says: {said}")).with_reason(reason(said))),
            Known::Faults(faults) => faults.into_iter().fold(step, |step, (name, said)| {
                let purpose = purpose(name);
                let wait = wait.clone().condition(format!("can use the Ceph pool of {purpose}"));
                step.wait(wait.now(format!("says of {purpose}: {said}")).with_reason(reason(said)))
            }),
        })
    }
}

fn one_line(value: &SecretString) -> bool {
    !value.expose_secret().trim().chars().any(char::is_control)
}
