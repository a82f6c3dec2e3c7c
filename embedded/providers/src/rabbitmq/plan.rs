//! What a RabbitMQ cluster is made of: the objects that the genuine operator makes, by the same names.

use c5c3_api::ext::rabbitmq::{RabbitmqCluster, default_user_secret};
use c5c3_kit::{Child, Plan, Step};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use serde_json::{Value, json};

use super::config::Files;
use super::names::Names;
use crate::objects::{child, secret_child};
use crate::pods::{container_security, pod_security, scratch};

/// The image that brokers run from unless the cluster names another.
const IMAGE: &str = "ghcr.io/c5c3/rabbitmq:4.0.5";

/// Starts a broker.
pub(super) const START: &str = include_str!("start.sh");

/// How long a broker may take to stop. The genuine operator gives it a week to see its queues in sync elsewhere.
const GRACE: i64 = 60;

/// Few schedulers, and none that spins while it has nothing to do: several brokers share one machine.
const ERLANG: &str = "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none";

/// What must be known by the members and by no one else. Made once, and then read from the Secrets.
#[derive(Clone, Debug)]
pub(super) struct Secrets {
    pub(super) cookie: String,
    /// None if the user brings a Secret for it.
    pub(super) first_user: Option<(String, String)>,
}

/// The objects of a cluster, in the order in which they are needed.
pub(super) fn plan(cluster: &RabbitmqCluster, secrets: &Secrets) -> Plan {
    let names = Names::of(cluster);
    let files = Files::of(cluster, &names);
    let mut step = Step::new(super::cluster::ALL_REPLICAS_READY).child(secret_child(
        &names.metadata(&names.cookie()),
        "Opaque",
        [(".erlang.cookie", secrets.cookie.clone())],
    ));
    if let Some((user, password)) = &secrets.first_user {
        step = step.child(first_user(cluster, &names, user, password));
    }
    let children = [
        child::<ConfigMap>(json!({
            "metadata": names.metadata(&names.plugins()), "data": {"enabled_plugins": files.plugins},
        })),
        child::<ConfigMap>(json!({"metadata": names.metadata(&names.configuration()), "data": {
            "operatorDefaults.conf": files.defaults,
            "members.conf": files.members,
            "userDefinedConfiguration.conf": files.user,
            "advanced.config": files.advanced,
            "rabbitmq-env.conf": files.environment,
            "peers": files.peers,
            "start.sh": START,
        }})),
        child::<ServiceAccount>(json!({
            "metadata": names.metadata(&names.server()), "automountServiceAccountToken": false,
        })),
        nodes_service(&names),
        client_service(cluster, &names),
        brokers(cluster, &names, &files),
    ];
    Plan::new().step(children.into_iter().fold(step, Step::child))
}

/// The Secret of the user that is there from the start.
fn first_user(cluster: &RabbitmqCluster, names: &Names, user: &str, password: &str) -> Child {
    let host = names.host();
    let (scheme, port) = if has_tls(cluster) { ("amqps", "5671") } else { ("amqp", "5672") };
    secret_child(
        &names.metadata(&default_user_secret(&names.cluster)),
        "Opaque",
        [
            ("username", user.to_owned()),
            ("password", password.to_owned()),
            ("host", host.clone()),
            ("port", port.to_owned()),
            ("provider", "rabbitmq".to_owned()),
            ("type", "rabbitmq".to_owned()),
            ("default_user.conf", format!("default_user = {user}\ndefault_pass = {password}\n")),
            ("connection_string", format!("{scheme}://{user}:{password}@{host}:{port}/")),
        ],
    )
}

/// Whether brokers have a certificate.
fn has_tls(cluster: &RabbitmqCluster) -> bool {
    cluster.spec.tls.as_ref().is_some_and(|tls| tls.secret_name.is_some())
}

/// Whether brokers take connections in the clear.
fn is_plain(cluster: &RabbitmqCluster) -> bool {
    !has_tls(cluster) || cluster.spec.tls.as_ref().is_none_or(|tls| tls.disable_non_tls_listeners != Some(true))
}

/// What listens for clients: name, port, and the protocol that is spoken there.
fn listeners(cluster: &RabbitmqCluster) -> Vec<(&'static str, u16, &'static str)> {
    let plain = [("amqp", 5672, "amqp"), ("management", 15672, "http"), ("prometheus", 15692, "prometheus.io/metrics")];
    let encrypted = [
        ("amqps", 5671, "amqps"),
        ("management-tls", 15671, "https"),
        ("prometheus-tls", 15691, "prometheus.io/metric-tls"),
    ];
    let plain = plain.into_iter().filter(|_| is_plain(cluster));
    plain.chain(encrypted.into_iter().filter(|_| has_tls(cluster))).collect()
}

/// Gives every member a name, before it is ready too: members look for each other while they start.
fn nodes_service(names: &Names) -> Child {
    child::<Service>(json!({
        "metadata": names.metadata(&names.nodes()),
        "spec": {
            "clusterIP": "None", "publishNotReadyAddresses": true, "selector": names.selector(),
            "ports": [
                {"name": "epmd", "port": 4369, "targetPort": 4369, "protocol": "TCP"},
                {"name": "cluster-rpc", "port": 25672, "targetPort": 25672, "protocol": "TCP"},
            ],
        },
    }))
}

