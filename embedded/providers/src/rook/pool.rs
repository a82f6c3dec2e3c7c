//! Looks after CephBlockPools.

use std::collections::BTreeMap;
use std::time::Duration;

use c5c3_api::blocks::Condition;
use c5c3_api::ext::rook::{CephBlockPool, CephBlockPoolSpec, CephBlockPoolStatus};
use c5c3_kit::condition::{ConditionState, find};
use jiff::Timestamp;
use kube::runtime::controller::Action;
use kube::{Client, ResourceExt};
use serde::Deserialize;
use serde_json::Value;

use super::ceph::{Ceph, Command};
use super::{Home, MANAGER, home};
use crate::failure::Error;
use crate::objects;
use crate::pods::bytes;
use crate::queue::RESYNC;

/// Keeps a pool until it is deleted in Ceph; the name that Rook gives it.
const FINALIZER: &str = "cephblockpool.ceph.rook.io";

/// How often it is looked for what a pool waits for, besides changes of its cluster.
const SOON: Duration = Duration::from_secs(5);

/// Placement groups of a pool that does not say.
const PLACEMENT_GROUPS: &str = "8";

/// A pool as Ceph knows it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Known {
    pool_name: String,
    pool_id: i64,
    size: i32,
    min_size: i32,
    quota_max_bytes: i64,
    quota_max_objects: i64,
    application_metadata: BTreeMap<String, Value>,
}

/// A pool that can be had.
#[derive(Clone, Debug, PartialEq)]
struct Wanted {
    name: String,
    size: i32,
    failure_domain: String,
    class: Option<String>,
    application: String,
    max_bytes: i64,
    max_objects: i64,
    parameters: BTreeMap<String, String>,
}

impl Wanted {
    /// What a pool asks for; or which field cannot be had, and what to write instead.
    fn of(name: &str, spec: &CephBlockPoolSpec) -> Result<Self, String> {
        if spec.erasure_coded.as_ref().is_some_and(|coded| coded["dataChunks"].as_i64().unwrap_or(0) > 0) {
            return Err("spec.erasureCoded: is not provided on the embedded cluster; write spec.replicated".into());
        }
        if spec.mirroring.as_ref().is_some_and(|mirroring| mirroring.enabled == Some(true)) {
            return Err("spec.mirroring: the embedded cluster has no other site; leave it out".into());
        }
        let Some(replicated) = spec.replicated.as_ref().filter(|replicated| replicated.size > 0) else {
            return Err("spec.replicated.size: a pool needs copies; write 1 for one disk, or 3".into());
        };
        if replicated.size == 1 && replicated.require_safe_replica_size == Some(true) {
            return Err(
                "spec.replicated.requireSafeReplicaSize: one copy is not safe; write false, or another size".into()
            );
        }
        let quotas = spec.quotas.clone().unwrap_or_default();
        let size = quotas.max_size.as_deref().map(|size| i64::try_from(bytes(size)).unwrap_or(i64::MAX));
        if size == Some(0) && quotas.max_size.as_deref() != Some("0") {
            return Err("spec.quotas.maxSize: is no size; write one such as 10Gi".into());
        }
        Ok(Self {
            name: spec.name.clone().unwrap_or_else(|| name.to_owned()),
            size: replicated.size,
            failure_domain: spec.failure_domain.clone().unwrap_or_else(|| "host".into()),
            class: spec.device_class.clone().filter(|class| !class.is_empty()),
            application: spec.application.clone().filter(|it| !it.is_empty()).unwrap_or_else(|| "rbd".into()),
            max_bytes: size.or(quotas.max_bytes).unwrap_or(0),
            max_objects: quotas.max_objects.unwrap_or(0),
            parameters: spec.parameters.clone(),
        })
    }

    /// The rule by which copies are spread, named after what it does.
    fn rule(&self) -> String {
        [Some(&self.name), Some(&self.failure_domain), self.class.as_ref()]
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join("_")
    }

