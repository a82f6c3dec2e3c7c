//! What a Ceph cluster is made of: the objects that Rook makes, by the same names. Pure.

use c5c3_api::blocks::Resources;
use c5c3_api::ext::rook::{MON_ENDPOINTS, MON_SECRET};
use c5c3_kit::{Child, Plan, Step, hash};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Service};
use serde_json::{Value, json};

use super::config;
use super::keys::{ADMIN, MGR, MON, keyring};
use super::wanted::{Claim, Osd, Wanted};
use crate::objects::{child, secret_child};
use crate::pods::{bytes, container_security, pod_security, scratch};

/// The label with the name of a daemon.
pub(super) const DAEMON: &str = "ceph_daemon_id";

/// The ConfigMap with the configuration and the scripts that start daemons.
const FILES: &str = "rook-ceph-files";

const MON_SCRIPT: &str = include_str!("mon.sh");
const MGR_SCRIPT: &str = include_str!("mgr.sh");
const OSD_SCRIPT: &str = include_str!("osd.sh");

/// What is made once, and then read from the Secrets.
#[derive(Clone)]
pub(super) struct Identity {
    pub(super) fsid: String,
    pub(super) admin: String,
    pub(super) mon: String,
    /// One for each manager.
    pub(super) mgrs: Vec<String>,
}

/// The identity and the key of an OSD.
#[derive(Clone)]
pub(super) struct OsdIdentity {
    pub(super) uuid: String,
    pub(super) key: String,
}

/// The name of a daemon's Deployment.
pub(super) fn daemon(kind: &str, id: &str) -> String {
    format!("rook-ceph-{kind}-{id}")
}

/// The Secret with the key of a daemon.
pub(super) fn daemon_secret(kind: &str, id: &str) -> String {
    format!("rook-ceph-{kind}-{id}-keyring")
}

/// The Services of monitors, whose addresses are the monitors' own.
pub(super) fn services(wanted: &Wanted) -> Plan {
    let step = wanted.mons.iter().fold(Step::new("Services"), |step, mon| {
        let ports = [("tcp-msgr1", 6789), ("tcp-msgr2", 3300)]
            .map(|(name, port)| json!({"name": name, "port": port, "targetPort": port, "protocol": "TCP"}));
        step.child(child::<Service>(json!({
            "metadata": metadata(wanted, &daemon("mon", mon), &labels(wanted, "mon", mon)),
            "spec": {
                // Monitors find each other before they are ready.
                "publishNotReadyAddresses": true,
                "selector": labels(wanted, "mon", mon), "ports": ports,
            },
        })))
    });
    Plan::new().step(step)
}

