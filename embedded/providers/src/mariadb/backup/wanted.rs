//! What Backups and Restores ask for, with what they leave open filled in. What cannot be had is refused by its field.

use std::collections::BTreeMap;

use c5c3_api::blocks::Duration;
use c5c3_api::ext::mariadb::{
    BackedUpRef, Backup, BackupClaim, BackupPods, BackupSchedule, BackupStorage, Compression, RestartPolicy, Restore,
};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::Value;

/// Why nothing can be restored.
pub(super) const NO_SOURCE: &str = "spec: names neither backupRef nor volume; say where the backup is";

/// How old a file gets in minutes, unless a Backup says otherwise: 30 days.
const RETENTION: u64 = 30 * 24 * 60;

/// Where files of SQL are kept.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kept {
    /// In a claim of this name.
    Claim(String),
    /// In a volume, as a pod has it.
    Volume(Value),
}

/// What a Backup asks for.
#[derive(Clone, Debug)]
pub(super) struct BackupWanted {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) kept: Kept,
    /// What the claim is to be, if there is one.
    pub(super) claim: BackupClaim,
    pub(super) schedule: Option<BackupSchedule>,
    pub(super) time_zone: Option<String>,
    /// How old a file gets, in minutes.
    pub(super) retention: u64,
    pub(super) databases: Vec<String>,
    /// Whether accounts are left out; the server decides when absent.
    pub(super) no_accounts: Option<bool>,
    pub(super) gzip: bool,
    pub(super) history: (Option<i32>, Option<i32>),
    pub(super) pods: BackupPods,
}

/// What a Restore asks for.
#[derive(Clone, Debug)]
pub(super) struct RestoreWanted {
    pub(super) name: String,
    pub(super) namespace: String,
    /// The Backup whose files are used.
    pub(super) backup: Option<String>,
    /// Where files are, without a Backup.
    pub(super) kept: Option<Kept>,
    pub(super) database: Option<String>,
    /// The time to go back to, in seconds since 1970.
    pub(super) target: Option<i64>,
    pub(super) pods: BackupPods,
}

impl BackupWanted {
    /// Reads what is asked for.
    pub(super) fn of(backup: &Backup) -> Result<Self, String> {
        let spec = backup.spec.clone();
        let (name, namespace) = (backup.name_any(), backup.namespace().unwrap_or_default());
        refuse_others(&spec.others)?;
        same_namespace(&spec.maria_db_ref, &namespace)?;
        let BackupStorage { persistent_volume_claim, volume, s3 } = spec.storage;
        let (kept, claim) = match (persistent_volume_claim, volume, s3) {
            (_, _, Some(_)) => {
                return Err("spec.storage.s3: the embedded cluster writes backups to volumes only; set \
                            spec.storage.persistentVolumeClaim, and copy its files from there"
                    .into());
            }
            (Some(claim), None, None) => (Kept::Claim(name.clone()), claim),
            (None, Some(volume), None) => (Kept::Volume(volume), BackupClaim::default()),
            (Some(_), Some(_), None) => {
                return Err("spec.storage: has persistentVolumeClaim and volume; leave one of them out".into());
            }
            (None, None, None) => {
                return Err("spec.storage: is empty; set persistentVolumeClaim, with a size in \
                            resources.requests.storage and accessModes"
                    .into());
            }
        };
        let gzip = match spec.compression {
            None | Some(Compression::None) => false,
            Some(Compression::Gzip) => true,
            Some(Compression::Bzip2 | Compression::Unknown) => {
                return Err("spec.compression: the image has none and gzip".into());
            }
        };
        if let Some(bad) = spec.databases.iter().find(|name| name.is_empty() || name.contains(['\n', '\0'])) {
            return Err(format!("spec.databases: {bad:?} is no name of a database"));
        }
        Ok(Self {
            kept,
            claim,
            schedule: spec.schedule,
            time_zone: spec.time_zone,
            retention: retention(spec.max_retention.as_deref())?,
            databases: spec.databases,
            no_accounts: spec.ignore_global_priv,
            gzip,
            history: (spec.successful_jobs_history_limit, spec.failed_jobs_history_limit),
            pods: pods(spec.pods)?,
            name,
            namespace,
        })
    }
}

impl RestoreWanted {
    /// Reads what is asked for.
    pub(super) fn of(restore: &Restore) -> Result<Self, String> {
        let spec = restore.spec.clone();
        let (name, namespace) = (restore.name_any(), restore.namespace().unwrap_or_default());
        refuse_others(&spec.others)?;
        same_namespace(&spec.maria_db_ref, &namespace)?;
        let backup = spec.backup_ref.map(|backup| backup.name).filter(|name| !name.is_empty());
        if backup.is_none() && spec.volume.is_none() {
            return Err(NO_SOURCE.into());
        }
        let target = spec.target_recovery_time.map(|text| {
            let time = text.parse::<Timestamp>();
            time.map(Timestamp::as_second)
                .map_err(|_| format!("spec.targetRecoveryTime: {text:?} is not a time such as 2026-01-31T12:00:00Z"))
        });
        Ok(Self {
            kept: spec.volume.map(Kept::Volume),
            backup,
            database: spec.database.filter(|name| !name.is_empty()),
            target: target.transpose()?,
            pods: pods(spec.pods)?,
            name,
            namespace,
        })
    }
}