    /// The commands that bring a pool to what it should be. Parameters are set each time: Ceph reports them in other
    /// words than they are set.
    fn commands(&self, known: Option<&Known>) -> Vec<Command> {
        let (pool, rule) = (self.name.as_str(), self.rule());
        let mut rule_command =
            vec!["osd", "crush", "rule", "create-replicated", &rule, "default", &self.failure_domain];
        rule_command.extend(self.class.as_deref());
        let mut commands = vec![Command::ceph(rule_command)];
        let set = |name: &str, value: &str| Command::ceph(["osd", "pool", "set", pool, name, value]);
        let groups = self.parameters.get("pg_num").map_or(PLACEMENT_GROUPS, String::as_str);
        match known {
            None => {
                let create = ["osd", "pool", "create", pool, groups, groups, "replicated", &rule];
                commands.push(Command::ceph(create));
            }
            Some(_) => commands.push(set("crush_rule", &rule)),
        }
        let least = if self.size < 3 { 1 } else { 2 };
        if known.is_none_or(|known| known.size != self.size || known.min_size != least) {
            let (size, least) = (self.size.to_string(), least.to_string());
            commands.push(Command::ceph(["osd", "pool", "set", pool, "size", &size, "--yes-i-really-mean-it"]));
            commands.push(set("min_size", &least));
        }
        if !known.is_some_and(|known| known.application_metadata.contains_key(&self.application)) {
            commands.push(if self.application == "rbd" {
                Command::of(["rbd", "pool", "init", pool])
            } else {
                Command::ceph(["osd", "pool", "application", "enable", pool, &self.application])
            });
        }
        let quota =
            |name: &str, limit: i64| Command::ceph(["osd", "pool", "set-quota", pool, name, &limit.to_string()]);
        if known.map_or(0, |known| known.quota_max_bytes) != self.max_bytes {
            commands.push(quota("max_bytes", self.max_bytes));
        }
        if known.map_or(0, |known| known.quota_max_objects) != self.max_objects {
            commands.push(quota("max_objects", self.max_objects));
        }
        commands.extend(self.parameters.iter().map(|(name, value)| set(name, value)));
        commands
    }
}

/// Brings a pool to what its object says, and says how far it got.
pub(super) async fn reconcile(pool: CephBlockPool, client: Client) -> Result<Action, Error> {
    let namespace = pool.namespace().unwrap_or_default();
    let home = home(&client, &namespace).await?;
    if pool.metadata.deletion_timestamp.is_some() {
        return farewell(&pool, &client, home).await;
    }
    let told = |status: CephBlockPoolStatus| {
        let client = client.clone();
        let pool = pool.clone();
        async move { objects::report(&client, &pool, MANAGER, pool.status.as_ref(), &status).await }
    };
    let wanted = match Wanted::of(&pool.name_any(), &pool.spec) {
        Ok(wanted) => wanted,
        Err(refused) => {
            told(status(&pool, "Failure", None, Some(&refused))).await?;
            return Ok(Action::await_change());
        }
    };
    let ceph = match home {
        Home::Ready(ceph) => ceph,
        Home::Waits(why) => {
            told(status(&pool, "Progressing", None, Some(&why))).await?;
            return Ok(Action::requeue(SOON));
        }
        Home::Gone => {
            let why = format!("there is no CephCluster in the namespace {namespace}; create one");
            told(status(&pool, "Progressing", None, Some(&why))).await?;
            return Ok(Action::requeue(SOON));
        }
    };
    if !pool.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
        objects::hold(&client, &pool, FINALIZER, true).await?;
        return Ok(Action::await_change());
    }
    match make(&ceph, &wanted).await {
        Ok(known) => {
            told(status(&pool, "Ready", Some((&wanted, &known)), None)).await?;
            Ok(Action::requeue(RESYNC))
        }
        Err(error) => {
            told(status(&pool, "Failure", None, Some(&error.to_string()))).await?;
            Err(error)
        }
    }
}

async fn make(ceph: &Ceph, wanted: &Wanted) -> Result<Known, Error> {
    let known = find_pool(ceph, &wanted.name).await?;
    ceph.run_all(&wanted.commands(known.as_ref())).await?;
    let lost = || Error::Missing(format!("the pool {} is not there after it was made", wanted.name));
    find_pool(ceph, &wanted.name).await?.ok_or_else(lost)
}

async fn find_pool(ceph: &Ceph, name: &str) -> Result<Option<Known>, Error> {
    let pools: Vec<Known> = ceph.ask(&Command::ceph(["osd", "pool", "ls", "detail"])).await?;
    Ok(pools.into_iter().find(|pool| pool.pool_name == name))
}

/// Deletes a pool, unless images are in it.
async fn farewell(pool: &CephBlockPool, client: &Client, home: Home) -> Result<Action, Error> {
    let name = pool.pool().unwrap_or_default();
    match home {
        Home::Gone => {}
        Home::Waits(why) => {
            tracing::debug!(pool = name, why, "cannot be deleted yet");
            return Ok(Action::requeue(SOON));
        }
        Home::Ready(ceph) => {
            if find_pool(&ceph, name).await?.is_some() {
                let images: Vec<Value> = ceph.ask(&Command::of(["rbd", "ls", name, "--format", "json"])).await?;
                let trash = Command::of(["rbd", "trash", "ls", "--all", name, "--format", "json"]);
                let trash: Vec<Value> = ceph.ask(&trash).await?;
                if !images.is_empty() || !trash.is_empty() {
                    let why = format!(
                        "the pool {name} has {} images, and {} in its trash; delete them first",
                        images.len(),
                        trash.len()
                    );
                    let status = blocked(pool, &why);
                    objects::report(client, pool, MANAGER, pool.status.as_ref(), &status).await?;
                    return Ok(Action::requeue(SOON));
                }
                ceph.run_command(&Command::ceph([
                    "osd",
                    "pool",
                    "delete",
                    name,
                    name,
                    "--yes-i-really-really-mean-it",
                ]))
                .await?;
            }
        }
    }
    objects::hold(client, pool, FINALIZER, false).await?;
    Ok(Action::await_change())
}