/// Everything but the OSDs. `addresses` are those of the monitors' Services, in their order.
pub(super) fn plan(wanted: &Wanted, identity: &Identity, addresses: &[String]) -> Plan {
    let mons = || wanted.mons.iter().zip(addresses);
    let mon_host = mons().map(|(_, ip)| both(ip)).collect::<Vec<_>>().join(",");
    let admin = keyring("client.admin", &identity.admin, ADMIN);
    let named = |name: &str| metadata(wanted, name, &json!({"rook_cluster": wanted.namespace}));
    let secret =
        |name: &str, values: Vec<(&'static str, String)>| secret_child(&named(name), "kubernetes.io/rook", values);
    let endpoints: Vec<String> = mons().map(|(mon, ip)| format!("{mon}={ip}:6789")).collect();
    let members: Vec<String> = mons().map(|(mon, ip)| format!("{mon}={}\n", both(ip))).collect();
    let mut step = Step::new("Ready")
        .child(secret(
            MON_SECRET,
            vec![
                ("cluster-name", wanted.name.clone()),
                ("fsid", identity.fsid.clone()),
                ("ceph-username", "client.admin".into()),
                ("ceph-secret", identity.admin.clone()),
                ("mon-secret", identity.mon.clone()),
            ],
        ))
        .child(secret("rook-ceph-admin-keyring", vec![("keyring", admin.clone())]))
        .child(secret("rook-ceph-mons-keyring", vec![("keyring", mons_keyring(wanted, identity))]))
        .child(secret(
            "rook-ceph-config",
            vec![("mon_host", mon_host.clone()), ("mon_initial_members", wanted.mons.join(","))],
        ))
        .child(child::<ConfigMap>(json!({"metadata": named(MON_ENDPOINTS), "data": {
            "data": endpoints.join(","),
            "mapping": "{\"node\":{}}",
            "maxMonId": (wanted.mons.len() - 1).to_string(),
        }})))
        .child(child::<ConfigMap>(json!({"metadata": named(FILES), "data": {
            "ceph.conf": config::file(wanted, &identity.fsid, &mon_host),
            "members": members.concat(), "mon.sh": MON_SCRIPT, "mgr.sh": MGR_SCRIPT, "osd.sh": OSD_SCRIPT,
        }})));
    for (mon, ip) in mons() {
        let environment = vec![variable("FSID", &identity.fsid), variable("SERVICE_ADDRESS", ip)];
        step = step.child(claim(wanted, &daemon("mon", mon), &wanted.mon_claim)).child(mon_deployment(
            wanted,
            mon,
            environment,
        ));
    }
    for (mgr, key) in wanted.mgrs.iter().zip(&identity.mgrs) {
        let name = format!("mgr.{mgr}");
        step = step
            .child(secret(&daemon_secret("mgr", mgr), vec![("keyring", keyring(&name, key, MGR))]))
            .child(mgr_deployment(wanted, mgr));
    }
    Plan::new().step(step)
}

/// The OSDs, which Ceph knows by now.
pub(super) fn osds(wanted: &Wanted, identities: &[OsdIdentity]) -> Plan {
    let step = wanted.osds.iter().zip(identities).fold(Step::new("Disks"), |step, (osd, identity)| {
        step.child(claim(wanted, &osd.claim_name, &osd.claim)).child(osd_deployment(wanted, osd, identity))
    });
    Plan::new().step(step)
}

/// The Secrets of OSDs, which must be there before Ceph hears of them.
pub(super) fn osd_secrets(wanted: &Wanted, identities: &[OsdIdentity]) -> Plan {
    let step = wanted.osds.iter().zip(identities).fold(Step::new("Keys"), |step, (osd, identity)| {
        let id = osd.id.to_string();
        let ring = keyring(&format!("osd.{id}"), &identity.key, &[]);
        let meta = metadata(wanted, &daemon_secret("osd", &id), &json!({"rook_cluster": wanted.namespace}));
        let values = [("keyring", ring), ("uuid", identity.uuid.clone()), ("key", identity.key.clone())];
        step.child(secret_child(&meta, "kubernetes.io/rook", values))
    });
    Plan::new().step(step)
}

/// Both addresses of a monitor.
fn both(ip: &str) -> String {
    format!("[v2:{ip}:3300,v1:{ip}:6789]")
}

/// What monitors know from the start. Managers are among it, so that no command has to introduce them.
fn mons_keyring(wanted: &Wanted, identity: &Identity) -> String {
    let mgrs = wanted.mgrs.iter().zip(&identity.mgrs).map(|(mgr, key)| keyring(&format!("mgr.{mgr}"), key, MGR));
    [keyring("mon.", &identity.mon, MON), keyring("client.admin", &identity.admin, ADMIN)]
        .into_iter()
        .chain(mgrs)
        .collect()
}

fn labels(wanted: &Wanted, kind: &str, id: &str) -> Value {
    json!({
        "app": format!("rook-ceph-{kind}"), DAEMON: id, "rook_cluster": wanted.namespace,
        "ceph_daemon_type": kind, "app.kubernetes.io/part-of": wanted.name,
    })
}

fn metadata(wanted: &Wanted, name: &str, labels: &Value) -> Value {
    json!({"name": name, "namespace": wanted.namespace, "labels": labels})
}

fn claim(wanted: &Wanted, name: &str, claim: &Claim) -> Child {
    let mut spec = json!({
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": claim.size}},
    });
    if let Some(class) = &claim.class {
        spec["storageClassName"] = json!(class);
    }
    let labels = json!({"rook_cluster": wanted.namespace});
    child::<PersistentVolumeClaim>(json!({"metadata": metadata(wanted, name, &labels), "spec": spec}))
}

/// What differs between kinds of daemons.
struct Daemon<'d> {
    kind: &'static str,
    id: &'d str,
    script: &'static str,
    secret: String,
    claim: Option<&'d str>,
    environment: Vec<Value>,
    resources: Option<&'d Resources>,
    more: Value,
    affinity: Option<Value>,
}

