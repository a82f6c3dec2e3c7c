//! What a Valkey is made of: the objects that the genuine operator makes, by the same names.

use c5c3_api::ext::valkey::Valkey;
use c5c3_kit::{Child, Plan, Step, hash};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use serde_json::{Value, json};

use super::names::Names;
use crate::objects::{child, secret_child};
use crate::pods::{container_security, pod_security, scratch};

/// The image that members run from, without the tag.
const IMAGE: &str = "ghcr.io/c5c3/valkey";

/// The tag of the image unless the Valkey names a version.
const VERSION: &str = "8.1.1";

const SERVER_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// What clients of Sentinel call the primary.
const PRIMARY_NAME: &str = "myprimary";

/// The scripts that members run.
const SCRIPTS: [(&str, &str); 4] = [
    ("ask.sh", include_str!("ask.sh")),
    ("primary.sh", include_str!("primary.sh")),
    ("sentinel.sh", include_str!("sentinel.sh")),
    ("server.sh", include_str!("server.sh")),
];

/// The objects of a Valkey.
pub(super) fn plan(valkey: &Valkey, password: &str) -> Plan {
    let names = Names::of(valkey);
    let files = files(valkey, &names);
    let mut children = vec![
        secret_child(&names.metadata(&names.base()), "Opaque", [("valkey-password", password.to_owned())]),
        secret_child(&names.metadata(names.binding()), "Opaque", binding(&names, password)),
        child::<ConfigMap>(json!({"metadata": names.metadata(&names.part("configuration")), "data": files})),
        child::<ServiceAccount>(
            json!({"metadata": names.metadata(&names.base()), "automountServiceAccountToken": false}),
        ),
        headless(&names),
    ];
    children.extend(services(&names));
    let hash = hash_of(&files);
    children.extend(names.sets().into_iter().map(|(part, members)| set(valkey, &names, part, members, &hash)));
    Plan::new().step(children.into_iter().fold(Step::new("Ready"), Step::child))
}

/// What a client must know.
fn binding(names: &Names, password: &str) -> Vec<(&'static str, String)> {
    let mut binding = vec![
        ("password", password.to_owned()),
        ("tlsEnabled", "false".to_owned()),
        ("sentinelEnabled", names.sentinel.to_string()),
    ];
    if names.sentinel {
        let host = names.host(&names.base());
        binding.extend([
            ("host", host.clone()),
            ("port", SERVER_PORT.to_string()),
            ("sentinelHost", host),
            ("sentinelPort", SENTINEL_PORT.to_string()),
            ("primaryName", PRIMARY_NAME.to_owned()),
        ]);
    } else {
        binding.extend([
            ("primaryHost", names.host(&names.part("primary"))),
            ("primaryPort", SERVER_PORT.to_string()),
            ("replicaHost", names.host(&names.part("replicas"))),
            ("replicaPort", SERVER_PORT.to_string()),
        ]);
    }
    binding
}

/// The files of every member. None holds a secret.
fn files(valkey: &Valkey, names: &Names) -> Value {
    let peers = names.peers().fold(String::new(), |text, peer| text + &peer + "\n");
    let mut files = json!({"valkey.conf": server(valkey, names), "sentinel.conf": sentinel(), "peers": peers});
    for (name, text) in SCRIPTS {
        files[name] = json!(text);
    }
    files
}

fn server(valkey: &Valkey, names: &Names) -> String {
    let keeps = valkey.spec.persistence.as_ref().is_some_and(|persistence| persistence.enabled);
    let mut lines = vec![
        format!("port {SERVER_PORT}"),
        "bind 0.0.0.0".to_owned(),
        // Every client needs the password; without this, none but local ones were let in before it is set.
        "protected-mode no".to_owned(),
        "dir /data".to_owned(),
        format!("appendonly {}", if keeps { "yes" } else { "no" }),
        r#"save """#.to_owned(),
        "maxmemory 128mb".to_owned(),
        "maxmemory-policy noeviction".to_owned(),
        // With the usual delay of five seconds, replicas miss the first writes after a failover.
        "repl-diskless-sync-delay 0".to_owned(),
    ];
    if names.members >= 3 {
        // A primary that lost all its replicas may have lost a failover, too.
        lines.extend(["min-replicas-to-write 1".to_owned(), "min-replicas-max-lag 10".to_owned()]);
    }
    lines.join("\n") + "\n"
}