/// The status in a phase. A pool that is not ready says why in a condition of the phase's name.
fn status(
    pool: &CephBlockPool,
    phase: &str,
    made: Option<(&Wanted, &Known)>,
    why: Option<&str>,
) -> CephBlockPoolStatus {
    let old = pool.status.clone().unwrap_or_default();
    let conditions = why.map(|why| condition(pool, &ConditionState::met(static_phase(phase), "ReconcileFailed", why)));
    let (pool_id, info) = match made {
        Some((wanted, known)) => {
            let info = [("type", "Replicated"), ("failureDomain", wanted.failure_domain.as_str())];
            (Some(known.pool_id), info.map(|(key, value)| (key.to_owned(), value.to_owned())).into())
        }
        None => (old.pool_id, old.info),
    };
    CephBlockPoolStatus {
        phase: Some(phase.to_owned()),
        observed_generation: pool.metadata.generation,
        pool_id,
        info,
        conditions: conditions.into_iter().collect(),
    }
}

fn static_phase(phase: &str) -> &'static str {
    if phase == "Failure" { "Failure" } else { "Progressing" }
}

/// The status of a pool that cannot be deleted.
fn blocked(pool: &CephBlockPool, why: &str) -> CephBlockPoolStatus {
    let said = ConditionState::met("DeletionIsBlocked", "ObjectHasDependents", why);
    CephBlockPoolStatus { conditions: vec![condition(pool, &said)], ..status(pool, "Deleting", None, None) }
}

fn condition(pool: &CephBlockPool, said: &ConditionState) -> Condition {
    let before = pool.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    said.to_condition(find(before, &said.condition), None, Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wanted(spec: Value) -> Result<Wanted, String> {
        Wanted::of("bricks", &serde_json::from_value(spec).unwrap())
    }

    fn text(commands: &[Command]) -> String {
        let lines = commands.iter().map(|command| format!("{command:?}"));
        lines.map(|line| line.replace("--connect-timeout 10 --format json ", "")).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_pool_is_made_once_and_changed_where_it_differs() {
        let pool = wanted(json!({"replicated": {"size": 1}, "failureDomain": "osd"})).unwrap();
        insta::assert_snapshot!(text(&pool.commands(None)), @r"
        ceph osd crush rule create-replicated bricks_osd default osd
        ceph osd pool create bricks 8 8 replicated bricks_osd
        ceph osd pool set bricks size 1 --yes-i-really-mean-it
        ceph osd pool set bricks min_size 1
        rbd pool init bricks
        ");
        let known = Known {
            pool_name: "bricks".into(),
            size: 1,
            min_size: 1,
            application_metadata: [("rbd".to_owned(), json!({}))].into(),
            ..Known::default()
        };
        let grown = json!({"replicated": {"size": 3}, "deviceClass": "ssd", "quotas": {"maxSize": "1Gi"},
            "parameters": {"compression_mode": "none"}});
        insta::assert_snapshot!(text(&wanted(grown).unwrap().commands(Some(&known))), @r"
        ceph osd crush rule create-replicated bricks_host_ssd default host ssd
        ceph osd pool set bricks crush_rule bricks_host_ssd
        ceph osd pool set bricks size 3 --yes-i-really-mean-it
        ceph osd pool set bricks min_size 2
        ceph osd pool set-quota bricks max_bytes 1073741824
        ceph osd pool set bricks compression_mode none
        ");
    }

    #[test]
    fn what_cannot_be_had_is_refused_by_its_field() {
        for (spec, field) in [
            (json!({}), "spec.replicated.size: "),
            (json!({"erasureCoded": {"dataChunks": 2, "codingChunks": 1}}), "spec.erasureCoded: "),
            (
                json!({"replicated": {"size": 1, "requireSafeReplicaSize": true}}),
                "spec.replicated.requireSafeReplicaSize: ",
            ),
            (json!({"replicated": {"size": 1}, "mirroring": {"enabled": true}}), "spec.mirroring: "),
            (json!({"replicated": {"size": 1}, "quotas": {"maxSize": "much"}}), "spec.quotas.maxSize: "),
        ] {
            let why = wanted(spec).unwrap_err();
            assert!(why.starts_with(field), "{why}");
        }
    }
}