fn variable(name: &str, value: &str) -> Value {
    json!({"name": name, "value": value})
}

fn field(name: &str, path: &str) -> Value {
    json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path, "apiVersion": "v1"}}})
}

fn mon_deployment(wanted: &Wanted, mon: &str, environment: Vec<Value>) -> Child {
    let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "rook-ceph-mon", "rook_cluster": wanted.namespace}},
    }]}});
    deployment(
        wanted,
        Daemon {
            kind: "mon",
            id: mon,
            script: MON_SCRIPT,
            secret: "rook-ceph-mons-keyring".into(),
            claim: Some(&daemon("mon", mon)),
            environment,
            resources: wanted.resources.get("mon"),
            more: json!({
                "ports": [
                    {"name": "tcp-msgr2", "containerPort": 3300, "protocol": "TCP"},
                    {"name": "tcp-msgr1", "containerPort": 6789, "protocol": "TCP"},
                ],
                "readinessProbe": {"tcpSocket": {"port": 3300}, "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 3},
            }),
            affinity: wanted.spread.then_some(apart),
        },
    )
}

fn mgr_deployment(wanted: &Wanted, mgr: &str) -> Child {
    deployment(
        wanted,
        Daemon {
            kind: "mgr",
            id: mgr,
            script: MGR_SCRIPT,
            secret: daemon_secret("mgr", mgr),
            claim: None,
            environment: Vec::new(),
            resources: wanted.resources.get("mgr"),
            more: json!({}),
            affinity: None,
        },
    )
}

fn osd_deployment(wanted: &Wanted, osd: &Osd, identity: &OsdIdentity) -> Child {
    let id = osd.id.to_string();
    let host =
        if osd.portable { variable("CRUSH_HOST", &osd.claim_name) } else { field("CRUSH_HOST", "spec.nodeName") };
    deployment(
        wanted,
        Daemon {
            kind: "osd",
            id: &id,
            script: OSD_SCRIPT,
            secret: daemon_secret("osd", &id),
            claim: Some(&osd.claim_name),
            environment: vec![
                variable("OSD_UUID", &identity.uuid),
                variable("DISK_BYTES", &bytes(&osd.claim.size).to_string()),
                host,
            ],
            resources: osd.resources.as_ref().or(wanted.resources.get("osd")),
            more: json!({}),
            affinity: None,
        },
    )
}