fn client_service(cluster: &RabbitmqCluster, names: &Names) -> Child {
    let given = cluster.spec.service.clone().unwrap_or_default();
    let port = |(name, number, protocol): (&str, u16, &str)| json!({"name": name, "port": number, "targetPort": number, "protocol": "TCP", "appProtocol": protocol});
    let ports: Vec<Value> = listeners(cluster).into_iter().map(port).collect();
    let mut metadata = names.metadata(&names.cluster);
    metadata["annotations"] = json!(given.annotations);
    child::<Service>(json!({
        "metadata": metadata,
        "spec": {
            "type": given.r#type.and_then(|kind| serde_json::to_value(kind).ok()).unwrap_or_else(|| json!("ClusterIP")),
            "selector": names.selector(), "ports": ports,
        },
    }))
}

fn brokers(cluster: &RabbitmqCluster, names: &Names, files: &Files) -> Child {
    let spec = &cluster.spec;
    let (volumes, mounts) = volumes(cluster, names);
    let storage = spec.persistence.clone().unwrap_or_default();
    let size = storage.storage.as_ref().map_or("10Gi", |size| size.as_str());
    let mut claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}});
    if let Some(class) = &storage.storage_class_name {
        claim["storageClassName"] = json!(class);
    }
    let mut pod = json!({
        "serviceAccountName": names.server(),
        "automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": spec.termination_grace_period_seconds.unwrap_or(GRACE),
        "securityContext": pod_security(),
        "containers": [broker(cluster, names, &mounts)],
        "volumes": volumes,
    });
    if let Some(affinity) = &spec.affinity {
        pod["affinity"] = json!(affinity);
    }
    if !spec.tolerations.is_empty() {
        pod["tolerations"] = json!(spec.tolerations);
    }
    child::<StatefulSet>(json!({
        "metadata": names.metadata(&names.server()),
        "spec": {
            "replicas": names.members,
            "serviceName": names.nodes(),
            // All at once: a member that waits for the others to come up must not keep them from coming up.
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": names.selector()},
            // As with the genuine operator, whose claims belong to the cluster object.
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
            "template": {
                "metadata": {"labels": names.labels(), "annotations": {"c5c3.io/configuration": files.hash()}},
                "spec": pod,
            },
            "volumeClaimTemplates": [{"metadata": {"name": "persistence", "labels": names.labels()}, "spec": claim}],
        },
    }))
}

fn broker(cluster: &RabbitmqCluster, names: &Names, mounts: &[Value]) -> Value {
    let image = cluster.spec.image.as_deref().unwrap_or(IMAGE);
    let port = |name: &str, number: u16| json!({"name": name, "containerPort": number, "protocol": "TCP"});
    let mut ports = vec![port("epmd", 4369), port("cluster-rpc", 25672)];
    ports.extend(listeners(cluster).into_iter().map(|(name, number, _)| port(name, number)));
    let amqp = if is_plain(cluster) { "amqp" } else { "amqps" };
    let mut broker = json!({
        "name": "rabbitmq",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/bin/tini", "--", "/bin/sh", "/conf/start.sh"],
        "env": environment(names),
        "ports": ports,
        // The listener is the last thing that opens, and closes while the member sees no majority.
        "readinessProbe": {"tcpSocket": {"port": amqp}, "periodSeconds": 2, "timeoutSeconds": 5, "failureThreshold": 3},
        "securityContext": container_security(),
        "volumeMounts": mounts,
    });
    if let Some(resources) = &cluster.spec.resources {
        broker["resources"] = json!(resources);
    }
    broker
}

fn environment(names: &Names) -> Value {
    json!([
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}}},
        {"name": "HOME", "value": "/var/lib/rabbitmq"},
        {"name": "RABBITMQ_USE_LONGNAME", "value": "true"},
        {"name": "RABBITMQ_NODENAME", "value": format!("rabbit@$(POD_NAME).{}.{}", names.nodes(), names.namespace)},
        {"name": "RABBITMQ_MNESIA_BASE", "value": "/var/lib/rabbitmq/mnesia"},
        {"name": "RABBITMQ_GENERATED_CONFIG_DIR", "value": "/tmp/config"},
        {"name": "RABBITMQ_CONFIG_FILE", "value": "/conf/rabbitmq.conf"},
        {"name": "RABBITMQ_CONFIG_FILES", "value": "/conf/conf.d/*.conf"},
        {"name": "RABBITMQ_ADVANCED_CONFIG_FILE", "value": "/conf/advanced.config"},
        {"name": "RABBITMQ_CONF_ENV_FILE", "value": "/conf/rabbitmq-env.conf"},
        {"name": "RABBITMQ_ENABLED_PLUGINS_FILE", "value": "/conf/enabled_plugins"},
        {"name": "RABBITMQ_LOGS", "value": "-"},
        {"name": "RABBITMQ_LOG_BASE", "value": "/tmp"},
        {"name": "RABBITMQ_PID_FILE", "value": "/tmp/rabbitmq.pid"},
        {"name": "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "value": ERLANG},
    ])
}

