//! The objects that a MariaDB becomes, by the names that the genuine operator gives them. Pure.

use std::collections::BTreeMap;

use c5c3_api::ext::IssuerRef;
use c5c3_api::ext::mariadb::ServiceType;
use c5c3_kit::{Child, Plan, Step};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

use super::config::{self, STATE_PORT};
use super::tls;
use super::wanted::{Volume, Wanted};
use crate::certificates::{self, CERTIFICATE, Signed};
use crate::objects::child;
use crate::pods::{container_security, pod_security, scratch};

/// The label that says what a pod is to its cluster; its values are `primary` and `replica`.
pub(super) const ROLE: &str = "k8s.mariadb.com/role";

/// What comes from elsewhere and goes into the objects.
pub(super) struct Given<'g> {
    /// The pod that takes the writes.
    pub(super) primary: i32,
    /// The servers' certificate, once there is one. Another one makes servers restart.
    pub(super) signed: Option<&'g Signed>,
}

/// Everything that should be there.
pub(super) fn plan(wanted: &Wanted, given: &Given<'_>) -> Plan {
    let mut step = Step::new("Ready").child(config_map(wanted));
    for service in services(wanted, given.primary) {
        step = step.child(service);
    }
    if let Some(tls) = &wanted.tls {
        let asked = |secret: String, issuer: &IssuerRef, names: &[String]| {
            certificates::certificate(&metadata(wanted, &secret), issuer, names)
        };
        let client = [format!("{}-client", wanted.name)];
        step = step.child(asked(tls::server_secret(&wanted.name), &tls.server, &tls::names(wanted))).child(asked(
            tls::client_secret(&wanted.name),
            &tls.client,
            &client,
        ));
    }
    if let Some(budget) = &wanted.budget {
        let mut spec = json!(budget);
        spec["selector"] = json!({"matchLabels": selector(wanted)});
        step =
            step.child(child::<PodDisruptionBudget>(json!({"metadata": metadata(wanted, &wanted.name), "spec": spec})));
    }
    // Without their certificate, servers could not start; with another one than at first, they would start twice.
    if wanted.tls.is_none() || given.signed.is_some() {
        step = step.child(stateful_set(wanted, given));
    }
    Plan::new().step(step)
}

/// The labels that pods are found by.
pub(super) fn selector(wanted: &Wanted) -> BTreeMap<&'static str, &str> {
    [("app.kubernetes.io/name", "mariadb"), ("app.kubernetes.io/instance", &wanted.name)].into()
}

/// The same as a query.
pub(super) fn selector_text(wanted: &Wanted) -> String {
    selector(wanted).iter().map(|(label, value)| format!("{label}={value}")).collect::<Vec<_>>().join(",")
}

fn metadata(wanted: &Wanted, name: &str) -> Value {
    json!({"name": name, "namespace": wanted.namespace, "labels": selector(wanted)})
}

fn config_map(wanted: &Wanted) -> Child {
    let metadata = metadata(wanted, &wanted.config_map());
    child::<ConfigMap>(json!({"metadata": metadata, "data": config::files(wanted)}))
}

/// The Service of all servers, the one that names each of them, and with Galera those of the primary and of the others.
fn services(wanted: &Wanted, primary: i32) -> Vec<Child> {
    let port = json!({"name": "mariadb", "port": wanted.port, "targetPort": "mariadb"});
    let service = |name: &str, more: Value, extra: &[(&str, String)]| {
        let mut select = json!(selector(wanted));
        for (label, value) in extra {
            select[*label] = json!(value);
        }
        let mut spec = json!({"selector": select, "ports": [port]});
        for (field, value) in more.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        child::<Service>(json!({"metadata": metadata(wanted, name), "spec": spec}))
    };
    let internal = json!({"clusterIP": "None", "publishNotReadyAddresses": true});
    let mut services = vec![
        service(&wanted.internal_service(), internal, &[]),
        service(&wanted.name, json!({"type": "ClusterIP"}), &[]),
    ];
    if wanted.galera {
        // By the pod's own name: it holds also while no one is there to label pods.
        let pod = ("statefulset.kubernetes.io/pod-name", wanted.pod(primary));
        let kind = wanted.primary_service.unwrap_or(ServiceType::ClusterIp);
        services.push(service(&format!("{}-primary", wanted.name), json!({"type": kind}), &[pod]));
        let others = (ROLE, "replica".to_owned());
        services.push(service(&format!("{}-secondary", wanted.name), json!({"type": "ClusterIP"}), &[others]));
    }
    services
}