fn deployment(wanted: &Wanted, it: Daemon<'_>) -> Child {
    let labels = labels(wanted, it.kind, it.id);
    let item = |key: &str| json!({"key": key, "path": key});
    let files = json!([
        {"configMap": {"name": FILES, "items": [item("ceph.conf"), item("members"), item(&format!("{}.sh", it.kind))]}},
        {"secret": {"name": it.secret, "items": [item("keyring")]}},
    ]);
    let mut volumes = vec![json!({"name": "ceph", "projected": {"sources": files, "defaultMode": 0o440}})];
    let mut mounts = vec![json!({"name": "ceph", "mountPath": "/etc/ceph", "readOnly": true})];
    if let Some(claim) = it.claim {
        volumes.push(json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}}));
        // Not below /var/lib/ceph, which only the user of the Debian package may enter.
        mounts.push(json!({"name": "data", "mountPath": "/data"}));
    }
    for (volume, mount) in scratch() {
        volumes.push(volume);
        mounts.push(mount);
    }
    let environment = [vec![variable("DAEMON", it.id), field("POD_IP", "status.podIP")], it.environment].concat();
    let mut container = json!({
        "name": it.kind,
        "image": wanted.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/bin/tini", "--", "sh", format!("/etc/ceph/{}.sh", it.kind)],
        "env": environment,
        "securityContext": container_security(),
        "volumeMounts": mounts,
    });
    for (name, value) in it.more.as_object().into_iter().flatten() {
        container[name] = value.clone();
    }
    if let Some(resources) = it.resources {
        container["resources"] = json!(resources);
    }
    let mut pod = json!({
        "automountServiceAccountToken": false,
        "securityContext": pod_security(),
        "terminationGracePeriodSeconds": 30,
        "containers": [container],
        "volumes": volumes,
    });
    if let Some(affinity) = it.affinity {
        pod["affinity"] = affinity;
    }
    // A change of where monitors are needs no restart: daemons learn it from each other.
    let content = hash::of_json(&json!([config::options(wanted), it.script]));
    child::<Deployment>(json!({
        "metadata": metadata(wanted, &daemon(it.kind, it.id), &labels),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            // Two of one name would have one disk.
            "strategy": {"type": "Recreate"},
            "template": {"metadata": {"labels": labels, "annotations": {"c5c3.io/configuration": content}}, "spec": pod},
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ceph_cluster;

    fn golden(spec: Value) -> String {
        let wanted = Wanted::of(&ceph_cluster(spec)).unwrap();
        let identity = Identity {
            fsid: "0b5c".into(),
            admin: "admin-key".into(),
            mon: "mon-key".into(),
            mgrs: wanted.mgrs.iter().map(|mgr| format!("mgr-key-{mgr}")).collect(),
        };
        let addresses: Vec<String> = (1..).take(wanted.mons.len()).map(|number| format!("192.0.2.{number}")).collect();
        let disks: Vec<_> = wanted
            .osds
            .iter()
            .map(|osd| OsdIdentity { uuid: format!("uuid-{}", osd.id), key: "osd-key".into() })
            .collect();
        let plans = [
            services(&wanted),
            plan(&wanted, &identity, &addresses),
            osd_secrets(&wanted, &disks),
            osds(&wanted, &disks),
        ];
        let text = plans.map(|plan| plan.golden()).join("\n");
        let scripts = [("mon", MON_SCRIPT), ("mgr", MGR_SCRIPT), ("osd", OSD_SCRIPT)];
        scripts.iter().fold(text, |text, (name, script)| {
            text.replace(&json!(script).to_string(), &format!("<{name}.sh>"))
                .replace(&hash::of_json(&json!([config::options(&wanted), script])), &format!("<hash of {name}>"))
        })
    }

    #[test]
    fn one_monitor_and_one_disk() {
        insta::assert_snapshot!(golden(json!({
            "mon": {"count": 1}, "storage": {"storageClassDeviceSets": [{"name": "kiln", "count": 1,
                "volumeClaimTemplates": [{"spec": {"resources": {"requests": {"storage": "5Gi"}}}}]}]},
        })));
    }

    #[test]
    fn three_monitors_with_all_that_can_be_asked_for() {
        insta::assert_snapshot!(golden(json!({
            "cephVersion": {"image": "press.example/ceph:1"},
            "mon": {"count": 3, "volumeClaimTemplate": {"spec": {"storageClassName": "swift"}}}, "mgr": {"count": 2},
            "cephConfig": {"osd": {"osd_op_num_shards": "1"}, "global": {"debug_ms": "1"}},
            "resources": {"mon": {"limits": {"memory": "1Gi"}}},
            "storage": {"storageClassDeviceSets": [{"name": "kiln", "count": 2, "portable": true,
                "resources": {"requests": {"memory": "1Gi"}},
                "volumeClaimTemplates": [{"spec": {"storageClassName": "swift",
                    "resources": {"requests": {"storage": "5Gi"}}}}]}]},
        })));
    }
}
