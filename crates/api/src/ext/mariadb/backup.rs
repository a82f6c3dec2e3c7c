//! Backup and Restore: the databases of a MariaDB as SQL on a volume, and back.
//!
//! mariadb-operator reports how both end in the condition `Complete`. It is true of a Job that has failed as well: the
//! reason `JobFailed` tells them apart. Of a Backup with a schedule it is about the last run.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Toleration, VolumeResourceRequirements};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::OPERATOR;
use crate::blocks::Resources;
use crate::ext::readiness::Judge;
use crate::ext::{Conditions, NamedRef, Readiness, Ready};

/// The condition of both kinds.
const COMPLETE: &str = "Complete";

/// The reason of a `Complete` that is true and means that nothing was done.
pub const JOB_FAILED: &str = "JobFailed";

/// A backup, once or by a schedule.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "k8s.mariadb.com",
    version = "v1alpha1",
    kind = "Backup",
    plural = "backups",
    namespaced,
    status = "Conditions",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct BackupSpec {
    /// What is backed up.
    #[serde(default)]
    pub maria_db_ref: BackedUpRef,
    /// Where the backups are kept.
    #[serde(default)]
    pub storage: BackupStorage,
    /// When one is made; once, at once, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<BackupSchedule>,
    /// The time zone of the schedule, such as `Europe/Berlin`; that of the cluster when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// How old a backup gets before a later one removes it, such as `720h`; 30 days when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retention: Option<String>,
    /// Which databases; all of them, and the accounts, when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub databases: Vec<String>,
    /// Whether accounts are left out; so when absent if the MariaDB is a Galera cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignore_global_priv: Option<bool>,
    /// How a backup is compressed; not at all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<Compression>,
    /// The pods that do it.
    #[serde(flatten)]
    pub pods: BackupPods,
    /// How many Jobs that succeeded a schedule keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub successful_jobs_history_limit: Option<i32>,
    /// How many Jobs that failed a schedule keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_jobs_history_limit: Option<i32>,
    /// Fields that are not modelled: read, so that they can be named, and never written.
    #[serde(flatten)]
    pub others: BTreeMap<String, Value>,
}

/// Loading a backup into a MariaDB, once.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "k8s.mariadb.com",
    version = "v1alpha1",
    kind = "Restore",
    plural = "restores",
    namespaced,
    status = "Conditions",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct RestoreSpec {
    /// What it is loaded into.
    #[serde(default)]
    pub maria_db_ref: BackedUpRef,
    /// The Backup whose volume it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_ref: Option<NamedRef>,
    /// A volume that has backups, where no Backup is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<Value>,
    /// The one database that is loaded, which must be there; all of the backup when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// The time to go back to: the backup that is closest to it is taken. The latest one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_recovery_time: Option<String>,
    /// The pods that do it.
    #[serde(flatten)]
    pub pods: BackupPods,
    /// Fields that are not modelled: read, so that they can be named, and never written.
    #[serde(flatten)]
    pub others: BTreeMap<String, Value>,
}

/// The server that a backup is of, or goes into.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackedUpRef {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its namespace; that of the referring object when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// `MariaDB` or `ExternalMariaDB`; `MariaDB` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Whether to wait until it is ready; so when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_for_it: Option<bool>,
}

/// Where backups are kept: one of these.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupStorage {
    /// A claim, which the operator makes with the name of the Backup, and which outlives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim: Option<BackupClaim>,
    /// A volume as pods write it, without a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<Value>,
    /// A bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<Value>,
}

/// A claim for backups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupClaim {
    /// How it can be mounted, such as `ReadWriteOnce`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access_modes: Vec<String>,
    /// Its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<VolumeResourceRequirements>,
    /// Labels that its volume must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Its storage class; the cluster's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
}

/// When backups are made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupSchedule {
    /// As a CronJob has it.
    #[serde(default)]
    pub cron: String,
    /// Whether none is made for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
}

words! {
    /// How a backup is compressed.
    Compression {
        /// Not at all.
        None = "none",
        /// By bzip2.
        Bzip2 = "bzip2",
        /// By gzip.
        Gzip = "gzip",
    }
}

words! {
    /// What becomes of a container that has failed.
    RestartPolicy {
        /// It is started again.
        Always = "Always",
        /// It is started again in the same pod.
        OnFailure = "OnFailure",
        /// Another pod is made.
        Never = "Never",
    }
}

/// The pods of a Job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupPods {
    /// How often it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<i32>,
    /// What becomes of a container that has failed; `OnFailure` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<RestartPolicy>,
    /// How much is written to the log; `info` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_level: Option<String>,
    /// CPU and memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Labels that a Kubernetes node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that are tolerated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Their priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
}

macro_rules! ready_when_complete {
    ($($kind:ty),+) => {
        $(impl Readiness for $kind {
            fn readiness(&self) -> Ready {
                Judge::judge(OPERATOR, &self.metadata, self.status.as_ref(), complete)
            }
        })+
    };
}

ready_when_complete!(Backup, Restore);

fn complete(judge: &Judge, status: &Conditions) -> Result<(), Ready> {
    let said = status.conditions.iter().find(|condition| condition.r#type == COMPLETE);
    if let Some(said) = said.filter(|said| said.reason.as_deref() == Some(JOB_FAILED)) {
        return Err(Ready::no(JOB_FAILED, said.message.clone().unwrap_or_default()));
    }
    judge.holds(&status.conditions, COMPLETE)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn backup(status: &str, reason: &str) -> Backup {
        let condition = json!({"type": "Complete", "status": status, "reason": reason, "message": "as it is"});
        let spec = json!({"mariaDbRef": {"name": "ledger"}, "storage": {}, "args": ["--verbose"], "backoffLimit": 3});
        serde_json::from_value(json!({"apiVersion": "k8s.mariadb.com/v1alpha1", "kind": "Backup",
            "metadata": {"name": "nightly"}, "spec": spec, "status": {"conditions": [condition]}}))
        .unwrap()
    }

    #[test]
    fn a_backup_that_failed_is_complete_and_not_ready() {
        assert!(backup("True", "JobComplete").readiness().is_yes());
        assert_eq!(backup("True", "JobFailed").readiness(), Ready::no("JobFailed", "as it is"));
        assert_eq!(backup("False", "JobRunning").readiness(), Ready::no("JobRunning", "as it is"));
    }

    #[test]
    fn fields_that_are_not_modelled_are_known_by_name() {
        let backup = backup("True", "JobComplete");
        assert_eq!(backup.spec.others.keys().collect::<Vec<_>>(), ["args"]);
        assert_eq!(backup.spec.pods.backoff_limit, Some(3));
    }
}