fn stateful_set(wanted: &Wanted, given: &Given<'_>) -> Child {
    let mut spec = json!({
        "serviceName": wanted.internal_service(),
        "replicas": wanted.replicas,
        // Members wait for each other, so none may be waited for before the next is started.
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "RollingUpdate"},
        "selector": {"matchLabels": selector(wanted)},
        "template": template(wanted, given),
    });
    if let Volume::Claim { size, class } = &wanted.volume {
        let mut claim = json!({
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
        });
        if let Some(class) = class {
            claim["storageClassName"] = json!(class);
        }
        if let Some(retention) = &wanted.retention {
            spec["persistentVolumeClaimRetentionPolicy"] = json!(retention);
        }
        spec["volumeClaimTemplates"] = json!([{"metadata": {"name": "storage"}, "spec": claim}]);
    }
    child::<StatefulSet>(json!({"metadata": metadata(wanted, &wanted.name), "spec": spec}))
}

fn template(wanted: &Wanted, given: &Given<'_>) -> Value {
    let (mut volumes, mut mounts) = (Vec::new(), Vec::new());
    for (volume, mount) in scratch().into_iter().chain(own_volumes(wanted)) {
        volumes.extend(Some(volume).filter(|volume| !volume.is_null()));
        mounts.push(mount);
    }
    let mut spec = json!({
        "automountServiceAccountToken": false,
        "securityContext": pod_security(),
        // A server writes out what it has in memory before it ends.
        "terminationGracePeriodSeconds": 60,
        "containers": [container(wanted, &mounts)],
        "volumes": volumes,
        "nodeSelector": wanted.node_selector,
        "tolerations": wanted.tolerations,
    });
    if let Some(affinity) = affinity(wanted) {
        spec["affinity"] = affinity;
    }
    if let Some(class) = &wanted.priority_class {
        spec["priorityClassName"] = json!(class);
    }
    let mut annotations = json!({"c5c3.io/config": config::hash(wanted)});
    if let Some(signed) = given.signed {
        annotations[CERTIFICATE] = json!(signed.certificate);
        annotations[tls::TRUST] = json!(signed.trust());
    }
    json!({"metadata": {"labels": selector(wanted), "annotations": annotations}, "spec": spec})
}

/// Volumes and their mounts. The claim of a StatefulSet brings its own volume.
fn own_volumes(wanted: &Wanted) -> Vec<(Value, Value)> {
    let storage = match wanted.volume {
        Volume::Ephemeral => json!({"name": "storage", "emptyDir": {}}),
        Volume::Claim { .. } => Value::Null,
    };
    let root = &wanted.root;
    let password = json!({"secretName": root.secret, "defaultMode": 0o440,
        "items": [{"key": root.key, "path": "password"}]});
    let mut volumes = vec![
        (storage, json!({"name": "storage", "mountPath": "/var/lib/mysql"})),
        (
            json!({"name": "conf", "configMap": {"name": wanted.config_map()}}),
            json!({"name": "conf", "mountPath": "/etc/mariadb/conf", "readOnly": true}),
        ),
        (
            json!({"name": "root", "secret": password}),
            json!({"name": "root", "mountPath": "/etc/mariadb/root", "readOnly": true}),
        ),
    ];
    if wanted.tls.is_some() {
        let secret = json!({"secretName": tls::server_secret(&wanted.name), "defaultMode": 0o440});
        volumes.push((
            json!({"name": "tls", "secret": secret}),
            json!({"name": "tls", "mountPath": "/etc/mariadb/tls", "readOnly": true}),
        ));
    }
    volumes
}

