//! The Jobs and CronJobs that Backups and Restores become. Pure. No password is in any of them: pods mount its Secret.

use c5c3_api::ext::mariadb::{BackupPods, MariaDB};
use c5c3_kit::Child;
use c5c3_kit::ownership::MANAGED_BY;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::wanted::{BackupWanted, Kept, RestoreWanted};
use crate::mariadb::wanted::Wanted;
use crate::mariadb::{MANAGER, tls};
use crate::objects::child;
use crate::pods::{container_security, pod_security};

const BACKUP: &str = include_str!("../scripts/backup.sh");
const RESTORE: &str = include_str!("../scripts/restore.sh");

/// How often a Restore is tried again, unless it says so itself.
const TRIES: i32 = 5;

/// The labels of what is made. A server's Service does not select it.
fn labels(name: &str, component: &str) -> Value {
    json!({"app.kubernetes.io/name": format!("mariadb-{component}"), "app.kubernetes.io/instance": name})
}

/// What a pod is to do.
pub(super) struct Pod {
    component: &'static str,
    template: Value,
}

/// The pod that makes a backup.
pub(super) fn backup(wanted: &BackupWanted, mariadb: &MariaDB, server: &Wanted) -> Pod {
    // The tables of accounts are no part of what the members of a Galera cluster have in common.
    let no_accounts = wanted.no_accounts.unwrap_or(server.galera) || !wanted.databases.is_empty();
    let verbose = wanted.pods.log_level.as_deref() == Some("debug");
    let variables = [
        ("DATABASES", wanted.databases.join("\n")),
        ("ACCOUNTS", u8::from(!no_accounts).to_string()),
        ("COMPRESSION", if wanted.gzip { "gzip" } else { "none" }.to_owned()),
        ("MINUTES", wanted.retention.to_string()),
        ("VERBOSE", if verbose { "--verbose" } else { "" }.to_owned()),
    ];
    let place = Place { kept: &wanted.kept, read_only: false };
    pod(("backup", BACKUP), &wanted.name, (mariadb, server), &wanted.pods, &place, &variables)
}

/// The pod that loads a backup.
pub(super) fn restore(wanted: &RestoreWanted, kept: &Kept, mariadb: &MariaDB, server: &Wanted) -> Pod {
    let variables = [
        ("DATABASE", wanted.database.clone().unwrap_or_default()),
        ("TARGET", wanted.target.map(|target| target.to_string()).unwrap_or_default()),
    ];
    let place = Place { kept, read_only: true };
    let pods = BackupPods { backoff_limit: wanted.pods.backoff_limit.or(Some(TRIES)), ..wanted.pods.clone() };
    pod(("restore", RESTORE), &wanted.name, (mariadb, server), &pods, &place, &variables)
}

/// Where the files are, to a pod.
struct Place<'p> {
    kept: &'p Kept,
    read_only: bool,
}

impl Place<'_> {
    fn volume(&self) -> Value {
        match self.kept {
            Kept::Claim(name) => json!({"name": "backup", "persistentVolumeClaim": {"claimName": name}}),
            Kept::Volume(source) => {
                let mut volume = source.clone();
                if let Some(fields) = volume.as_object_mut() {
                    fields.insert("name".into(), "backup".into());
                }
                volume
            }
        }
    }

    fn mount(&self) -> Value {
        let mut mount = json!({"name": "backup", "mountPath": "/backup"});
        if self.read_only {
            mount["readOnly"] = json!(true);
        }
        mount
    }
}