fn sentinel() -> String {
    format!(
        "port {SENTINEL_PORT}\n\
         bind 0.0.0.0\n\
         protected-mode no\n\
         dir /tmp\n\
         sentinel down-after-milliseconds {PRIMARY_NAME} 3000\n\
         sentinel failover-timeout {PRIMARY_NAME} 20000\n\
         sentinel parallel-syncs {PRIMARY_NAME} 1\n"
    )
}

/// Stands for whatever makes a running member out of date. More members do not.
fn hash_of(files: &Value) -> String {
    let mut files = files.clone();
    if let Some(files) = files.as_object_mut() {
        files.remove("peers");
    }
    hash::of_json(&files)
}

fn port(name: &str, number: u16) -> Value {
    json!({"name": name, "port": number, "targetPort": number, "protocol": "TCP"})
}

/// Gives every member a name, before it is ready too: members look for each other while they start.
fn headless(names: &Names) -> Child {
    child::<Service>(json!({
        "metadata": names.metadata(&names.part("headless")),
        "spec": {
            "clusterIP": "None", "publishNotReadyAddresses": true, "selector": names.labels(None),
            "ports": [port("tcp-valkey", SERVER_PORT), port("tcp-sentinel", SENTINEL_PORT)],
        },
    }))
}

/// The Services for clients.
fn services(names: &Names) -> Vec<Child> {
    let service = |name: String, component: &str, ports: Vec<Value>| {
        child::<Service>(json!({
            "metadata": names.metadata(&name),
            "spec": {"type": "ClusterIP", "selector": names.labels(Some(component)), "ports": ports},
        }))
    };
    if names.sentinel {
        let ports = vec![port("tcp-valkey", SERVER_PORT), port("tcp-sentinel", SENTINEL_PORT)];
        return vec![service(names.base(), "node", ports)];
    }
    // Both are there however many replicas there are, as clients are told of both.
    let one = |part: &str| service(names.part(part), part, vec![port("tcp-valkey", SERVER_PORT)]);
    vec![one("primary"), one("replicas")]
}

fn set(valkey: &Valkey, names: &Names, part: &str, members: i32, hash: &str) -> Child {
    let spec = &valkey.spec;
    let mut containers = vec![container(valkey, names, "valkey", "server.sh", SERVER_PORT)];
    if names.sentinel {
        containers.push(container(valkey, names, "sentinel", "sentinel.sh", SENTINEL_PORT));
    }
    let mut pod = json!({
        "serviceAccountName": names.base(),
        "automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": 30,
        "securityContext": pod_security(),
        "containers": containers,
    });
    let mut volumes = vec![
        json!({"name": "conf", "configMap": {"name": names.part("configuration")}}),
        json!({"name": "secret", "secret": {"secretName": names.base()}}),
    ];
    volumes.extend(scratch().map(|(volume, _)| volume));
    let mut fields = json!({});
    match spec.persistence.as_ref().filter(|persistence| persistence.enabled) {
        Some(persistence) => {
            let size = persistence.size.as_ref().map_or("8Gi", |size| size.as_str());
            let mut claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}});
            if let Some(class) = &persistence.storage_class {
                claim["storageClassName"] = json!(class);
            }
            fields["volumeClaimTemplates"] =
                json!([{"metadata": {"name": "valkey-data", "labels": names.labels(None)}, "spec": claim}]);
        }
        None => volumes.push(json!({"name": "valkey-data", "emptyDir": {}})),
    }
    pod["volumes"] = json!(volumes);
    place(valkey, &mut pod);
    let labels = names.labels(Some(part));
    let mut set = json!({
        "replicas": members,
        "serviceName": names.part("headless"),
        // All at once: members wait for the first of them, wherever in the order they are.
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels, "annotations": {"c5c3.io/configuration": hash}}, "spec": pod},
    });
    if let Some(claims) = fields.get("volumeClaimTemplates") {
        set["volumeClaimTemplates"] = claims.clone();
    }
    child::<StatefulSet>(json!({"metadata": names.metadata(&names.part(part)), "spec": set}))
}