fn container(wanted: &Wanted, mounts: &[Value]) -> Value {
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let port = |name: &str, port: i32| json!({"name": name, "containerPort": port});
    let mut ports = vec![port("mariadb", wanted.port)];
    if wanted.galera {
        let galera = [("galera", 4567), ("ist", 4568), ("sst", 4444), ("state", i32::from(STATE_PORT))];
        ports.extend(galera.map(|(name, number)| port(name, number)));
    }
    let lives = json!({"command": ["sh", "/etc/mariadb/conf/live.sh"]});
    let ready = json!({"command": ["sh", "/etc/mariadb/conf/ready.sh"]});
    let gets_ready = json!({"command": ["sh", "/etc/mariadb/conf/ready.sh", "20"]});
    json!({
        "name": "mariadb",
        "image": wanted.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/bin/tini", "--", "sh", "/etc/mariadb/conf/entry.sh"],
        "env": [field("POD_NAME", "metadata.name"), field("POD_IP", "status.podIP")],
        "ports": ports,
        "resources": wanted.resources.clone().unwrap_or_default(),
        "securityContext": container_security(),
        "volumeMounts": mounts,
        // A member that waits for others, or copies from them, is never killed for it: that may take as long as it takes.
        "startupProbe": {"exec": gets_ready, "periodSeconds": 1, "timeoutSeconds": 30, "failureThreshold": 604_800},
        "readinessProbe": {"exec": ready, "periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 2},
        // Nor is one that copies again, after its server had to be restarted within the same container.
        "livenessProbe": {"exec": lives, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 6},
    })
}

/// The rules of the spec, with the one that it asks for by a word.
fn affinity(wanted: &Wanted) -> Option<Value> {
    let asked = wanted.affinity.as_ref()?;
    let mut rules = json!({});
    if let Some(node) = &asked.node_affinity {
        rules["nodeAffinity"] = json!(node);
    }
    if let Some(repulsion) = &asked.pod_anti_affinity {
        rules["podAntiAffinity"] = json!(repulsion);
    }
    if asked.anti_affinity_enabled == Some(true) {
        let apart =
            json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": selector(wanted)}});
        rules["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!([apart]);
    }
    Some(rules)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::mariadb;

    fn golden(spec: Value) -> String {
        let wanted = Wanted::of(&mariadb(spec)).unwrap();
        let signed = Signed { certificate: "<certificate>".into(), authorities: "root".into() };
        let plan = plan(&wanted, &Given { primary: 0, signed: wanted.tls.as_ref().map(|_| &signed) });
        // The scripts have tests of their own.
        let told = ["server.cnf", "cluster.env"];
        let scripts = config::files(&wanted).into_iter().filter(|(name, _)| !told.contains(&name.as_str()));
        let text = scripts
            .fold(plan.golden(), |text, (name, script)| text.replace(&json!(script).to_string(), &format!("<{name}>")));
        text.replace(&config::hash(&wanted), "<hash>")
    }

    #[test]
    fn one_server_in_memory() {
        insta::assert_snapshot!(golden(json!({"storage": {"ephemeral": true}})));
    }

    #[test]
    fn a_galera_cluster_with_all_that_can_be_asked_for() {
        insta::assert_snapshot!(golden(json!({
            "replicas": 3, "image": "press.example/mariadb:1", "port": 3307, "galera": {"enabled": true},
            "rootPasswordSecretKeyRef": {"name": "keys", "key": "root"},
            "storage": {"size": "5Gi", "storageClassName": "swift", "pvcRetentionPolicy": {"whenDeleted": "Delete"}},
            "myCnf": "[mariadb]\nmax_connections = 77\n",
            "tls": {"enabled": true, "required": true, "serverCertIssuerRef": {"name": "stamp", "kind": "ClusterIssuer"}},
            "resources": {"limits": {"memory": "1Gi"}}, "nodeSelector": {"disk": "fast"},
            "affinity": {"antiAffinityEnabled": true}, "priorityClassName": "high",
            "tolerations": [{"key": "control-plane", "operator": "Exists"}],
            "primaryService": {"type": "NodePort"}, "podDisruptionBudget": {"maxUnavailable": 1},
        })));
    }
}