/// Says of the first field that nothing here knows that it is not provided.
fn refuse_others(others: &BTreeMap<String, Value>) -> Result<(), String> {
    match others.keys().next() {
        None => Ok(()),
        Some(field) => Err(format!("spec.{field}: is not provided on the embedded cluster; leave it out")),
    }
}

/// A pod mounts Secrets of its own namespace only.
fn same_namespace(server: &BackedUpRef, namespace: &str) -> Result<(), String> {
    if let Some(kind) = server.kind.as_deref().filter(|kind| !["", "MariaDB"].contains(kind)) {
        return Err(format!("spec.mariaDbRef.kind: the embedded cluster has MariaDB only, and no {kind}"));
    }
    match server.namespace.as_deref() {
        Some(other) if other != namespace && !other.is_empty() => Err(format!(
            "spec.mariaDbRef.namespace: is {other}; on the embedded cluster this object has to be in the namespace of \
             its MariaDB, whose password it needs"
        )),
        _ => Ok(()),
    }
}

fn retention(asked: Option<&str>) -> Result<u64, String> {
    let Some(asked) = asked else { return Ok(RETENTION) };
    let asked = Duration::new(asked).map_err(|why| format!("spec.maxRetention: {why}"))?;
    match asked.get().as_secs() / 60 {
        0 => Err("spec.maxRetention: is less than a minute".into()),
        minutes => Ok(minutes),
    }
}

fn pods(asked: BackupPods) -> Result<BackupPods, String> {
    match asked.restart_policy {
        Some(RestartPolicy::Always | RestartPolicy::Unknown) => {
            Err("spec.restartPolicy: the pods of a Job have OnFailure or Never".into())
        }
        _ => Ok(asked),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::object;

    fn backup(mut spec: Value) -> Result<BackupWanted, String> {
        spec["mariaDbRef"] = spec.get("mariaDbRef").cloned().unwrap_or_else(|| json!({"name": "ledger"}));
        BackupWanted::of(&object("nightly", "vault", spec))
    }

    fn restore(spec: Value) -> Result<RestoreWanted, String> {
        RestoreWanted::of(&object("back", "vault", spec))
    }

    #[test]
    fn what_is_left_open_is_filled_in_as_mariadb_operator_does() {
        let wanted = backup(json!({"storage": {"persistentVolumeClaim": {}}})).unwrap();
        assert_eq!(wanted.kept, Kept::Claim("nightly".into()));
        assert_eq!((wanted.retention, wanted.gzip), (43_200, false));
        let wanted = backup(json!({"storage": {"volume": {"emptyDir": {}}}, "maxRetention": "1h30m"})).unwrap();
        assert_eq!((wanted.kept, wanted.retention), (Kept::Volume(json!({"emptyDir": {}})), 90));
    }

    #[test]
    fn what_cannot_be_had_is_refused_by_its_field() {
        let refused = |field: &str, value: Value| {
            let mut spec = json!({"storage": {"persistentVolumeClaim": {}}});
            spec[field] = value;
            backup(spec).map(drop).unwrap_err()
        };
        assert!(refused("storage", json!({"s3": {"bucket": "b"}})).starts_with("spec.storage.s3:"));
        assert!(refused("storage", json!({})).starts_with("spec.storage: is empty"));
        assert!(refused("args", json!(["--force"])).starts_with("spec.args: is not provided"));
        assert!(refused("stagingStorage", json!({})).starts_with("spec.stagingStorage:"));
        assert!(refused("compression", json!("bzip2")).starts_with("spec.compression:"));
        assert!(refused("maxRetention", json!("a month")).starts_with("spec.maxRetention:"));
        assert!(refused("maxRetention", json!("10s")).starts_with("spec.maxRetention:"));
        assert!(refused("restartPolicy", json!("Always")).starts_with("spec.restartPolicy:"));
        assert!(refused("databases", json!(["a\nb"])).starts_with("spec.databases:"));
        let elsewhere = json!({"name": "ledger", "namespace": "attic"});
        assert!(refused("mariaDbRef", elsewhere).starts_with("spec.mariaDbRef.namespace:"));
        let foreign = json!({"name": "ledger", "kind": "ExternalMariaDB"});
        assert!(refused("mariaDbRef", foreign).starts_with("spec.mariaDbRef.kind:"));
    }

    #[test]
    fn a_restore_names_its_source_and_a_time() {
        let server = json!({"name": "ledger"});
        assert_eq!(restore(json!({"mariaDbRef": server})).map(drop).unwrap_err(), NO_SOURCE);
        let source = json!({"name": "nightly"});
        let good = json!({"mariaDbRef": server, "backupRef": source, "targetRecoveryTime": "1970-01-01T00:01:00Z"});
        assert_eq!(restore(good.clone()).unwrap().target, Some(60));
        let mut bad = good.clone();
        bad["targetRecoveryTime"] = json!("yesterday");
        assert!(restore(bad).map(drop).unwrap_err().starts_with("spec.targetRecoveryTime:"));
        let mut bucket = good;
        bucket["s3"] = json!({"bucket": "b"});
        assert!(restore(bucket).map(drop).unwrap_err().starts_with("spec.s3:"));
    }
}