fn pod(
    (component, script): (&'static str, &str),
    name: &str,
    (mariadb, server): (&MariaDB, &Wanted),
    pods: &BackupPods,
    place: &Place<'_>,
    variables: &[(&str, String)],
) -> Pod {
    let service = mariadb.write_service().unwrap_or_else(|| mariadb.name_any());
    let password = json!({"secretName": server.root.secret, "defaultMode": 0o440,
        "items": [{"key": server.root.key, "path": "password"}]});
    let mut volumes =
        vec![json!({"name": "tmp", "emptyDir": {}}), place.volume(), json!({"name": "root", "secret": password})];
    let mut mounts = vec![
        json!({"name": "tmp", "mountPath": "/tmp"}),
        place.mount(),
        json!({"name": "root", "mountPath": "/etc/mariadb/root", "readOnly": true}),
    ];
    let mut options = "";
    if server.tls.is_some() {
        options = "--ssl-ca=/etc/mariadb/tls/ca.crt --ssl-verify-server-cert";
        let authorities = json!({"secretName": tls::bundle_secret(&server.name), "defaultMode": 0o440,
            "items": [{"key": "ca.crt", "path": "ca.crt"}]});
        volumes.push(json!({"name": "tls", "secret": authorities}));
        mounts.push(json!({"name": "tls", "mountPath": "/etc/mariadb/tls", "readOnly": true}));
    }
    let common = [
        ("HOST", format!("{service}.{}.svc", server.namespace)),
        ("PORT", server.port.to_string()),
        ("TLS", options.to_owned()),
    ];
    let environment: Vec<Value> =
        common.iter().chain(variables).map(|(name, value)| json!({"name": name, "value": value})).collect();
    let container = json!({
        "name": "mariadb",
        "image": server.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/bin/tini", "--", "sh", "-c", script, component],
        "env": environment,
        "resources": pods.resources.clone().unwrap_or_default(),
        "securityContext": container_security(),
        "volumeMounts": mounts,
    });
    let mut spec = json!({
        "restartPolicy": pods.restart_policy.map_or_else(|| json!("OnFailure"), |policy| json!(policy)),
        "automountServiceAccountToken": false,
        "securityContext": pod_security(),
        "containers": [container],
        "volumes": volumes,
        "nodeSelector": pods.node_selector,
        "tolerations": pods.tolerations,
    });
    if let Some(class) = &pods.priority_class_name {
        spec["priorityClassName"] = json!(class);
    }
    let mut template = json!({"template": {"metadata": {"labels": labels(name, component)}, "spec": spec}});
    if let Some(limit) = pods.backoff_limit {
        template["backoffLimit"] = json!(limit);
    }
    Pod { component, template }
}

/// The Job.
pub(super) fn job(name: &str, namespace: &str, pod: &Pod) -> Job {
    let mut labels = labels(name, pod.component);
    labels[MANAGED_BY] = json!(MANAGER);
    let job = json!({"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": pod.template});
    serde_json::from_value(job).expect("a Job of these parts is well formed")
}

/// The CronJob of a Backup with a schedule. A run that takes long is not overtaken by the next.
pub(super) fn cron_job(wanted: &BackupWanted, pod: &Pod) -> Child {
    let labels = labels(&wanted.name, pod.component);
    let schedule = wanted.schedule.clone().unwrap_or_default();
    let mut spec = json!({
        "schedule": schedule.cron,
        "suspend": schedule.suspend.unwrap_or(false),
        "concurrencyPolicy": "Forbid",
        "jobTemplate": {"metadata": {"labels": labels}, "spec": pod.template},
    });
    if let Some(zone) = &wanted.time_zone {
        spec["timeZone"] = json!(zone);
    }
    let (succeeded, failed) = wanted.history;
    for (field, limit) in [("successfulJobsHistoryLimit", succeeded), ("failedJobsHistoryLimit", failed)] {
        if let Some(limit) = limit {
            spec[field] = json!(limit);
        }
    }
    let metadata = json!({"name": wanted.name, "namespace": wanted.namespace, "labels": labels});
    child::<CronJob>(json!({"metadata": metadata, "spec": spec}))
}

/// The claim for the files.
pub(super) fn claim(wanted: &BackupWanted) -> PersistentVolumeClaim {
    let mut labels = labels(&wanted.name, "backup");
    labels[MANAGED_BY] = json!(MANAGER);
    let claim = json!({"metadata": {"name": wanted.name, "namespace": wanted.namespace, "labels": labels},
        "spec": wanted.claim});
    serde_json::from_value(claim).expect("a claim of these parts is well formed")
}

#[cfg(test)]
mod tests {
    use c5c3_kit::{Plan, Step};

    use super::*;
    use crate::testing::{self, object};

    fn server(spec: Value) -> (MariaDB, Wanted) {
        let mariadb = testing::mariadb(spec);
        let wanted = Wanted::of(&mariadb).unwrap();
        (mariadb, wanted)
    }

    fn galera() -> (MariaDB, Wanted) {
        server(json!({"replicas": 3, "port": 3307, "galera": {"enabled": true}, "image": "press.example/mariadb:1",
            "storage": {"size": "5Gi"}, "rootPasswordSecretKeyRef": {"name": "keys", "key": "root"},
            "tls": {"enabled": true, "required": true, "serverCertIssuerRef": {"name": "stamp"}}}))
    }

    /// The scripts have tests of their own.
    fn golden(children: Vec<Child>) -> String {
        let step = children.into_iter().fold(Step::new("Complete"), Step::child);
        let scripts = [(BACKUP, "<backup.sh>"), (RESTORE, "<restore.sh>")];
        let text = Plan::new().step(step).golden();
        scripts.iter().fold(text, |text, (script, name)| text.replace(&json!(script).to_string(), name))
    }

    #[test]
    fn one_backup_of_one_server() {
        let (mariadb, database) = server(json!({"storage": {"ephemeral": true}}));
        let spec = json!({"mariaDbRef": {"name": "ledger"}, "storage": {"persistentVolumeClaim": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}, "storageClassName": "slow"}}});
        let wanted = BackupWanted::of(&object("once", "vault", spec)).unwrap();
        let job = job("once", "vault", &backup(&wanted, &mariadb, &database));
        insta::assert_snapshot!(golden(vec![Child::new(&claim(&wanted)), Child::new(&job)]));
    }

    #[test]
    fn backups_of_a_galera_cluster_by_a_schedule_with_all_that_can_be_asked_for() {
        let (mariadb, database) = galera();
        let spec = json!({
            "mariaDbRef": {"name": "ledger", "namespace": "vault", "kind": "MariaDB"},
            "storage": {"volume": {"nfs": {"server": "attic.example", "path": "/dumps"}}},
            "schedule": {"cron": "0 3 * * *", "suspend": true}, "timeZone": "Europe/Berlin",
            "maxRetention": "48h", "databases": ["accounts", "the books"], "ignoreGlobalPriv": false,
            "compression": "gzip", "logLevel": "debug", "restartPolicy": "Never", "backoffLimit": 2,
            "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 4, "nodeSelector": {"disk": "large"},
            "resources": {"limits": {"memory": "1Gi"}}, "priorityClassName": "low",
            "tolerations": [{"key": "control-plane", "operator": "Exists"}],
        });
        let wanted = BackupWanted::of(&object("nightly", "vault", spec)).unwrap();
        insta::assert_snapshot!(golden(vec![cron_job(&wanted, &backup(&wanted, &mariadb, &database))]));
    }

    #[test]
    fn a_restore_from_a_backup_to_a_time() {
        let (mariadb, database) = galera();
        let spec = json!({"mariaDbRef": {"name": "ledger"}, "backupRef": {"name": "nightly"}, "database": "accounts",
            "targetRecoveryTime": "1970-01-01T00:01:00Z"});
        let wanted = RestoreWanted::of(&object("back", "vault", spec)).unwrap();
        let pod = restore(&wanted, &Kept::Claim("nightly".into()), &mariadb, &database);
        insta::assert_snapshot!(golden(vec![Child::new(&job("back", "vault", &pod))]));
    }

    #[test]
    fn accounts_are_in_a_backup_of_all_of_one_server_and_in_no_other_unless_asked_for() {
        let accounts = |server: &(MariaDB, Wanted), more: Value| {
            let mut spec = json!({"mariaDbRef": {"name": "ledger"}, "storage": {"persistentVolumeClaim": {}}});
            for (field, value) in more.as_object().unwrap() {
                spec[field] = value.clone();
            }
            let wanted = BackupWanted::of(&object("once", "vault", spec)).unwrap();
            let pod = json!(job("once", "vault", &backup(&wanted, &server.0, &server.1)));
            let variables = pod["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap().clone();
            variables.into_iter().find(|variable| variable["name"] == "ACCOUNTS").unwrap()["value"] == "1"
        };
        let one = server(json!({"storage": {"ephemeral": true}}));
        assert!(accounts(&one, json!({})) && !accounts(&one, json!({"ignoreGlobalPriv": true})));
        assert!(!accounts(&galera(), json!({})) && accounts(&galera(), json!({"ignoreGlobalPriv": false})));
        assert!(!accounts(&one, json!({"databases": ["accounts"]})));
    }
}