/// Where pods go, as the Valkey asks for it.
fn place(valkey: &Valkey, pod: &mut Value) {
    let spec = &valkey.spec;
    let asked = [
        ("nodeSelector", json!(spec.node_selector)),
        ("tolerations", json!(spec.tolerations)),
        ("affinity", json!(spec.affinity)),
        ("topologySpreadConstraints", json!(spec.topology_spread_constraints)),
        ("priorityClassName", json!(spec.priority_class_name)),
    ];
    let empty = |value: &Value| match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        other => other.is_null(),
    };
    for (field, value) in asked.into_iter().filter(|(_, value)| !empty(value)) {
        pod[field] = value;
    }
}

fn container(valkey: &Valkey, names: &Names, name: &str, script: &str, port: u16) -> Value {
    let version = valkey.spec.version.as_deref().unwrap_or(VERSION);
    let mut mounts = vec![
        json!({"name": "valkey-data", "mountPath": "/data"}),
        json!({"name": "conf", "mountPath": "/conf", "readOnly": true}),
        json!({"name": "secret", "mountPath": "/secret", "readOnly": true}),
    ];
    mounts.extend(scratch().map(|(_, mount)| mount));
    let ping = ["/bin/sh", "-c", &format!("sh /conf/ask.sh {port} 127.0.0.1 PING | grep -q PONG")].map(str::to_owned);
    let mut container = json!({
        "name": name,
        "image": format!("{IMAGE}:{version}"),
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/bin/tini", "--", "/bin/sh", format!("/conf/{script}")],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}}},
            {"name": "DOMAIN", "value": names.domain()},
            {"name": "QUORUM", "value": names.quorum().map(|quorum| quorum.to_string()).unwrap_or_default()},
        ],
        "ports": [{"name": name, "containerPort": port, "protocol": "TCP"}],
        "readinessProbe": {"exec": {"command": ping}, "periodSeconds": 2, "timeoutSeconds": 5, "failureThreshold": 3},
        "livenessProbe": {"tcpSocket": {"port": name}, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 5},
        "securityContext": container_security(),
        "volumeMounts": mounts,
    });
    if let Some(resources) = valkey.spec.resources.as_ref().filter(|_| name == "valkey") {
        container["resources"] = json!(resources);
    }
    container
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::valkey;

    const PASSWORD: &str = "pantry-password";

    #[test]
    fn a_single_valkey_without_sentinel() {
        insta::assert_snapshot!(plan(&valkey(json!({})), PASSWORD).golden());
    }

    #[test]
    fn three_with_sentinel_and_everything() {
        let spec = json!({
            "replicas": 3,
            "version": "9.9.9",
            "sentinel": {"enabled": true},
            "persistence": {"enabled": true, "storageClass": "fast", "size": "1Gi"},
            "binding": {"secretName": "key"},
            "resources": {"limits": {"memory": "256Mi"}},
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "k", "operator": "Exists"}],
        });
        insta::assert_snapshot!(plan(&valkey(spec), PASSWORD).golden());
    }

    #[test]
    fn replicas_without_sentinel_are_a_set_of_their_own() {
        let plan = plan(&valkey(json!({"replicas": 3})), PASSWORD);
        let sets: Vec<_> = plan.children().filter(|child| child.resource.kind == "StatefulSet").collect();
        let told = sets.iter().map(|set| format!("{} {}", set.reference().name, set.object.data["spec"]["replicas"]));
        assert_eq!(told.collect::<Vec<_>>(), ["valkey-larder-primary 1", "valkey-larder-replicas 2"]);
    }

    #[test]
    fn no_secret_is_in_anything_but_secrets() {
        let plan = plan(&valkey(json!({"replicas": 3, "sentinel": {"enabled": true}})), PASSWORD);
        for child in plan.children().filter(|child| child.resource.kind != "Secret") {
            assert!(!serde_json::to_string(&child.object).unwrap().contains(PASSWORD), "{child:?}");
        }
    }
}