/// Volumes of a broker's pod, and where they are mounted.
fn volumes(cluster: &RabbitmqCluster, names: &Names) -> (Vec<Value>, Vec<Value>) {
    let item = |key: &str, path: &str| json!({"key": key, "path": path});
    let configuration = json!({"name": names.configuration(), "items": [
        item("operatorDefaults.conf", "rabbitmq.conf"),
        item("members.conf", "conf.d/10-members.conf"),
        item("userDefinedConfiguration.conf", "conf.d/90-user.conf"),
        item("advanced.config", "advanced.config"),
        item("rabbitmq-env.conf", "rabbitmq-env.conf"),
        item("peers", "peers"),
        item("start.sh", "start.sh"),
    ]});
    let user = json!({
        "name": first_user_secret(cluster), "items": [item("default_user.conf", "conf.d/11-default-user.conf")],
    });
    let plugins = json!({"name": names.plugins(), "items": [item("enabled_plugins", "enabled_plugins")]});
    let files = json!({"sources": [{"configMap": configuration}, {"configMap": plugins}, {"secret": user}]});
    let mut volumes = vec![
        json!({"name": "conf", "projected": files}),
        json!({"name": "cookie", "secret": {"secretName": names.cookie()}}),
    ];
    let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path, "readOnly": true});
    let mut mounts = vec![
        json!({"name": "persistence", "mountPath": "/var/lib/rabbitmq"}),
        mount("conf", "/conf"),
        mount("cookie", "/cookie"),
    ];
    let tls = cluster.spec.tls.clone().unwrap_or_default();
    for (secret, name, path) in [(tls.secret_name, "tls", "/tls"), (tls.ca_secret_name, "tls-ca", "/tls-ca")] {
        if let Some(secret) = secret {
            volumes.push(json!({"name": name, "secret": {"secretName": secret}}));
            mounts.push(mount(name, path));
        }
    }
    for (volume, mount) in scratch() {
        volumes.push(volume);
        mounts.push(mount);
    }
    (volumes, mounts)
}

/// The Secret of the first user: ours, or one that the user brings.
pub(super) fn first_user_secret(cluster: &RabbitmqCluster) -> String {
    let given = cluster.spec.secret_backend.as_ref().and_then(|backend| backend.external_secret.as_ref());
    given.map_or_else(
        || default_user_secret(cluster.metadata.name.as_deref().unwrap_or_default()),
        |given| given.name.clone(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::cluster;

    fn secrets() -> Secrets {
        let first_user = Some(("default_user_hare".to_owned(), "carrot-password".to_owned()));
        Secrets { cookie: "carrot-cookie".to_owned(), first_user }
    }

    #[test]
    fn a_single_broker() {
        insta::assert_snapshot!(plan(&cluster(json!({})), &secrets()).golden());
    }

    #[test]
    fn three_brokers_with_everything() {
        let spec = json!({
            "replicas": 3,
            "image": "example.org/broker:1",
            "persistence": {"storage": "1Gi", "storageClassName": "fast"},
            "resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}},
            "rabbitmq": {"additionalConfig": "channel_max = 1050\n", "additionalPlugins": ["rabbitmq_shovel"]},
            "tls": {"secretName": "burrow-tls", "caSecretName": "clients-ca"},
            "service": {"type": "NodePort", "annotations": {"a": "b"}},
            "secretBackend": {"externalSecret": {"name": "given-user"}},
            "tolerations": [{"key": "k", "operator": "Exists"}],
            "terminationGracePeriodSeconds": 7,
        });
        insta::assert_snapshot!(plan(&cluster(spec), &Secrets { first_user: None, ..secrets() }).golden());
    }

    #[test]
    fn brokers_that_speak_tls_alone_have_no_other_port() {
        let only = json!({"tls": {"secretName": "burrow-tls", "disableNonTLSListeners": true}});
        let plan = plan(&cluster(only), &secrets());
        let text = |kind: &str, name: &str| {
            let found = plan.children().find(|child| child.resource.kind == kind && child.reference().name == name);
            found.unwrap().object.data.to_string()
        };
        for text in [text("Service", "burrow"), text("StatefulSet", "burrow-server")] {
            for (port, is_there) in [(5671, true), (15671, true), (5672, false), (15672, false), (15692, false)] {
                assert_eq!(text.contains(&format!("ort\":{port}")), is_there, "{port}: {text}");
            }
        }
        assert!(text("StatefulSet", "burrow-server").contains(r#""tcpSocket":{"port":"amqps"}"#));
    }

    #[test]
    fn no_secret_is_in_anything_but_secrets() {
        let plan = plan(&cluster(json!({"replicas": 3})), &secrets());
        for child in plan.children().filter(|child| child.resource.kind != "Secret") {
            let text = serde_json::to_string(&child.object).unwrap();
            for secret in ["carrot-cookie", "carrot-password"] {
                assert!(!text.contains(secret), "{child:?}");
            }
        }
    }
}
